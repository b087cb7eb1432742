//! Tests of the charts' contents. To view the charts, `PIPESPEED_CHARTS=DIR cargo test
//! charts` writes them to DIR.

use super::bars::{Bar, BarChart, BarGroup};
use super::svg::{Colour, NARROW, WARNING, WIDE};
use crate::testing::{has_texts, texts};
use crate::{chart, comparison_chart, latency_chart, profile_chart};
use pipespeed_base::Named;
use pipespeed_explain::profile::fixtures as profiles;
use pipespeed_measure::comparison::compare;
use pipespeed_measure::fixtures::{
    case, channels, estimate, ladder, latency_record, memory, ratio, refuse, run, set_control,
    sizes, touched, within,
};
use pipespeed_measure::latency::spec::ExchangeMode;
use pipespeed_measure::record::{Run, Warning, WarningKind};
use pipespeed_measure::spec::{Channel, DataUse, Suite};
use pipespeed_testing::says;

fn refused() -> Run {
    let mut run = ladder();
    let reason = "one processor, and both ends would spin on it; try --placement different on a \
                  machine with two or more processors";
    refuse(&mut run, "busy_loop_huge", reason);
    run
}

fn three() -> Run {
    let vmsplice = ("write_read", "vmsplice & <reuse>", ratio(4.9));
    let mut run = run(
        Suite::Touched,
        vec![
            case("write_read", 2.9, None),
            case("vmsplice_drained", 14.2, Some(vmsplice)),
            case(
                "ring",
                28.0,
                Some(("vmsplice_drained", "shared memory", ratio(1.97))),
            ),
        ],
    );
    for case in &mut run.cases {
        case.data = DataUse::Touch;
    }
    run.cases[2].data = DataUse::Verify;
    run
}

fn long_names(count: usize) -> Run {
    let cases = (0..count).map(|index| {
        let name = format!("vmsplice_into_a_pipe_of_{}_slots_then_splice", 1 << index);
        let base = "vmsplice_into_a_pipe_of_1_slots_then_splice";
        let rate = 0.6 * 1.5f64.powi(index as i32);
        case(
            &name,
            rate,
            Some((base, "the number of slots of the pipe", ratio(1.5))),
        )
    });
    run(Suite::Options, cases.collect())
}

/// A chart of ratios, one of which has an interval up to `high`.
fn ratios(high: f64) -> String {
    let row = |name: &str, [low, median, high]: [f64; 3]| BarGroup {
        name: name.to_owned(),
        bars: Ok(vec![Bar::new(
            estimate(low, median, high),
            Colour(10, 122, 88),
            format!("x{median} [{low}, {high}] verdict"),
        )]),
    };
    let missing = BarGroup {
        name: "busy_loop_huge".to_owned(),
        bars: Err("no ratio: refused in the second run: one processor".to_owned()),
    };
    let chart = BarChart {
        title: "pipespeed: compare",
        subtitle: vec!["after.json over before.json".to_owned()],
        legend: Vec::new(),
        rows: vec![
            row("write_read", [0.98, 1.0, 1.02]),
            row("write_read_128k", [1.22, 1.31, high]),
            row("vmsplice_read", [0.78, 0.82, 0.86]),
            row("vmsplice_splice_huge", [0.93, 1.06, 1.2]),
            missing,
        ],
        of_ratios: true,
        unit: "new rate / old rate",
        width: WIDE,
    };
    chart.draw(&[])
}

#[test]
fn every_case_but_the_twin_is_named_with_its_value() {
    let svg = chart(&ladder());
    let title = "pipespeed bench ladder: GiB/s of each case";
    let names = ["write_read", "busy_loop_huge"];
    has_texts(
        &svg,
        &[&names[..], &["64.2", "0.652", "GiB/s", title]].concat(),
    );
    let text = words(&svg);
    assert!(!text.contains("write_read_again"));
    let conditions = [
        "Linux 6.18.5, 2026-03-14",
        "30 rounds, medians with 95 % intervals",
    ];
    says(text, &conditions);
}

#[test]
fn a_refused_case_is_shown_as_refused() {
    let svg = chart(&refused());
    has_texts(&svg, &["busy_loop_huge"]);
    says(words(&svg), &["refused: one processor"]);
}

#[test]
fn names_are_escaped_and_nothing_is_fetched() {
    let svg = chart(&three());
    says(words(&svg), &["(vmsplice & <reuse>)"]);
    assert!(!svg.contains("<script") && !svg.contains("href"));
}

#[test]
fn a_run_without_cases_or_intervals_can_be_drawn() {
    texts(&chart(&run(Suite::Ladder, Vec::new())));
    let mut short = ladder();
    for case in &mut short.cases {
        let summary = case.summary.as_mut().unwrap();
        summary.gib_per_s.interval = None;
    }
    texts(&chart(&short));
}

#[test]
fn bars_of_ratios_begin_at_one() {
    let svg = ratios(1.4);
    has_texts(&svg, &["x0.82 [0.78, 0.86] verdict", "1", "0.8"]);
    says(words(&svg), &["no ratio: refused"]);
    let document = roxmltree::Document::parse(&svg).unwrap();
    let bars: Vec<[f64; 2]> = document
        .descendants()
        .filter(|node| node.attribute("fill") == Some("#0a7a58"))
        .map(|node| ["x", "width"].map(|name| node.attribute(name).unwrap().parse().unwrap()))
        .collect();
    // Gains begin where losses end; no change has no bar.
    let [gain, loss, small] = bars[..] else {
        panic!("{bars:?}");
    };
    assert_eq!(gain[0], loss[0] + loss[1]);
    assert_eq!(gain[0], small[0]);
    let expected = 1.31_f64.ln() / -(0.82_f64.ln());
    assert!((gain[1] / loss[1] - expected).abs() < 0.05, "{bars:?}");
}

#[test]
fn all_charts_are_well_formed() {
    let charts = [
        ("ladder", chart(&ladder())),
        ("refused", chart(&refused())),
        ("three", chart(&three())),
        ("channels", chart(&channels(false))),
        ("all_channels", chart(&channels(true))),
        ("memory", chart(&memory())),
        ("long", chart(&long_names(12))),
        ("many", chart(&long_names(18))),
        ("ratios", ratios(1.4)),
        ("wide_ratios", ratios(14.0)),
        ("sizes", chart(&sizes())),
        ("touched", chart(&touched())),
        (
            "latency",
            latency_chart(&latency_record(ExchangeMode::Closed)),
        ),
        ("profile", profile_chart(&profiles::ladder())),
        ("pipeline", profile_chart(&profiles::pipeline())),
    ];
    for (name, svg) in &charts {
        texts(svg);
        if let Some(directory) = std::env::var_os("PIPESPEED_CHARTS") {
            let path = std::path::Path::new(&directory).join(format!("{name}.svg"));
            std::fs::write(path, svg).unwrap();
        }
    }
}

#[test]
fn charts_for_phones_are_narrow_and_name_as_much() {
    let runs = [
        ladder(),
        refused(),
        channels(true),
        memory(),
        sizes(),
        touched(),
    ];
    for run in runs {
        let (wide, narrow) = (chart(&run), (crate::run::blocks(&run).chart)(NARROW));
        assert!(narrow.contains(&format!("width=\"{NARROW}\"")), "{narrow}");
        let narrow = texts(&narrow);
        let names = run.cases.iter().map(|case| &case.name);
        for name in names.filter(|name| texts(&wide).contains(name)) {
            let is_named = narrow.iter().any(|text| text.ends_with(&**name));
            assert!(is_named, "{name}: {narrow:?}");
        }
    }
    for svg in [
        (crate::latency::blocks(&latency_record(ExchangeMode::Closed)).chart)(NARROW),
        (crate::profile::blocks(&profiles::ladder()).chart)(NARROW),
        (crate::profile::blocks(&profiles::pipeline()).chart)(NARROW),
    ] {
        assert!(!texts(&svg).is_empty());
    }
}

#[test]
fn a_bar_shows_its_interval_and_its_rounds() {
    let svg = chart(&ladder());
    let document = roxmltree::Document::parse(&svg).unwrap();
    let hints = document.descendants().filter(|node| {
        let is_title = node.tag_name().name() == "title";
        is_title
            && node
                .parent()
                .is_some_and(|parent| parent.tag_name().name() == "g")
    });
    let hints: Vec<&str> = hints.filter_map(|node| node.text()).collect();
    assert_eq!(hints.len(), ladder().cases.len() - 1, "{hints:?}");
    assert!(
        hints[0].starts_with("write_read: 0.652 GiB/s [0.6"),
        "{hints:?}"
    );
    assert!(hints[0].ends_with(" rounds"), "{hints:?}");
}

#[test]
fn lines_are_named_and_labels_do_not_overlap() {
    let svg = chart(&channels(true));
    let all = texts(&svg);
    let carriers = Channel::VALUES.iter();
    let names = carriers.filter(|channel| **channel != Channel::Eventfd);
    let names: Vec<&str> = names.map(|channel| channel.name()).collect();
    for name in &names {
        assert_eq!(all.iter().filter(|text| text == name).count(), 2, "{name}");
    }
    let document = roxmltree::Document::parse(&svg).unwrap();
    let labels = document.descendants().filter(|node| {
        let text = node.text().unwrap_or_default().trim();
        node.tag_name().name() == "text" && names.contains(&text)
    });
    let mut places: Vec<f64> = labels
        .filter_map(|node| node.attribute("y")?.parse().ok())
        .collect();
    places.sort_by(f64::total_cmp);
    let is_apart = |pair: &[f64]| pair[1] - pair[0] >= 15.0;
    assert!(places.windows(2).all(is_apart), "{places:?}");
    has_texts(&svg, &["1B", "4MiB", "GiB/s", "size of a message"]);
}

#[test]
fn memory_has_a_line_a_way_the_caches_and_every_rung() {
    let mut run = memory();
    refuse(&mut run, "vmsplice_read", "vmsplice is not allowed here");
    let svg = chart(&run);
    let texts = texts(&svg);
    for label in ["read", "write", "copy", "scalar read", "scalar write"] {
        assert_eq!(texts.iter().filter(|text| *text == label).count(), 1);
    }
    has_texts(&svg, &["L1 48KiB", "L2 1MiB", "L3 32MiB", "4KiB", "1GiB"]);
    has_texts(&svg, &["write_read", "busy_loop_huge (discarded)"]);
    assert!(!texts.contains(&"vmsplice_read".to_owned()));
    assert!(!texts.contains(&"L1 32KiB".to_owned()), "instructions");
    // Without caches, sizes and rungs there is still a chart.
    run.header.machine.processors.caches.clear();
    run.cases.retain(|case| case.name == "mem_read_4k");
    chart(&run);
    run.cases.clear();
    chart(&run);
}

/// Charts of every kind of run on both widths.
fn charts_of_runs(change: fn(&mut Run)) -> Vec<String> {
    let runs = [ladder(), touched(), channels(false), memory(), sizes()];
    let charts = runs.into_iter().flat_map(|mut run| {
        run.warnings.clear();
        change(&mut run);
        [WIDE, NARROW].map(|width| (crate::run::blocks(&run).chart)(width))
    });
    charts.collect()
}

/// The texts of a chart in a line, since they may be wrapped.
fn words(svg: &str) -> String {
    texts(svg).join(" ")
}

#[test]
fn charts_of_disturbed_runs_are_marked_with_the_reason() {
    let disturbed = charts_of_runs(|run| {
        let message = "other processes used 0.97 processors on average during trials: stop them";
        run.warnings = vec![
            Warning::new(WarningKind::Guest, "this is a guest"),
            Warning::new(WarningKind::OtherLoad, message),
        ];
    });
    let reason = "Disturbed run: other processes used 0.97 processors on average during trials ";
    for svg in disturbed {
        let text = words(&svg);
        assert!(text.contains(reason), "{text}");
        assert!(!text.contains("guest"), "{text}");
        assert!(svg.contains(&format!("fill=\"{WARNING}\"")));
    }
}

#[test]
fn charts_of_runs_whose_null_control_failed_are_marked() {
    let failed = charts_of_runs(|run| set_control(run, within(1.1, 1.2, 1.3)));
    for svg in failed {
        let text = words(&svg);
        assert!(text.contains("Failed null control: "), "{text}");
        says(&text, &["against itself x1.20 [1.10, 1.30], faster"]);
    }
}

#[test]
fn charts_of_undisturbed_runs_have_no_mark() {
    for svg in charts_of_runs(|run| {
        run.warnings = vec![
            Warning::new(WarningKind::Guest, "this is a guest"),
            Warning::new(WarningKind::Busy, "before the first trial others ran"),
        ];
        set_control(run, within(0.97, 1.0, 1.03));
    }) {
        let text = words(&svg);
        assert!(!text.contains("Disturbed run"), "{text}");
        assert!(!text.contains("Failed null control"), "{text}");
    }
}

#[test]
fn charts_of_round_trips_and_comparisons_are_marked_too() {
    let warning = Warning::new(
        WarningKind::Steal,
        "the hypervisor gave 2.6 % to others: repeat",
    );
    let mut record = latency_record(ExchangeMode::Closed);
    record.warnings = vec![warning.clone()];
    let text = words(&latency_chart(&record));
    says(
        &text,
        &["Disturbed run: the hypervisor gave 2.6 % to others"],
    );

    let (old, mut new) = (ladder(), ladder());
    let chart = |new: &Run| {
        let compared = compare("old.json", &old, "new.json", new);
        words(&comparison_chart(&[compared]))
    };
    assert!(!chart(&new).contains("newer run"));
    new.warnings.push(warning);
    assert!(chart(&new).contains("the newer run was disturbed: the hypervisor gave 2.6 %"));
    new.warnings.clear();
    set_control(&mut new, within(1.1, 1.2, 1.3));
    assert!(chart(&new).contains("the null control of the newer run is faster"));
}
