use super::*;
use crate::latency_chart;
use crate::testing::{has_texts, texts, verbose};
use pipespeed_measure::fixtures::latency_record as record;
use pipespeed_measure::spec::Channel;
use pipespeed_testing::fits;
use pipespeed_testing::says;

fn shown(record: &LatencyRecord) -> String {
    latency_table(record, verbose(200))
}

#[test]
fn each_case_has_a_row_or_the_reason_why_not() {
    let text = latency_table(&record(ExchangeMode::Closed), verbose(80));
    insta::assert_snapshot!(text);
}

#[test]
fn a_narrow_terminal_keeps_the_median_and_the_tail() {
    let text = latency_table(&record(ExchangeMode::Closed), Style::of_width(48));
    assert!(text.contains("p50") && text.contains("p99"), "{text}");
    fits(&text, 48);
}

#[test]
fn a_rate_that_was_not_kept_is_noted() {
    let kept = shown(&record(ExchangeMode::Open(2000.0)));
    assert!(!kept.contains("was not kept"), "{kept}");
    let text = shown(&record(ExchangeMode::Open(9000.0)));
    says(
        &text,
        &["pipe of 8B: the rate was not kept: 2000 of 9000 messages per second"],
    );
}

#[test]
fn the_first_deadlock_of_each_exchange_is_always_explained() {
    let mut record = record(ExchangeMode::Naive(Naive::ShortReads));
    let first = record.cases[2].clone();
    for size in [1 << 18, 1 << 19] {
        record.cases.push(CaseRecord {
            size,
            ..first.clone()
        });
    }
    record.cases.push(CaseRecord {
        mode: ExchangeMode::Naive(Naive::WriteFirst),
        ..first
    });
    insta::assert_snapshot!(latency_table(&record, Style::of_width(80)));
    let all = shown(&record);
    assert_eq!(all.matches("Both were ended").count(), 4, "{all}");
}

#[test]
fn short_reads_are_noted() {
    let mut record = record(ExchangeMode::Naive(Naive::ShortReads));
    assert!(!shown(&record).contains("only a part"));
    record.cases[1].summary.as_mut().unwrap().short_reads = 3;
    let text = shown(&record);
    says(
        &text,
        &["tcp of 8B, short-reads: 3 of 14000 reads returned only a part"],
    );
}

#[test]
fn the_chart_has_a_panel_for_each_exchange() {
    let mut record = record(ExchangeMode::Naive(Naive::ShortReads));
    record.cases[1].mode = ExchangeMode::Naive(Naive::WriteFirst);
    let svg = latency_chart(&record);
    for title in ["8B, short-reads", "8B, write-first"] {
        assert!(svg.contains(&format!("Messages of {title}")), "{title}");
    }
    assert!(svg.contains("pipe with short-reads of 128KiB (deadlock)"));
}

#[test]
fn launches_are_counted_as_measured() {
    let launches = |record: &LatencyRecord| {
        let text = shown(record);
        let end = text.find(" of 2000 round trips").unwrap();
        text[..end].rsplit("; ").next().unwrap().to_owned()
    };
    let mut record = record(ExchangeMode::Closed);
    assert_eq!(launches(&record), "7 launches");
    record.settings.rounds = 9;
    record.interrupted = Some("SIGINT".to_owned());
    assert!(shown(&record).contains("\ninterrupted: SIGINT\n"));
    assert_eq!(launches(&record), "7 of 9 launches");
    record.cases[1].samples.pop();
    assert_eq!(launches(&record), "6 to 7 of 9 launches");
    record.cases.drain(..2);
    assert_eq!(launches(&record), "0 of 9 launches");
}

#[test]
fn a_ring_that_polls_before_it_sleeps_is_mentioned() {
    let mut record = record(ExchangeMode::Closed);
    let remark = "a ring's end polls for about a microsecond before it sleeps";
    assert!(!shown(&record).contains(remark));
    record.cases[0].channel = Channel::Ring;
    assert!(shown(&record).contains(remark));
    assert!(latency_chart(&record).contains(remark));
    record.settings.wait = Waiting::Spin;
    assert!(!shown(&record).contains(remark));
}

#[test]
fn the_chart_names_channels_percentiles_and_units() {
    let svg = latency_chart(&record(ExchangeMode::Closed));
    let wanted = ["pipe", "tcp", "50", "99.9", "99.99", "us", "Messages of 8B"];
    has_texts(&svg, &wanted);
    assert!(!texts(&svg).contains(&"eventfd".to_owned()));
}

#[test]
fn each_nine_is_a_step_to_the_right() {
    for (at, percent) in [(1.0, 90.0), (2.0, 99.0), (4.0, 99.99)] {
        assert!((rarity(percent) - at).abs() < 1e-6);
    }
}
