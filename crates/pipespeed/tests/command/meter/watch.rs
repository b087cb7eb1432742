//! `pipespeed meter -d`: another process moves through its files.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::common;
use crate::common::{json, pipespeed, run_alone};
use serde_json::Value;

fn meter(args: &str) -> Command {
    pipespeed(&format!("meter {args}"))
}

/// A meter that says JSON, line by line.
struct Watching {
    child: Child,
    lines: std::io::Lines<BufReader<std::io::PipeReader>>,
}

impl Watching {
    fn start(target: &str) -> Self {
        let (said, err) = std::io::pipe().unwrap();
        let mut command = meter(&format!("--json -i 0.02 -d {target}"));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(err);
        let child = command.spawn().unwrap();
        let lines = BufReader::new(said).lines();
        Watching { child, lines }
    }

    /// The next line that is as wanted.
    #[track_caller]
    fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut lines = self.lines.by_ref().map(|line| json(&line.unwrap()));
        lines.find(wanted).expect("it goes on")
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn file_of(len: usize) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&vec![0; len]).unwrap();
    file
}

#[test]
fn a_descriptor_of_ours_is_followed_forth_and_back_until_it_is_closed() {
    let on_disk = file_of(10_000);
    let mut file = File::open(&on_disk).unwrap();
    let target = format!("{}:{}", std::process::id(), file.as_raw_fd());
    let mut watching = Watching::start(&target);
    for place in [0, 2500, 9999, 100] {
        file.seek(SeekFrom::Start(place)).unwrap();
        let line = watching.until(|line| line["bytes"] == place);
        assert_eq!(line["size_bytes"], 10_000);
    }
    drop(file);
    // The number may be given to another test's file at once: that is not ours
    // either.
    let last = watching.until(|line| line["summary"] == true);
    assert_eq!(
        (&last["end"], &last["bytes"]),
        (&"descriptor closed".into(), &100.into())
    );
    assert!(watching.child.wait().unwrap().success());
}

/// A process with files open, which reads on request.
fn reading(path: &str) -> (Child, ChildStdout) {
    let script = r#"exec 7<"$0"; echo ready; while read n; do
        head -c "$n" <&7 >/dev/null; done"#;
    let mut command = Command::new("sh");
    command.args(["-c", script, path]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0; 6]).unwrap();
    (child, out)
}

#[test]
fn all_files_of_a_process_are_followed_until_it_ends() {
    let on_disk = file_of(500_000);
    let path = on_disk.path().to_str().unwrap();
    let (mut child, _out) = reading(path);
    let mut watching = Watching::start(&child.id().to_string());
    let name = on_disk.path().file_name().unwrap().to_str().unwrap();
    let ours = |line: &Value| {
        line["name"]
            .as_str()
            .is_some_and(|shown| shown.ends_with(name))
    };
    let line = watching.until(ours);
    assert_eq!(
        (&line["bytes"], &line["size_bytes"]),
        (&0.into(), &500_000.into())
    );
    let mut requests = child.stdin.take().unwrap();
    writeln!(requests, "300000").unwrap();
    watching.until(|line| ours(line) && line["bytes"] == 300_000);
    drop(requests);
    child.wait().unwrap();
    let last = watching.until(|line| ours(line) && line["summary"] == true);
    assert_eq!(last["end"], "process ended");
    assert!(watching.child.wait().unwrap().success());
}

#[test]
fn a_process_without_open_files_is_waited_for_with_a_message() {
    // Without descriptors that the tests were started with.
    let script = "exec cat 3<&- 4<&- 5<&- 6<&- 7<&- 8<&- 9<&- 2>/dev/null";
    let mut cat = Command::new("sh");
    let cat = cat.args(["-c", script]);
    let mut child = cat
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    // Once it passes data on, its libraries are loaded and closed.
    input.write_all(b"x").unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    let mut watching = Watching::start(&child.id().to_string());
    let line = watching.until(|_| true);
    let words = format!("process {} has no file open, only pipes", child.id());
    assert!(
        line["error"].as_str().unwrap().starts_with(&words),
        "{line}"
    );
    drop(input);
    child.wait().unwrap();
    assert!(watching.child.wait().unwrap().success());
}

#[test]
fn on_a_terminal_each_file_has_a_row() {
    let on_disk = file_of(500_000);
    let (mut child, _out) = reading(on_disk.path().to_str().unwrap());
    let mut terminal = common::terminal::Terminal::new(80);
    let mut command = meter(&format!("-i 0.02 -b -d {}", child.id()));
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let process = terminal.start(command);
    terminal.until("drawn", |text| {
        text.contains("7:") && text.contains("     0B\x1b[K")
    });
    let mut requests = child.stdin.take().unwrap();
    writeln!(requests, "102400").unwrap();
    terminal.until("followed", |text| text.contains(" 100KiB\x1b[K"));
    drop(requests);
    child.wait().unwrap();
    assert!(process.finish().success());
    assert!(terminal.text().ends_with("\r\n"));
}

#[test]
fn what_can_not_be_watched_is_named() {
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let pid = gone.id();
    let outcome = run_alone(meter(&format!("-d {pid}")));
    outcome.refused(2, &[&format!("process {pid}"), "No such process"]);
    let own = std::process::id();
    let outcome = run_alone(meter(&format!("-d {own}:100000")));
    outcome.refused(2, &["descriptor 100000", "No such file"]);
    let (reader, _writer) = std::io::pipe().unwrap();
    let outcome = run_alone(meter(&format!("-d {own}:{}", reader.as_raw_fd())));
    outcome.refused(2, &["neither a file nor a block device"]);
}
