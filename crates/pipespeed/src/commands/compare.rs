//! `pipespeed compare`.

use std::io::{self, IsTerminal, Write};

use anyhow::{anyhow, bail};

use crate::cli::CompareArgs;
use crate::commands::files::Files;
use crate::commands::{first_error, header};
use pipespeed_base::failure::{to_stdout, usage};
use pipespeed_measure::comparison::{Comparison, Record, compare};
use pipespeed_measure::record::{Kind, Run, Verdict, is_stdout, load, to_json};
use pipespeed_report::{self as report, Style};

/// Compares saved runs.
///
/// # Errors
/// A file can't be read or saved, runs can't be compared or, with `--fail-on`, a case got
/// slower or has no verdict.
pub fn run(args: CompareArgs) -> anyhow::Result<()> {
    if args.files.iter().filter(|file| is_stdout(file)).count() > 1 {
        return Err(usage("only one file can be '-' (standard input)"));
    }
    let files = Files::new([("--json", &args.json), ("--chart", &args.chart)])?;
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

    show(&comparisons, files.use_stdout(), args.verbose)?;
    let record = Record {
        header: header(Kind::Comparison, old.header.machine.clone()),
        comparisons: comparisons.clone(),
    };
    let saved = files.save(|option| match option {
        "--json" => Ok(to_json(&record)),
        _ => Ok(report::comparison_chart(&comparisons)),
    });
    let verdict = match args.fail_on {
        Some(limit) => fail_on_slower(&comparisons, limit.slower_by),
        None => Ok(()),
    };
    first_error([saved, verdict])
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
        let _ = write!(io::stderr(), "{text}");
        Ok(())
    } else {
        to_stdout(write!(io::stdout(), "{text}"))
    }
}

fn fail_on_slower(comparisons: &[Comparison], slower_by: f64) -> anyhow::Result<()> {
    // Without an interval the condition could never be met: fail rather than pass.
    let undecided: Vec<&str> = comparisons
        .iter()
        .flat_map(|comparison| &comparison.cases)
        .filter(|case| case.old.is_some())
        .filter(|case| {
            case.ratio
                .is_none_or(|ratio| ratio.estimate.interval.is_none())
        })
        .map(|case| &*case.name)
        .collect();
    if !undecided.is_empty() {
        return Err(anyhow!(
            "--fail-on: no verdict is possible (too few rounds, or missing in the newer run) for {}",
            undecided.join(", ")
        ));
    }
    let slower: Vec<String> = comparisons
        .iter()
        .flat_map(|comparison| &comparison.cases)
        .filter_map(|case| {
            let ratio = case.ratio?;
            (ratio.verdict == Verdict::Slower && 1.0 - ratio.estimate.median >= slower_by)
                .then(|| format!("{} ({})", case.name, report::times(ratio.estimate.median)))
        })
        .collect();
    if slower.is_empty() {
        Ok(())
    } else {
        Err(anyhow!("--fail-on: slower: {}", slower.join(", ")))
    }
}
