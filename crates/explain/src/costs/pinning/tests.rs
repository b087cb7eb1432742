//! Tests of the figures, with a fake kernel.

use std::path::PathBuf;
use std::rc::Rc;

use fastpipe::buffer::{Buffer, Pages};
use fastpipe::pipe::page_size;
use rustix::io::Errno;

use super::fake::Fake;
use super::*;

fn plan(size: usize) -> PinningPlan {
    PinningPlan {
        pages_per_call: 16,
        size,
        pages: vec![Pages::Base],
        untouched: true,
    }
}

/// Measures the figure with this name.
fn measured(plan: &PinningPlan, fake: Fake, name: &str) -> Option<PinningFigure> {
    let figures = fixtures::measure(plan, 7, Some(fake.kernel())).unwrap();
    figures.into_iter().find(|figure| figure.name == name)
}

#[test]
fn other_errors_and_other_arguments_are_distinguished() {
    for (refusal, is_other_argument) in [
        (Errno::INVAL, true),
        (Errno::NOTTY, true),
        (Errno::NOMEM, false),
    ] {
        let fake = Fake {
            refusal: Some(refusal),
            ..Fake::default()
        };
        let missing = GupBenchmark::new(PathBuf::from("/fake"), fake).unwrap_err();
        let matches = matches!(missing, Missing::OtherArgument(_));
        assert_eq!(matches, is_other_argument, "{missing}");
    }
}

#[test]
fn the_range_is_pinned_and_the_reply_returned() {
    let buffer = Buffer::builder().len(512 * page_size()).map().unwrap();
    let fake = Fake::default();
    let requests = Rc::clone(&fake.requests);
    let pinned = fake.kernel().pin(&buffer, 31).unwrap();
    let (address, bytes) = (buffer.as_ptr().addr() as u64, buffer.len() as u64);
    assert_eq!(*requests.borrow().last().unwrap(), (address, bytes, 31));
    // 512 pages take 5.12 us to pin and 2.56 us to release.
    let reply = Reply {
        bytes,
        get_us: 5,
        put_us: 2,
    };
    assert_eq!(pinned, reply);
}

#[test]
fn figures_are_nanoseconds_per_page() {
    for (name, expected) in [("get_base", 10.0), ("put_base", 5.0)] {
        let figure = measured(&plan(64 << 20), Fake::default(), name).unwrap();
        let median = figure.estimate_ns.unwrap().median;
        assert!((median - expected).abs() < 0.1, "{figure:?}");
        assert_eq!(figure.samples_ns.len(), 7);
    }
}

#[test]
fn figures_refer_to_the_bytes_pinned_not_requested() {
    let fake = Fake {
        max_pages: 4096,
        ..Fake::default()
    };
    let get = measured(&plan(64 << 20), fake, "get_base").unwrap();
    // Per requested page it would be at most a quarter of that.
    assert!(
        (get.estimate_ns.unwrap().median - 10.0).abs() < 0.2,
        "{get:?}"
    );
    let counted = get.counted.unwrap();
    assert_eq!(counted.asked_bytes, 64 << 20);
    assert_eq!(counted.pinned_bytes, 4096 * page_size() as u64);
}

#[test]
fn short_range_takes_more_calls_and_has_a_rounding_error() {
    let size = 1 << 20;
    let get = measured(&plan(size), Fake::default(), "get_base").unwrap();
    let counted = get.counted.unwrap();
    assert!(counted.calls > 100, "{counted:?}");
    let pages = (size / page_size()) as f64;
    let us = (pages * 0.01).floor();
    let expected = 100.0 * 0.5 / (us + 0.5);
    assert!(
        (counted.rounding_percent[0] - expected).abs() < 1e-6,
        "{counted:?}"
    );
    // The true value is within that error.
    let off = 100.0 * (get.estimate_ns.unwrap().median / 10.0 - 1.0).abs();
    assert!(
        off <= counted.rounding_percent[0] * 1.3,
        "{off} {counted:?}"
    );

    let long = measured(&plan(64 << 20), Fake::default(), "get_base").unwrap();
    let counted = long.counted.unwrap();
    assert!(
        counted.calls < 20 && counted.rounding_percent[0] < 1.0,
        "{counted:?}"
    );
}

#[test]
fn without_pinned_pages_only_the_estimate_remains() {
    let fake = Fake {
        max_pages: 0,
        ..Fake::default()
    };
    let figures = fixtures::measure(&plan(1 << 20), 7, Some(fake.kernel())).unwrap();
    let names: Vec<_> = figures.iter().map(|figure| &*figure.name).collect();
    let expected = [
        "get_base",
        "put_base",
        "vmsplice_base",
        "splice_base",
        "estimate_base",
    ];
    assert_eq!(names, expected);
    let why = &figures[0].not_run.as_ref().unwrap().reason;
    assert!(why.contains("pinned no pages"), "{why}");
    assert_eq!(figures[0].estimate_ns, None);
    assert!(figures[4].estimate_ns.is_some(), "{:?}", figures[4]);
}

#[test]
fn the_estimate_is_vmsplice_minus_splice_in_each_round() {
    let figures = fixtures::measure(&plan(1 << 20), 6, None).unwrap();
    let [vmsplice, splice, estimate] = &figures[..] else {
        panic!("{figures:?}");
    };
    assert_eq!(estimate.step, PinningStep::Estimate);
    for round in 0..6 {
        let [vmsplice, splice, estimate] =
            [vmsplice, splice, estimate].map(|figure| figure.samples_ns[round]);
        assert!(vmsplice > 0.0 && splice > 0.0);
        assert!((vmsplice - splice - estimate).abs() < 1e-9);
    }
}

#[test]
fn differences_are_base_minus_huge_pages_in_each_round() {
    let both = PinningPlan {
        pages: vec![Pages::Base, Pages::Huge],
        ..plan(4 << 20)
    };
    let figures = fixtures::measure(&both, 7, Some(Fake::default().kernel())).unwrap();
    for step in ["get", "estimate"] {
        let samples = |of: &str| {
            let name = format!("{step}_{of}");
            let found = figures.iter().find(|figure| figure.name == name);
            found.unwrap_or_else(|| panic!("{name}")).samples_ns.clone()
        };
        let (base, huge) = (samples("base"), samples("huge"));
        let difference = samples("difference");
        assert_eq!(difference.len(), 7);
        for round in 0..7 {
            assert!((base[round] - huge[round] - difference[round]).abs() < 1e-9);
        }
    }
}
