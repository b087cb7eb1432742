//! What changed from one saved run to another.
//!
//! The samples of two runs can't be paired: their rounds have nothing in
//! common. So the ratio is that of Hodges and Lehmann between all samples of
//! the one and all of the other, over medians of consecutive rounds, since
//! rounds close in time resemble each other. What happens to a machine between
//! two runs can't be seen in either of them. Therefore a case is only called
//! faster or slower when its whole interval lies beyond 5 %.

use crate::suite::Suite;
use serde::Serialize;

use crate::record::{CaseResult, Header, Ratio, Run, Verdict, WarningKind};
use pipespeed_host::Difference;
use pipespeed_stats::{self as stats, EQUIVALENCE};

/// The rounds of a run are put together into so many blocks: the fewest with
/// which a median has an interval.
const BLOCKS: usize = 6;

/// Neighbouring rounds that resemble each other more than this make the
/// intervals too narrow, even with blocks.
const ALIKE: f64 = 0.5;

/// What is saved of saved runs that were compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Record {
    /// What every record begins with.
    #[serde(flatten)]
    pub header: Header,
    /// The oldest run with each of the others.
    pub comparisons: Vec<Comparison>,
}

/// Two runs side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The older run.
    pub old: Side,
    /// The newer run.
    pub new: Side,
    /// What differs in the machine, the settings and the program.
    pub differences: Vec<Difference>,
    /// Why the comparison makes no sense; empty where it does.
    pub senseless: Vec<String>,
    /// What to keep in mind with the verdicts.
    pub notes: Vec<String>,
    /// The cases of either run.
    pub cases: Vec<ComparedCase>,
}

/// Which run stands on one side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Side {
    /// The file it was loaded from.
    pub file: String,
    /// The suite.
    pub suite: Suite,
    /// When it began.
    pub started_at: String,
    /// The rounds it holds.
    pub rounds: usize,
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
    /// New over old; null where either is missing.
    pub ratio: Option<Ratio>,
    /// Why there is no ratio, or what differs in the case itself.
    pub note: Option<String>,
}

/// Compares two runs, loaded from the files named.
pub fn compare(old_file: &str, old: &Run, new_file: &str, new: &Run) -> Comparison {
    let names: Vec<&String> = old
        .cases
        .iter()
        .map(|case| &case.name)
        .chain(
            new.cases
                .iter()
                .map(|case| &case.name)
                .filter(|name| !old.cases.iter().any(|case| case.name == **name)),
        )
        .collect();
    let find = |run: &'_ Run, name: &str| run.cases.iter().find(|case| case.name == name).cloned();
    let pairs: Vec<(Option<CaseResult>, Option<CaseResult>)> = names
        .iter()
        .map(|name| (find(old, name), find(new, name)))
        .collect();

    let rates = |case: &CaseResult| -> Vec<f64> {
        case.samples.iter().map(|sample| sample.gib_per_s).collect()
    };
    let in_both: Vec<usize> = (0..pairs.len())
        .filter(|at| pairs[*at].0.is_some() && pairs[*at].1.is_some())
        .collect();
    let samples: Vec<(Vec<f64>, Vec<f64>)> = in_both
        .iter()
        .filter_map(|at| Some((rates(pairs[*at].0.as_ref()?), rates(pairs[*at].1.as_ref()?))))
        .collect();
    let ratios = ratios(&samples, old.settings.confidence);

    let mut cases: Vec<ComparedCase> = names
        .iter()
        .zip(&pairs)
        .map(|(name, (old, new))| ComparedCase {
            name: (*name).clone(),
            old: median(old.as_ref()),
            new: median(new.as_ref()),
            ratio: None,
            note: note(old.as_ref(), new.as_ref()),
        })
        .collect();
    for (at, ratio) in in_both.iter().zip(ratios) {
        cases[*at].ratio = ratio;
    }
    Comparison {
        old: side(old_file, old),
        new: side(new_file, new),
        differences: differences(old, new),
        senseless: senseless(old, new, &cases),
        notes: notes(old, new, &cases),
        cases,
    }
}

fn ratios(samples: &[(Vec<f64>, Vec<f64>)], confidence: f64) -> Vec<Option<Ratio>> {
    let rounds = samples
        .iter()
        .map(|(old, new)| old.len().min(new.len()))
        .max()
        .unwrap_or(0);
    let block = (rounds / BLOCKS).max(1);
    stats::holm_unpaired(samples, block, confidence)
        .into_iter()
        .map(|ratio| ratio.map(beyond_equivalence))
        .collect()
}

/// Only a whole interval beyond 5 % makes a change.
fn beyond_equivalence(ratio: Ratio) -> Ratio {
    let (low, high) = ratio.estimate.ends();
    let verdict = match ratio.verdict {
        Verdict::Faster if low <= 1.0 + EQUIVALENCE => Verdict::Undecided,
        Verdict::Slower if high >= 1.0 - EQUIVALENCE => Verdict::Undecided,
        verdict => verdict,
    };
    Ratio { verdict, ..ratio }
}

fn side(file: &str, run: &Run) -> Side {
    Side {
        file: file.to_owned(),
        suite: run.suite,
        started_at: run.header.started_at.clone(),
        rounds: run.settings.rounds_done,
    }
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

/// What took effect otherwise, in a case of the same name.
fn configuration_changes(old: &CaseResult, new: &CaseResult) -> Vec<String> {
    let (a, b) = (&old.configuration, &new.configuration);
    let mut changed = Vec::new();
    let mut push = |what: &str, old: String, new: String| {
        if old != new {
            changed.push(format!("{what} {old} -> {new}"));
        }
    };
    fn word(value: Option<impl ToString>) -> String {
        value.map_or_else(String::new, |value| value.to_string())
    }
    let bytes = |value: Option<usize>| {
        value.map_or("none".to_owned(), |bytes| {
            pipespeed_base::size::format(bytes as u64)
        })
    };
    push(
        "data",
        old.data.name().to_owned(),
        new.data.name().to_owned(),
    );
    push("writer", word(a.writer), word(b.writer));
    push("reader", word(a.reader), word(b.reader));
    push("wait", a.wait_word().to_owned(), b.wait_word().to_owned());
    push("pages", a.pages.to_string(), b.pages.to_string());
    push("options", a.options.join(", "), b.options.join(", "));
    push(
        "buffer",
        bytes(Some(a.buffer_bytes)),
        bytes(Some(b.buffer_bytes)),
    );
    push("pipe", bytes(a.pipe_bytes), bytes(b.pipe_bytes));
    push(
        "SO_SNDBUF",
        bytes(a.send_buffer_bytes),
        bytes(b.send_buffer_bytes),
    );
    push(
        "SO_RCVBUF",
        bytes(a.receive_buffer_bytes),
        bytes(b.receive_buffer_bytes),
    );
    changed
}

/// Machine, settings and versions, most telling first.
fn differences(old: &Run, new: &Run) -> Vec<Difference> {
    let mut found = old.header.machine.differences(&new.header.machine);
    let (a, b) = (&old.settings, &new.settings);
    let mut push = |what: &str, old: String, new: String| {
        if old != new {
            found.push(Difference {
                what: what.to_owned(),
                old,
                new,
            });
        }
    };
    let cpu = |cpu: Option<usize>| cpu.map_or("any".to_owned(), |cpu| cpu.to_string());
    let size = |size: Option<usize>| {
        size.map_or("the suite's".to_owned(), |b| {
            pipespeed_base::size::format(b as u64)
        })
    };
    let data = |data: &Option<String>| data.clone().unwrap_or("the suite's".to_owned());
    push("suite", old.suite.to_string(), new.suite.to_string());
    push("placement", a.placement.clone(), b.placement.clone());
    push("writer's processor", cpu(a.writer_cpu), cpu(b.writer_cpu));
    push("reader's processor", cpu(a.reader_cpu), cpu(b.reader_cpu));
    push("pipe size", size(a.pipe_size), size(b.pipe_size));
    push("buffer size", size(a.buffer_size), size(b.buffer_size));
    push("data", data(&a.data), data(&b.data));
    push("work", a.work.to_string(), b.work.to_string());
    push(
        "timed part",
        format!("{} s", a.timed_s),
        format!("{} s", b.timed_s),
    );
    push(
        "pipespeed",
        old.header.pipespeed_version.clone(),
        new.header.pipespeed_version.clone(),
    );
    found
}

fn senseless(old: &Run, new: &Run, cases: &[ComparedCase]) -> Vec<String> {
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
        let b = new.cases.iter().find(|b| b.name == a.name)?;
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
    for (run, which) in [(old, "older"), (new, "newer")] {
        if let Some(why) = &run.interrupted {
            notes.push(format!("the {which} run ended early: {why}"));
        }
        let disturbing = |kind: WarningKind| {
            use WarningKind::{Drift, OtherLoad, RunDelay, Steal, Throttled};
            matches!(kind, Drift | OtherLoad | RunDelay | Steal | Throttled)
        };
        for warning in run.warnings.iter().filter(|w| disturbing(w.kind)) {
            notes.push(format!(
                "the {which} run was disturbed: {}",
                warning.message
            ));
        }
        if let Some(control) = &run.null_control
            && let Some(ratio) = control.ratio
            && matches!(ratio.verdict, Verdict::Faster | Verdict::Slower)
        {
            notes.push(format!(
                "in the {which} run the null control came out {}: doubt it",
                ratio.verdict.name()
            ));
        }
        if run.settings.quick {
            notes.push(format!("the {which} run is a quick one"));
        }
    }
    let wandering: Vec<&str> = cases
        .iter()
        .filter(|compared| {
            [old, new].into_iter().any(|run| {
                let case = run.cases.iter().find(|case| case.name == compared.name);
                case.is_some_and(|case| {
                    let rates: Vec<f64> = case.samples.iter().map(|s| s.gib_per_s).collect();
                    stats::lag1_autocorrelation(&rates).is_some_and(|alike| alike > ALIKE)
                })
            })
        })
        .map(|case| &*case.name)
        .collect();
    if !wandering.is_empty() {
        notes.push(format!(
            "the rate wandered during a run, so the intervals are too narrow, of {}",
            wandering.join(", ")
        ));
    }
    if let Some(shift) = common_shift(cases) {
        notes.push(format!(
            "all cases moved the same way, by {:+.0} % in the middle: rather the machine or its settings \
             than any one case",
            (shift - 1.0) * 100.0
        ));
    }
    notes
}

/// The median ratio where all cases, three at least, moved to the same side
/// and the median moved by over 5 %.
fn common_shift(cases: &[ComparedCase]) -> Option<f64> {
    let ratios: Vec<f64> = cases
        .iter()
        .filter_map(|case| Some(case.ratio?.estimate.median))
        .collect();
    let one_sided = ratios.iter().all(|r| *r > 1.0) || ratios.iter().all(|r| *r < 1.0);
    let median = stats::median(&ratios)?;
    (ratios.len() >= 3 && one_sided && (median - 1.0).abs() > EQUIVALENCE).then_some(median)
}
