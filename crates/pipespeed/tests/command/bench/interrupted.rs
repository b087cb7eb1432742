//! A run that is interrupted keeps what it has measured, says so by its exit
//! status, and leaves no process behind.

use std::io::Write as _;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::procs::{Mark, Stat, eventually};
use crate::common::{
    Marked, Outcome, PIPESPEED, conditions, json_file, names_in, pipespeed_in, run_marked, says,
    start, start_into,
};
use nix::sys::signal::Signal as Inherited;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

/// Starts a run that would take many minutes, its record in `run.json`.
fn start_long(prepare: impl FnOnce(&mut Command)) -> Marked {
    let args = "bench --quick --rounds 5000 --case write_read_huge --json run.json";
    Marked::prepared(args, prepare)
}

impl Marked {
    /// Waits for a process at one end of a trial.
    fn endpoint(&self, role: &str) -> Pid {
        eventually(|| self.mark.endpoint(role)).unwrap()
    }

    /// Kills whatever plays the role, trial after trial, until the run ends:
    /// the first one may have done its work already.
    fn kill_ends(&mut self, role: &str) {
        let ended = eventually(|| {
            if let Some(end) = self.mark.endpoint(role) {
                // It may be gone by now.
                let _ = kill_process(end, Signal::KILL);
            }
            self.running.has_ended().then_some(())
        });
        assert!(ended.is_some(), "goes on without its {role}");
    }

    /// Stops the reader of a trial.
    fn stop_an_end(&self) {
        let stopped = eventually(|| {
            let end = self.mark.instructed_endpoint("reader")?;
            kill_process(end, Signal::STOP).ok()?;
            // It may have ended in between.
            (Stat::of(end)?.state == 'T').then_some(())
        });
        assert!(stopped.is_some());
    }
}

/// Checks the record of a run that was cut short, and that it was shown.
#[track_caller]
fn assert_kept(outcome: &Outcome, record: &Value, why: &str) {
    let interrupted = record["interrupted"].as_str().unwrap_or_default();
    assert!(interrupted.contains(why), "{record:#}");
    let done = record["settings"]["rounds_done"].as_u64().unwrap() as usize;
    assert!(done >= 1, "{record:#}");
    assert_eq!(record["settings"]["rounds_planned"], 5000);
    for case in record["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        if case["not_run"].is_null() {
            let samples = case["samples"].as_array().unwrap().len();
            // The last round may be cut in two.
            assert!(
                (done..=done + 1).contains(&samples),
                "{name}: {samples} of {done}"
            );
            let median = case["summary"]["gib_per_s"]["median"].as_f64().unwrap();
            assert!(median > 0.0, "{name}");
        }
        assert!(outcome.out.contains(name), "{outcome:#?}");
    }
}

#[test]
fn a_signal_ends_a_run_and_measurements_are_kept() {
    // Whoever started it may have blocked it.
    for (signal, name, status, blocked) in [
        (Signal::INT, "SIGINT", 130, None),
        (Signal::TERM, "SIGTERM", 143, None),
        (Signal::HUP, "SIGHUP", 129, None),
        (Signal::INT, "SIGINT", 130, Some(Inherited::SIGINT)),
        (Signal::TERM, "SIGTERM", 143, Some(Inherited::SIGTERM)),
        (Signal::HUP, "SIGHUP", 129, Some(Inherited::SIGHUP)),
    ] {
        let block = |command: &mut Command| {
            if let Some(signal) = blocked {
                conditions::blocked(command, signal);
            }
        };
        let long = start_long(block).saved();
        long.running.send(signal);
        let (outcome, record) = long.recorded();
        assert_eq!(outcome.code, Some(status), "{outcome:#?}");
        assert_kept(&outcome, &record, name);
        let last = format!("pipespeed: interrupted by {name}");
        assert_eq!(outcome.err.lines().last(), Some(&*last), "{outcome:#?}");
    }
}

#[test]
fn an_interrupted_search_keeps_and_shows_its_trials() {
    for options in [
        // With so much work a search takes most of the time that it may.
        "touched --case write_read_best --pipe-size 64K --work 30 --time 600",
        "sizes --case write_read --pipe-size 64K --time 30",
    ] {
        let run = Marked::start(&format!("bench {options} --json run.json")).saved();
        run.running.send(Signal::INT);
        let (outcome, record) = run.recorded();
        assert_eq!(outcome.code, Some(130), "{outcome:#?}");
        assert_eq!(record["interrupted"], "SIGINT");
        let panel = &record["search"]["panels"][0];
        let cells = panel["cells"].as_array().unwrap();
        assert!(cells.iter().any(|cell| cell["median"].is_f64()));
        assert_eq!(panel["best"], Value::Null, "{options}");
        assert!(outcome.out.contains("not completed"), "{outcome:#?}");
    }
}

#[test]
fn signals_that_come_together_count_as_one() {
    let own_group = |command: &mut Command| {
        command.process_group(0);
    };
    let long = start_long(own_group).saved();
    // They wait for it together, however long it takes to send them.
    long.running.send(Signal::STOP);
    let stopped = || (Stat::of(long.running.pid())?.state == 'T').then_some(());
    eventually(stopped).unwrap();
    // As timeout(1) does, and a shell whose terminal is closed.
    long.running.send(Signal::INT);
    kill_process_group(long.running.pid(), Signal::INT).unwrap();
    long.running.send(Signal::HUP);
    long.running.send(Signal::TERM);
    long.running.send(Signal::CONT);
    let (outcome, record) = long.recorded();
    let code = outcome.code.unwrap_or_default();
    assert!([129, 130, 143].contains(&code), "{outcome:#?}");
    assert_kept(&outcome, &record, "SIG");
}

#[test]
fn second_signal_a_moment_later_ends_a_run_that_hangs() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = pipespeed_in(
        &directory,
        "bench --quick --rounds 5000 --case write_read --json run.json",
    );
    // Its table finds no room, and nobody reads.
    let (_unread, mut full) = std::io::pipe().unwrap();
    let page = rustix::pipe::fcntl_getpipe_size(&full).unwrap() / 16;
    rustix::pipe::fcntl_setpipe_size(&full, page).unwrap();
    full.write_all(&vec![0; page]).unwrap();
    let mark = Mark::on(&mut command);
    let mut running = start_into(command, full);
    let path = directory.path().join("run.json");
    eventually(|| path.exists().then_some(())).unwrap();
    let first = Instant::now();
    eventually(|| {
        running.send(Signal::INT);
        running.has_ended().then_some(())
    })
    .expect("goes on after a second signal");
    // Not by those that came with the first.
    assert!(first.elapsed() >= Duration::from_millis(200));
    assert_eq!(running.finish().signal, Some(2));
    mark.nobody_left();
    assert_eq!(json_file(&path)["interrupted"], "SIGINT");
}

#[test]
fn a_signal_before_anything_was_measured_leaves_nothing() {
    let long = start_long(|_| ());
    // The pilot's first trial.
    long.endpoint("reader");
    long.running.send(Signal::TERM);
    let (outcome, directory) = long.finish();
    outcome.assert_ended(143, "");
    assert!(names_in(directory.path()).is_empty());
}

#[test]
fn run_whose_ends_are_always_killed_ends_and_names_them() {
    for role in ["writer", "reader"] {
        let mut long = start_long(|_| ()).saved();
        long.kill_ends(role);
        let (outcome, record) = long.recorded();
        assert_eq!(outcome.code, Some(1), "{outcome:#?}");
        assert_eq!(record["interrupted"], Value::Null);
        assert!(record["settings"]["rounds_done"].as_u64() >= Some(1));
        let last = outcome.err.lines().last().unwrap();
        says(
            last,
            &[format!("3 trials failed: the {role} was killed by SIGKILL")],
        );
        assert!(outcome.out.contains("write_read_again"), "{outcome:#?}");
    }
}

#[test]
fn a_killed_runs_ends_die_and_its_rounds_are_kept() {
    let long = start_long(|_| ()).saved();
    // Left to itself it would not even notice.
    long.stop_an_end();
    long.running.send(Signal::KILL);
    let (outcome, directory) = long.finish();
    assert_eq!(outcome.signal, Some(9), "{outcome:#?}");
    let record = json_file(&directory.path().join("run.json"));
    assert!(record["settings"]["rounds_done"].as_u64() >= Some(1));
}

/// Its CSV shows that a round was saved.
#[test]
fn an_older_record_is_kept_until_the_run_is_over() {
    let args = "bench --quick --rounds 5000 --case write_read_huge --json old.json --csv run.json";
    for signal in [Signal::KILL, Signal::TERM] {
        let keep = |command: &mut Command| {
            let directory = command.get_current_dir().unwrap();
            std::fs::write(directory.join("old.json"), "old").unwrap();
        };
        let long = Marked::prepared(args, keep).saved();
        long.running.send(signal);
        let (_, directory) = long.finish();
        let record = std::fs::read_to_string(directory.path().join("old.json")).unwrap();
        assert_eq!(record == "old", signal == Signal::KILL, "{record}");
    }
}

#[test]
fn a_run_whose_ends_stand_still_can_be_interrupted() {
    let long = start_long(|_| ()).saved();
    long.stop_an_end();
    long.running.send(Signal::TERM);
    let (outcome, record) = long.recorded();
    assert_eq!(outcome.code, Some(143), "{outcome:#?}");
    assert_kept(&outcome, &record, "SIGTERM");
}

#[test]
fn a_full_disk_keeps_the_last_record_without_ending_runs() {
    let mount = tempfile::tempdir().unwrap();
    let copy = tempfile::tempdir().unwrap();
    let script = r#"
        mount -t tmpfs -o size=64k none "$1" && cd "$1" || exit 99
        "$0" bench --quick --rounds 40 --case write_read --json run.json -q
        status=$?
        ls -A > "$2/names"; cp run.json "$2/run.json"; exit $status"#;
    let paths = [mount.path(), copy.path()].map(|path| path.to_str().unwrap());
    let Some(command) = conditions::in_mount_namespace(script, PIPESPEED, &paths) else {
        return;
    };
    let outcome = run_marked(command);
    assert!(outcome.out.contains("write_read_again"), "{outcome:#?}");
    outcome.failed(1, &["run.json", "No space left"]);
    let names = std::fs::read_to_string(copy.path().join("names")).unwrap();
    assert_eq!(names, "run.json\n");
    let record = json_file(&copy.path().join("run.json"));
    let rounds = record["settings"]["rounds_done"].as_u64().unwrap();
    assert!((2..40).contains(&rounds), "{rounds}");
}

#[test]
fn a_run_that_ignores_the_signal_goes_on_until_done() {
    // As nohup does, and shells without job control for what they start in the
    // background.
    let script = "trap '' HUP INT; exec \"$0\" \"$@\"";
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", script, PIPESPEED]);
    command.args("bench --quick --rounds 4 --case write_read --json run.json".split(' '));
    command.current_dir(&directory);
    let running = start(command);
    let path: &Path = &directory.path().join("run.json");
    eventually(|| path.exists().then_some(())).unwrap();
    running.send(Signal::HUP);
    running.send(Signal::INT);
    let outcome = running.finish();
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    assert_eq!(json_file(path)["settings"]["rounds_done"], 4);
}
