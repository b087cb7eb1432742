//! `pipespeed report`.

use crate::cli::ReportArgs;
use crate::commands::files::{Files, PAGE};
use pipespeed_base::failure::{full_message, say, usage};
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

/// Loads the records of all files, except those that a page has no use for.
fn load(args: &ReportArgs) -> anyhow::Result<Records> {
    let mut all = Vec::new();
    for path in &args.files {
        let file = SavedFile::read(path)?;
        match Saved::parse(&file)? {
            Some(saved) => all.push(saved),
            None if args.quiet => {}
            None => say(&format!(
                "pipespeed: {}: a page has no use for this kind of record",
                path.display()
            )),
        }
    }
    anyhow::ensure!(
        !all.is_empty(),
        "none of these files can be used for a page"
    );
    Ok(Records::new(all))
}
