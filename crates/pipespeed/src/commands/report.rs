//! `pipespeed report`.

use crate::cli::ReportArgs;
use crate::commands::files::{Files, PAGE};
use pipespeed_base::failure::{full_message, usage};
use pipespeed_measure::record::SavedFile;
use pipespeed_report::{Records, Saved, page};

/// Makes a page of saved records.
///
/// # Errors
/// A file can't be used, or the page can't be saved.
pub fn run(args: &ReportArgs) -> anyhow::Result<()> {
    let files = Files::beside(&args.files, "a record", [("--output", &args.output)])?;
    let records = load(args).map_err(|error| usage(full_message(&error)))?;
    let files = files.or_by_default(false, "report", PAGE);
    files.save(|_| Ok(page(&records)))?;
    files.say_saved(args.quiet);
    Ok(())
}

/// Loads the records of all files.
fn load(args: &ReportArgs) -> anyhow::Result<Records> {
    let saved = args.files.iter().map(|file| {
        let file = SavedFile::read(file)?;
        Ok(Saved::parse(&file)?)
    });
    Ok(Records::new(saved.collect::<anyhow::Result<Vec<_>>>()?))
}
