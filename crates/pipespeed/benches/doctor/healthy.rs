//! Programs that wait, as people write them, and of which none hangs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use pipespeed_testing::pipelines;

use crate::programs::{program, quiet};
use crate::{Pipeline, examine_for};

/// How many times each pipeline is examined.
const PIPELINE_LOOKS: usize = 2;
/// How many times each program is examined.
const PROGRAM_LOOKS: usize = 8;
/// Long enough for an interpreter to start.
const STARTUP: Duration = Duration::from_secs(1);
/// Exit status of a script that lacks a program.
const NOT_INSTALLED: i32 = 77;
/// What must not be said.
const WRONG: [&str; 3] = ["stuck", "probably_stuck", "unread"];

/// How many looks were right.
#[derive(Default)]
struct Looks {
    right: usize,
    all: usize,
}

impl Looks {
    /// Examines a pipeline once.
    fn add(&mut self, pipeline: &Pipeline, name: &str) -> anyhow::Result<()> {
        let record = examine_for("1", pipeline.0.id()).with_context(|| name.to_owned())?;
        let verdict = record["verdict"].as_str().context("a verdict")?;
        self.all += 1;
        if WRONG.contains(&verdict) {
            println!("  called {verdict}: {name}");
        } else {
            self.right += 1;
        }
        Ok(())
    }
}

/// Examines pipelines that move, and programs that wait.
pub(crate) fn examine_all() -> anyhow::Result<()> {
    let mut looks = Looks::default();
    for script in pipelines::healthy() {
        let pipeline = Pipeline::start(&script)?;
        for _ in 0..PIPELINE_LOOKS {
            looks.add(&pipeline, &script)?;
        }
    }
    let Looks { right, all } = looks;
    println!("healthy pipelines not called stuck or unread: {right} of {all}");
    let mut looks = Looks::default();
    let (mut examined, mut skipped) = (0, 0);
    for source in sources()? {
        if examine_program(&source, &mut looks)? {
            examined += 1;
        } else {
            skipped += 1;
            println!("  skipped: {}", name(&source));
        }
    }
    let Looks { right, all } = looks;
    println!(
        "healthy programs not called stuck or unread: {right} of {all} looks at {examined} programs \
         ({skipped} skipped)"
    );
    Ok(())
}

/// The programs.
fn sources() -> anyhow::Result<Vec<PathBuf>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/doctor/healthy");
    let files = directory.read_dir()?.map(|entry| Ok(entry?.path()));
    let mut files = files.collect::<anyhow::Result<Vec<PathBuf>>>()?;
    files.sort();
    Ok(files)
}

fn name(source: &Path) -> &str {
    source.file_name().and_then(OsStr::to_str).unwrap_or("?")
}

/// Examines a program. Returns whether it can run here.
fn examine_program(source: &Path, looks: &mut Looks) -> anyhow::Result<bool> {
    let directory = tempfile::tempdir()?;
    let Some(mut command) = program(source, directory.path())? else {
        return Ok(false);
    };
    quiet(&mut command).current_dir(directory.path());
    let mut pipeline = Pipeline::spawn(command)?;
    thread::sleep(STARTUP);
    for _ in 0..PROGRAM_LOOKS {
        match pipeline.0.try_wait()? {
            Some(status) if status.code() == Some(NOT_INSTALLED) => return Ok(false),
            Some(status) => {
                looks.all += 1;
                println!("  ended ({status}): {}", name(source));
            }
            None => looks.add(&pipeline, name(source))?,
        }
    }
    Ok(true)
}
