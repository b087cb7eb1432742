//! Tests of the tables of channels and their recommendations.

use super::*;
use crate::Style;
use crate::table;
use crate::testing::shown;
use pipespeed_measure::fixtures::{channels, estimate, leave_out, refuse, within};
use pipespeed_measure::record::{NotRun, Warning, WarningKind};
use pipespeed_testing::{fits, says};

#[test]
fn the_channels_at_80_columns() {
    let mut run = channels(false);
    run.cases.retain(|case| message(case) >= 64 << 10);
    insta::assert_snapshot!(table(&run, Style::of_width(80)));
}

#[test]
fn sizes_that_differ_by_a_byte_are_shown_differently() {
    let mut run = channels(false);
    for (case, bytes) in run.cases.iter_mut().zip([4095, 4096, 4097]) {
        case.configuration.message_bytes = Some(bytes);
    }
    let text = shown(&run, 120);
    for size in ["4095B", "4KiB", "4097B"] {
        assert!(text.contains(&format!("messages of {size}:")), "{text}");
    }
}

#[test]
fn each_way_of_waiting_has_a_table_with_every_case_in_it() {
    let text = shown(&channels(false), 120);
    let rows = |name: &str| {
        let name = format!("  {name}  ");
        text.lines().filter(|line| line.contains(&name)).count()
    };
    for name in ["pipe", "vmsplice", "ring", "socketpair", "seqpacket", "tcp"] {
        assert_eq!(rows(name), 12, "{name} in {text}");
    }
    assert!(text.contains("Blocking") && text.contains("Spinning"));
    says(&text, &["SO_SNDBUF 208KiB", "in 72 of 72 cases"]);
    let ring = "ring: 1MiB to 2MiB by the size of the messages;";
    assert!(text.replace("\n  ", " ").contains(ring), "{text}");
}

#[test]
fn a_ring_that_polls_before_it_sleeps_is_mentioned() {
    let mut run = channels(false);
    let note = "Sleeping: a ring's end polls for about a microsecond before";
    assert!(shown(&run, 120).contains(note));
    run.cases
        .retain(|case| case.configuration.wait == Some(Waiting::Spin));
    assert!(!shown(&run, 120).contains(note));
}

#[test]
fn no_interval_is_claimed_where_there_are_too_few_rounds_for_one() {
    let mut run = channels(false);
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat(&shown(&run, 120)).contains("medians with 95 % intervals"));
    let summaries = run.cases.iter_mut().flat_map(|case| &mut case.summary);
    summaries.for_each(|summary| summary.gib_per_s.interval = None);
    for text in [shown(&run, 120), crate::chart(&run)] {
        let flat = flat(&text);
        says(&flat, &["medians (too few rounds for intervals)"]);
        assert!(!flat.contains("95 %"), "{text}");
    }
}

#[test]
fn a_size_over_a_limit_is_shown_as_that_limit() {
    let text = shown(&channels(false), 120);
    let rows: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("limit: a message has at most 212960"))
        .collect();
    assert_eq!(rows.len(), 4, "{text}");
    assert!(
        rows.iter().all(|row| row.contains("seqpacket ")),
        "{rows:?}"
    );
    assert!(!text.contains("refused"), "{text}");
}

#[test]
fn a_long_reason_takes_lines_and_no_column() {
    let mut run = channels(false);
    let long = "a message has at most a few bytes here ".repeat(6);
    leave_out(&mut run, "tcp_1m", NotRun::limit(long));
    for (width, columns) in [(120, "CPU us"), (80, "interval")] {
        let text = shown(&run, width);
        assert!(text.contains(columns), "{width}: {text}");
        fits(&text, width);
    }
}

#[test]
fn the_best_channel_is_named_with_those_whose_intervals_overlap() {
    let mut run = alike();
    set(&mut run, "tcp_64k", 4.0, 5.0, 6.0);
    set(&mut run, "seqpacket_64k", 3.0, 3.5, 4.5);
    set(&mut run, "pipe_64k_spin", 8.0, 9.0, 10.0);
    set(&mut run, "pipe_1k", 1.2, 2.0, 3.0);
    let found = findings(&run);
    assert_eq!(
        found[3],
        "Fastest for messages of 64KiB: undecided between tcp (5.00 GiB/s) and seqpacket if the \
         ends sleep; pipe spinning (9.00 GiB/s) if they may spin."
    );
    assert_eq!(
        found[1],
        "Fastest for messages of 1KiB: pipe (2.00 GiB/s) if the ends sleep; spinning is no faster."
    );
    says(
        &found[0],
        &["undecided, no other differs with certainty from "],
    );
    assert!(
        found[0].ends_with("spinning had no higher median."),
        "{}",
        found[0]
    );
}

/// A run of enough rounds whose cases all have the same rate, without comparisons.
fn alike() -> Run {
    let mut run = channels(false);
    for case in &mut run.cases {
        case.ratio = None;
        if let Some(summary) = &mut case.summary {
            summary.gib_per_s = estimate(0.9, 1.0, 1.1);
        }
    }
    run
}

fn set(run: &mut Run, name: &str, low: f64, median: f64, high: f64) {
    let case = run.cases.iter_mut().find(|case| case.name == name).unwrap();
    let summary = case.summary.as_mut().unwrap();
    summary.gib_per_s = estimate(low, median, high);
}

#[test]
fn no_channel_is_recommended_against_its_verdict() {
    let mut run = alike();
    set(&mut run, "tcp_64k", 4.0, 5.0, 6.0);
    let of_64k = |run: &Run| findings(run)[3].clone();
    let certain = "Fastest for messages of 64KiB: tcp (5.00 GiB/s) if the ends sleep;";
    assert!(of_64k(&run).starts_with(certain), "{}", of_64k(&run));

    // Its interval lies above the pipe's, but the comparison by rounds is undecided.
    let tcp = run.cases.iter().position(|case| case.name == "tcp_64k");
    run.cases[tcp.unwrap()].ratio = Some(within(0.9, 5.0, 6.0));
    let doubt = "64KiB: undecided between tcp (5.00 GiB/s) and pipe if the ends sleep;";
    assert!(of_64k(&run).contains(doubt), "{}", of_64k(&run));
    run.cases[tcp.unwrap()].ratio = Some(within(3.0, 5.0, 6.0));
    assert!(of_64k(&run).starts_with(certain), "{}", of_64k(&run));

    // Verdicts are withheld.
    run.settings.rounds_done = 5;
    let doubt = "undecided, no other differs with certainty from tcp (5.00 GiB/s)";
    assert!(of_64k(&run).contains(doubt), "{}", of_64k(&run));
}

#[test]
fn too_few_rounds_for_verdicts_are_noted_without_verbose() {
    let mut run = channels(false);
    for at in 0..9 {
        let message = format!("something else, number {at}");
        run.warnings
            .push(Warning::new(WarningKind::OtherLoad, message));
    }
    let message = "6 rounds are too few for 60 simultaneous comparisons (12 needed)";
    run.warnings
        .push(Warning::new(WarningKind::FewRounds, message));
    let text = table(&run, Style::of_width(120));
    says(&text, &[message, "more notes"]);
}

#[test]
fn trials_that_failed_are_noted_below() {
    let mut run = channels(false);
    let failed = Warning::new(WarningKind::Failed, "2 trials failed and are missing");
    let case = Some("tcp_1k".to_owned());
    run.warnings.push(Warning { case, ..failed });
    let text = shown(&run, 120);
    assert!(text.contains("note: tcp_1k: 2 trials failed"), "{text}");
}

#[test]
fn what_is_missing_is_named_by_channel_size_and_reason() {
    const K: usize = 1 << 10;
    let cases = [
        ("pipe", 64, None),
        ("mqueue", 64, None),
        ("mqueue", 64 * K, Some("limit")),
        ("mqueue", 16 * K, Some("limit")),
        ("tcp", 64, Some("refused")),
        ("tcp", K, Some("refused")),
        ("fifo", 64, Some("failed")),
        ("fifo", K, None),
    ];
    assert_eq!(
        not_shown(&cases).unwrap(),
        "mqueue from 16KiB on (limit), tcp (refused), fifo of 64B (failed)"
    );
    assert_eq!(not_shown(&cases[..2]), None);
}

#[test]
fn ways_of_waiting_are_distinguished_where_they_differ() {
    let mut run = channels(false);
    let limit = "not shown: seqpacket from 256KiB on (limit)";
    assert_eq!(missing(&run), [limit]);
    leave_out(&mut run, "tcp_1k", NotRun::failed("it broke"));
    assert_eq!(
        missing(&run),
        [
            "not shown of blocking: seqpacket from 256KiB on (limit), tcp of 1KiB (failed)",
            "not shown of spinning: seqpacket from 256KiB on (limit)"
        ]
    );
    let spinning: Vec<String> = waiting(&run, Waiting::Spin)
        .map(|c| c.name.clone())
        .collect();
    for name in spinning {
        refuse(&mut run, &name, "one processor");
    }
    assert_eq!(missing(&run)[1], "not shown of spinning: all (refused)");
}
