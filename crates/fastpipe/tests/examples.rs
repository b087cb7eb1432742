//! The programs in `examples/`, as their comments say.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// An example, which cargo has built beside this test.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.ancestors().nth(2).unwrap();
    profile.join("examples").join(name)
}

/// What a shell's commands print, in which `$E` is the directory of the examples.
fn shell(script: &str) -> String {
    let mut command = Command::new("bash");
    command.args(["-o", "pipefail", "-c", script]);
    command.env("E", example(""));
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{script}: {}: {err}",
        output.status
    );
    text
}

#[test]
fn producers_and_filters_print_what_they_say() {
    let script = "set +o pipefail; $E/generator | head -c 8000000 | tail -c 8 | od -An -t u8";
    assert_eq!(shell(script).trim(), "999999");
    assert_eq!(
        shell("seq 30000 | sed s/^/x/ | $E/upper | tail -n 1"),
        "X30000\n"
    );
    let lines = shell("$E/log");
    assert_eq!(lines.lines().count(), 100_010);
    assert!(lines.ends_with("request 99999: served\n"));
    // The reader ends first.
    assert_eq!(shell("set +o pipefail; $E/yes | head -n 2"), "y\ny\n");
    assert_eq!(shell("$E/log | head -n 1"), "request 0: served\n");
}

#[test]
fn saved_and_relayed_bytes_are_those_of_the_input() {
    let script = "d=$(mktemp -d) && seq 300000 > $d/a && $E/save $d/b < $d/a | $E/relay 2> $d/e | \
                  cmp - $d/a && cmp $d/a $d/b && rm -r $d";
    assert_eq!(shell(script), "");
}

#[test]
fn frames_reach_the_other_process() {
    assert_eq!(shell("$E/frames"), "100 frames\n");
}

#[test]
fn messages_reach_the_worker() {
    assert_eq!(shell("$E/messages"), "100000 jobs\n");
}

#[test]
fn tee_copies_what_it_passes_on() {
    let script = "d=$(mktemp -d) && seq 300000 | $E/tee $d/a | cmp - <(seq 300000) && \
                  seq 300000 | cmp - $d/a && rm -r $d";
    assert_eq!(shell(script), "");
    // The copy is incomplete, and the program says so.
    let script = "seq 300000 | $E/tee /dev/full 2>&1 >/dev/null && exit 1; true";
    assert!(shell(script).contains("No space left"));
}

#[test]
fn raw_pages_reach_the_pipe_and_the_file() {
    let script = "d=$(mktemp -d) && $E/raw $d/a 2>/dev/null | cat > $d/b && test -s $d/a && \
                  test -s $d/b && cat $d/a $d/b | tr -d x | wc -c && rm -r $d";
    assert_eq!(shell(script), "0\n");
}

#[test]
fn the_proxies_pass_both_directions() {
    for name in ["proxy", "async_proxy"] {
        passes_both_directions(name);
    }
}

fn passes_both_directions(proxy: &str) {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let there = server.local_addr().unwrap().to_string();
    let mut command = Command::new(example(proxy));
    command.args(["127.0.0.1:0", &there]).stderr(Stdio::piped());
    let mut proxy = command.spawn().unwrap();
    let mut line = String::new();
    let mut err = BufReader::new(proxy.stderr.take().unwrap());
    err.read_line(&mut line).unwrap();
    let here = line.trim().rsplit(' ').next().unwrap();
    let mut client = TcpStream::connect(here).unwrap();
    let limit = Some(Duration::from_secs(60));
    client.set_read_timeout(limit).unwrap();
    let (mut served, _) = server.accept().unwrap();
    served.set_read_timeout(limit).unwrap();
    client.write_all(b"question").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut got = String::new();
    served.read_to_string(&mut got).unwrap();
    assert_eq!(got, "question");
    served.write_all(b"answer").unwrap();
    drop(served);
    got.clear();
    client.read_to_string(&mut got).unwrap();
    assert_eq!(got, "answer");
    proxy.kill().unwrap();
    proxy.wait().unwrap();
}
