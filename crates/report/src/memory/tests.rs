//! Tests of the tables of memory and their conclusions.

use super::*;
use crate::testing::shown;
use pipespeed_measure::fixtures::{channels, estimate, memory, refuse, set_control, within};
use pipespeed_measure::record::{NullControl, Ratio};
use pipespeed_testing::{fits, says};

fn row(text: &str, block: &str) -> String {
    let found = text
        .lines()
        .find(|line| line.trim_start().starts_with(block));
    found
        .unwrap_or_else(|| panic!("{block} in {text}"))
        .to_owned()
}

fn ratio_of(run: &mut Run, name: &str, ratio: Ratio) {
    let case = run.cases.iter_mut().find(|case| case.name == name).unwrap();
    case.ratio = Some(ratio);
}

#[test]
fn memory_and_the_ladder_at_80_columns() {
    insta::assert_snapshot!(shown(&memory(), 80));
}

#[test]
fn each_size_is_a_row_with_the_cache_that_holds_it() {
    let text = shown(&memory(), 140);
    for (block, place) in [
        ("4KiB", "L1"),
        ("64KiB", "L2"),
        ("1MiB", "L2,"),
        ("16MiB", "L3"),
        ("64MiB", "memory"),
        ("1GiB", "memory"),
    ] {
        let row = row(&text, block);
        assert_eq!(row.split_whitespace().nth(1), Some(place), "{row}");
        assert_eq!(row.matches('[').count(), 5, "{row}");
    }
    // Two blocks of 1 MiB exceed the cache.
    assert!(row(&text, "1MiB").contains("L2, copy L3 "), "{text}");
    assert!(row(&text, "64KiB").contains("L2  "), "{text}");
    says(
        &text,
        &[
            "Caches: L1 48KiB, L2 1MiB, L3 32MiB. Blocks in base pages.",
            "write_read  ",
        ],
    );
    says(&text, &["than mem_copy_256k (a pipe instead of memcpy)"]);
}

#[test]
fn a_machine_with_unknown_caches_has_a_table() {
    let mut run = memory();
    run.header.machine.processors.caches.clear();
    let text = shown(&run, 120);
    assert!(text.contains("Caches: unknown on this machine."), "{text}");
    assert!(row(&text, "4KiB").contains("180"), "{text}");
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let mut memory = memory();
    refuse(&mut memory, "mem_copy_1g", "no memory");
    for width in [60, 80, 100, 120] {
        for run in [&memory, &channels(true)] {
            fits(&shown(run, width), width);
        }
        assert!(row(&shown(&memory, width), "1GiB").contains("30.0"));
    }
    assert!(shown(&memory, 80).contains("(too narrow to show: 95 % interval"));
}

#[test]
fn a_common_reason_is_stated_once() {
    let mut run = memory();
    let reason = "a block of 1GiB: 1GiB of memory needed, but at most 480MiB may be used";
    for way in ["read", "write"] {
        refuse(&mut run, &format!("mem_{way}_1g"), reason);
    }
    let text = shown(&run, 160);
    let line = format!("mem_read_1g, mem_write_1g: refused: {reason}");
    assert_eq!(text.matches(reason).count(), 1, "{text}");
    assert!(text.contains(&line), "{text}");
    let row = row(&text, "1GiB");
    assert_eq!(
        row.split_whitespace().filter(|cell| *cell == "-").count(),
        2
    );
}

#[test]
fn the_null_control_is_no_rung_and_no_row() {
    let mut run = memory();
    let of = |run: &Run, name: &str| run.cases.iter().find(|case| case.name == name).cloned();
    let mut twin = of(&run, "mem_copy_256k").unwrap();
    twin.name = "mem_copy_256k_again".to_owned();
    twin.summary.as_mut().unwrap().gib_per_s.median = 999.0;
    run.cases.push(twin);
    run.null_control = Some(NullControl {
        case: "mem_copy_256k".to_owned(),
        twin: "mem_copy_256k_again".to_owned(),
        ratio: Some(within(0.99, 1.0, 1.01)),
    });
    let text = shown(&run, 120);
    assert!(text.contains("mem_copy_256k against itself"), "{text}");
    assert!(!text.contains("mem_copy_256k_again"), "{text}");
    assert!(!text.contains("999"), "{text}");
}

#[test]
fn findings_show_how_far_the_ladder_is_from_memory() {
    let mut run = memory();
    ratio_of(&mut run, "busy_loop_huge", within(1.9, 2.1, 2.2));
    ratio_of(&mut run, "write_read", within(0.02, 0.03, 0.04));
    let found = findings(&run);
    let expected = [
        "busy_loop_huge, the fastest rung, is faster than memcpy of 256KiB, L2: x2.10 [1.90, \
         2.20]; it does not touch the data.",
        "busy_loop_huge moves more (64.2 GiB/s) than one processor reads from memory (30.0 GiB/s, \
         blocks of 1GiB).",
        "write_read, a plain pipe, is slower than memcpy of 256KiB, L2: x0.0300 [0.0200, 0.0400].",
    ];
    assert_eq!(found[..3], expected);
    assert!(
        found[3].starts_with(
            "Rates fall with the size of the block: read from 180 GiB/s (4KiB, L1) to 30.0 (1GiB, memory); "
        ),
        "{found:?}"
    );
    says(&found[4], &["reading x0.31 (4KiB, L1), writing"]);
}

#[test]
fn overlapping_intervals_support_no_finding() {
    let mut run = memory();
    for case in &mut run.cases {
        if case.ratio.is_some() {
            case.ratio = Some(within(0.5, 1.0, 2.0));
        }
        let summary = case.summary.as_mut().unwrap();
        summary.gib_per_s = estimate(0.1, summary.gib_per_s.median, 500.0);
    }
    assert_eq!(findings(&run), [""; 0]);
    run.cases.clear();
    assert_eq!(findings(&run), [""; 0]);
}

#[test]
fn a_copy_is_in_the_cache_that_holds_both_blocks() {
    let mut run = memory();
    for case in &mut run.cases {
        if case.compared_with.is_some() {
            case.compared_with = Some("mem_copy_1m".to_owned());
        }
    }
    ratio_of(&mut run, "busy_loop_huge", within(1.9, 2.1, 2.2));
    let found = findings(&run);
    assert!(found[0].contains("memcpy of 1MiB, L3: "), "{found:?}");
}

#[test]
fn differences_within_the_null_controls_are_not_reported() {
    let found = |control| {
        let mut run = memory();
        ratio_of(&mut run, "busy_loop_huge", within(1.03, 1.05, 1.14));
        set_control(&mut run, control);
        findings(&run)
    };
    let beginning = "busy_loop_huge, the fastest rung, is faster than memcpy";
    assert!(found(within(0.96, 1.0, 1.04))[0].starts_with(beginning));
    assert!(!found(within(0.93, 1.0, 1.02))[0].starts_with(beginning));
    // A case that differs from itself a thousandfold leaves no findings.
    assert_eq!(found(within(0.001, 1.0, 1.02)), [""; 0]);
}
