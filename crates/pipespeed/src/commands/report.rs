//! `pipespeed report`: one page of records, which are measured first if none are given.

mod measure;
mod recorded;

use std::path::PathBuf;

use anyhow::ensure;

use self::measure::MeasuredRecords;
use crate::cli::ReportArgs;
use crate::commands::files::{PAGE, SavedFiles};
use crate::commands::first_error;
use pipespeed_base::failure::{full_message, say, usage};
use pipespeed_measure::record::SavedFile;
use pipespeed_report::{Records, Saved, page};

/// Makes a page of saved records, or of those that it measures.
///
/// # Errors
/// A file can't be used, nothing could be measured, a signal arrived, or the page can't be
/// saved.
pub fn run(args: &ReportArgs) -> anyhow::Result<()> {
    let inputs: Vec<PathBuf> = args.files.iter().chain(&args.compare).cloned().collect();
    let files = SavedFiles::beside(&inputs, "a record", [("--output", &args.output)])?;
    let other = if args.compare.is_empty() {
        None
    } else {
        Some(load(&args.compare, args.quiet)?)
    };
    if !args.files.is_empty() {
        let records = load(&args.files, args.quiet)?;
        let files = files.or_by_default(false, "report", PAGE);
        // The page is all that there is to save.
        ensure!(
            !files.is_empty(),
            "the page is not saved: name a file by -o ('-o -': standard output)"
        );
        return save(&files, &records, other.as_ref(), args.quiet);
    }
    let MeasuredRecords {
        directory,
        records,
        outcome,
    } = measure::run(args)?;
    if records.is_empty() {
        outcome?;
        anyhow::bail!("nothing was measured");
    }
    let files = files.or_at("--output", directory.join("report.html"))?;
    let saved = load(&records, args.quiet)
        .and_then(|records| save(&files, &records, other.as_ref(), args.quiet));
    first_error([outcome, saved])
}

/// Saves the page.
fn save(
    files: &SavedFiles,
    records: &Records,
    other: Option<&Records>,
    quiet: bool,
) -> anyhow::Result<()> {
    files.save(|_| Ok(page(records, other)))?;
    files.say_saved(quiet);
    Ok(())
}

/// Loads the records of these files, except those that a page has no use for.
fn load(paths: &[PathBuf], quiet: bool) -> anyhow::Result<Records> {
    let records = parse(paths, quiet).map_err(|error| usage(full_message(&error)))?;
    if records.is_empty() {
        return Err(usage("none of these files can be used for a page"));
    }
    Ok(Records::new(records))
}

fn parse(paths: &[PathBuf], quiet: bool) -> anyhow::Result<Vec<Saved>> {
    let mut all = Vec::new();
    for path in paths {
        let file = SavedFile::read(path)?;
        match Saved::parse(&file)? {
            Some(saved) => all.push(saved),
            None if quiet => {}
            None => say(&format!(
                "pipespeed: {}: a page has no use for this kind of record",
                path.display().to_string().replace('\n', "\\n")
            )),
        }
    }
    Ok(all)
}
