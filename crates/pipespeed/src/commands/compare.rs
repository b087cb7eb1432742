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
/// What went wrong; and, with `--fail-on`, that a case got slower.
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
    refuse_senseless(&comparisons, args.force)?;

    show(&comparisons, files.take_stdout(), args.verbose)?;
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

fn refuse_senseless(comparisons: &[Comparison], force: bool) -> anyhow::Result<()> {
    for comparison in comparisons {
        let nothing = comparison.cases.iter().all(|case| case.ratio.is_none());
        if let Some(reason) = comparison.incomparable.first()
            && (nothing || !force)
        {
            let way_out = if nothing {
                ""
            } else {
                "; --force compares them anyway"
            };
            bail!(
                "{} and {} can't be compared: {reason}{way_out}",
                comparison.old.file,
                comparison.new.file
            );
        }
    }
    Ok(())
}

fn show(comparisons: &[Comparison], stdout_taken: bool, verbose: bool) -> anyhow::Result<()> {
    let terminal = if stdout_taken {
        io::stderr().is_terminal()
    } else {
        io::stdout().is_terminal()
    };
    let text = report::comparison_table(comparisons, Style::for_terminal(terminal, verbose));
    if stdout_taken {
        // Like all that is said there: see `failure::say`.
        let _ = write!(io::stderr(), "{text}");
        Ok(())
    } else {
        to_stdout(write!(io::stdout(), "{text}"))
    }
}

fn fail_on_slower(comparisons: &[Comparison], slower_by: f64) -> anyhow::Result<()> {
    // A gate that can't close is no gate.
    let unsure: Vec<&str> = comparisons
        .iter()
        .flat_map(|comparison| &comparison.cases)
        .filter(|case| case.old.is_some())
        .filter(|case| {
            case.ratio
                .is_none_or(|ratio| ratio.estimate.interval.is_none())
        })
        .map(|case| &*case.name)
        .collect();
    if !unsure.is_empty() {
        return Err(anyhow!(
            "--fail-on: no verdict is possible, since rounds are too few or the case is missing in the newer \
             run, on {}",
            unsure.join(", ")
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
