//! An account of a case without sampling: counts of what each end did, multiplied
//! by the elementary costs, compared with its wall time.
//!
//! The cost of a page is that of a single undisturbed thread with warm caches. So
//! there is a remainder: data and the pipe's lock moving between processors, cold
//! caches, the process's own code.

use serde::Serialize;

use super::account::PAGE;
use super::collect::disturbances;
use crate::costs::{Cost, Costs, PIECE};
use pipespeed_base::named;
use pipespeed_host::Warning;
use pipespeed_measure::failure::TrialError;
use pipespeed_measure::record::{EndCounters, GIB, NotRun, RecordHeader};
use pipespeed_measure::spec::{Case, PageKind, PipeReader, PipeWriter};
use pipespeed_measure::trial::Runner;

named! {
    /// One use of wall time, and its name in reports.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum TimeUse {
        /// System calls that moved data or waited.
        Calls = "system calls",
        /// Calls that found the pipe full or empty.
        WouldBlocks = "calls that would block",
        /// Pages written or read.
        Pages = "pages of 4 KiB",
        /// Page faults, at the cost of base pages.
        Faults = "page faults",
        /// Preemptions, at the cost of a switch on one processor.
        Preemptions = "preemptions (context switches)",
        /// Wake-ups of the other end on another processor.
        WakeCalls = "wake-ups of the other end",
        /// Wake-ups of this end.
        WakeUps = "wake-ups of this end",
        /// Sleep without the wake-ups: waiting for the other end.
        Asleep = "asleep, without the wake-ups",
        /// Runnable, waiting for a processor.
        RunDelay = "waiting for a processor",
        /// The rest of the wall time; negative if the costs exceed it.
        Unexplained = "unexplained",
    }
}

/// A part of an end's wall time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CountedRow {
    /// Its use.
    pub item: TimeUse,
    /// Number of events; `None` if the scheduler measured a time.
    pub count: Option<f64>,
    /// Cost of one event in nanoseconds, if known.
    pub each_ns: Option<f64>,
    /// Total time in seconds, if known.
    pub seconds: Option<f64>,
}

impl CountedRow {
    fn counted(item: TimeUse, count: f64, each_ns: Option<f64>) -> CountedRow {
        CountedRow {
            item,
            count: Some(count),
            each_ns,
            seconds: each_ns.map(|ns| count * ns / 1e9),
        }
    }

    fn measured(item: TimeUse, seconds: f64) -> CountedRow {
        CountedRow {
            item,
            count: None,
            each_ns: None,
            seconds: Some(seconds),
        }
    }
}

/// The costs of an end may exceed its wall time by this share of it.
const MAX_EXCESS: f64 = 0.05;

impl EndAccount {
    /// Whether the costs are too high for these counts: all together exceed the wall time, or
    /// the wake-ups take longer than the end was asleep.
    pub fn has_impossible_costs(&self) -> bool {
        let seconds = |item: TimeUse| {
            let row = self.rows.iter().find(|row| row.item == item);
            row.and_then(|row| row.seconds).unwrap_or(0.0)
        };
        let counters = &self.counters;
        let most = MAX_EXCESS * counters.seconds;
        let not_running = counters.seconds - counters.cpu_s - counters.run_delay_s.unwrap_or(0.0);
        seconds(TimeUse::Unexplained) < -most
            || seconds(TimeUse::WakeUps) > not_running.max(0.0) + most
    }
}

/// Splits an end's wall time. The rows with a known cost add up to it.
///
/// `page` is the cost of a page, if it is among the elementary costs; `other_sleeps`
/// is the number of times the other end slept.
pub fn account(
    counters: &EndCounters,
    page: Option<&Cost>,
    other_sleeps: u64,
    on_one_processor: bool,
    costs: &Costs,
) -> Vec<CountedRow> {
    let call = costs.call.median();
    // The cost of a page includes its part of a call, and calls have a row.
    let part_of_call = call.unwrap_or(0.0) * PAGE / PIECE as f64;
    let page = page.and_then(Cost::median);
    let page = page.map(|ns| (ns - part_of_call).max(0.0));
    let would_block = counters.would_blocks.min(counters.syscalls);
    let (wake_up, wake_call) = if on_one_processor {
        // Waking and switching are both part of the wake-up.
        (&costs.wake_up_same, None)
    } else {
        (&costs.wake_up_other, Some(&costs.wake_call_other))
    };
    let count =
        |item, count: u64, cost: &Cost| CountedRow::counted(item, count as f64, cost.median());
    let preemptions = counters.involuntary_switches;
    let mut rows = vec![
        count(TimeUse::Calls, counters.syscalls - would_block, &costs.call),
        count(TimeUse::WouldBlocks, would_block, &costs.would_block),
        CountedRow::counted(TimeUse::Pages, counters.bytes as f64 / PAGE, page),
        count(TimeUse::Faults, counters.page_faults, &costs.fault_base),
        count(TimeUse::Preemptions, preemptions, &costs.wake_up_same),
    ];
    rows.extend(wake_call.map(|cost| count(TimeUse::WakeCalls, other_sleeps, cost)));
    let wake_ups = count(TimeUse::WakeUps, counters.voluntary_switches, wake_up);
    let run_delay_s = counters.run_delay_s.unwrap_or(0.0);
    let asleep_s = counters.seconds - counters.cpu_s - run_delay_s;
    let asleep_s = (asleep_s - wake_ups.seconds.unwrap_or(0.0)).max(0.0);
    rows.extend([
        wake_ups,
        CountedRow::measured(TimeUse::Asleep, asleep_s),
        CountedRow::measured(TimeUse::RunDelay, run_delay_s),
    ]);
    let explained: f64 = rows.iter().filter_map(|row| row.seconds).sum();
    rows.retain(|row| row.count.is_some_and(|n| n > 0.0) || row.seconds.is_some_and(|s| s > 0.0));
    let unexplained = counters.seconds - explained;
    rows.push(CountedRow::measured(TimeUse::Unexplained, unexplained));
    rows
}

/// An end's account.
#[derive(Debug, Clone, Serialize)]
pub struct EndAccount {
    /// `writer` or `reader`.
    pub role: &'static str,
    /// Its counters, summed over all trials.
    pub counters: EndCounters,
    /// The parts of its wall time.
    pub rows: Vec<CountedRow>,
}

/// The account of a case.
#[derive(Debug, Clone, Default, Serialize)]
pub struct CaseAccount {
    /// The case's name.
    pub name: String,
    /// One line on what it does.
    pub description: String,
    /// Why it was not run.
    pub not_run: Option<NotRun>,
    /// The rate of all trials together, in GiB/s.
    pub gib_per_s: Option<f64>,
    /// What disturbed the trials.
    pub disturbances: Vec<Warning>,
    /// The writer's, then the reader's.
    pub ends: Vec<EndAccount>,
}

impl CaseAccount {
    /// A case that was not run.
    pub fn not_run(case: &Case, not_run: NotRun) -> Self {
        CaseAccount {
            name: case.name.clone(),
            description: case.description.clone(),
            not_run: Some(not_run),
            ..CaseAccount::default()
        }
    }
}

/// The settings of an account.
#[derive(Debug, Clone, Serialize)]
pub struct CountedSettings {
    /// Where the ends ran, in words.
    pub placement: String,
}

/// The saved record.
#[derive(Debug, Clone, Serialize)]
pub struct CountedRecord {
    /// The header of every record.
    #[serde(flatten)]
    pub header: RecordHeader,
    /// How it was counted.
    pub settings: CountedSettings,
    /// What affects the figures.
    pub warnings: Vec<Warning>,
    /// Why nothing was sampled.
    pub refusal: String,
    /// The elementary costs that counts are multiplied by.
    pub costs_ns: Costs,
    /// The cases, in the suite's order.
    pub cases: Vec<CaseAccount>,
}

/// Runs a case `trials` times and splits the wall time of its ends.
///
/// # Errors
/// Those of a trial.
pub fn count(
    runner: &mut impl Runner,
    case: &Case,
    costs: &Costs,
    on_one_processor: bool,
    trials: usize,
) -> Result<CaseAccount, TrialError> {
    let [mut writer, mut reader] = [EndCounters::default(), EndCounters::default()];
    let mut noise = Vec::new();
    for _ in 0..trials {
        let trial = runner.run(case)?;
        noise.push(trial.noise);
        for (sum, outcome) in [(&mut writer, &trial.writer), (&mut reader, &trial.reader)] {
            if let Some(outcome) = outcome {
                add(sum, &outcome.counters);
            }
        }
    }
    let end = |role, own: &EndCounters, other: &EndCounters, page| EndAccount {
        role,
        counters: own.clone(),
        rows: account(own, page, other.voluntary_switches, on_one_processor, costs),
    };
    let mut ends = vec![
        end("writer", &writer, &reader, page_in(case, costs)),
        end("reader", &reader, &writer, page_out(case, costs)),
    ];
    ends.retain(|end| end.counters.bytes > 0);
    // The reader keeps the time, if there is one.
    let timed = ends.last().map(|end| &end.counters);
    let gib_per_s = timed.map(|end| end.bytes as f64 / GIB / end.seconds);
    Ok(CaseAccount {
        name: case.name.clone(),
        description: case.description.clone(),
        not_run: None,
        gib_per_s,
        disturbances: disturbances(case, &noise),
        ends,
    })
}

fn add(sum: &mut EndCounters, one: &EndCounters) {
    sum.bytes += one.bytes;
    sum.seconds += one.seconds;
    sum.cpu_s += one.cpu_s;
    sum.voluntary_switches += one.voluntary_switches;
    sum.involuntary_switches += one.involuntary_switches;
    sum.syscalls += one.syscalls;
    sum.moving_calls += one.moving_calls;
    sum.would_blocks += one.would_blocks;
    sum.page_faults += one.page_faults;
    let delays = sum.run_delay_s.into_iter().chain(one.run_delay_s);
    sum.run_delay_s = delays.reduce(|all, more| all + more);
}

/// The cost of a page at the writer.
fn page_in<'a>(case: &Case, costs: &'a Costs) -> Option<&'a Cost> {
    let writer = case.subject.writer()?;
    match (case.pipe_writer()?, writer.pages) {
        (PipeWriter::Write, _) => Some(&costs.write),
        (PipeWriter::Vmsplice(_), PageKind::Base) => Some(&costs.vmsplice_base),
        (PipeWriter::Vmsplice(_), _) => Some(&costs.vmsplice_huge),
        _ => None,
    }
}

/// The cost of a page at the reader, which depends on what the writer does.
fn page_out<'a>(case: &Case, costs: &'a Costs) -> Option<&'a Cost> {
    let is_base = case.subject.writer()?.pages == PageKind::Base;
    match case.subject.channel()?.pipe_ends()? {
        (writer, _) if writer.is_library() => None,
        (PipeWriter::Write, PipeReader::Read) => Some(&costs.read),
        (_, PipeReader::Read) => Some(&costs.read_vmspliced),
        (_, PipeReader::Splice) if is_base => Some(&costs.splice_base),
        (PipeWriter::Vmsplice(_), PipeReader::Splice) => Some(&costs.splice_huge),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipespeed_measure::spec::Channel;

    fn costs() -> Costs {
        Costs {
            call: Cost::new(64.0),
            would_block: Cost::new(300.0),
            write: Cost::new(401.0),
            fault_base: Cost::new(1000.0),
            wake_up_same: Cost::new(2000.0),
            wake_up_other: Cost::new(20_000.0),
            wake_call_other: Cost::new(5000.0),
            ..Costs::default()
        }
    }

    /// A second in which it ran for 0.5 and waited for a processor for 0.1.
    fn counters() -> EndCounters {
        EndCounters {
            bytes: 1_000_000 * 4096,
            seconds: 1.0,
            cpu_s: 0.5,
            run_delay_s: Some(0.1),
            syscalls: 20_000,
            would_blocks: 10_000,
            voluntary_switches: 10_000,
            involuntary_switches: 100,
            page_faults: 1000,
            ..EndCounters::default()
        }
    }

    fn rows(
        counters: &EndCounters,
        page: Option<&Cost>,
        on_one_processor: bool,
    ) -> Vec<CountedRow> {
        account(counters, page, 4000, on_one_processor, &costs())
    }

    fn seconds(rows: &[CountedRow], item: TimeUse) -> Option<f64> {
        rows.iter().find(|row| row.item == item)?.seconds
    }

    #[test]
    fn counts_have_costs_and_the_rest_is_unexplained() {
        let rows = rows(&counters(), Some(&costs().write), false);
        for (item, expected) in [
            (TimeUse::Calls, 0.000_64),
            (TimeUse::WouldBlocks, 0.003),
            // Without a 64th of a call.
            (TimeUse::Pages, 0.4),
            (TimeUse::Faults, 0.001),
            (TimeUse::Preemptions, 0.0002),
            (TimeUse::WakeCalls, 0.02),
            (TimeUse::WakeUps, 0.2),
            (TimeUse::Asleep, 0.2),
            (TimeUse::RunDelay, 0.1),
            (TimeUse::Unexplained, 0.075_16),
        ] {
            let found = seconds(&rows, item).unwrap();
            assert!((found - expected).abs() < 1e-9, "{item:?}: {found}");
        }
    }

    #[test]
    fn rows_add_up_to_wall_time_whatever_the_costs() {
        let mut many = counters();
        many.bytes *= 10;
        many.voluntary_switches *= 100;
        for (counters, is_negative) in [(counters(), false), (many, true)] {
            let rows = rows(&counters, Some(&costs().write), false);
            let sum: f64 = rows.iter().filter_map(|row| row.seconds).sum();
            assert!((sum - counters.seconds).abs() < 1e-9, "{rows:?}");
            let unexplained = seconds(&rows, TimeUse::Unexplained).unwrap();
            assert_eq!(unexplained < 0.0, is_negative, "{rows:?}");
        }
    }

    #[test]
    fn costs_of_a_disturbed_minute_are_noticed() {
        let end = |factor: f64| {
            let mut costs = costs();
            costs.wake_up_other = Cost::new(20_000.0 * factor);
            EndAccount {
                role: "writer",
                counters: counters(),
                rows: account(&counters(), Some(&costs.write), 4000, false, &costs),
            }
        };
        // It sleeps for 0.4 s, 10,000 times.
        for (factor, is_impossible) in [(1.0, false), (2.0, false), (2.5, true), (20.0, true)] {
            let end = end(factor);
            assert_eq!(
                end.has_impossible_costs(),
                is_impossible,
                "{factor}: {end:?}"
            );
        }
    }

    #[test]
    fn what_has_no_known_cost_is_counted_and_unexplained() {
        // On one processor a wake-up costs its waker nothing.
        let rows = rows(&counters(), None, true);
        assert_eq!(seconds(&rows, TimeUse::WakeCalls), None);
        assert_eq!(seconds(&rows, TimeUse::WakeUps), Some(0.02));
        let pages = rows.iter().find(|row| row.item == TimeUse::Pages).unwrap();
        assert_eq!((pages.count, pages.seconds), (Some(1e6), None));
        assert!(seconds(&rows, TimeUse::Unexplained).unwrap() > 0.4);
    }

    #[test]
    fn pages_are_priced_by_what_moved_them() {
        let mut costs = costs();
        costs.read_vmspliced = Cost::new(7.0);
        costs.splice_huge = Cost::new(8.0);
        let case = Case::new("case", 4096, 65536);
        let price = |cost: Option<&Cost>| cost.and_then(Cost::median);
        assert_eq!(price(page_in(&case, &costs)), Some(401.0));
        let case = case.vmsplice();
        assert_eq!(price(page_out(&case, &costs)), Some(7.0));
        let case = case.splice().huge();
        assert_eq!(price(page_out(&case, &costs)), Some(8.0));
        let case = Case::of_messages("case", 4096, Channel::Tcp);
        assert!(page_in(&case, &costs).is_none() && page_out(&case, &costs).is_none());
    }
}
