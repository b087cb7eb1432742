//! Processes whose memory maps are locked, as by a dead network file system: reading some of their
//! files in /proc blocks until they are killed. A program of its own, since other tests read such
//! files of all processes.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use pipespeed_testing::procs::eventually;
use pipespeed_testing::{Running, command, json, run, skip, start};
use rustix::process::{Signal, geteuid};
use serde_json::Value;
use tempfile::TempDir;

/// A pipeline whose first two stages have locked maps. The script undoes everything at the end of
/// its standard input.
struct Locked {
    directory: TempDir,
    script: Child,
    stages: [i32; 3],
}

impl Locked {
    /// `None`, visibly skipped, where that is not possible.
    fn new() -> Option<Self> {
        if !geteuid().is_root() {
            skip("only root can freeze a file system");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.arg("-c").arg(include_str!("frozen.sh")).arg("sh");
        command.arg(directory.path()).arg(program());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut script = command.spawn().unwrap();
        let mut line = String::new();
        let out = script.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        let pids: Vec<i32> = line.split(' ').flat_map(|pid| pid.trim().parse()).collect();
        let mut locked = Locked {
            directory,
            script,
            stages: [0; 3],
        };
        let Ok(stages) = pids.try_into() else {
            skip(line.trim());
            return None;
        };
        locked.stages = stages;
        let [first, second, _] = stages;
        let are_locked = || (hangs(first, "cmdline") && hangs(second, "fdinfo/100")).then_some(());
        if eventually(are_locked).is_none() {
            skip("memory maps can't be locked this way here");
            return None;
        }
        Some(locked)
    }

    /// Starts the command with these arguments.
    fn start(&self, args: &str) -> Running {
        start(self.pipespeed(args))
    }

    fn pipespeed(&self, args: &str) -> Command {
        let mut command = command(env!("CARGO_BIN_EXE_pipespeed"), args);
        command.current_dir(self.directory.path());
        command
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        drop(self.script.stdin.take());
        let _ = self.script.wait();
    }
}

fn program() -> &'static Path {
    Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/locked_map/lock.py"
    ))
}

/// Whether a file of a process can't be read.
fn hangs(pid: i32, file: &str) -> bool {
    let mut cat = command("timeout", &format!("-s KILL 0.2 cat /proc/{pid}/{file}"));
    cat.stdin(Stdio::null());
    run(cat).signal == Some(9)
}

#[test]
fn locked_memory_maps_hang_nothing() {
    let Some(locked) = Locked::new() else {
        return;
    };
    let [first, second, last] = locked.stages;
    let shown = |record: &Value, pid: i32| {
        let all = record["processes"].as_array().unwrap().clone();
        all.into_iter()
            .find(|process| process["pid"] == pid)
            .unwrap()
    };

    // All at once: each of them waits most of the time.
    let with_paths = locked.start(&format!("doctor --time 0.5 --json - {last}"));
    let args = format!("doctor --time 0.5 --no-open --arguments --json - {last}");
    let with_arguments = locked.start(&args);
    let with_pid = format!("top --once --arguments {first}");
    let surveys =
        ["doctor --all --time 0.5", "top --once", &with_pid].map(|args| locked.start(args));
    // What it has started may wait for the file system beyond SIGKILL.
    let mut profile = locked.pipespeed("profile --quick --no-save --");
    let file = locked.directory.path().join("mounted/c");
    profile.arg(format!(
        "python3 {} select {} | sleep 1000",
        program().display(),
        file.display()
    ));
    let profile = start(profile);

    let record = json(&with_paths.finish().out);
    for pid in [first, second] {
        let process = shown(&record, pid);
        // The thread that holds the lock waits for the file system.
        assert!(
            process["shares"]["disk"].as_f64() > Some(0.9),
            "{process:#}"
        );
        assert!(process.get("arguments").is_none());
    }
    let record = json(&with_arguments.finish().out);
    assert_eq!(shown(&record, last)["arguments"], "sleep 1000");
    assert!(shown(&record, first).get("arguments").is_none());
    for survey in surveys {
        let outcome = survey.finish();
        assert!(matches!(outcome.code, Some(0 | 1)), "{outcome:#?}");
    }
    let outcome = profile.finish();
    assert!(outcome.code.is_some(), "{outcome:#?}");

    for args in ["doctor --all --time 1000", "top --all --json /dev/null"] {
        let running = locked.start(args);
        let status = format!("/proc/{}/status", running.pid().as_raw_pid());
        let handles_sigterm = || {
            let text = std::fs::read_to_string(&status).ok()?;
            let mask = text.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
            let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
            (mask >> (Signal::TERM.as_raw() - 1) & 1 == 1).then_some(())
        };
        eventually(handles_sigterm).unwrap();
        running.send(Signal::TERM);
        let outcome = running.finish();
        assert!(
            outcome.signal == Some(15) || outcome.code == Some(143),
            "{outcome:#?}"
        );
    }
}
