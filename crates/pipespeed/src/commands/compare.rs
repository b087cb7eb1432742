//! `pipespeed compare`.

use std::io::{self, IsTerminal};

use anyhow::{anyhow, bail};

use crate::cli::CompareArgs;
use crate::commands::files::SavedFiles;
use crate::commands::{first_error, header};
use pipespeed_base::failure::{Closed, full_message, say, usage};
use pipespeed_base::output::{print, print_on_stderr};
use pipespeed_measure::comparison::{Comparison, ComparisonRecord, compare};
use pipespeed_measure::record::{Kind, Run, Verdict, load, to_json};
use pipespeed_report::{self as report, Style};
use pipespeed_stats::EQUIVALENCE;

/// Compares saved runs.
///
/// # Errors
/// A file can't be read or saved, runs can't be compared or, with `--fail-on`, a case got
/// slower or can have no verdict. A slower case is a failure (status 1), everything else counts
/// as wrong usage (status 2), as in diff(1).
pub fn run(args: CompareArgs) -> anyhow::Result<()> {
    compare_all(&args).map_err(|error| usage(full_message(&error)))?
}

/// Compares, shows and saves. Returns the cases that got slower, as an error.
fn compare_all(args: &CompareArgs) -> anyhow::Result<anyhow::Result<()>> {
    let outputs = [("--json", &args.json), ("--chart", &args.chart)];
    let files = SavedFiles::beside(&args.files, "a run to compare", outputs)?;
    let runs: Vec<(String, Run)> = args
        .files
        .iter()
        .map(|file| Ok((file.display().to_string(), load(file)?)))
        .collect::<anyhow::Result<_>>()?;
    let Some(((old_file, old), newer)) = runs.split_first() else {
        return Err(usage("at least two saved runs are needed"));
    };
    let comparisons: Vec<Comparison> = newer
        .iter()
        .map(|(file, new)| compare(old_file, old, file, new))
        .collect();
    check_comparable(&comparisons, args.force)?;

    unless_closed(show(&comparisons, files.use_stdout(), args.verbose))?;
    let record = ComparisonRecord {
        header: header(Kind::Comparison, old.header.machine.clone()),
        comparisons: comparisons.clone(),
    };
    let saved = files.save(|option| match option {
        "--json" => Ok(to_json(&record)),
        _ => Ok(report::comparison_chart(&comparisons)),
    });
    let saved = unless_closed(saved);
    let Some(limit) = args.fail_on else {
        return saved.map(Ok);
    };
    let slower = slower(&comparisons, limit.slower_by);
    let disturbed = disturbed(&comparisons);
    if slower.is_empty() {
        first_error([saved, decidable(&comparisons)])?;
        let doubts = undecided(&comparisons, limit.slower_by) + &disturbed;
        if !doubts.is_empty() {
            let percent = (limit.slower_by * 1e5).round() / 1e3;
            let least = EQUIVALENCE * 100.0;
            let by = if percent >= least {
                format!(" by {percent} % or more")
            } else {
                format!(" by more than {least} %")
            };
            say(&format!(
                "pipespeed: --fail-on: no case is proven slower{by}{doubts}"
            ));
        }
        return Ok(Ok(()));
    }
    let slower = anyhow!("--fail-on: slower: {}{disturbed}", slower.join(", "));
    match saved {
        Ok(()) => Ok(Err(slower)),
        failed => first_error([failed, Err(slower)]).map(Ok),
    }
}

/// Ignores that the reader of standard output has closed it: the exit status still counts.
fn unless_closed(outcome: anyhow::Result<()>) -> anyhow::Result<()> {
    outcome.or_else(|error| {
        if error.is::<Closed>() {
            Ok(())
        } else {
            Err(error)
        }
    })
}

fn check_comparable(comparisons: &[Comparison], force: bool) -> anyhow::Result<()> {
    for comparison in comparisons {
        let has_no_ratio = comparison.cases.iter().all(|case| case.ratio.is_none());
        if let Some(reason) = comparison.incomparable.first()
            && (has_no_ratio || !force)
        {
            let hint = if has_no_ratio {
                ""
            } else {
                "; --force compares them anyway"
            };
            bail!(
                "{} and {} can't be compared: {reason}{hint}",
                comparison.old.file,
                comparison.new.file
            );
        }
    }
    Ok(())
}

fn show(comparisons: &[Comparison], stdout_is_used: bool, verbose: bool) -> anyhow::Result<()> {
    let terminal = if stdout_is_used {
        io::stderr().is_terminal()
    } else {
        io::stdout().is_terminal()
    };
    let text = report::comparison_table(comparisons, Style::for_terminal(terminal, verbose));
    if stdout_is_used {
        // A failure is ignored, as in `failure::say`.
        let _ = print_on_stderr(text);
        Ok(())
    } else {
        print(text)
    }
}

/// Returns an error if a verdict is impossible for a case: a limit that can't be exceeded must
/// not pass.
fn decidable(comparisons: &[Comparison]) -> anyhow::Result<()> {
    let undecidable = comparisons.iter().flat_map(Comparison::undecidable);
    let names: Vec<&str> = undecidable.map(|case| &*case.name).collect();
    if names.is_empty() {
        return Ok(());
    }
    Err(anyhow!(
        "--fail-on: no verdict is possible (too few rounds, or missing in the newer run) for {}",
        names.join(", ")
    ))
}

/// Returns the cases that got slower by this fraction or more, with their ratios.
fn slower(comparisons: &[Comparison], slower_by: f64) -> Vec<String> {
    let cases = comparisons.iter().flat_map(|comparison| &comparison.cases);
    let slower = cases.filter_map(|case| {
        let ratio = case.ratio?;
        (ratio.verdict == Verdict::Slower && 1.0 - ratio.estimate.median >= slower_by)
            .then(|| format!("{} ({})", case.name, report::times(ratio.estimate.median)))
    });
    slower.collect()
}

/// Returns an addition to a verdict that names the undecided cases that may have got slower by
/// this fraction or more.
fn undecided(comparisons: &[Comparison], slower_by: f64) -> String {
    let cases = comparisons.iter().flat_map(|comparison| &comparison.cases);
    let undecided = cases.filter_map(|case| {
        let ratio = case.ratio?;
        let may_be_slower = ratio.estimate.ends().0 < 1.0 - slower_by.max(EQUIVALENCE);
        (ratio.verdict == Verdict::Undecided && may_be_slower)
            .then(|| format!("{} {}", case.name, report::ratio(ratio.estimate)))
    });
    let names: Vec<String> = undecided.collect();
    if names.is_empty() {
        return String::new();
    }
    let count = report::pluralize(names.len(), "case");
    let names = names.join(", ");
    format!("; {count} undecided ({names}): measure more rounds")
}

/// Returns an addition to a verdict that names the disturbed runs, and failed null controls.
fn disturbed(comparisons: &[Comparison]) -> String {
    let mut disturbed: Vec<&str> = comparisons
        .iter()
        .filter_map(Comparison::disturbed)
        .collect();
    disturbed.dedup();
    if comparisons.iter().any(Comparison::has_failed_control) {
        disturbed.push("a null control failed");
    }
    let additions = disturbed
        .iter()
        .map(|what| format!("; {what}: measure again"));
    additions.collect()
}
