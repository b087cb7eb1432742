//! `doctor`.

mod commands;
mod hangs;
mod healthy;
mod hidden;
mod robust;
mod truths;

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use crate::common::procs::eventually;
use crate::common::{Outcome, command, pipespeed, run_alone};

/// Processes in a group of their own, which are killed when this is dropped.
#[derive(Default)]
pub struct Group {
    children: Vec<Child>,
}

impl Group {
    /// Starts a program with arguments separated by blanks, and these standard descriptors.
    /// Returns its number.
    pub fn add(&mut self, line: &str, descriptors: [Option<OwnedFd>; 3]) -> u32 {
        let (program, args) = line.split_once(' ').unwrap_or((line, ""));
        self.start(command(program, args), descriptors)
    }

    /// Starts a script for sh.
    pub fn script(&mut self, script: &str) -> u32 {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        self.start(command, [None, None, None])
    }

    pub fn start(&mut self, mut command: Command, descriptors: [Option<OwnedFd>; 3]) -> u32 {
        let [stdin, stdout, stderr] =
            descriptors.map(|fd| fd.map_or_else(Stdio::null, Stdio::from));
        command.stdin(stdin).stdout(stdout).stderr(stderr);
        command.process_group(self.children.first().map_or(0, |first| first.id() as i32));
        self.children.push(command.spawn().unwrap());
        self.children.last().unwrap().id()
    }

    /// The first process of the group.
    pub fn first(&self) -> u32 {
        self.children[0].id()
    }

    /// Examines the group.
    fn examine(&self, args: &str) -> Outcome {
        let pid = self.children[0].id();
        let examine = || run_alone(pipespeed(&format!("doctor --time 0.5 {pid} {args}")));
        // A very busy machine leaves time for few samples.
        let is_judged = |outcome: &Outcome| !outcome.unwrapped().contains("too short to tell");
        eventually(|| Some(examine()).filter(is_judged)).unwrap_or_else(examine)
    }

    /// Examines the group until it is found stuck.
    #[track_caller]
    fn stuck(&self) -> String {
        let stuck = eventually(|| {
            let outcome = self.examine("");
            assert_eq!(outcome.err, "", "{outcome:#?}");
            (outcome.code == Some(1)).then(|| outcome.unwrapped())
        });
        stuck.expect("it is stuck")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(first) = self.children.first() {
            let group = rustix::process::Pid::from_child(first);
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        for child in &mut self.children {
            let _ = child.wait();
        }
    }
}

/// A group with `yes | cat`, and their numbers.
fn yes_to_cat() -> (Group, [u32; 2]) {
    let (reader, writer) = pipe();
    let mut group = Group::default();
    let yes = group.add("yes", [None, writer, None]);
    let cat = group.add("cat", [reader, None, None]);
    (group, [yes, cat])
}

/// A pipe: its read end and its write end.
pub fn pipe() -> (Option<OwnedFd>, Option<OwnedFd>) {
    let (reader, writer) = std::io::pipe().unwrap();
    (Some(reader.into()), Some(writer.into()))
}

/// Waits until a process runs this program.
fn becomes(pid: u32, name: &str) {
    let comm = || std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
    eventually(|| (comm().trim() == name).then_some(())).unwrap();
}

/// Checks that a text contains all words.
#[track_caller]
pub fn assert_contains(text: &str, all: &[&str]) {
    for words in all {
        assert!(text.contains(words), "{words:?} is missing: {text}");
    }
}
