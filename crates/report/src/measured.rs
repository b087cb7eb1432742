//! The lines below the table: the null control, and how it was measured.

use pipespeed_measure::record::{Interval, NullControl, Run, Verdict};
use pipespeed_measure::rounds::comparisons;

use super::format::{percent, pluralize, ratio_interval, times};

/// What the null control says, with a plain word where it doesn't say `same`.
pub(super) fn null_control(control: &NullControl) -> Option<String> {
    let ratio = control.ratio?;
    let mut line = format!(
        "{} against itself: {}",
        control.case,
        times(ratio.estimate.median)
    );
    let shown = ratio_interval(ratio.estimate.interval);
    if !shown.is_empty() {
        line.push(' ');
        line.push_str(&shown);
    }
    match ratio.verdict {
        Verdict::Same => line.push_str(" same"),
        Verdict::Undecided => match ratio.estimate.interval {
            Some(Interval { low, high, .. }) => {
                let reach = (1.0 - low).abs().max((high - 1.0).abs());
                line.push_str(&format!(
                    " undecided: this run can't tell differences below {} %",
                    (reach * 100.0).ceil()
                ));
            }
            None => line.push_str(" undecided: too few rounds"),
        },
        Verdict::Faster | Verdict::Slower => line.push_str(&format!(
            " {}: a case can't differ from itself, so this run's method or the machine is \
             suspect; distrust differences of this size",
            ratio.verdict.name()
        )),
    }
    Some(line)
}

/// How the run was measured, in one sentence.
pub(super) fn measured(run: &Run) -> String {
    let settings = &run.settings;
    let rounds = if settings.rounds_done == settings.rounds_planned {
        pluralize(settings.rounds_done, "round")
    } else {
        format!(
            "{} of {}",
            settings.rounds_done,
            pluralize(settings.rounds_planned, "round")
        )
    };
    let by_volume = run
        .cases
        .iter()
        .any(|case| case.configuration.volume_bytes.is_some());
    let length = if by_volume {
        "a volume each".to_owned()
    } else {
        format!("{} s", settings.timed_s)
    };
    let mut line = format!(
        "Measured: {rounds} of trials of {length} after {} s of warm-up; order {}, seed {}; {}; \
         {}",
        settings.warm_up_s,
        settings.order,
        settings.seed,
        processors(run),
        medians(run),
    );
    let comparisons = comparisons::count(run);
    if comparisons > 0 {
        line.push_str(&format!(
            ", ratios paired by round and corrected for {}",
            pluralize(comparisons, "comparison")
        ));
    }
    line.push('.');
    line
}

/// What stands for a case: its median, with an interval if there were enough
/// rounds for one.
pub(super) fn medians(run: &Run) -> String {
    if has_intervals(run) {
        format!(
            "medians with {} intervals",
            percent(run.settings.confidence)
        )
    } else {
        "medians (too few rounds for intervals)".to_owned()
    }
}

/// Whether any case has an interval; those that were measured all have one or
/// none.
pub(super) fn has_intervals(run: &Run) -> bool {
    let mut summaries = run.cases.iter().filter_map(|case| case.summary.as_ref());
    summaries.any(|summary| summary.gib_per_s.interval.is_some())
}

/// Where the two ends ran.
pub(super) fn processors(run: &Run) -> String {
    let settings = &run.settings;
    let place = match (settings.writer_cpu, settings.reader_cpu) {
        (Some(writer), Some(reader)) if writer == reader => {
            format!("both ends on processor {writer}")
        }
        (Some(writer), Some(reader)) => {
            format!("writer on processor {writer}, reader on {reader}")
        }
        (Some(writer), None) => format!("writer on processor {writer}, reader anywhere"),
        (None, Some(reader)) => format!("writer anywhere, reader on processor {reader}"),
        (None, None) => "processors chosen by the scheduler".to_owned(),
    };
    if settings.cpu_relation.is_empty() {
        place
    } else {
        format!("{place} ({})", settings.cpu_relation)
    }
}
