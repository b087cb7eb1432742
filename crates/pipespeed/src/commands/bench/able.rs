//! Which cases make sense together with what was asked, and which of them is
//! measured twice.

use std::collections::BTreeMap;

use crate::case::Case;
use crate::suite::Suite;

/// Cases that make no sense with what was asked to become of their data.
pub(super) fn contradictions(cases: &[Case]) -> impl Iterator<Item = (String, String)> {
    let reason = |case: &Case| Some((case.name.clone(), case.contradiction()?));
    cases.iter().filter_map(reason)
}

/// The case that is measured twice: the suite's own if it can be run, else the
/// first that can, which is the smallest of volumes. None where that would take
/// minutes.
pub(super) fn null_control(
    suite: Suite,
    cases: &[Case],
    refused: &BTreeMap<String, String>,
) -> Option<String> {
    const MOST: u64 = 1 << 30;
    let mut able = cases
        .iter()
        .filter(|case| !refused.contains_key(&case.name));
    let first = able.clone().next();
    let usual = able.find(|case| suite != Suite::Volumes && case.name == suite.null_control());
    usual
        .or(first)
        .filter(|case| case.volume_bytes.is_none_or(|bytes| bytes <= MOST))
        .map(|case| case.name.clone())
}
