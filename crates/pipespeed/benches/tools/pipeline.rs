//! Pipelines of real processes, timed.

use std::fmt;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};
use pipespeed_host::Root;
use pipespeed_host::placement::{Placement, choose};
use pipespeed_host::topology::Topology;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Where processes run that are to stay where they are.
pub struct Places {
    /// The writer's processor and the reader's.
    two: [Option<usize>; 2],
    all: CpuSet,
}

impl Places {
    pub fn find() -> anyhow::Result<Places> {
        let chosen = choose(Placement::Different, &Topology::read(&Root::default()))?;
        Ok(Places {
            two: [chosen.writer, chosen.reader],
            all: sched_getaffinity(None)?,
        })
    }

    /// This process and those it starts from now on.
    fn stay(&self, which: Option<usize>) -> anyhow::Result<()> {
        let cpu = which.and_then(|which| *self.two.get(which)?);
        let mut one = CpuSet::new();
        let set = match cpu {
            Some(cpu) => {
                one.set(cpu);
                &one
            }
            None => &self.all,
        };
        Ok(sched_setaffinity(None, set)?)
    }
}

/// Programs with pipes between them; what the last one prints is thrown away.
pub struct Pipeline {
    stages: Vec<Vec<String>>,
    /// Whether the first two are put on processors of their own.
    pinned: bool,
}

impl Pipeline {
    /// `stages` as in a shell: words separated by blanks.
    pub fn new(stages: &[String]) -> Self {
        let words = |stage: &String| stage.split_whitespace().map(str::to_owned).collect();
        Pipeline {
            stages: stages.iter().map(words).collect(),
            pinned: false,
        }
    }

    pub fn pinned(mut self) -> Self {
        self.pinned = true;
        self
    }

    /// Runs it until all have ended.
    pub fn run(&self, places: &Places) -> anyhow::Result<Timed> {
        let mut children: Vec<Child> = Vec::new();
        let mut input = Stdio::null();
        let started = Instant::now();
        for (n, stage) in self.stages.iter().enumerate() {
            places.stay(self.pinned.then_some(n))?;
            let last = n + 1 == self.stages.len();
            let mut command = Command::new(&stage[0]);
            command.args(&stage[1..]).stdin(input).stderr(Stdio::null());
            input = Stdio::null();
            if last {
                let null = File::options().write(true).open("/dev/null")?;
                command.stdout(null);
            } else {
                let (from, to) = std::io::pipe()?;
                command.stdout(to);
                input = from.into();
            }
            children.push(command.spawn().with_context(|| stage[0].clone())?);
        }
        let mut statuses = Vec::new();
        for mut child in children {
            statuses.push(child.wait()?);
        }
        let seconds = started.elapsed().as_secs_f64();
        places.stay(None)?;
        let (last, earlier) = statuses.split_last().context("no program")?;
        ensure!(last.success(), "the last program failed: {last}");
        for status in earlier {
            // Its reader may have had enough.
            let by_pipe = status.signal() == Some(rustix::process::Signal::PIPE.as_raw());
            ensure!(status.success() || by_pipe, "a program failed: {status}");
        }
        Ok(Timed { seconds })
    }
}

impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stages: Vec<String> = self.stages.iter().map(|stage| stage.join(" ")).collect();
        f.write_str(&stages.join(" | "))
    }
}

pub struct Timed {
    pub seconds: f64,
}

/// Where a program is, if it is installed.
pub fn installed(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|path| path.is_file())
}
