//! Hangs of programs as people write them, each with its right answer.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use pipespeed_pipeline::proc::Proc;
use serde_json::Value;

use crate::programs::{program, quiet};
use crate::{PIPESPEED, Pipeline};

/// What `doctor` must say of a program that hangs.
struct Planted {
    /// Its file in `hangs/`.
    file: &'static str,
    /// The verdict in the record.
    verdict: &'static str,
    /// The first finding in the record.
    finding: &'static str,
    /// The beginnings of the names of the processes that it names.
    names: &'static [&'static str],
    /// Words about the stream, on the screen.
    stream: &'static str,
    /// Words of the remedy, on the screen.
    remedy: &'static str,
}

/// The verdict and the first finding.
type Answer = (&'static str, &'static str);

const UNREAD: Answer = ("unread", "unread");
const WITHHELD: Answer = ("waiting_for", "leaked_write_end");
const STUCK: Answer = ("stuck", "deadlock");

const fn planted(
    (verdict, finding): Answer,
    file: &'static str,
    names: &'static [&'static str],
    stream: &'static str,
    remedy: &'static str,
) -> Planted {
    Planted {
        file,
        verdict,
        finding,
        names,
        stream,
        remedy,
    }
}

const STDOUT: &str = "the standard output of yes";
/// `>&2` and `2>&1` look alike.
const BOTH: &str = "the standard output and error of yes";

const ALL: [Planted; 28] = [
    planted(
        UNREAD,
        "node_stderr_paused.js",
        &["yes", "node"],
        BOTH,
        "or stderr.resume()",
    ),
    planted(
        UNREAD,
        "node_stdout_ignored.js",
        &["yes", "node"],
        STDOUT,
        "stdout.resume()",
    ),
    planted(
        WITHHELD,
        "node_close_withheld.js",
        &["node", "sleep"],
        "standard output",
        "'exit' instead of 'close'",
    ),
    Planted {
        file: "node_both_wait.js",
        verdict: "waiting_for",
        finding: "mutual_wait",
        names: &["node", "python3"],
        stream: "standard input",
        remedy: "the end of the line",
    },
    planted(
        UNREAD,
        "python_asyncio_stderr.py",
        &["yes", "python3"],
        BOTH,
        "communicate()",
    ),
    planted(
        STUCK,
        "python_subprocess_stderr.py",
        &["python3", "sh", "yes"],
        "yes (pid",
        "communicate()",
    ),
    planted(
        WITHHELD,
        "python_communicate_withheld.py",
        &["python3", "sleep"],
        "standard output",
        "'1>&-'",
    ),
    planted(
        STUCK,
        "python_pipe_both_receive.py",
        &["python3", "python3"],
        "socket",
        "one of them must write first",
    ),
    planted(
        STUCK,
        "python_join_before_receive.py",
        &["python3", "python3"],
        "socket",
        "recv() or get() before join()",
    ),
    planted(
        STUCK,
        "python_stdin_open.py",
        &["python3", "cat"],
        "standard input",
        "close the write end",
    ),
    planted(
        UNREAD,
        "python_pty_unread.py",
        &["yes", "python3"],
        "terminal /dev/pts/",
        "os.read() of the master",
    ),
    Planted {
        file: "python_pty_both_wait.py",
        verdict: "waiting_for",
        finding: "mutual_wait",
        names: &["python3", "sh"],
        stream: "standard input",
        remedy: "sendline()",
    },
    planted(
        WITHHELD,
        "python_pty_withheld.py",
        &["python3", "sleep"],
        "the end of its terminal",
        "'1>&-'",
    ),
    Planted {
        file: "python_socket_sleeper.py",
        verdict: "waiting_for",
        finding: "unread",
        names: &["python3", "python3"],
        stream: "unread",
        remedy: "waits for a timer",
    },
    planted(
        UNREAD,
        "go_stderr_later.go",
        &["yes", "go_stderr_later"],
        BOTH,
        "a goroutine each",
    ),
    planted(
        WITHHELD,
        "go_output_withheld.go",
        &["go_output_withh", "sleep"],
        "standard output",
        "WaitDelay",
    ),
    planted(
        WITHHELD,
        "go_stdin_open.go",
        &["cat", "go_stdin_open"],
        "descriptor",
        "what StdinPipe returned",
    ),
    planted(
        UNREAD,
        "go_all_write.go",
        &["cat", "go_all_write"],
        "the standard output of cat",
        "write in a goroutine",
    ),
    planted(
        UNREAD,
        "JavaWait.java",
        &["yes", "java"],
        STDOUT,
        "before waitFor()",
    ),
    planted(
        UNREAD,
        "JavaStderr.java",
        &["yes", "java"],
        BOTH,
        "redirectErrorStream(true)",
    ),
    Planted {
        file: "JavaUnflushed.java",
        verdict: "waiting_for",
        finding: "mutual_wait",
        names: &["java", "cat"],
        stream: "standard input",
        remedy: "flush() the writer",
    },
    planted(
        WITHHELD,
        "JavaWithheld.java",
        &["java", "sleep"],
        "standard output",
        "waitFor()",
    ),
    planted(
        STUCK,
        "perl_open3_stderr.pl",
        &["perl", "sh", "yes"],
        "yes (pid",
        "IPC::Run",
    ),
    planted(
        WITHHELD,
        "perl_backticks_withheld.pl",
        &["perl", "sleep"],
        "standard output",
        "'1>&-'",
    ),
    planted(
        STUCK,
        "rust_wait.rs",
        &["yes", "doctor"],
        "standard output",
        "before waiting for the child",
    ),
    planted(
        UNREAD,
        "tokio_stderr.rs",
        &["yes", "doctor"],
        BOTH,
        "a thread each",
    ),
    planted(
        WITHHELD,
        "shell_substitution_withheld.sh",
        &["sh", "sleep"],
        "standard output",
        "'1>/dev/null'",
    ),
    planted(
        STUCK,
        "shell_fifo_stderr.sh",
        &["cat", "sh", "yes"],
        "FIFO",
        "read both at once",
    ),
];

/// Starts each hang and examines it once.
pub(crate) fn examine_all() -> anyhow::Result<()> {
    let (mut right, mut skipped) = (0, 0);
    for planted in &ALL {
        let directory = tempfile::tempdir()?;
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/doctor/hangs");
        let Some(mut command) = program(&source.join(planted.file), directory.path())? else {
            skipped += 1;
            println!("  skipped: {}", planted.file);
            continue;
        };
        quiet(&mut command).current_dir(directory.path());
        let program = Pipeline::spawn(command)?;
        planted.wait_until_still(program.0.id() as i32)?;
        let record = crate::examine(program.0.id()).context(planted.file)?;
        let screen = Command::new(PIPESPEED)
            .args(["doctor", &program.0.id().to_string()])
            .output()?;
        let screen = String::from_utf8_lossy(&screen.stdout).replace("\n  ", " ");
        let faults = planted.faults(&record, &screen);
        if faults.is_empty() {
            right += 1;
        } else {
            println!("  {}: {}", planted.file, faults.join("; "));
        }
    }
    println!(
        "hangs explained: {right} of {} ({skipped} skipped)",
        ALL.len()
    );
    Ok(())
}

impl Planted {
    /// Waits until all processes that the finding names are there and hardly run any more.
    fn wait_until_still(&self, pid: i32) -> anyhow::Result<()> {
        const INTERVAL: Duration = Duration::from_millis(500);
        const MAX_WAIT: Duration = Duration::from_secs(60);
        let proc = Proc::default();
        let start = Instant::now();
        while start.elapsed() < MAX_WAIT {
            let before = ran(&proc, pid);
            thread::sleep(INTERVAL);
            let group = group(&proc, pid).into_iter();
            let names: Vec<String> = group.filter_map(|pid| proc.name(pid)).collect();
            let is_there = |name: &&&str| names.iter().any(|other| other.starts_with(**name));
            let ran = ran(&proc, pid).saturating_sub(before);
            if self.names.iter().all(|name| is_there(&name)) && ran < INTERVAL / 20 {
                return Ok(());
            }
        }
        anyhow::bail!("{} did not hang", self.file)
    }

    /// What is wrong in the answer.
    fn faults(&self, record: &Value, screen: &str) -> Vec<String> {
        let mut faults = Vec::new();
        let mut expect = |is_right: bool, what: String| {
            if !is_right {
                faults.push(what);
            }
        };
        let verdict = &record["verdict"];
        // Whoever can't be examined may have opened a FIFO.
        let hides_any = record["hidden"] != 0 && screen.contains("FIFO");
        let is_right = verdict == self.verdict
            || hides_any && self.verdict == STUCK.0 && verdict == "probably_stuck";
        expect(is_right, format!("verdict {verdict}"));
        let finding = &record["findings"][0];
        let kind = &finding["finding"];
        expect(kind == self.finding, format!("finding {kind}"));
        for name in self.names {
            let is_named = finding.to_string().contains(&format!("\"name\":\"{name}"));
            expect(is_named, format!("{name} is not named"));
        }
        for words in [self.stream, self.remedy] {
            expect(screen.contains(words), format!("{words:?} is not said"));
        }
        faults
    }
}

/// The processes of a group: those in the background are no descendants of its leader.
fn group(proc: &Proc, leader: i32) -> Vec<i32> {
    let all = proc.processes().into_iter();
    all.filter(|pid| proc.stat(*pid).is_some_and(|stat| stat.group == leader))
        .collect()
}

/// Processor time of a process group.
fn ran(proc: &Proc, leader: i32) -> Duration {
    let threads = group(proc, leader).into_iter().flat_map(|pid| {
        let threads = proc.threads(pid).into_iter();
        threads
            .filter_map(move |tid| Some(proc.schedule(pid, tid)?.0))
            .collect::<Vec<_>>()
    });
    threads.sum()
}
