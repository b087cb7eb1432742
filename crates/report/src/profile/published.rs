//! The published shares of the writer's samples, beside those of a profile.
//!
//! "How fast are Linux pipes anyway?" names functions, so these are shares of the
//! samples in such a function or in one that it calls, not of a group of costs.

use pipespeed_explain::profile::record::{EndProfile, Profile};

use crate::format::percent;
use crate::style::Style;
use crate::table::{Column, Table};

/// A published share.
struct Share {
    case: &'static str,
    what: &'static str,
    /// How the names of the functions begin, in several versions of Linux.
    functions: &'static [&'static str],
    percent: f64,
}

const PINNING: &[&str] = &["iov_iter_get_pages", "__iov_iter_get_pages"];
const ALLOCATING: &[&str] = &[
    "alloc_pages",
    "__alloc_pages",
    "alloc_frozen_pages",
    "__alloc_frozen_pages",
];
const MUTEX: &[&str] = &["mutex_", "__mutex_"];

/// Copying is published as half of the time below pipe_write, allocating as a quarter.
const SHARES: [Share; 10] = [
    share(
        "write_read",
        "pipe_write",
        &["pipe_write", "anon_pipe_write"],
        48.0,
    ),
    share("write_read", "copying", &["copy_page_from_iter"], 24.0),
    share("write_read", "allocating pages", ALLOCATING, 12.0),
    share("vmsplice_splice", "page pinning", PINNING, 18.0),
    share("vmsplice_splice", "the pipe's mutex", MUTEX, 17.0),
    share("vmsplice_splice", "add_to_pipe", &["add_to_pipe"], 4.0),
    share(
        "vmsplice_splice_huge",
        "waiting for space",
        &["wait_for_space"],
        15.0,
    ),
    share(
        "vmsplice_splice_huge",
        "waking the reader",
        &["wakeup_pipe_readers", "__wake_up"],
        8.0,
    ),
    share("vmsplice_splice_huge", "page pinning", PINNING, 4.0),
    share("vmsplice_splice_huge", "the pipe's mutex", MUTEX, 4.0),
];

const fn share(
    case: &'static str,
    what: &'static str,
    functions: &'static [&'static str],
    percent: f64,
) -> Share {
    Share {
        case,
        what,
        functions,
        percent,
    }
}

impl Share {
    /// The share of an end's samples in per cent; `None` without samples.
    fn percent(&self, end: &EndProfile) -> Option<f64> {
        let is_named = |frame: &String| self.functions.iter().any(|name| frame.starts_with(name));
        let all: u64 = end.stacks.iter().map(|stack| stack.weight).sum();
        let within = end
            .stacks
            .iter()
            .filter(|stack| stack.frames.iter().any(is_named));
        let within: u64 = within.map(|stack| stack.weight).sum();
        (all > 0 && end.is_divided()).then(|| within as f64 / all as f64 * 100.0)
    }
}

/// A table of the published shares and those of the profile's writers; `None` if no
/// sampled case has a published share.
pub(super) fn table(profile: &Profile, style: Style) -> Option<String> {
    let mut table = Table::new([
        Column::left("case"),
        Column::left("samples in"),
        Column::right("published"),
        Column::right("here"),
    ]);
    let mut is_empty = true;
    for share in &SHARES {
        let case = profile.cases.iter().find(|case| case.name == share.case);
        let writer = case.and_then(|case| case.ends.iter().find(|end| end.role == "writer"));
        if let Some(here) = writer.and_then(|writer| share.percent(writer)) {
            is_empty = false;
            table.row([
                share.case.to_owned(),
                share.what.to_owned(),
                percent(share.percent / 100.0, 0),
                percent(here / 100.0, 1),
            ]);
        }
    }
    (!is_empty).then(|| table.render(style))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipespeed_explain::profile::fixtures;

    #[test]
    fn shares_count_samples_in_a_function_and_what_it_calls() {
        let profile = fixtures::ladder();
        let text = table(&profile, Style::default()).unwrap();
        let rows: Vec<Vec<&str>> = text
            .lines()
            .skip(1)
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            rows,
            [
                vec!["write_read", "pipe_write", "48", "%", "95.0", "%"],
                vec!["write_read", "copying", "24", "%", "60.0", "%"],
                vec!["write_read", "allocating", "pages", "12", "%", "20.0", "%"],
            ]
        );
    }

    #[test]
    fn a_profile_without_samples_or_published_cases_has_no_table() {
        let mut profile = fixtures::ladder();
        profile.cases.remove(0);
        assert_eq!(table(&profile, Style::default()), None);
        let mut profile = fixtures::ladder();
        for case in &mut profile.cases {
            case.ends.iter_mut().for_each(|end| end.stacks.clear());
        }
        assert_eq!(table(&profile, Style::default()), None);
    }
}
