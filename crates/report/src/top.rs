//! The screen of `top`: pipelines, a line a stage.

mod line;

use std::cmp::Reverse;

use itertools::Itertools as _;
use pipespeed_base::named;
use pipespeed_base::text::escape;
use pipespeed_pipeline::diagnosis::Certainty;
use pipespeed_pipeline::observe::{Link, Moment, Pipeline, Stage};

use self::line::{Layout, Line, MARKER, MIN_MEDIUM, NUMBER, NUMBERS, PID, RATE, SHARES, STATES};
use super::doctor::{hidden, hidden_calls};
use super::format::{fixed, pluralize, significant};
use super::style::{BOLD, DIM, Style};

/// The order of the pipelines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sort {
    /// Processor time of the busiest stage, most first.
    #[default]
    Cpu,
    /// The rate of the fastest stage, most first.
    Rate,
    /// The names of the stages.
    Name,
}

named!(Sort {
    Cpu = "cpu": "most processor time first",
    Rate = "rate": "fastest first",
    Name = "name": "by the names of the stages",
});

impl Sort {
    /// The order that follows.
    pub fn next(self) -> Self {
        match self {
            Sort::Cpu => Sort::Rate,
            Sort::Rate => Sort::Name,
            Sort::Name => Sort::Cpu,
        }
    }
}

/// How the screen is shown.
#[derive(Debug, Clone, Copy, Default)]
pub struct View<'a> {
    /// The terminal's columns.
    pub width: usize,
    /// Its rows. `None` for text without a screen, which is as long as needed.
    pub height: Option<usize>,
    /// Whether colours may be used.
    pub colour: bool,
    /// The order of the pipelines.
    pub sort: Sort,
    /// Whether the screen is held.
    pub is_paused: bool,
    /// The number of lines to skip at the beginning; fewer if there are not as many.
    pub skipped: usize,
    /// What to say if there is no pipeline.
    pub if_none: &'a str,
}

/// A drawn screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Screen {
    /// As many lines as the screen has rows, none wider than it.
    pub lines: Vec<String>,
    /// The number of lines that were skipped.
    pub skipped: usize,
    /// The number of lines of pipelines that fit.
    pub page: usize,
}

/// The name of the stage that sets the pace.
const UNDERLINED: &str = "1;4";
const REVERSED: &str = "7";
/// A lower screen has one line of headings and no legend.
const MIN_HIGH: usize = 14;

/// Draws the screen.
pub fn top_screen(moment: &Moment, view: &View<'_>) -> Screen {
    let layout = Layout::new(view.width);
    let is_low = view.height.is_some_and(|height| height < MIN_HIGH);
    let mut head = vec![headline(moment, view)];
    let mut foot = Vec::new();
    if !is_low {
        head.extend([String::new(), groups(moment, view, &layout)]);
        foot.push(String::new());
        let notes = [
            hidden(moment.hidden, moment.hides_processes),
            hidden_calls(moment.hidden_calls),
        ];
        for note in notes.into_iter().flatten() {
            foot.extend(paragraph(&note, view, DIM));
        }
        foot.push(legend(moment, view));
    }
    head.push(headings(view, &layout, is_low));
    let around = head.len() + foot.len() + 1;
    let page = view.height.map(|height| height.saturating_sub(around));
    let content = content(moment, view, &layout, page);
    let page = page.unwrap_or(content.len());
    let skipped = view.skipped.min(content.len().saturating_sub(page));
    let below = content.len().saturating_sub(skipped + page);
    let mut lines = head;
    lines.extend(content.into_iter().skip(skipped).take(page));
    if let Some(height) = view.height {
        lines.resize(height.saturating_sub(foot.len() + 1), String::new());
        foot.push(footer(view, below, skipped));
    }
    lines.extend(foot);
    lines.truncate(view.height.unwrap_or(usize::MAX));
    Screen {
        lines,
        skipped,
        page,
    }
}

/// The pipelines as text without a screen.
pub fn top_once(moment: &Moment, sort: Sort, if_none: &str, style: Style) -> String {
    let view = View {
        width: style.width(),
        colour: style.colour,
        sort,
        if_none,
        ..View::default()
    };
    let lines = top_screen(moment, &view).lines;
    let lines = lines.iter().map(|line| line.trim_end());
    lines.map(|line| format!("{line}\n")).collect()
}

fn headline(moment: &Moment, view: &View<'_>) -> String {
    let mut line = Line::new(view);
    let is_wide = view.width >= MIN_MEDIUM;
    if is_wide {
        line.put("pipespeed top: ", "");
    }
    line.put(&pluralize(moment.pipelines.len(), "pipeline"), BOLD);
    if is_wide {
        let stages = moment.pipelines.iter().map(|it| it.stages.len()).sum();
        line.put(&format!(", {}", pluralize(stages, "stage")), "");
    }
    if moment.hidden > 0 {
        line.put(&format!(", {} hidden", moment.hidden), "");
    }
    let cost = format!("{} % CPU", fixed(moment.cost * 100.0, 2));
    if view.is_paused {
        line.at_end("PAUSED", REVERSED);
    } else if is_wide {
        line.at_end(&format!("{} samples/s, {cost}", moment.samples), DIM);
    } else {
        line.at_end(&cost, DIM);
    }
    line.text
}

/// What groups of columns show.
fn groups(moment: &Moment, view: &View<'_>, layout: &Layout) -> String {
    let mut line = Line::new(view);
    line.left(layout.names(), "", "");
    if layout.is_wide {
        line.right(layout.bar + SHARES, "last second, %", DIM);
    } else {
        line.left(layout.bar, "last second", DIM);
    }
    if layout.is_medium {
        let minute = match moment.seconds.round() {
            seconds if seconds < 60.0 => format!("last {seconds} s, %"),
            _ => "last minute, %".to_owned(),
        };
        line.right(SHARES, &minute, DIM);
    }
    line.right(RATE, "writes", DIM);
    line.put(" pipe after it", DIM);
    line.text
}

fn headings(view: &View<'_>, layout: &Layout, is_low: bool) -> String {
    let mut line = Line::new(view);
    line.left(MARKER, "", "");
    if layout.is_medium {
        line.right(PID - 1, "pid", BOLD);
        line.put(" ", "");
    }
    line.left(layout.stage + 1, "stage", BOLD);
    line.left(layout.bar, if is_low { "second" } else { "" }, BOLD);
    let groups = usize::from(layout.is_medium) + usize::from(layout.is_wide);
    for _ in 0..groups {
        line.put("  ", "");
        for (_, word, _, colour) in &STATES[..NUMBERS] {
            line.right(NUMBER, word, colour);
        }
    }
    line.right(RATE, "MiB/s", BOLD);
    line.put(" fill", BOLD);
    line.text
}

fn legend(moment: &Moment, view: &View<'_>) -> String {
    let mut line = Line::new(view);
    let mut stages = moment.pipelines.iter().flat_map(|it| &it.stages);
    let is_stopped = stages.any(|it| it.minute.shares.stopped > 0.0);
    for (letter, _, meaning, colour) in &STATES[..NUMBERS + usize::from(is_stopped)] {
        let word = meaning.split(" (").next().unwrap_or_default();
        let meaning = if view.width < MIN_MEDIUM {
            word
        } else {
            meaning
        };
        line.put(letter, colour);
        line.put(&format!(" {meaning}  "), "");
    }
    line.text
}

fn footer(view: &View<'_>, below: usize, above: usize) -> String {
    let mut line = Line::new(view);
    let sort = format!(" sort: {}", view.sort);
    for (key, meaning) in [("q", " quit  "), ("p", " pause  "), ("s", &sort)] {
        line.put(key, REVERSED);
        line.put(meaning, "");
    }
    let more = match (above, below) {
        (0, 0) => String::new(),
        (0, below) => format!("{below} below"),
        (above, 0) => format!("{above} above"),
        (above, below) => format!("{above} above, {below} below"),
    };
    line.at_end(&more, BOLD);
    line.text
}

/// The pipelines, with blank lines between them if all fit.
fn content(moment: &Moment, view: &View<'_>, layout: &Layout, page: Option<usize>) -> Vec<String> {
    if moment.pipelines.is_empty() {
        return paragraph(view.if_none, view, "");
    }
    let sorted = sorted(moment, view.sort);
    let blocks = sorted.map(|pipeline| block(pipeline, view, layout));
    let blocks: Vec<Vec<String>> = blocks.collect();
    let needed = blocks.iter().map(|block| block.len() + 1).sum::<usize>() - 1;
    let is_loose = page.is_none_or(|page| needed <= page);
    let mut lines: Vec<String> = Vec::new();
    for block in blocks {
        if is_loose && !lines.is_empty() {
            lines.push(String::new());
        }
        lines.extend(block);
    }
    lines
}

/// The pipelines in this order. Those in which nothing happens come last, unless it is by name.
fn sorted(moment: &Moment, sort: Sort) -> impl Iterator<Item = &Pipeline> {
    let value = |stage: &Stage| match sort {
        // In whole percent, so that nothing moves for nothing.
        Sort::Cpu => (stage.minute.processor * 100.0) as u64,
        Sort::Rate => stage.minute.written_per_s.unwrap_or(0.0) as u64,
        Sort::Name => 0,
    };
    moment.pipelines.iter().sorted_by_cached_key(|pipeline| {
        let stages = pipeline.stages.iter();
        let most = stages.clone().map(value).max();
        let age = stages.map(|it| (it.start, it.pid)).min();
        let name = (sort == Sort::Name).then(|| chain(pipeline));
        (name, is_still(pipeline), Reverse(most), age)
    })
}

/// `yes | head | wc`.
fn chain(pipeline: &Pipeline) -> String {
    let names = pipeline.stages.iter().map(|stage| escape(&stage.name));
    names.into_iter().join(separator(pipeline))
}

/// What stands between the names of stages: a comma if they don't form a chain.
fn separator(pipeline: &Pipeline) -> &'static str {
    let is_link = |(from, to): (&Stage, &Stage)| {
        let mut links = pipeline.links.iter();
        links.any(|link| (link.from, link.to) == (from.pid, to.pid))
    };
    let is_chain = pipeline.stages.iter().tuple_windows().all(is_link);
    if is_chain { " | " } else { ", " }
}

/// A pipeline: a headline, and a line a stage.
fn block(pipeline: &Pipeline, view: &View<'_>, layout: &Layout) -> Vec<String> {
    let mut line = Line::new(view);
    let verdict = verdict(pipeline, layout.is_medium);
    let room = view.width.saturating_sub(verdict.chars().count() + 2);
    let is_too_long = chain(pipeline).chars().count() > room;
    line.width = room.saturating_sub(if is_too_long { 3 } else { 0 });
    for (at, stage) in pipeline.stages.iter().enumerate() {
        let separator = if at > 0 { separator(pipeline) } else { "" };
        line.put(separator, BOLD);
        let code = if sets_pace(pipeline, stage) {
            UNDERLINED
        } else {
            BOLD
        };
        line.put(&escape(&stage.name), code);
    }
    line.width = view.width;
    line.put(if is_too_long { "..." } else { "" }, BOLD);
    line.at_end(&verdict, if is_still(pipeline) { DIM } else { "" });
    let mut lines = vec![line.text];
    for stage in &pipeline.stages {
        let links = pipeline.links.iter().filter(|link| link.from == stage.pid);
        let links: Vec<&Link> = links.collect();
        let mut line = row(stage, sets_pace(pipeline, stage), view, layout);
        if let [link] = links[..] {
            line.pipe(&link.pipe, layout);
            lines.push(line.text);
        } else {
            let width = line.filled;
            lines.push(line.text);
            for link in links {
                let mut stages = pipeline.stages.iter();
                let reader = stages.find(|it| it.pid == link.to);
                let name = reader.map_or("", |it| &it.name);
                let mut line = Line::new(view);
                line.left(width, &format!("{:MARKER$}to {}", "", escape(name)), DIM);
                line.pipe(&link.pipe, layout);
                lines.push(line.text);
            }
        }
    }
    lines
}

fn sets_pace(pipeline: &Pipeline, stage: &Stage) -> bool {
    let pace = pipeline.pace.as_ref();
    pace.is_some_and(|pace| pace.stage.pid == stage.pid)
}

/// Whether nothing happens in a pipeline.
fn is_still(pipeline: &Pipeline) -> bool {
    pipeline.still_s >= 5.0
}

/// What is known about a pipeline as a whole.
fn verdict(pipeline: &Pipeline, is_long: bool) -> String {
    if is_still(pipeline) {
        let seconds = pipeline.still_s as u64;
        return match seconds {
            0..120 => format!("nothing ran for {seconds} s"),
            120..7200 => format!("nothing ran for {} min", seconds / 60),
            _ => format!("nothing ran for {} h", seconds / 3600),
        };
    }
    match &pipeline.pace {
        Some(pace) if is_long => {
            let probably = match pace.certainty {
                Certainty::Clear => "",
                Certainty::Likely => "probably ",
            };
            let is_outside = pace.shares.elsewhere > pace.shares.working.max(pace.shares.disk);
            let waits = pace.outside.filter(|_| is_outside);
            let waits = waits.map_or(String::new(), |it| format!(" (waits for {})", it.name()));
            format!(
                "{} {probably}sets the pace{waits}",
                escape(&pace.stage.name)
            )
        }
        Some(pace) => format!("pace: {}", escape(&pace.stage.name)),
        None if pipeline.is_by_turns => "by turns".to_owned(),
        None => String::new(),
    }
}

/// The line of a stage, up to the pipe.
fn row(stage: &Stage, is_pace: bool, view: &View<'_>, layout: &Layout) -> Line {
    let mut line = Line::new(view);
    let code = match (stage.has_ended, is_pace) {
        (true, _) => DIM,
        (false, true) => BOLD,
        (false, false) => "",
    };
    line.left(MARKER, if is_pace { ">" } else { "" }, BOLD);
    if layout.is_medium {
        line.right(PID - 1, &stage.pid.to_string(), "");
        line.put(" ", "");
    }
    line.left(layout.stage, &escape(&stage.name), code);
    line.put(" ", "");
    let second = &stage.second;
    if stage.has_ended {
        line.left(layout.bar, "ended", DIM);
    } else {
        line.bar(&second.shares, layout.bar);
    }
    if layout.is_wide && stage.has_ended {
        line.left(SHARES, "", "");
    } else if layout.is_wide {
        line.numbers(&second.shares);
    }
    if layout.is_medium {
        line.numbers(&stage.minute.shares);
    }
    let rate = match second.written_per_s {
        _ if stage.has_ended => String::new(),
        Some(bytes) => rate(bytes),
        None => "?".to_owned(),
    };
    line.right(RATE, &rate, "");
    line
}

/// A rate in MiB/s.
fn rate(bytes_per_s: f64) -> String {
    match bytes_per_s / f64::from(1 << 20) {
        0.0 => "0".to_owned(),
        rate if rate < 0.001 => "<0.001".to_owned(),
        rate => significant(rate),
    }
}

/// The lines of a text. Words that are too long are cut off.
fn paragraph(text: &str, view: &View<'_>, code: &str) -> Vec<String> {
    let style = Style {
        width: Some(view.width),
        ..Style::default()
    };
    let put = |text: &str| {
        let mut line = Line::new(view);
        line.put(text, code);
        line.text
    };
    style.sentence(text).lines().map(put).collect()
}

#[cfg(test)]
mod tests {
    use pipespeed_base::text::is_printable;
    use pipespeed_pipeline::diagnosis::{Pace, Who};
    use pipespeed_pipeline::observe::{Pipe, Shares, Window};
    use pipespeed_pipeline::proc::PipeId;
    use pipespeed_pipeline::wait::Outside;
    use proptest::prelude::*;

    use super::*;

    /// Shares of working, blocked and starved; the rest is elsewhere.
    fn window(working: f64, blocked: f64, starved: f64, mib_per_s: Option<f64>) -> Window {
        Window {
            samples: 80,
            shares: Shares {
                working,
                blocked,
                starved,
                elsewhere: 1.0 - working - blocked - starved,
                ..Shares::default()
            },
            waits_for: Some(Outside::Socket),
            processor: working,
            read_per_s: None,
            written_per_s: mib_per_s.map(|rate| rate * f64::from(1 << 20)),
        }
    }

    fn stage(pid: i32, name: &str, second: Window, minute: Window) -> Stage {
        Stage {
            pid,
            start: pid as u64,
            name: name.to_owned(),
            has_ended: false,
            second,
            minute,
        }
    }

    fn link(from: i32, to: i32, fill: f64) -> Link {
        Link {
            from,
            to,
            pipe: Pipe {
                id: PipeId::pipe(from as u64),
                path: None,
                capacity: Some(65536),
                fill: Some(fill),
                is_held: false,
                held_by: None,
            },
        }
    }

    fn pace(pid: i32, name: &str, certainty: Certainty) -> Pace {
        let stage = Who {
            pid,
            name: name.to_owned(),
        };
        Pace {
            stage,
            certainty,
            shares: Shares::default(),
            outside: None,
            before: Vec::new(),
            after: Vec::new(),
        }
    }

    fn packing() -> Pipeline {
        let of = |a, b, c, rate| window(a, b, c, Some(rate));
        Pipeline {
            pace: Some(pace(461, "gzip", Certainty::Clear)),
            stages: vec![
                stage(
                    459,
                    "yes",
                    of(0.18, 0.82, 0.0, 161.0),
                    of(0.2, 0.8, 0.0, 155.0),
                ),
                stage(
                    460,
                    "head",
                    of(0.75, 0.25, 0.0, 160.0),
                    of(0.7, 0.3, 0.0, 155.0),
                ),
                stage(
                    461,
                    "gzip",
                    of(0.99, 0.0, 0.01, 0.127),
                    of(0.98, 0.01, 0.01, 0.1),
                ),
                stage(
                    462,
                    "wc",
                    of(0.0, 0.0, 1.0, 0.0),
                    of(0.004, 0.0, 0.996, 0.0),
                ),
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
            pace: Some(Pace {
                outside: Some(Outside::Socket),
                shares: Shares {
                    elsewhere: 0.96,
                    ..Shares::default()
                },
                ..pace(1232, "curl", Certainty::Likely)
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
            samples: 82,
            cost: 0.0068,
            pipelines: vec![still(), packing(), fetching()],
            hidden: 0,
            hides_processes: false,
            hidden_calls: 0,
        }
    }

    fn view(width: usize, height: usize) -> View<'static> {
        View {
            width,
            height: Some(height),
            if_none: "No processes of this user are connected by a pipe (--all: of all users).",
            ..View::default()
        }
    }

    fn drawn(moment: &Moment, view: &View<'_>) -> String {
        top_screen(moment, view).lines.join("\n")
    }

    #[test]
    fn a_usual_screen_shows_shares_and_pipes_and_the_pace_setter() {
        insta::assert_snapshot!(drawn(&moment(), &view(80, 24)));
    }

    #[test]
    fn a_wide_screen_shows_both_windows_in_numbers() {
        insta::assert_snapshot!(drawn(&moment(), &view(120, 40)));
    }

    #[test]
    fn a_small_screen_keeps_the_bars_and_scrolls() {
        let first = drawn(&moment(), &view(40, 10));
        let scrolled = View {
            skipped: 100,
            is_paused: true,
            ..view(40, 10)
        };
        let last = top_screen(&moment(), &scrolled);
        assert_eq!((last.skipped, last.page), (8, 7));
        insta::assert_snapshot!(format!("{first}\n--\n{}", last.lines.join("\n")));
    }

    #[test]
    fn colours_mark_states_and_the_pace_setter() {
        let view = View {
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
    fn a_bar_is_divided_by_shares() {
        let bar = |working, starved| {
            let mut line = Line::new(&view(80, 24));
            line.bar(&window(working, 0.0, starved, None).shares, 10);
            line.text
        };
        assert_eq!(bar(0.5, 0.25), "WWWWWSSSEE");
        assert_eq!(bar(0.97, 0.03), "WWWWWWWWWW");
        let mut line = Line::new(&view(80, 24));
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
            let view = View { skipped, is_paused, ..view(width, height) };
            let lines = top_screen(&moment(), &view).lines;
            prop_assert_eq!(lines.len(), height);
            for line in &lines {
                let is_plain = line.chars().all(is_printable);
                prop_assert!(is_plain && line.chars().count() <= width, "{:?}", line);
            }
        }
    }
}
