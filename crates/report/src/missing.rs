//! Cases without points in a chart of channels.

use crate::channels::{channel, message, waiting};
use pipespeed_base::size;
use pipespeed_measure::endpoint::spec::Waiting;
use pipespeed_measure::record::{CaseResult, Run};

/// The channels and sizes that were not measured, and why, by way of waiting.
pub(super) fn of_channels(run: &Run) -> Vec<String> {
    let of_way = |wait| {
        let cases: Vec<(&str, usize, Option<&str>)> = waiting(run, wait)
            .map(|case| (channel(case), message(case), why(case)))
            .collect();
        // This way of waiting has no panel.
        match cases.iter().map(|case| case.2).max().flatten() {
            Some(why) if cases.iter().all(|case| case.2.is_some()) => {
                Some(format!("all of it ({why})"))
            }
            _ => not_shown(&cases),
        }
    };
    let line = |way: &str, missing: String| format!("not shown{way}: {missing}");
    let (blocking, spinning) = (of_way(Waiting::Block), of_way(Waiting::Spin));
    if let (Some(both), true) = (&blocking, blocking == spinning) {
        return vec![line("", both.clone())];
    }
    let ways = [(" of blocking", blocking), (" of spinning", spinning)];
    ways.into_iter()
        .filter_map(|(way, missing)| Some(line(way, missing?)))
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
pub(super) fn not_shown(cases: &[(&str, usize, Option<&str>)]) -> Option<String> {
    let mut names: Vec<&str> = Vec::new();
    for (name, ..) in cases {
        if !names.contains(name) {
            names.push(name);
        }
    }
    let words: Vec<String> = names
        .into_iter()
        .filter_map(|name| of_one(name, cases))
        .collect();
    (!words.is_empty()).then(|| words.join(", "))
}

fn of_one(name: &str, cases: &[(&str, usize, Option<&str>)]) -> Option<String> {
    let own = || cases.iter().filter(|case| case.0 == name);
    let mut missing: Vec<usize> = own().filter(|case| case.2.is_some()).map(|c| c.1).collect();
    missing.sort_unstable();
    let first = *missing.first()?;
    let mut reasons: Vec<&str> = own().filter_map(|case| case.2).collect();
    reasons.sort_unstable();
    reasons.dedup();
    let shown = || own().filter(|case| case.2.is_none()).map(|case| case.1);
    let bytes = |bytes: usize| size::format(bytes as u64);
    let sizes = match shown().max() {
        None => String::new(),
        Some(last) if last < first && missing.len() > 1 => format!(" from {} on", bytes(first)),
        Some(_) => {
            let sizes: Vec<String> = missing.into_iter().map(bytes).collect();
            format!(" of {}", sizes.join(" and "))
        }
    };
    Some(format!("{name}{sizes} ({})", reasons.join(", ")))
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
