//! The conditions of a run: machine, date, processors, durations of trials.

use itertools::Itertools as _;
use pipespeed_host::warnings::disturbances;
use pipespeed_measure::record::{
    CaseResult, NullControl, RecordHeader, Run, Verdict, Warning, comparisons,
};

use super::format::{level, pluralize, ratio, times};
use super::notes::Note;

/// The processor's model, the kernel and the date of a run, to show beside its figures.
pub fn origin(run: &Run) -> String {
    of_record(&run.header)
}

/// The same for any record.
pub(super) fn of_record(header: &RecordHeader) -> String {
    let machine = &header.machine;
    let model = machine.processors.model.as_ref().map(|model| {
        // Vendors add marks and the nominal clock rate.
        let plain = model.replace("(R)", "").replace("(TM)", "");
        let plain = plain.split(" @ ").next().unwrap_or_default();
        plain.split_whitespace().join(" ")
    });
    let release = machine.kernel.release.as_ref();
    let release = release.map(|release| format!("Linux {release}"));
    let date = header.started_at.get(..10).map(str::to_owned);
    [model, release, date].into_iter().flatten().join(", ")
}

/// The null control's result, with an explanation unless its verdict is `same`.
pub(super) fn null_control(control: &NullControl) -> Option<Note> {
    let found = control.ratio?;
    let line = format!("{} against itself: {}", control.case, ratio(found.estimate));
    Some(match (found.verdict, found.estimate.interval) {
        (Verdict::Same, _) => Note::Method(format!("{line} same")),
        (Verdict::Undecided, Some(_)) => {
            let reach = control.tolerance().exp();
            Note::Run(format!(
                "{line} undecided: in this run an interval that reaches between {} and {} has no verdict",
                times(1.0 / reach),
                times(reach)
            ))
        }
        (Verdict::Undecided, None) => Note::Run(format!(
            "{line} undecided: too few rounds, so the verdicts don't allow for it"
        )),
        (verdict, _) => Note::Alarm(format!(
            "{line} {}: a case can't differ from itself, so the method or the machine is suspect; \
             distrust differences of this size",
            verdict.name()
        )),
    })
}

/// What a chart of a run is marked with: why its figures may differ in another run.
pub(super) fn marks_of_run(run: &Run) -> Vec<String> {
    let failed = run.failed_control().map(|(control, found)| {
        format!(
            "Failed null control: {} against itself {}, {}",
            control.case,
            ratio(found.estimate),
            found.verdict.name()
        )
    });
    failed.into_iter().chain(marks(&run.warnings)).collect()
}

/// The same for other records, of the warnings that are disturbances.
pub(super) fn marks(warnings: &[Warning]) -> Vec<String> {
    let disturbances = disturbances(warnings).map(|warning| {
        // What to do about it stands in the note.
        let message = warning.to_string();
        let reason = message.split([':', ';']).next().unwrap_or_default();
        format!("Disturbed run: {reason}")
    });
    disturbances.collect()
}

/// Notes on the method, the most important first.
pub(super) fn method(run: &Run) -> Vec<String> {
    let settings = &run.settings;
    let by_volume = |case: &CaseResult| case.configuration.volume_bytes.is_some();
    let length = if run.cases.iter().any(by_volume) {
        "a volume each".to_owned()
    } else {
        format!("{} s", settings.timed_s)
    };
    let mut details = format!(
        "Order {}, seed {}; {} s of warm-up",
        settings.order, settings.seed, settings.warm_up_s
    );
    let comparisons = comparisons::count(run);
    if comparisons > 0 {
        let comparisons = pluralize(comparisons, "comparison");
        details += &format!("; ratios paired by round and corrected for {comparisons}");
    }
    vec![
        format!(
            "Measured: {} of trials of {length}; {}; {}.",
            rounds(run),
            processors(run),
            medians(run)
        ),
        format!("{details}."),
    ]
}

fn rounds(run: &Run) -> String {
    let settings = &run.settings;
    let planned = pluralize(settings.rounds_planned, "round");
    if settings.rounds_done == settings.rounds_planned {
        planned
    } else {
        format!("{} of {planned}", settings.rounds_done)
    }
}

/// The conditions in the subtitle of a chart.
pub(super) fn subtitle(run: &Run) -> Vec<String> {
    let done = run.settings.rounds_done;
    let mut words = vec![pluralize(done, "round"), medians(run), processors(run)];
    if run.interrupted.is_some() {
        words.push(format!("interrupted after {} complete ones", done));
    }
    vec![origin(run), words.join(", ")]
}

/// The figure shown for a case: its median, with an interval if there were enough rounds
/// for one.
fn medians(run: &Run) -> String {
    if has_intervals(run) {
        let level = level(run.settings.confidence);
        format!("medians with {level} intervals")
    } else {
        "medians (too few rounds for intervals)".to_owned()
    }
}

/// How many rounds a point of a chart is of. Cases that were given up have fewer.
pub(super) fn rounds_of_points(run: &Run) -> String {
    let done = run.settings.rounds_done;
    let mut measured = run.cases.iter().filter(|case| !case.samples.is_empty());
    let rounds = pluralize(done, "round");
    if measured.any(|case| case.samples.len() < done) {
        format!("at most {rounds}")
    } else {
        rounds
    }
}

/// Whether the cases have intervals: either all or none of the measured ones do.
pub(super) fn has_intervals(run: &Run) -> bool {
    let mut summaries = run.cases.iter().filter_map(|case| case.summary.as_ref());
    summaries.any(|summary| summary.gib_per_s.interval.is_some())
}

/// The processors of the two ends.
fn processors(run: &Run) -> String {
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
    match settings.cpu_relation.as_str() {
        "" => place,
        relation => format!("{place} ({relation})"),
    }
}
