//! Where a run is saved: after each round as JSON and CSV, at the end as a
//! chart too.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::cli::BenchArgs;
use pipespeed_base::failure::{Closed, say, usage};
use pipespeed_measure::record::{self, Run, is_replaceable, is_stdout};
use pipespeed_measure::suite::Suite;
use pipespeed_report as report;

/// Where results go if nobody says.
const DIRECTORY: &str = "pipespeed-results";

pub(super) struct Saving {
    json: Option<PathBuf>,
    csv: Option<PathBuf>,
    chart: Option<PathBuf>,
    /// Nobody said where to save.
    by_default: bool,
    said: Vec<String>,
}

impl Saving {
    /// Finds out where to save, and that it is possible, before anything is
    /// measured.
    pub(super) fn new(args: &BenchArgs, suite: Suite) -> anyhow::Result<Self> {
        let output = &args.output;
        let asked = [&output.json, &output.csv, &output.chart];
        if asked
            .iter()
            .filter(|path| path.as_deref().is_some_and(is_stdout))
            .count()
            > 1
        {
            return Err(usage(
                "only one of --json, --csv and --chart can be '-', standard output",
            ));
        }
        let by_default = asked.iter().all(|path| path.is_none()) && !args.no_save;
        let mut saving = Saving {
            json: output.json.clone(),
            csv: output.csv.clone(),
            chart: output.chart.clone(),
            by_default,
            said: Vec::new(),
        };
        if by_default {
            let here = Path::new(DIRECTORY);
            let place = if here.exists() { here } else { Path::new(".") };
            if let Err(error) = rustix::fs::access(place, rustix::fs::Access::WRITE_OK) {
                say(&format!(
                    "pipespeed: nothing will be saved: ./{DIRECTORY}: {error}"
                ));
                saving.by_default = false;
                return Ok(saving);
            }
            let stem = format!(
                "{}-{}",
                suite.name(),
                jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S")
            );
            let file = |kind: &str| Some(Path::new(DIRECTORY).join(format!("{stem}.{kind}")));
            saving.json = file("json");
            saving.csv = file("csv");
            saving.chart = file("svg");
            // The directory is made when there is something to save.
            return Ok(saving);
        }
        let named = [
            ("--json", &saving.json),
            ("--csv", &saving.csv),
            ("--chart", &saving.chart),
        ];
        let named = named.map(|(option, path)| Some((option, path.as_deref()?)));
        let named: Vec<(&str, &Path)> = named.into_iter().flatten().collect();
        for (at, (option, path)) in named.iter().enumerate() {
            if let Some((other, _)) = named[..at].iter().find(|(_, taken)| taken == path) {
                return Err(usage(format!(
                    "{other} and {option} name the same file, {}",
                    path.display()
                )));
            }
            check(path).with_context(|| (*option).to_owned())?;
        }
        Ok(saving)
    }

    /// Saves what can be replaced later. Standard output can't.
    pub(super) fn after_round(&mut self, run: &Run) -> anyhow::Result<()> {
        let json = self.json.as_deref().filter(|path| is_replaceable(path));
        let csv = self.csv.as_deref().filter(|path| is_replaceable(path));
        self.make_directory()?;
        save(json, csv, None, run)
    }

    /// Saves everything.
    pub(super) fn finish(&mut self, run: &Run) -> anyhow::Result<()> {
        self.make_directory()?;
        save(
            self.json.as_deref(),
            self.csv.as_deref(),
            self.chart.as_deref(),
            run,
        )?;
        let files: Vec<String> = [&self.json, &self.csv, &self.chart]
            .into_iter()
            .flatten()
            .filter(|path| !is_stdout(path))
            .map(|path| path.display().to_string())
            .collect();
        if !files.is_empty() {
            self.said.push(format!("saved: {}", files.join(" ")));
        }
        Ok(())
    }

    fn make_directory(&self) -> anyhow::Result<()> {
        if self.by_default {
            std::fs::create_dir_all(DIRECTORY).with_context(|| format!("./{DIRECTORY}"))?;
        }
        Ok(())
    }

    /// What to tell about it.
    pub(super) fn said(&self) -> &[String] {
        &self.said
    }

    /// Whether standard output is taken by a file.
    pub(super) fn uses_stdout(&self) -> bool {
        [&self.json, &self.csv, &self.chart]
            .into_iter()
            .flatten()
            .any(|path| is_stdout(path))
    }
}

/// An error now is better than one after a minute.
fn check(path: &Path) -> anyhow::Result<()> {
    if is_stdout(path) {
        return Ok(());
    }
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    if path.is_dir() {
        anyhow::bail!("{} is a directory: name a file", path.display());
    }
    if !directory.is_dir() {
        anyhow::bail!("{}: the directory does not exist", path.display());
    }
    let writable = |path: &Path| {
        rustix::fs::access(path, rustix::fs::Access::WRITE_OK)
            .with_context(|| format!("{} can't be written", path.display()))
    };
    if path.exists() {
        writable(path)
    } else {
        writable(directory)
    }
}

fn save(
    json: Option<&Path>,
    csv: Option<&Path>,
    chart: Option<&Path>,
    run: &Run,
) -> anyhow::Result<()> {
    if let Some(path) = json {
        put(path, record::to_json(run).as_bytes())?;
    }
    if let Some(path) = csv {
        let mut rows = Vec::new();
        record::write_csv(run, &mut rows)?;
        put(path, &rows)?;
    }
    if let Some(path) = chart {
        put(path, report::chart(run).as_bytes())?;
    }
    Ok(())
}

/// A reader of standard output may have had enough; that of a file may not.
fn put(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    record::save(path, bytes).map_err(|error| {
        if is_stdout(path) && error.kind() == std::io::ErrorKind::BrokenPipe {
            Closed.into()
        } else {
            error.into()
        }
    })
}
