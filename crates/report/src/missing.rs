//! Cases without points in a chart of channels.

use itertools::Itertools as _;

use crate::channels::{channel, message, waiting};
use pipespeed_base::size;
use pipespeed_measure::endpoint::spec::Waiting;
use pipespeed_measure::record::{CaseResult, Run};

/// A channel, the size of its messages, and why it is not shown if it is not.
type Shown<'a> = (&'a str, usize, Option<&'a str>);

/// The channels and sizes that were not measured, and why, by way of waiting.
pub(super) fn of_channels(run: &Run) -> Vec<String> {
    let of_way = |wait| {
        let case = |case| (channel(case), message(case), why(case));
        let cases: Vec<Shown<'_>> = waiting(run, wait).map(case).collect();
        match cases.iter().map(|case| case.2).max().flatten() {
            Some(why) if cases.iter().all(|case| case.2.is_some()) => {
                Some(format!("all of it ({why})"))
            }
            _ => not_shown(&cases),
        }
    };
    let missing = [of_way(Waiting::Block), of_way(Waiting::Spin)];
    let ways = if missing.iter().all_equal() {
        vec![""]
    } else {
        vec![" of blocking", " of spinning"]
    };
    ways.into_iter()
        .zip(missing)
        .filter_map(|(way, missing)| Some(format!("not shown{way}: {}", missing?)))
        .collect()
}

fn why(case: &CaseResult) -> Option<&'static str> {
    if case.summary.is_some() {
        return None;
    }
    let not_run = case.not_run.as_ref();
    Some(not_run.map_or("not measured", |not_run| not_run.kind.name()))
}

/// The cases that have a reason not to be shown, by channel and size: "mqueue from
/// 16KiB on (limit)". None if all are shown.
pub(super) fn not_shown(cases: &[Shown<'_>]) -> Option<String> {
    let names = cases.iter().map(|case| case.0).unique();
    let missing = names.filter_map(|name| of_one(name, cases)).join(", ");
    (!missing.is_empty()).then_some(missing)
}

fn of_one(name: &str, cases: &[Shown<'_>]) -> Option<String> {
    let own = || cases.iter().filter(|case| case.0 == name);
    let missing: Vec<usize> = own()
        .filter(|case| case.2.is_some())
        .map(|case| case.1)
        .sorted()
        .collect();
    let first = *missing.first()?;
    let reasons = own().filter_map(|case| case.2).sorted().dedup().join(", ");
    let bytes = |bytes: usize| size::format(bytes as u64);
    let shown = own().filter(|case| case.2.is_none()).map(|case| case.1);
    let sizes = match shown.max() {
        None => String::new(),
        Some(last) if last < first && missing.len() > 1 => format!(" from {} on", bytes(first)),
        Some(_) => format!(" of {}", missing.into_iter().map(bytes).join(" and ")),
    };
    Some(format!("{name}{sizes} ({reasons})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipespeed_measure::record::NotRun;
    use pipespeed_measure::sample::{channels, leave_out, refuse};

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
    fn ways_of_waiting_are_told_apart_where_they_differ() {
        let mut run = channels(false);
        let limit = "not shown: seqpacket from 256KiB on (limit)";
        assert_eq!(of_channels(&run), [limit]);
        leave_out(&mut run, "tcp_1k", NotRun::failed("it broke"));
        assert_eq!(
            of_channels(&run),
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
        assert_eq!(
            of_channels(&run)[1],
            "not shown of spinning: all of it (refused)"
        );
    }
}
