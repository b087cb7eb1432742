use pipespeed_base::text::is_printable;
use pipespeed_pipeline::diagnosis::{
    Bottleneck, Deadlock, DeadlockKind, DeadlockMember, IdleReader, Unread, Who,
};
use pipespeed_pipeline::fixtures;
use pipespeed_pipeline::live::StageWindow;
use pipespeed_pipeline::observe::ObservedLink;
use pipespeed_pipeline::proc::LinkId;
use pipespeed_pipeline::sample::Shares;
use pipespeed_pipeline::wait::Outside;
use proptest::prelude::*;

use super::*;

/// Shares of running, blocked and starved; the rest is elsewhere.
fn window(runs: f64, blocked: f64, starved: f64, mib_per_s: Option<f64>) -> StageWindow {
    StageWindow {
        samples: 80,
        shares: Shares {
            runs,
            blocked,
            starved,
            elsewhere: 1.0 - runs - blocked - starved,
            ..Shares::default()
        },
        waits_for: Some(Outside::Socket),
        processor: runs,
        read_per_s: None,
        written_per_s: mib_per_s.map(|rate| rate * f64::from(1 << 20)),
    }
}

fn stage(pid: i32, name: &str, second: StageWindow, minute: StageWindow) -> LiveStage {
    LiveStage {
        pid,
        start: pid as u64,
        name: name.to_owned(),
        arguments: None,
        has_ended: false,
        second,
        minute,
    }
}

fn link(from: i32, to: i32, fill: f64) -> StageLink {
    StageLink {
        from,
        to,
        pipe: ObservedLink {
            id: LinkId::pipe(from as u64),
            path: None,
            capacity: Some(65536),
            fill: Some(fill),
            fill_change: None,
            unread: None,
            bytes_per_s: Some(fill * 155e6),
            owner: None,
            is_held: false,
            held_by: None,
        },
    }
}

fn bottleneck(pid: i32, name: &str, certainty: Certainty) -> Bottleneck {
    Bottleneck {
        certainty,
        ..fixtures::bottleneck(pid, name, Shares::default())
    }
}

fn packing() -> Pipeline {
    let of = |(a, b, c, rate): (f64, f64, f64, f64)| window(a, b, c, Some(rate));
    let packer = |pid, name: &str, second, minute| stage(pid, name, of(second), of(minute));
    Pipeline {
        bottleneck: Some(bottleneck(461, "gzip", Certainty::Clear)),
        stages: vec![
            packer(459, "yes", (0.18, 0.82, 0.0, 161.0), (0.2, 0.8, 0.0, 155.0)),
            packer(
                460,
                "head",
                (0.75, 0.25, 0.0, 160.0),
                (0.7, 0.3, 0.0, 155.0),
            ),
            packer(
                461,
                "gzip",
                (0.99, 0.0, 0.01, 0.127),
                (0.98, 0.01, 0.01, 0.1),
            ),
            packer(462, "wc", (0.0, 0.0, 1.0, 0.0), (0.004, 0.0, 0.996, 0.0)),
        ],
        links: vec![
            link(459, 460, 0.43),
            link(460, 461, 0.95),
            link(461, 462, 0.0),
        ],
        ..Pipeline::default()
    }
}

fn fetching() -> Pipeline {
    let mut tee = stage(
        1233,
        "tee",
        window(0.05, 0.0, 0.95, None),
        window(0.05, 0.0, 0.95, None),
    );
    tee.second.shares.disk = 0.05;
    tee.minute.shares.disk = 0.06;
    let mut ended = stage(
        1236,
        "sha256sum",
        window(0.0, 0.0, 1.0, None),
        window(0.1, 0.0, 0.9, None),
    );
    ended.has_ended = true;
    Pipeline {
        bottleneck: Some(Bottleneck {
            outside: [(Outside::Socket, 0.96)].into(),
            shares: Shares {
                elsewhere: 0.96,
                ..Shares::default()
            },
            ..bottleneck(1232, "curl", Certainty::Likely)
        }),
        stages: vec![
            stage(
                1232,
                "curl",
                window(0.03, 0.0, 0.0, Some(12.1)),
                window(0.04, 0.0, 0.0, Some(11.0)),
            ),
            tee,
            stage(
                1234,
                "a-very-long-nam",
                window(0.0, 0.0, 0.9, Some(1e-6)),
                window(0.0, 0.0, 0.9, Some(0.0)),
            ),
            ended,
        ],
        links: vec![
            link(1232, 1233, 0.02),
            link(1233, 1234, 1.0),
            link(1233, 1236, 0.0),
        ],
        ..Pipeline::default()
    }
}

fn still() -> Pipeline {
    Pipeline {
        still_s: 754.0,
        stages: vec![
            stage(
                77,
                "sleep\x1b[2J",
                window(0.0, 0.0, 0.0, Some(0.0)),
                window(0.0, 0.0, 0.0, Some(0.0)),
            ),
            stage(
                78,
                "cat",
                window(0.0, 0.0, 1.0, Some(0.0)),
                window(0.0, 0.0, 1.0, Some(0.0)),
            ),
        ],
        links: vec![link(77, 78, 0.0)],
        ..Pipeline::default()
    }
}

fn moment() -> Moment {
    Moment {
        seconds: 75.0,
        since_s: 1.0,
        samples: 82,
        cost: 0.0068,
        pipelines: vec![still(), packing(), fetching()],
        undersampled: 0,
        hidden: 0,
        silent: Vec::new(),
        lacks_helpers: false,
        hides_processes: false,
        hidden_calls: 0,
    }
}

fn view(width: usize, height: usize) -> TopView<'static> {
    TopView {
        width,
        height: Some(height),
        if_none: "No processes of this user are connected by a pipe (--all: of all users).",
        ..TopView::default()
    }
}

fn drawn(moment: &Moment, view: &TopView<'_>) -> String {
    top_screen(moment, view).lines.join("\n")
}

#[test]
fn a_usual_screen_shows_shares_and_pipes_and_the_bottleneck() {
    insta::assert_snapshot!(drawn(&moment(), &view(80, 24)));
}

#[test]
fn a_wide_screen_shows_both_windows_in_numbers() {
    insta::assert_snapshot!(drawn(&moment(), &view(120, 40)));
}

#[test]
fn a_small_screen_keeps_the_bars_and_scrolls() {
    let first = drawn(&moment(), &view(40, 10));
    let scrolled = TopView {
        skipped: 100,
        is_paused: true,
        ..view(40, 10)
    };
    let last = top_screen(&moment(), &scrolled);
    assert_eq!((last.skipped, last.page), (8, 7));
    insta::assert_snapshot!(format!("{first}\n--\n{}", last.lines.join("\n")));
}

#[test]
fn colours_mark_states_and_the_bottleneck() {
    let view = TopView {
        colour: true,
        ..view(80, 20)
    };
    let only = Moment {
        pipelines: vec![packing()],
        ..moment()
    };
    insta::assert_snapshot!(drawn(&only, &view).replace('\x1b', "^"));
}

#[test]
fn what_is_sampled_too_rarely_is_not_said_to_be_missing() {
    for pipelines in [Vec::new(), vec![packing()]] {
        let some = Moment {
            pipelines,
            undersampled: 21,
            ..moment()
        };
        let text = drawn(&some, &view(120, 30));
        let expected = "Not shown yet: 21 processes with pipes between them";
        assert!(text.contains(expected), "{text}");
        assert!(!text.contains("No processes"), "{text}");
    }
}

#[test]
fn an_empty_screen_explains_itself_and_what_is_hidden() {
    let none = Moment {
        pipelines: Vec::new(),
        hidden: 45,
        hidden_calls: 2,
        ..moment()
    };
    let (high, low) = (view(80, 16), view(60, 8));
    let screens = format!("{}\n--\n{}", drawn(&none, &high), drawn(&none, &low));
    insta::assert_snapshot!(screens);
}

#[test]
fn a_frame_without_a_screen_is_as_long_as_needed() {
    let early = Moment {
        seconds: 2.01,
        ..moment()
    };
    insta::assert_snapshot!(top_once(&early, Sort::Rate, "", Style::default()));
    let none = Moment {
        pipelines: Vec::new(),
        ..moment()
    };
    let text = top_once(&none, Sort::Rate, "Nothing.", Style::of_width(80));
    assert!(text.contains("\nNothing.\n"), "{text}");
}

#[test]
fn pipelines_are_sorted_as_requested() {
    let first = |sort| {
        let moment = moment();
        let names = sorted(&moment, sort).map(|it| it.stages[0].name.clone());
        names.collect::<Vec<String>>()
    };
    let sleep = "sleep\x1b[2J";
    assert_eq!(first(Sort::Cpu), ["yes", "curl", sleep]);
    assert_eq!(first(Sort::Rate), ["yes", "curl", sleep]);
    assert_eq!(first(Sort::Name), ["curl", sleep, "yes"]);
    assert_eq!(Sort::Cpu.next().next().next(), Sort::Cpu);
}

#[test]
fn a_pipeline_whose_reader_does_not_read_comes_first() {
    let who = |pid, name: &str| Who {
        pid,
        name: name.to_owned(),
    };
    let reader = IdleReader {
        who: who(78, "cat"),
        fd: Some(0),
        waits_for: Some(Outside::Child),
        children: None,
        child: None,
        unread_by_writer: None,
        is_stopped: false,
    };
    let stuck = Pipeline {
        unread: Some(Unread {
            pipe: LinkId::pipe(77),
            writer: who(77, "sleep"),
            fd: Some(1),
            may_be_read: false,
            are_readers_idle: true,
            has_lasted: false,
            readers: vec![reader],
        }),
        ..still()
    };
    let moment = Moment {
        pipelines: vec![packing(), stuck.clone()],
        ..moment()
    };
    for sort in [Sort::Cpu, Sort::Rate, Sort::Name] {
        assert_eq!(sorted(&moment, sort).next(), Some(&stuck));
    }
    assert_eq!(verdict(&stuck, true), "sleep waits, cat does not read");
    let deadlock = Deadlock {
        kind: DeadlockKind::AllWrite,
        certainty: Certainty::Clear,
        doubts: Vec::new(),
        members: vec![DeadlockMember {
            who: who(78, "cat"),
            reasons: Vec::new(),
        }],
        waiting: Vec::new(),
    };
    let stuck = Pipeline {
        stuck: Some(deadlock),
        ..still()
    };
    assert_eq!(verdict(&stuck, true), "stuck: see 'pipespeed doctor 78'");
}

#[test]
fn a_bar_is_divided_by_shares() {
    let bar = |runs, starved| {
        let mut line = ScreenLine::new(&view(80, 24));
        line.bar(&window(runs, 0.0, starved, None).shares, 10);
        line.text
    };
    assert_eq!(bar(0.5, 0.25), "RRRRRSSSEE");
    assert_eq!(bar(0.97, 0.03), "RRRRRRRRRR");
    let mut line = ScreenLine::new(&view(80, 24));
    line.bar(&Shares::default(), 3);
    assert_eq!(line.text, "   ");
}

proptest! {
    #[test]
    fn any_size_is_filled_and_never_exceeded(
        width in 1_usize..200,
        height in 1_usize..60,
        skipped in 0_usize..40,
        is_paused: bool,
    ) {
        let view = TopView { skipped, is_paused, ..view(width, height) };
        let lines = top_screen(&moment(), &view).lines;
        prop_assert_eq!(lines.len(), height);
        for line in &lines {
            let is_plain = line.chars().all(is_printable);
            prop_assert!(is_plain && line.chars().count() <= width, "{:?}", line);
        }
    }
}
