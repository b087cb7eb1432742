//! A process that stays in execve(2), as with a file of a dead file system: reading many of its files in /proc
//! blocks beyond all signals but SIGKILL. A program of its own, since other tests read such files of all
//! processes.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use pipespeed_testing::conditions::ordinary;
use pipespeed_testing::procs::eventually;
use pipespeed_testing::{Outcome, Running, command, json, run, skip, start};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use rustix::process::Signal;
use tempfile::TempDir;

/// Longer than anything below takes, and shorter than what hangs.
const MAX_DURATION: Duration = Duration::from_secs(25);

/// A process of another user, if this is root, that answers nothing.
struct Silent {
    directory: TempDir,
    server: Child,
    pid: i32,
}

impl Silent {
    /// `None`, visibly skipped, where that is not possible.
    fn new() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let mounted = directory.path().join("mounted");
        std::fs::create_dir(&mounted).unwrap();
        let readable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(directory.path(), readable).unwrap();
        let device = device(&directory);
        if let Err(error) = File::options().read(true).write(true).open(&device) {
            skip(format!("no FUSE here: {error}"));
            return None;
        }
        let mut command = Command::new("unshare");
        command.args(["-U", "-r", "-m", "python3", "-c", include_str!("silent.py")]);
        command.arg(&device).arg(&mounted);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut server = ordinary(&mut command).spawn().unwrap();
        let mut line = String::new();
        let out = server.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        let mut silent = Silent {
            directory,
            server,
            pid: 0,
        };
        let Ok(pid) = line.trim().parse() else {
            skip("FUSE can't be mounted here");
            return None;
        };
        silent.pid = pid;
        if eventually(|| hangs(pid).then_some(())).is_none() {
            skip("this kernel reads the files of a process in execve(2)");
            return None;
        }
        Some(silent)
    }

    fn pipespeed(&self, args: &str) -> Command {
        let mut command = command(env!("CARGO_BIN_EXE_pipespeed"), args);
        command.stdin(Stdio::null());
        command.current_dir(self.directory.path());
        command
    }

    /// Starts the command with these arguments, and a last one for a shell.
    fn start(&self, args: &str, script: &str) -> Running {
        let mut command = self.pipespeed(args);
        if !script.is_empty() {
            command.args(["--", script]);
        }
        start(command)
    }

    #[track_caller]
    fn is_named(&self, text: &str) {
        let beginning = format!("process {} (", self.pid);
        let rest = text.split(&beginning).nth(1);
        let rest = rest.unwrap_or_else(|| panic!("{beginning:?} is missing: {text}"));
        assert!(rest.contains(") answers nothing"), "{text}");
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// The device of FUSE: a node of its own if this process may make one, since the usual one may be closed to
/// ordinary users.
fn device(directory: &TempDir) -> PathBuf {
    let node = directory.path().join("fuse");
    let all = Mode::from_raw_mode(0o666);
    let is_made = mknodat(CWD, &node, FileType::CharacterDevice, all, makedev(10, 229)).is_ok();
    if !is_made {
        return PathBuf::from("/dev/fuse");
    }
    let all = std::fs::Permissions::from_mode(0o666);
    std::fs::set_permissions(&node, all).unwrap();
    node
}

/// Whether the state of a process can't be read.
fn hangs(pid: i32) -> bool {
    let mut cat = command("timeout", &format!("-s KILL 0.5 cat /proc/{pid}/stat"));
    cat.stdin(Stdio::null());
    run(cat).signal == Some(9)
}

/// Waits for the end of a command, which must not hang.
#[track_caller]
fn ended(running: Running, since: Instant) -> Outcome {
    let outcome = running.finish();
    assert!(since.elapsed() < MAX_DURATION, "{outcome:#?}");
    outcome
}

#[test]
fn process_that_answers_nothing_hangs_neither_doctor_nor_top() {
    let Some(silent) = Silent::new() else {
        return;
    };
    let mut other = command("sleep", "100").spawn().unwrap();
    let since = Instant::now();
    let survey = silent.start("doctor --time 0.5", "");
    let of_other = silent.start(&format!("doctor --time 0.5 --json - {}", other.id()), "");
    let of_command = silent.start("doctor --time 0.5", "sleep 4 | cat");
    let guard = silent.start("doctor --if-stuck 2 --kill", "sleep 4");
    let of_silent = silent.start(&format!("doctor --time 0.5 {}", silent.pid), "");
    let once = silent.start("top --once", "");
    let of_silent_once = silent.start(&format!("top --once {}", silent.pid), "");
    let once_of_command = silent.start("top --once", "sleep 4 | cat");

    silent.is_named(&ended(survey, since).unwrapped());
    let record = json(&ended(of_other, since).out);
    assert_eq!(record["silent"][0]["pid"], silent.pid, "{record:#}");
    let outcome = ended(of_command, since);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    silent.is_named(&outcome.unwrapped_err());
    ended(guard, since).succeeded_in_silence();
    ended(of_silent, since).refused(2, &["does not answer"]);
    silent.is_named(&ended(once, since).unwrapped());
    ended(of_silent_once, since).refused(1, &["does not answer"]);
    let outcome = ended(once_of_command, since);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    silent.is_named(&outcome.unwrapped_err());

    signals_end_it(&silent);
    let pid = silent.pid;
    drop(silent);
    eventually(|| (!hangs(pid)).then_some(())).unwrap();
    let _ = other.kill();
    let _ = other.wait();
}

/// Sends signals at any time: during the first read, and later.
fn signals_end_it(silent: &Silent) {
    let end = |args, signal: Signal, delay| {
        let running = start(silent.pipespeed(args));
        sleep(Duration::from_secs_f64(delay));
        let sent = Instant::now();
        running.send(signal);
        let outcome = running.finish();
        assert_eq!(outcome.code, Some(128 + signal.as_raw()), "{outcome:#?}");
        assert!(sent.elapsed() < Duration::from_secs(10), "{outcome:#?}");
    };
    thread::scope(|scope| {
        for delay in [0.3, 0.9, 2.5] {
            scope.spawn(move || end("doctor --time 1000", Signal::TERM, delay));
            scope.spawn(move || end("top --json /dev/null", Signal::INT, delay));
        }
    });
}
