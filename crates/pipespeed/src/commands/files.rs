//! The files that a command saves, by option.

use std::fs;
use std::io::{self, IsTerminal as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::anyhow;
use pipespeed_base::failure::{Closed, is_reader_gone, say, usage, with_remedy};
use pipespeed_base::output::{print, print_on_stderr};
use pipespeed_report::Style;
use rustix::fs::{FileType, fstat};

use crate::cli::OutputArgs;
use crate::destination::{Destination, NewStem, check_directory};

/// Default directory of saved results.
pub(super) const DIRECTORY: &str = "pipespeed-results";

/// The options of a record, its samples and its chart.
pub(super) const RECORD_SAMPLES_CHART: &[&str] = &["--json", "--csv", "--chart"];
/// The option of a page.
pub(super) const PAGE: &[&str] = &["--output"];
/// The option of a record.
pub(super) const RECORD: &[&str] = &["--json"];

/// Checks that the file of an option can be written.
///
/// # Errors
/// Wrong usage: it can't.
pub(super) fn destination(option: &str, path: &Path) -> anyhow::Result<Destination> {
    Destination::open(path).map_err(|error| usage(format!("{option}: {error}")))
}

/// A name of a run's results: of the time and of this process. A process with the same number in
/// another container may choose the same: whoever comes later
/// adds a number.
pub(super) fn new_name(stem: &str) -> String {
    let now = super::timestamp().strftime("%Y%m%d-%H%M%S");
    format!("{stem}-{now}-{}", std::process::id())
}

/// Whether the name of an input means standard input.
fn is_stdin(input: &Path) -> bool {
    input.as_os_str() == "-"
}

/// The device and the inode number of an input, if that is a regular file: nothing else can be
/// lost.
fn input_inode(input: &Path) -> Option<(u64, u64)> {
    if is_stdin(input) {
        let found = fstat(io::stdin()).ok()?;
        let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
        return is_file.then_some((found.st_dev, found.st_ino));
    }
    let found = fs::metadata(input).ok()?;
    found.is_file().then_some((found.dev(), found.ino()))
}

/// Checks that a file to save, or standard output, is none of these inputs.
fn check_inputs(
    output: &str,
    inode: Option<(u64, u64)>,
    inputs: &[PathBuf],
    what_inputs_are: &str,
) -> anyhow::Result<()> {
    let is_output = |input: &&PathBuf| inode.is_some() && input_inode(input) == inode;
    let Some(input) = inputs.iter().find(is_output) else {
        return Ok(());
    };
    let name = if is_stdin(input) {
        "standard input".to_owned()
    } else {
        input.display().to_string()
    };
    Err(usage(format!(
        "{output}: {name} is {what_inputs_are}: name another file"
    )))
}

/// Checks a file to save beside a user's command, which reads standard input and, with
/// `has_stdout`, writes to standard output.
///
/// # Errors
/// Wrong usage: the file is one of these.
pub(super) fn check_beside_command(
    option: &str,
    file: &Destination,
    has_stdout: bool,
) -> anyhow::Result<()> {
    if has_stdout && file.is_stdout() {
        return Err(usage(format!(
            "{option}: the command's output would be mixed with the records: name another file"
        )));
    }
    let stdin = [PathBuf::from("-")];
    check_inputs(option, file.inode(), &stdin, "read by the command")
}

/// The device and the inode number of a file, which is the same under all its names.
fn inode(path: &Path) -> Option<(u64, u64)> {
    let found = fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// Files to save to.
pub(super) struct SavedFiles {
    /// The option of each file, and where it is saved.
    files: Vec<(&'static str, Destination)>,
    /// Directory to create before the first file is saved.
    directory: Option<&'static Path>,
}

impl SavedFiles {
    /// Collects the files of these options, and checks that they can be written.
    ///
    /// # Errors
    /// Wrong usage: two options name the same file, or a file can't be written.
    pub(super) fn new<'a>(
        options: impl IntoIterator<Item = (&'static str, &'a Option<PathBuf>)>,
    ) -> anyhow::Result<Self> {
        let mut files: Vec<(&'static str, Destination)> = Vec::new();
        for (option, path) in options {
            let Some(path) = path else {
                continue;
            };
            let file = destination(option, path)?;
            if let Some((other, _)) = files.iter().find(|(_, other)| other.is_same(&file)) {
                let what = if file.is_stdout() {
                    "standard output".to_owned()
                } else {
                    format!("the same file, {}", path.display())
                };
                return Err(usage(format!("both {other} and {option} name {what}")));
            }
            files.push((option, file));
        }
        Ok(SavedFiles {
            files,
            directory: None,
        })
    }

    /// Collects the files of these options for a command that reads `inputs`; `-` is standard
    /// input.
    ///
    /// # Errors
    /// Wrong usage, as for [`new`](Self::new); a file, or standard output, is an input, too; or
    /// several inputs are standard input.
    pub(super) fn beside<'a>(
        inputs: &[PathBuf],
        what_inputs_are: &str,
        options: impl IntoIterator<Item = (&'static str, &'a Option<PathBuf>)>,
    ) -> anyhow::Result<Self> {
        if inputs.iter().filter(|file| is_stdin(file)).count() > 1 {
            return Err(usage("only one file can be '-' (standard input)"));
        }
        let saved = SavedFiles::new(options)?;
        for (option, file) in &saved.files {
            check_inputs(option, file.inode(), inputs, what_inputs_are)?;
        }
        let stdout = fstat(io::stdout()).ok();
        let stdout = stdout.map(|found| (found.st_dev, found.st_ino));
        check_inputs("standard output", stdout, inputs, what_inputs_are)?;
        Ok(saved)
    }

    /// Checks each file with [`check_beside_command`].
    ///
    /// # Errors
    /// The same.
    pub(super) fn check_beside_command(&self, has_stdout: bool) -> anyhow::Result<()> {
        let mut files = self.files.iter();
        files.try_for_each(|(option, file)| check_beside_command(option, file, has_stdout))
    }

    /// Returns these files; if there are none, and unless `no_save`, those of `defaults` in
    /// the default directory, named after `stem`.
    pub(super) fn or_by_default(
        self,
        no_save: bool,
        stem: &str,
        defaults: &[&'static str],
    ) -> Self {
        if no_save || !self.files.is_empty() {
            return self;
        }
        SavedFiles::by_default(new_name(stem), defaults)
    }

    /// Returns these files; if there are none, one at this path.
    ///
    /// # Errors
    /// Wrong usage: it can't be written.
    pub(super) fn or_at(self, option: &'static str, path: PathBuf) -> anyhow::Result<Self> {
        if self.files.is_empty() {
            SavedFiles::new([(option, &Some(path))])
        } else {
            Ok(self)
        }
    }

    /// Returns files named after `stem` in the default directory, or none if it can't
    /// be written.
    fn by_default(stem: String, options: &[&'static str]) -> Self {
        let here = Path::new(DIRECTORY);
        let is_there = here.symlink_metadata().is_ok();
        let mut files = Vec::new();
        let stem = Arc::new(NewStem::new(here, stem));
        match check_directory(if is_there { here } else { Path::new(".") }) {
            Ok(()) => files.extend(options.iter().map(|option| {
                let kind = match *option {
                    "--chart" => "svg",
                    "--output" => "html",
                    option => option.trim_start_matches('-'),
                };
                (*option, Destination::later(&stem, kind))
            })),
            Err(error) => say(&format!(
                "pipespeed: results will not be saved: ./{DIRECTORY}: {}",
                with_remedy(&error)
            )),
        }
        SavedFiles {
            directory: (!files.is_empty()).then_some(here),
            files,
        }
    }

    /// Whether nothing is saved.
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Whether any file is saved to standard output.
    pub(super) fn use_stdout(&self) -> bool {
        self.files.iter().any(|(_, file)| file.is_stdout())
    }

    /// Prints text on standard output, unless a file is saved there.
    pub(super) fn print(
        &self,
        verbose: bool,
        text: impl FnOnce(Style) -> String,
    ) -> anyhow::Result<()> {
        if self.use_stdout() {
            return Ok(());
        }
        let style = Style::for_terminal(io::stdout().is_terminal(), verbose);
        print(text(style))
    }

    /// Prints a table on standard output. If a file is saved there, prints `instead` on
    /// standard error, unless --quiet is given.
    pub(super) fn show(
        &self,
        output: &OutputArgs,
        table: impl FnOnce(Style) -> String,
        instead: impl FnOnce(Style) -> String,
    ) -> anyhow::Result<()> {
        if self.use_stdout() && !output.quiet {
            let style = Style::for_terminal(io::stderr().is_terminal(), output.verbose);
            // Not `say`, which would wrap it again.
            let _ = print_on_stderr(format!("{}\n", instead(style).trim_end()));
        }
        self.print(output.verbose, table)
    }

    /// Prints the names of the saved files on standard error, unless --quiet is given.
    pub(super) fn say_saved(&self, quiet: bool) {
        let files = self.files.iter().filter(|(_, file)| !file.is_stdout());
        let names: Vec<String> = files
            .map(|(_, file)| file.saved_path().display().to_string())
            .collect();
        if !quiet && !names.is_empty() {
            say(&format!("saved: {}", names.join(" ")));
        }
    }

    /// Saves the regular files that had no contents, except charts and metrics, so that not even SIGKILL
    /// loses what was measured. Ignores failures: [`save`](Self::save) tries again.
    pub(super) fn save_round(&self, text: impl Fn(&str) -> anyhow::Result<String>) {
        let is_saved =
            |(option, file): &&(&str, Destination)| is_record(option) && file.takes_parts();
        let _ = self.save_all(self.files.iter().filter(is_saved), text, false);
    }

    /// Saves the text of each option. Continues after a failure. What can't be saved where it was to be, as on a disk
    /// that has filled up, goes to the directory for temporary files, except charts and metrics.
    ///
    /// # Errors
    /// The files that can't be saved, with the reasons.
    pub(super) fn save(&self, text: impl Fn(&str) -> anyhow::Result<String>) -> anyhow::Result<()> {
        self.save_all(self.files.iter(), text, true)
    }

    fn save_all<'a>(
        &self,
        files: impl Iterator<Item = &'a (&'static str, Destination)>,
        text: impl Fn(&str) -> anyhow::Result<String>,
        is_last: bool,
    ) -> anyhow::Result<()> {
        let made = self.directory.map(|directory| {
            let made = fs::create_dir_all(directory);
            made.map_err(|error| {
                format!(
                    "cannot write {}: {}",
                    directory.display(),
                    with_remedy(&error)
                )
            })
        });
        let mut failed: Vec<String> = Vec::new();
        let mut is_closed = false;
        let mut saved: Vec<&(&'static str, Destination)> = Vec::new();
        for destination in files {
            let (option, file) = destination;
            // Somebody may have linked one to the other meanwhile.
            let path = file.saved_path();
            let is_same = |other: &Destination| {
                let inodes = [inode(&path), inode(&other.saved_path())];
                other.is_same(file) || inodes[0].is_some() && inodes[0] == inodes[1]
            };
            if let Some((other, _)) = saved.iter().find(|(_, other)| is_same(other)) {
                failed.push(format!(
                    "{option}: {} is now the file of {other}",
                    path.display()
                ));
                continue;
            }
            saved.push(destination);
            let text = match text(option) {
                Ok(text) => text,
                Err(error) => {
                    failed.push(format!("{option}: {error:#}"));
                    continue;
                }
            };
            match file.save(text.as_bytes()) {
                Ok(()) => {}
                // The reader of standard output may close it early.
                Err(error) if file.is_stdout() && is_reader_gone(&error, io::stdout()) => {
                    is_closed = true;
                }
                Err(error) => {
                    let error = match &made {
                        Some(Err(error)) => error.clone(),
                        _ => error.to_string(),
                    };
                    let may_move = is_last && is_record(option);
                    let moved = may_move.then(|| file.save_elsewhere(text.as_bytes()));
                    failed.push(match moved.flatten() {
                        Some(path) => format!("{error}; saved as {}", path.display()),
                        None => error,
                    });
                }
            }
        }
        match (failed.is_empty(), is_closed) {
            (true, false) => Ok(()),
            (true, true) => Err(Closed.into()),
            (false, _) => Err(anyhow!(failed.join("; "))),
        }
    }
}

/// Whether the file of an option holds what was measured. A collector that reads a file at any time reads that of the
/// run before until this one is over, and only where it is.
fn is_record(option: &str) -> bool {
    !matches!(option, "--chart" | "--prometheus")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_becomes_another_destination_is_not_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name| Some(directory.path().join(name));
        let (json, csv) = (path("a.json"), path("a.csv"));
        let files = SavedFiles::new([("--json", &json), ("--csv", &csv)]).unwrap();
        files.save(|option| Ok(option.to_owned())).unwrap();
        let (json, csv) = (json.unwrap(), csv.unwrap());
        assert_eq!(fs::read_to_string(&csv).unwrap(), "--csv");
        let is_kept = |link: &dyn Fn()| {
            fs::remove_file(&json).unwrap();
            link();
            let error = files.save(|option| Ok(option.to_owned())).unwrap_err();
            let text = error.to_string();
            assert!(
                text.starts_with("--csv: ") && text.contains("--json"),
                "{text}"
            );
            assert_eq!(fs::read_to_string(&json).unwrap(), "--json");
        };
        is_kept(&|| fs::hard_link(&csv, &json).unwrap());
        is_kept(&|| std::os::unix::fs::symlink(&csv, &json).unwrap());
    }
}
