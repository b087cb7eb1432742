use super::*;
use crate::latency_chart;
use pipespeed_measure::latency::channels::Kind;
use pipespeed_measure::sample::latency_record as record;

#[track_caller]
fn has(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word:?} is missing: {text}");
    }
}

#[test]
fn each_case_has_a_row_and_what_can_t_be_measured_its_reason() {
    let text = latency_table(&record(Mode::Closed), Style::default());
    has(
        &text,
        &[
            "Round trip, in us",
            "p99.9",
            "128KiB  deadlock",
            "pipe of 128KiB: deadlock: both sleep",
            "limit: a message has at most 8 bytes",
            "note: this is a guest",
            "there and back, not halved",
            "each message counted once",
        ],
    );
    let row = text.lines().find(|line| line.starts_with("tcp")).unwrap();
    let p50: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(p50[1..3], ["8B", "99.8"], "{text}");
    assert!(!text.contains("p99.9 is its longest"), "{text}");
}

#[test]
fn a_rate_that_was_not_kept_is_said_so() {
    let kept = latency_table(&record(Mode::Open(2000.0)), Style::default());
    assert!(!kept.contains("was not kept"), "{kept}");
    has(&kept, &["from when the message was due"]);
    let text = latency_table(&record(Mode::Open(9000.0)), Style::default());
    has(&text, &["pipe of 8B: the rate was not kept: 2000 of 9000"]);
}

#[test]
fn launches_are_counted_as_they_were_not_as_they_were_asked_for() {
    let mut record = record(Mode::Closed);
    let text = |record: &Record| latency_table(record, Style::default()).replace("\n  ", " ");
    has(&text(&record), &["; 7 launches of 2000"]);
    record.settings.rounds = 9;
    record.interrupted = Some("SIGINT".to_owned());
    has(
        &text(&record),
        &["; 7 of 9 launches of 2000", "interrupted: SIGINT\n"],
    );
    record.cases[1].launches.pop();
    has(&text(&record), &["; 6 to 7 of 9 launches of 2000"]);
    record.cases.drain(..2);
    has(&text(&record), &["; 0 of 9 launches of 2000"]);
}

#[test]
fn a_ring_that_looks_before_it_sleeps_is_told_of() {
    let mut record = record(Mode::Closed);
    let told = "a ring looks for about a microsecond before it sleeps";
    let text = |record: &Record| latency_table(record, Style::default()).replace("\n  ", " ");
    assert!(!text(&record).contains(told));
    record.cases[0].channel = Kind::Ring;
    assert!(text(&record).contains(told));
    assert!(latency_chart(&record).contains(told));
    record.settings.wait = Wait::Spin;
    assert!(!text(&record).contains(told));
}

#[test]
fn the_chart_is_xml_and_names_channels_percentiles_and_units() {
    let svg = latency_chart(&record(Mode::Closed));
    let document = roxmltree::Document::parse(&svg).unwrap();
    let texts: Vec<&str> = document
        .descendants()
        .filter(|node| node.has_tag_name("text"))
        .filter_map(|node| node.text().map(str::trim))
        .collect();
    let told = "median over 7 launches, which count alike";
    for word in ["pipe", "tcp", "50", "99.9", "99.99", "us", "8B", told] {
        assert!(
            texts.iter().any(|text| text.contains(word)),
            "{word}: {texts:?}"
        );
    }
    assert!(!texts.contains(&"eventfd"), "{texts:?}");
}
