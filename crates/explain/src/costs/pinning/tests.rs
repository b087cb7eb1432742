//! Tests of the figures, with fakes of every kernel.

use std::path::PathBuf;
use std::rc::Rc;

use fastpipe::buffer::{Buffer, Pages};
use fastpipe::pipe::page_size;
use rustix::io::Errno;

use super::fake::{Fake, KERNELS, KernelStruct, Request};
use super::*;

fn plan(size: usize) -> Plan {
    Plan {
        pages_per_call: 16,
        size,
        pages: vec![Pages::Base],
        untouched: true,
    }
}

/// Measures the figure with this name.
fn measured(plan: &Plan, fake: Fake, name: &str) -> Option<Figure> {
    let figures = fixtures::measure(plan, 7, Some(fake.kernel())).unwrap();
    figures.into_iter().find(|figure| figure.name == name)
}

#[test]
fn every_layout_is_recognised_by_its_size() {
    for layout in KERNELS {
        for refusal in [Errno::INVAL, Errno::NOTTY] {
            let fake = Fake {
                refusal,
                ..Fake::new(layout)
            };
            let kernel = fake.kernel();
            assert!(
                kernel.layout.kernels.starts_with(layout.kernels),
                "{layout:?}"
            );
            assert_eq!(kernel.layout.bytes, layout.bytes);
        }
    }
    assert_eq!(LAYOUTS.len(), KERNELS.len());
}

#[test]
fn other_errors_and_unknown_layouts_are_distinguished() {
    let fake = Fake {
        refusal: Errno::NOMEM,
        ..Fake::new(KERNELS[0])
    };
    let missing = Kernel::new(PathBuf::from("/fake"), fake).unwrap_err();
    assert!(matches!(missing, Missing::Failed(..)), "{missing}");
    let unknown = KernelStruct {
        bytes: 48,
        ..KERNELS[1]
    };
    let missing = Kernel::new(PathBuf::from("/fake"), Fake::new(unknown)).unwrap_err();
    assert!(matches!(missing, Missing::NoKnownLayout(_)), "{missing}");
}

#[test]
fn requests_and_replies_have_the_kernels_layout() {
    let buffer = Buffer::builder().len(512 * page_size()).map().unwrap();
    for layout in KERNELS {
        let fake = Fake::new(layout);
        let requests = Rc::clone(&fake.requests);
        let pinned = fake.kernel().pin(&buffer, 31).unwrap();
        let expected = Request {
            addr: buffer.as_ptr().addr() as u64,
            size: buffer.len() as u64,
            nr: 31,
        };
        assert_eq!(*requests.borrow().last().unwrap(), expected, "{layout:?}");
        // 512 pages take 5.12 us to pin and 2.56 us to release.
        let reply = Reply {
            bytes: buffer.len() as u64,
            get_us: 5,
            put_us: layout.put.map(|_| 2),
        };
        assert_eq!(pinned, reply, "{layout:?}");
    }
}

#[test]
fn figures_are_nanoseconds_per_page_in_every_layout() {
    for layout in KERNELS {
        let size = 64 << 20;
        let get = measured(&plan(size), Fake::new(layout), "get_base").unwrap();
        let median = get.estimate_ns.unwrap().median;
        assert!((median - 10.0).abs() < 0.1, "{median} {layout:?}");
        assert_eq!(get.samples_ns.len(), 7);
        let put = measured(&plan(size), Fake::new(layout), "put_base");
        assert_eq!(put.is_some(), layout.put.is_some(), "{layout:?}");
        if let Some(put) = put {
            assert!(
                (put.estimate_ns.unwrap().median - 5.0).abs() < 0.1,
                "{put:?}"
            );
        }
    }
}

#[test]
fn figures_refer_to_the_bytes_pinned_not_requested() {
    let fake = Fake {
        max_pages: 4096,
        ..Fake::new(KERNELS[4])
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
fn a_short_range_takes_more_calls_and_has_a_rounding_error() {
    let size = 1 << 20;
    let get = measured(&plan(size), Fake::new(KERNELS[4]), "get_base").unwrap();
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

    let long = measured(&plan(64 << 20), Fake::new(KERNELS[4]), "get_base").unwrap();
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
        ..Fake::new(KERNELS[3])
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
    assert_eq!(estimate.step, Step::Estimate);
    for round in 0..6 {
        let [vmsplice, splice, estimate] =
            [vmsplice, splice, estimate].map(|figure| figure.samples_ns[round]);
        assert!(vmsplice > 0.0 && splice > 0.0);
        assert!((vmsplice - splice - estimate).abs() < 1e-9);
    }
}

#[test]
fn differences_are_base_minus_huge_pages_in_each_round() {
    let both = Plan {
        pages: vec![Pages::Base, Pages::Huge],
        ..plan(4 << 20)
    };
    let figures = fixtures::measure(&both, 7, Some(Fake::new(KERNELS[4]).kernel())).unwrap();
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
