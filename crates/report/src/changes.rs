//! The suite changes: which change to a typical pipe helps most, and its processor time.

use pipespeed_measure::record::{CaseResult, Run};
use pipespeed_measure::suite::changes::{BASELINE, COMBINED, Change};

use super::blocks::TableBlock;
use super::cases::{cases, verdict_colour};
use super::format::{ratio, ratio_interval, significant, times};
use super::steps::{CaseStep, hidden_reason, measured, steps};
use super::table::{Cell, Column, Table};

/// The comparisons, the largest certain gain first.
fn ranked(run: &Run) -> Vec<CaseStep<'_>> {
    let mut ranked = steps(run);
    ranked.sort_by(|a, b| {
        let by_gain = b.certain_gain().total_cmp(&a.certain_gain());
        by_gain.then(b.ratio.estimate.median.total_cmp(&a.ratio.estimate.median))
    });
    ranked
}

/// The tables of the cases and of their ranking.
pub(super) fn tables(run: &Run) -> Vec<TableBlock> {
    vec![cases(run, &run.cases), ranking(run)]
}

/// One row per change, the largest certain gain first.
fn ranking(run: &Run) -> TableBlock {
    let base = run
        .case(BASELINE)
        .and_then(|case| Some((measured(case)?.1.median, cpu(case)?)));
    let base = base.map_or(String::new(), |(rate, cpu)| {
        format!(" ({} GiB/s, {cpu})", significant(rate))
    });
    let mut table = Table::new([Column::right(""), Column::left(""), Column::right("")])
        .with_html_header(&["ratio", "interval", "processor time", "change"]);
    for step in &ranked(run) {
        let verdict = step.ratio.verdict;
        let cells = [
            times(step.ratio.estimate.median),
            ratio_interval(step.ratio.estimate.interval),
            cpu(step.case).unwrap_or_default(),
        ];
        let reason = hidden_reason(&step.ratio);
        let reason = reason.map_or_else(String::new, |reason| format!(" ({reason})"));
        let mut text = format!("{}{reason}: {}", verdict.name(), change(step));
        if is_combined(step) {
            text += &format!(" ({COMBINED})");
        }
        table.row_with_text(cells, Cell::painted(text, verdict_colour(verdict)));
    }
    let heading = format!("Changes to the baseline{base}, by certain gain:");
    TableBlock::headed(heading, table)
}

/// The change in words.
fn change<'a>(step: &CaseStep<'a>) -> &'a str {
    step.factor().unwrap_or(&step.case.name)
}

/// `1050 CPU ms/GiB`.
fn cpu(case: &CaseResult) -> Option<String> {
    Some(format!("{} CPU ms/GiB", cpu_ms(case)?))
}

fn cpu_ms(case: &CaseResult) -> Option<String> {
    let seconds = case.summary.as_ref()?.cpu_s_per_gib?;
    Some(significant(seconds * 1e3))
}

/// The most effective change, then instructions for each change that is certain to gain.
pub(super) fn findings(run: &Run) -> Vec<String> {
    let ranked = ranked(run);
    let gained = || ranked.iter().filter(|step| step.gained());
    let mut sentences = Vec::new();
    match gained().find(|step| is_safe(step.case)) {
        Some(best) => {
            let mut sentence = format!("What would help most here: {}", gain(best));
            if let Some(ms) = run.case(BASELINE).and_then(cpu_ms) {
                sentence += &format!(" (baseline: {ms})");
            }
            let mut single = gained().filter(|step| is_safe(step.case) && !is_combined(step));
            if let Some(step) = single.next().filter(|_| is_combined(best)) {
                sentence += &format!("; the best single change: {}", gain(step));
            }
            sentences.push(sentence + ".");
        }
        None if ranked.is_empty() => {}
        None => sentences.push("No change is certain to help here.".to_owned()),
    }
    sentences.extend(gained().filter_map(|step| {
        let change = step.case.name.parse().ok()?;
        let (how, condition) = advice(change, step.case);
        Some(format!("{}: {how}, if {condition}", step.case.name))
    }));
    sentences
}

/// Remarks below the title of a chart: which change is unsafe, and which were combined.
pub(super) fn remarks(run: &Run) -> Vec<String> {
    let measured = run.cases.iter().filter(|case| case.summary.is_some());
    let remarkable = measured.filter(|case| case.name == COMBINED || !is_safe(case));
    let remark = |case: &CaseResult| Some(format!("{}: {}", case.name, case.factor.as_ref()?));
    remarkable.filter_map(remark).collect()
}

/// Whether the change is safe with every reader.
fn is_safe(case: &CaseResult) -> bool {
    case.name.parse().map_or(true, Change::is_safe)
}

/// `a pipe of 1 MiB, x4.20 [3.90, 4.60] at 820 CPU ms/GiB`.
fn gain(step: &CaseStep<'_>) -> String {
    let cpu = cpu(step.case).map_or(String::new(), |cpu| format!(" at {cpu}"));
    format!("{}, {}{cpu}", change(step), ratio(step.ratio.estimate))
}

fn is_combined(step: &CaseStep<'_>) -> bool {
    step.case.name == COMBINED
}

/// How to make a change in a program, and its condition.
fn advice(change: Change, case: &CaseResult) -> (String, &'static str) {
    let cpu = case.configuration.writer_cpu.unwrap_or(0);
    let one_processor =
        format!("taskset -c {cpu} sh -c 'WRITER | READER', or sched_setaffinity(2) in both");
    let (how, condition) = match change {
        Change::OneProcessor => (&*one_processor, "neither end computes much"),
        Change::Spinning => (
            "set O_NONBLOCK at both ends and retry at once after EAGAIN (fastpipe: Wait::Spin)",
            "nobody else uses the pipe and each end may occupy a processor",
        ),
        Change::LargePipe => (
            "fcntl(fd, F_SETPIPE_SZ, 1 << 20) at either end",
            "the pieces are to stay as they are",
        ),
        Change::SmallPieces => (
            "pass at most 8 KiB to each write(2) and read(2) (a BufWriter joins smaller writes, but \
             divides no larger ones)",
            "the pipe is to keep its size",
        ),
        Change::FreshBase => (
            "fastpipe::Writer::builder().method(Method::Fresh).pages(Pages::Base)",
            "the writer is in Rust",
        ),
        Change::FreshHuge => (
            "fastpipe::Writer::builder().method(Method::Fresh) (huge pages are its default)",
            "the writer is in Rust",
        ),
        Change::Drained => (
            "fastpipe::WriterBuilder::method(Method::Drained(AssertReaderCopies))",
            "every reader is known to copy (one that calls splice(2) or tee(2) gets wrong data)",
        ),
    };
    (how.to_owned(), condition)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::Style;
    use pipespeed_measure::fixtures::{case, run, within};
    use pipespeed_measure::record::Ratio;
    use pipespeed_measure::spec::Suite;

    pub(crate) fn changes() -> Run {
        let made = |name: &str, words: &str, rate, ratio: Ratio| {
            case(name, rate, Some((BASELINE, words, ratio)))
        };
        let change = |change: Change, rate, ratio| made(change.name(), change.words(), rate, ratio);
        let combined = format!(
            "{} + {}",
            Change::OneProcessor.words(),
            Change::LargePipe.words()
        );
        let mut run = run(
            Suite::Changes,
            vec![
                case(BASELINE, 0.763, None),
                change(Change::OneProcessor, 6.9, within(8.7, 9.1, 9.6)),
                change(Change::Spinning, 3.2, within(3.9, 4.2, 4.6)),
                change(Change::LargePipe, 1.9, within(0.99, 2.5, 2.7)),
                change(Change::SmallPieces, 0.5, within(0.6, 0.66, 0.7)),
                change(Change::FreshBase, 0.76, within(0.98, 1.0, 1.02)),
                change(Change::FreshHuge, 1.1, within(1.3, 1.44, 1.5)),
                change(Change::Drained, 9.1, within(11.0, 12.0, 13.0)),
                made(COMBINED, &combined, 7.7, within(9.8, 10.1, 10.4)),
            ],
        );
        run.cases[1].configuration.writer_cpu = Some(2);
        run
    }

    #[test]
    fn changes_are_ranked_with_processor_time_and_instructions() {
        let run = changes();
        insta::assert_snapshot!(crate::table(&run, Style::of_width(80)));
        let chart = crate::chart(&run);
        for remark in remarks(&run) {
            assert!(chart.contains(&remark), "{remark}");
        }
        assert_eq!(remarks(&run).len(), 2);
        assert_eq!(crate::findings(&run), findings(&run));
    }

    #[test]
    fn an_unsafe_change_is_never_recommended() {
        let mut run = changes();
        run.cases
            .retain(|case| [BASELINE, "drained"].contains(&&*case.name));
        let found = findings(&run);
        assert_eq!(found[0], "No change is certain to help here.");
        assert!(found[1].contains("if every reader is known to copy"));
    }

    #[test]
    fn a_single_change_may_beat_the_combination() {
        let mut run = changes();
        let combined = run.cases.last_mut().unwrap();
        combined.ratio = Some(within(5.0, 5.1, 5.2));
        let found = &findings(&run)[0];
        assert!(
            found.starts_with("What would help most here: one processor"),
            "{found}"
        );
        assert!(!found.contains("best single change"), "{found}");
    }
}
