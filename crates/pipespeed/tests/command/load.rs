//! Commands that measure beside other processes: they say so before the first trial, and what
//! they show and record names it.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use crate::common::records::{Records, run as invented};
use crate::common::{BUSY, Outcome, TIMEOUT, conditions, json, pipespeed, run_alone, skip};
use pipespeed_measure::session::SUBCOMMAND;
use pipespeed_measure::spec::Suite;
use serde_json::Value;

/// A busy loop for each processor. It ends when it is dropped, or by itself.
struct Load {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    fn start() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let count = thread::available_parallelism().map_or(2, usize::from);
        let threads = (0..count).map(|_| {
            let (is_over, started) = (Arc::clone(&is_over), Instant::now());
            thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) && started.elapsed() < 2 * TIMEOUT {
                    spin_loop();
                }
            })
        });
        let threads = threads.collect();
        Load { is_over, threads }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The number of notes that other processes use the machine.
fn count_notes(outcome: &Outcome) -> usize {
    let beginning = format!("{}other processes use ", BUSY[0]);
    let lines = outcome.whole_err.lines();
    lines.filter(|line| line.starts_with(&beginning)).count()
}

/// The kinds of the warnings of a record.
fn kinds(record: &Value) -> Vec<&str> {
    let warnings = record["warnings"].as_array().unwrap();
    let kinds = warnings.iter().map(|warning| warning["kind"].as_str());
    kinds.map(Option::unwrap).collect()
}

/// A trial that fails says so when it ends, so the note stands before it.
#[test]
fn the_note_is_printed_before_the_first_trial() {
    let _load = Load::start();
    let mut command = pipespeed("bench --quick --rounds 1 --case write_read --no-save");
    if !conditions::without_call(&mut command, libc::SYS_prctl) {
        return;
    }
    let outcome = run_alone(command);
    assert_ne!(outcome.code, Some(0), "{outcome:#?}");
    let place = |words: &str| outcome.whole_err.find(words);
    assert_eq!(count_notes(&outcome), 1, "{outcome:#?}");
    let (note, trial) = (place(BUSY[0]), place("prctl"));
    assert!(note.is_some() && trial.is_some(), "{outcome:#?}");
    assert!(note < trial, "{outcome:#?}");
}

#[test]
fn every_command_that_measures_records_the_load() {
    let _load = Load::start();
    for args in [
        "bench --quick --rounds 1 --case write_read",
        "latency pipe --size 8 --count 10 --rounds 1",
        "costs --rounds 1",
        "costs --pinning --rounds 1",
        "profile write_read --quick",
        "boost --prove=1",
    ] {
        // The last one needs a command.
        let command = if args.starts_with("boost") {
            "true"
        } else {
            ""
        };
        let outcome = run_alone(pipespeed(&format!("{args} --json - -q {command}")));
        if outcome.code != Some(0) && args.starts_with("profile") {
            skip(outcome.err.trim());
            continue;
        }
        let outcome = outcome.succeeded();
        assert_eq!(count_notes(&outcome), 0, "{outcome:#?}");
        let record = json(&outcome.out);
        assert!(
            kinds(&record).contains(&"busy"),
            "{args}: {:?}",
            kinds(&record)
        );
    }
}

/// The steps are processes of their own that look, too.
#[test]
fn a_report_says_once_that_the_machine_is_busy() {
    let _load = Load::start();
    let records = Records::new();
    std::fs::create_dir(records.0.path().join("before")).unwrap();
    for suite in [
        Suite::Ladder,
        Suite::Touched,
        Suite::Sizes,
        Suite::Channels,
        Suite::Changes,
    ] {
        records.save(&format!("before/{suite}.json"), &invented(suite, &[]));
    }
    let outcome = records.pipespeed("report --resume=before").succeeded();
    assert_eq!(count_notes(&outcome), 1, "{outcome:#?}");
    let place = |words: &str| outcome.whole_err.find(words).unwrap();
    assert!(place(BUSY[0]) < place("1 of 2: "), "{outcome:#?}");

    let report = std::process::id();
    let step = "bench --quick --rounds 1 --case write_read --json -";
    let outcome = run_alone(pipespeed(&format!("{SUBCOMMAND} step {report} {step}"))).succeeded();
    assert_eq!(count_notes(&outcome), 0, "{outcome:#?}");
    let record = json(&outcome.out);
    assert!(kinds(&record).contains(&"busy"), "{:?}", kinds(&record));
}
