//! What changed from one saved run to another.
//!
//! The samples of two runs can't be paired: their rounds have nothing in common. So the
//! ratio is the Hodges-Lehmann estimate between all samples of one run and all of the
//! other, of medians of consecutive rounds, since rounds close in time resemble each
//! other. Neither run shows what happened to the machine in between, so a case is
//! called faster or slower only if its whole interval lies beyond 5 %.

use crate::spec::Suite;
use serde::Serialize;

use crate::record::{
    CaseResult, Configuration, Doubt, Interval, Ratio, RecordHeader, Run, Verdict,
};
use pipespeed_base::size;
use pipespeed_base::text::{fixed, significant};
use pipespeed_host::Difference;
use pipespeed_host::warnings::disturbances;
use pipespeed_stats::{self as stats, EQUIVALENCE};

/// The rounds of a run are grouped into at least this many blocks, the fewest for which
/// a median has an interval.
const MIN_BLOCKS: usize = 6;

/// Above this lag-1 autocorrelation the intervals are too narrow, even with
/// blocks.
const MAX_AUTOCORRELATION: f64 = 0.5;

/// The record of a comparison of saved runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparisonRecord {
    /// The header of all records.
    #[serde(flatten)]
    pub header: RecordHeader,
    /// The oldest run with each of the others.
    pub comparisons: Vec<Comparison>,
}

/// Two runs side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The older run.
    pub old: ComparedRun,
    /// The newer run.
    pub new: ComparedRun,
    /// What differs in the machine, the settings and the program.
    pub differences: Vec<Difference>,
    /// Why the runs cannot be compared; empty if they can.
    pub incomparable: Vec<String>,
    /// Caveats.
    pub notes: Vec<String>,
    /// What disturbed the runs, or was wrong with their null controls. Notes, too.
    #[serde(skip)]
    pub doubts: Vec<String>,
    /// The cases of either run.
    pub cases: Vec<ComparedCase>,
    /// The confidence level of the intervals, for all cases together.
    #[serde(skip)]
    confidence: f64,
}

impl Comparison {
    /// The runs that were disturbed, in words; `None` if neither was.
    pub fn disturbed(&self) -> Option<&'static str> {
        match (self.old.disturbed, self.new.disturbed) {
            (false, false) => None,
            (true, false) => Some("the older run was disturbed"),
            (false, true) => Some("the newer run was disturbed"),
            (true, true) => Some("both runs were disturbed"),
        }
    }

    /// Whether the null control of either run failed.
    pub fn has_failed_control(&self) -> bool {
        self.old.null_control_failed || self.new.null_control_failed
    }

    /// The cases of the older run for which no verdict is possible: they have no ratio, or too
    /// few rounds.
    pub fn undecidable(&self) -> impl Iterator<Item = &ComparedCase> {
        let intervals = self
            .cases
            .iter()
            .filter_map(|case| case.ratio?.estimate.interval);
        let allowed = 1.0 - self.confidence;
        let strictest = 1.0 - allowed / intervals.clone().count().max(1) as f64;
        let excludes_1 = |interval: &Interval| interval.low > 1.0 || interval.high < 1.0;
        // The levels become less strict only after a first claim at the strictest.
        let has_claim =
            { intervals }.any(|interval| interval.coverage >= strictest && excludes_1(&interval));
        let level = if has_claim {
            self.confidence
        } else {
            strictest
        };
        let interval = |case: &ComparedCase| case.ratio?.estimate.interval;
        let old = self.cases.iter().filter(|case| case.old.is_some());
        old.filter(move |case| interval(case).is_none_or(|interval| interval.coverage < level))
    }
}

/// One of the runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedRun {
    /// The file it was loaded from.
    pub file: String,
    /// The suite.
    pub suite: Suite,
    /// When it began.
    pub started_at: String,
    /// The number of its rounds.
    pub rounds: usize,
    /// Whether something disturbed the run.
    pub disturbed: bool,
    /// Whether a case of the run differs from itself.
    pub null_control_failed: bool,
}

/// One case in two runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedCase {
    /// Its name.
    pub name: String,
    /// The older median in GiB/s; null where there is none.
    pub old: Option<f64>,
    /// The newer median in GiB/s; null where there is none.
    pub new: Option<f64>,
    /// New over old; null if either is missing.
    pub ratio: Option<Ratio>,
    /// Why there is no ratio, or what differs in the case itself.
    pub note: Option<String>,
}

impl ComparedCase {
    /// Whether the ratio is above 1 and the newer median below the older one, or the other way
    /// round, by what can be seen in figures with two decimals.
    fn contradicts_medians(&self) -> bool {
        let (Some(old), Some(new), Some(ratio)) = (self.old, self.new, self.ratio) else {
            return false;
        };
        let (a, b) = (ratio.estimate.median - 1.0, new / old - 1.0);
        a * b < 0.0 && a.abs().min(b.abs()) >= 0.005
    }
}

/// Compares two runs, loaded from the files named.
pub fn compare<'a>(old_file: &str, old: &'a Run, new_file: &str, new: &'a Run) -> Comparison {
    let added = |case: &&CaseResult| old.cases.iter().all(|other| other.name != case.name);
    let cases = old.cases.iter().chain(new.cases.iter().filter(added));
    let pairs: Vec<(&String, Option<&CaseResult>, Option<&CaseResult>)> = cases
        .map(|case| (&case.name, old.case(&case.name), new.case(&case.name)))
        .collect();
    let rates = |case: &CaseResult| -> Vec<f64> {
        case.samples.iter().map(|sample| sample.gib_per_s).collect()
    };
    let samples: Vec<(Vec<f64>, Vec<f64>)> = pairs
        .iter()
        .filter_map(|(_, old, new)| Some((rates((*old)?), rates((*new)?))))
        .collect();
    let mut ratios = ratios(&samples, old.settings.confidence).into_iter();
    let cases: Vec<ComparedCase> = pairs
        .iter()
        .map(|&(name, old, new)| ComparedCase {
            name: name.clone(),
            old: median(old),
            new: median(new),
            ratio: old.and(new).and_then(|_| ratios.next().flatten()),
            note: note(old, new),
        })
        .collect();
    Comparison {
        old: side(old_file, old),
        new: side(new_file, new),
        differences: differences(old, new),
        incomparable: incomparable(old, new, &cases),
        notes: notes(old, new, &cases),
        doubts: [doubts(old, "older"), doubts(new, "newer")].concat(),
        cases,
        confidence: old.settings.confidence,
    }
}

fn ratios(samples: &[(Vec<f64>, Vec<f64>)], confidence: f64) -> Vec<Option<Ratio>> {
    let rounds = samples
        .iter()
        .map(|(old, new)| old.len().min(new.len()))
        .max()
        .unwrap_or(0);
    let block = (rounds / blocks(samples.len(), confidence)).max(1);
    stats::holm_unpaired(samples, block, confidence)
        .into_iter()
        .map(|ratio| ratio.map(beyond_equivalence))
        .collect()
}

/// The smallest number of blocks that allows verdicts on all comparisons. The n blocks of one
/// run lie all above, or all below, those of the other by chance with a probability of
/// 2 / C(2n, n). This must not exceed the error allowed for each comparison.
fn blocks(comparisons: usize, confidence: f64) -> usize {
    let allowed = (1.0 - confidence) / comparisons.max(1) as f64;
    // C(12, 6), then C(2n + 2, n + 1) from C(2n, n).
    let (mut n, mut ways) = (MIN_BLOCKS, 924.0);
    while 2.0 / ways > allowed {
        ways *= 2.0 * (2 * n + 1) as f64 / (n + 1) as f64;
        n += 1;
    }
    n
}

/// Withholds the verdict unless the whole interval lies beyond 5 %.
fn beyond_equivalence(ratio: Ratio) -> Ratio {
    let (low, high) = ratio.estimate.ends();
    match ratio.verdict {
        Verdict::Faster if low > 1.0 + EQUIVALENCE => ratio,
        Verdict::Slower if high < 1.0 - EQUIVALENCE => ratio,
        Verdict::Faster | Verdict::Slower => Ratio::undecided(ratio.estimate, Doubt::WithinMargin),
        Verdict::Same | Verdict::Undecided => ratio,
    }
}

fn side(file: &str, run: &Run) -> ComparedRun {
    ComparedRun {
        file: file.to_owned(),
        suite: run.suite,
        started_at: run.header.started_at.clone(),
        rounds: run.settings.rounds_done,
        disturbed: disturbances(&run.warnings).next().is_some(),
        null_control_failed: run.failed_control().is_some(),
    }
}

/// What disturbed a run, or is wrong with its null control.
fn doubts(run: &Run, which: &str) -> Vec<String> {
    let disturbances = disturbances(&run.warnings)
        .map(|warning| format!("the {which} run was disturbed: {}", warning.message));
    let failed = run.failed_control().map(|(_, ratio)| {
        format!(
            "the null control of the {which} run is {}: do not trust that run",
            ratio.verdict.name()
        )
    });
    disturbances.chain(failed).collect()
}

fn median(case: Option<&CaseResult>) -> Option<f64> {
    Some(case?.summary.as_ref()?.gib_per_s.median)
}

fn note(old: Option<&CaseResult>, new: Option<&CaseResult>) -> Option<String> {
    let not_run = |case: &CaseResult| case.not_run.clone();
    match (old, new) {
        (None, _) => Some("not in the older run".to_owned()),
        (_, None) => Some("not in the newer run".to_owned()),
        (Some(old), Some(new)) => match (not_run(old), not_run(new)) {
            (Some(_), Some(_)) => Some("not run in both runs".to_owned()),
            (Some(why), None) => Some(format!("not run in the older run: {why}")),
            (None, Some(why)) => Some(format!("not run in the newer run: {why}")),
            (None, None) => {
                let changed = configuration_changes(old, new);
                (!changed.is_empty()).then(|| changed.join(", "))
            }
        },
    }
}

/// A property of two runs or cases that may differ: its name and its value.
type Property<T> = (&'static str, fn(&T) -> String);

/// The configuration of a case.
const CASE: [Property<CaseResult>; 11] = [
    ("data", |case| case.data.name().to_owned()),
    ("writer", |case| word(case.configuration.words().writer)),
    ("reader", |case| word(case.configuration.words().reader)),
    ("wait", |case| case.configuration.wait_word().to_owned()),
    ("pages", |case| case.configuration.pages.to_string()),
    ("options", |case| case.configuration.options.join(", ")),
    ("buffer", |case| {
        bytes(Some(case.configuration.buffer_bytes))
    }),
    ("pipe", |case| bytes(case.configuration.pipe_bytes)),
    ("SO_SNDBUF", |case| {
        bytes(case.configuration.send_buffer_bytes)
    }),
    ("SO_RCVBUF", |case| {
        bytes(case.configuration.receive_buffer_bytes)
    }),
    ("processors", |case| {
        let Configuration {
            writer_cpu,
            reader_cpu,
            ..
        } = &case.configuration;
        match (writer_cpu, reader_cpu) {
            (Some(writer), Some(reader)) if writer == reader => "one".to_owned(),
            (Some(_), Some(_)) => "two".to_owned(),
            _ => String::new(),
        }
    }),
];

/// Settings and version of a run.
const RUN: [Property<Run>; 10] = [
    ("suite", |run| run.suite.to_string()),
    ("placement", |run| run.settings.placement.clone()),
    ("writer's processor", |run| cpu(run.settings.writer_cpu)),
    ("reader's processor", |run| cpu(run.settings.reader_cpu)),
    ("pipe size", |run| size_asked(run.settings.pipe_size)),
    ("buffer size", |run| size_asked(run.settings.buffer_size)),
    ("data", |run| {
        run.settings.data.clone().unwrap_or(OF_SUITE.to_owned())
    }),
    ("work", |run| run.settings.work.to_string()),
    ("timed part", |run| {
        format!("{} s", significant(run.settings.timed_s))
    }),
    ("pipespeed", |run| run.header.pipespeed_version.clone()),
];

const OF_SUITE: &str = "the suite's";

fn word(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn bytes(value: Option<usize>) -> String {
    value.map_or("none".to_owned(), |bytes| size::format(bytes as u64))
}

fn cpu(cpu: Option<usize>) -> String {
    cpu.map_or("any".to_owned(), |cpu| cpu.to_string())
}

fn size_asked(value: Option<usize>) -> String {
    value.map_or(OF_SUITE.to_owned(), |bytes| size::format(bytes as u64))
}

/// The properties that differ.
fn differing<T>(properties: &[Property<T>], old: &T, new: &T) -> Vec<Difference> {
    let values = properties
        .iter()
        .map(|(what, value)| (what, value(old), value(new)));
    values
        .filter(|(_, old, new)| old != new)
        .map(|(what, old, new)| Difference {
            what: (*what).to_owned(),
            old,
            new,
        })
        .collect()
}

/// Differences in the configuration of a case.
fn configuration_changes(old: &CaseResult, new: &CaseResult) -> Vec<String> {
    differing(&CASE, old, new)
        .into_iter()
        .map(|change| format!("{} {} -> {}", change.what, change.old, change.new))
        .collect()
}

/// Differences in machine, settings and version, most important first.
fn differences(old: &Run, new: &Run) -> Vec<Difference> {
    let mut found = old.header.machine.differences(&new.header.machine);
    found.extend(differing(&RUN, old, new));
    found
}

fn incomparable(old: &Run, new: &Run, cases: &[ComparedCase]) -> Vec<String> {
    let mut reasons = Vec::new();
    if old.suite != new.suite {
        reasons.push(format!(
            "the runs are of different suites, {} and {}",
            old.suite, new.suite
        ));
    }
    if old.settings.work != new.settings.work {
        reasons.push(format!(
            "one run computes {} passes over the data, the other {}",
            old.settings.work, new.settings.work
        ));
    }
    let other_data = old.cases.iter().find_map(|a| {
        let b = new.case(&a.name)?;
        (a.data != b.data).then_some((&a.name, a.data, b.data))
    });
    if let Some((name, a, b)) = other_data {
        reasons.push(format!(
            "the data of {name} is {} in one run and {} in the other",
            a.outcome(),
            b.outcome()
        ));
    }
    if cases.iter().all(|case| case.ratio.is_none()) {
        reasons.push("the runs have no measured case in common".to_owned());
    }
    reasons
}

fn notes(old: &Run, new: &Run, cases: &[ComparedCase]) -> Vec<String> {
    let mut notes = Vec::new();
    if new.header.started_at < old.header.started_at {
        notes.push(
            "the run that is called newer, the second one, began before the other".to_owned(),
        );
    }
    for (run, which) in [(old, "older"), (new, "newer")] {
        let (done, planned) = (run.settings.rounds_done, run.settings.rounds_planned);
        if let Some(why) = &run.interrupted {
            notes.push(format!("the {which} run ended early: {why}"));
        } else if done < planned {
            // It was killed, its time was over, or some of its trials failed.
            notes.push(format!(
                "of the {which} run {done} of {planned} rounds are complete"
            ));
        }
        notes.extend(doubts(run, which));
        if run.settings.quick {
            notes.push(format!("the {which} run is a quick one"));
        }
    }
    let drifting: Vec<&str> = cases
        .iter()
        .filter(|compared| {
            [old, new].into_iter().any(|run| {
                let case = run.cases.iter().find(|case| case.name == compared.name);
                case.is_some_and(|case| {
                    let rates: Vec<f64> = case.samples.iter().map(|s| s.gib_per_s).collect();
                    stats::lag1_autocorrelation(&rates)
                        .is_some_and(|lag1| lag1 > MAX_AUTOCORRELATION)
                })
            })
        })
        .map(|case| &*case.name)
        .collect();
    if !drifting.is_empty() {
        notes.push(format!(
            "the rate drifted during a run, so these intervals are too narrow: {}",
            drifting.join(", ")
        ));
    }
    let contrary: Vec<&str> = cases
        .iter()
        .filter(|case| case.contradicts_medians())
        .map(|case| &*case.name)
        .collect();
    if !contrary.is_empty() {
        notes.push(format!(
            "the ratio, an estimate from all samples, and the two medians point in different \
             directions: {}",
            contrary.join(", ")
        ));
    }
    if let Some(shift) = common_shift(cases) {
        notes.push(format!(
            "all ratios are on the same side of 1, by {}{} % (median): the cause is probably the machine, \
             its settings or the version, not a case",
            if shift > 1.0 { "+" } else { "" },
            fixed((shift - 1.0) * 100.0, 0)
        ));
    }
    notes
}

/// The median ratio if three or more cases were measured, all ratios are on the same side of 1, and the
/// median is so by over 5 %.
fn common_shift(cases: &[ComparedCase]) -> Option<f64> {
    let ratios: Vec<f64> = cases
        .iter()
        .filter_map(|case| Some(case.ratio?.estimate.median))
        .collect();
    let one_sided = ratios.iter().all(|r| *r > 1.0) || ratios.iter().all(|r| *r < 1.0);
    let median = stats::median(&ratios)?;
    (ratios.len() >= 3 && one_sided && (median - 1.0).abs() > EQUIVALENCE).then_some(median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_comparisons_need_more_blocks() {
        let needed = [1, 23, 24, 60, 85, 86, 300].map(|comparisons| blocks(comparisons, 0.95));
        assert_eq!(needed, [6, 6, 7, 7, 7, 8, 8]);
    }
}
