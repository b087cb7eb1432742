//! `bench channels` when an end of a trial is killed: a clear line, the other
//! cases go on, and nothing is left behind.

use pipespeed_measure::spec::Channel;
use std::path::Path;

use crate::common::procs::eventually;
use crate::common::{Marked, Outcome, json_file, names_in, skip};
use rustix::process::{Signal, kill_process};
use serde_json::Value;

/// Some, so that a run does not end before an end is killed.
const ROUNDS: u32 = 2;

/// A run of one channel, whose ends block in some cases and spin in others.
struct Run {
    marked: Marked,
    /// The message queues before it.
    queues: Vec<String>,
}

impl Run {
    fn start(channel: &str, rounds: u32) -> Self {
        let queues = queues();
        let options = format!("--quick --rounds {rounds} --channel {channel} --size 1K");
        let marked = Marked::start(&format!("bench channels {options} --json run.json -q"));
        Run { marked, queues }
    }

    /// Waits until a round has been saved. `None`, with a skip, if this machine
    /// has no such channel.
    fn saved(mut self) -> Option<Self> {
        let path = self.marked.record_path();
        let ended = eventually(|| {
            let ended = self.marked.running.has_ended();
            (ended || path.exists()).then_some(ended)
        });
        if ended.expect("nothing was saved") && !path.exists() {
            assert!(is_refused(&self.marked.running.finish()));
            None
        } else {
            Some(self)
        }
    }

    /// Kills one process in the role, as soon as there is one, unless the run ends before.
    fn kill_one(&mut self, role: &str) {
        let killed = eventually(|| {
            if self.marked.running.has_ended() {
                return Some(());
            }
            let end = self.marked.mark.endpoint(role)?;
            kill_process(end, Signal::KILL).ok()
        });
        assert!(killed.is_some(), "no {role} to kill");
    }

    /// The end, and what is left of it.
    #[track_caller]
    fn finish(self) -> (Outcome, Value) {
        let (outcome, directory) = self.marked.finish();
        let new = queues()
            .into_iter()
            .filter(|name| !self.queues.contains(name));
        let ours: Vec<String> = new.filter(|name| name.starts_with("pipespeed-")).collect();
        // Other tests make queues too, whose names go at once.
        let left = |name: &String| Path::new("/dev/mqueue").join(name).exists();
        assert!(!ours.iter().any(left), "{ours:?}");
        let names = names_in(directory.path());
        if is_refused(&outcome) {
            assert!(names.is_empty(), "{outcome:#?}");
            return (outcome, Value::Null);
        }
        assert_eq!(names, ["run.json"], "{outcome:#?}");
        let record = json_file(&directory.path().join("run.json"));
        (outcome, record)
    }
}

/// Whether this machine has no such channel, and says so.
fn is_refused(outcome: &Outcome) -> bool {
    let refused = outcome.err.contains("no case could be run: refused: ");
    if refused {
        skip(outcome.err.trim());
    }
    refused
}

/// The message queues there are, where they can be seen.
fn queues() -> Vec<String> {
    if Path::new("/dev/mqueue").is_dir() {
        names_in(Path::new("/dev/mqueue"))
    } else {
        Vec::new()
    }
}

/// Kills an end and sees what comes of it. An end that was about to exit, its
/// work done, is no loss, and a run may end before: then once more. None where there is no such
/// channel.
fn killed(begin: impl Fn() -> Option<Run>, role: &str) -> Option<(Outcome, Value)> {
    for _ in 0..5 {
        let mut run = begin()?;
        run.kill_one(role);
        let (outcome, record) = run.finish();
        if record.is_null() {
            return None;
        }
        if outcome.code != Some(0) {
            return Some((outcome, record));
        }
    }
    panic!("no {role} was killed at its work in five runs");
}

/// Every channel with one of its ends, in turn: the writer, the reader.
fn channels_and_ends() -> impl Iterator<Item = (&'static str, &'static str)> {
    let channels = Channel::with_data().into_iter().map(Channel::name);
    channels.zip(["writer", "reader"].into_iter().cycle())
}

#[track_caller]
fn assert_names_the_killed(outcome: &Outcome, role: &str) {
    assert_eq!(outcome.code, Some(1), "{outcome:#?}");
    let lines: Vec<&str> = outcome.err.lines().collect();
    let killed = format!("the {role} was killed by SIGKILL");
    let clear = |line: &&str| line.starts_with("pipespeed: ") && line.contains(&killed);
    assert!(lines.iter().all(clear), "{outcome:#?}");
    let [told, last] = lines.as_slice() else {
        panic!("{outcome:#?}");
    };
    assert!(
        told.ends_with("the run continues with the other trials"),
        "{outcome:#?}"
    );
    assert!(last.contains("1 trial failed: "), "{outcome:#?}");
}

#[test]
fn an_end_killed_in_a_round_costs_that_trial_only() {
    for (channel, role) in channels_and_ends() {
        let run = killed(|| Run::start(channel, ROUNDS).saved(), role);
        let Some((outcome, record)) = run else {
            continue;
        };
        assert_names_the_killed(&outcome, role);
        assert_eq!(
            record["settings"]["rounds_done"], ROUNDS,
            "{channel}, {role}"
        );
        assert_eq!(record["interrupted"], Value::Null);
        let samples = |case: &Value| case["samples"].as_array().unwrap().len();
        let cases = record["cases"].as_array().unwrap();
        let measured = cases.iter().filter(|case| case["not_run"].is_null());
        // A round was added in place of the incomplete one.
        let samples: Vec<usize> = measured.map(samples).collect();
        let complete = samples
            .iter()
            .filter(|count| **count == ROUNDS as usize + 1);
        assert_eq!(complete.count(), samples.len() - 1, "{samples:?}");
        assert!(samples.contains(&(ROUNDS as usize)), "{samples:?}");
        let warnings = record["warnings"].as_array().unwrap();
        let is_failure = |warning: &&Value| warning["kind"] == "failed";
        assert_eq!(warnings.iter().filter(is_failure).count(), 1);
    }
}

/// Channels with a name in a directory, with a queue's, with memory, with the kernel's requests,
/// with none of them. The test before sees what the others leave.
#[test]
fn a_signal_leaves_no_file_no_queue_and_no_process() {
    for channel in ["fifo", "unix", "mqueue", "ring", "uring", "tcp"] {
        let Some(run) = Run::start(channel, 5000).saved() else {
            continue;
        };
        run.marked.running.send(Signal::INT);
        let (outcome, _) = run.finish();
        assert_eq!(outcome.code, Some(130), "{outcome:#?}");
    }
}
