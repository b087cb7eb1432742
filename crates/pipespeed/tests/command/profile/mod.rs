//! `profile`.

mod pipeline;
mod trials;

use std::fs;

use serde_json::Value;

use crate::common::{Outcome, skip};

/// Whether sampling the kernel was refused; a skip if so.
fn is_refused(outcome: &Outcome) -> bool {
    let reasons = [
        "sampling the kernel is refused",
        "hidden",
        "no names",
        "perf events",
    ];
    let is_refused =
        outcome.code == Some(1) && reasons.iter().any(|words| outcome.err.contains(words));
    if is_refused {
        skip(&outcome.err);
    }
    is_refused
}

/// Whether perf_event_paranoid lets only root sample the kernel; a skip if not.
fn is_only_for_root() -> bool {
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    let paranoid: Option<i64> = paranoid.ok().and_then(|text| text.trim().parse().ok());
    let is_only_for_root = paranoid.is_some_and(|level| level >= 2);
    if !is_only_for_root {
        skip("ordinary users may sample the kernel here");
    }
    is_only_for_root
}

#[track_caller]
fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("not a number: {value}"))
}
