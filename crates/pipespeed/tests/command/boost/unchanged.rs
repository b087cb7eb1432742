//! A boosted command is the same command.

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal::{SIGCHLD, SIGINT, SIGPIPE, SIGUSR1};
use pipespeed_stats::Rng;
use rustix::process::{Signal, kill_process};

use super::boost;
use crate::common::conditions::{adopts_orphans, blocked, ignored};
use crate::common::procs::{Mark, Stat, eventually};
use crate::common::{Outcome, run_alone, run_marked, says, start_marked};

/// More of them find rare faults: PIPESPEED_TEST_PIPELINES=200.
fn pipelines() -> u64 {
    let number = std::env::var("PIPESPEED_TEST_PIPELINES");
    number.map_or(10, |number| number.parse().unwrap())
}

/// Generates scripts for bash whose output and status depend on nothing but the script.
struct Scripts(Rng);

impl Scripts {
    fn below(&mut self, n: usize) -> usize {
        (self.0.next_u64() % n as u64) as usize
    }

    fn one_of(&mut self, all: &[&str]) -> String {
        all[self.below(all.len())].to_owned()
    }

    fn source(&mut self) -> String {
        let n = 1 + self.below(60_000);
        match self.below(8) {
            0 => format!("seq {n}"),
            1 => format!("head -c {} /dev/zero", 20 * n),
            2 => "cat data".to_owned(),
            3 => format!("{{ seq 3; cat data; seq {n}; }}"),
            4 => format!("(seq {n}; exec cat data)"),
            5 => format!("for i in 1 2 3; do seq $i {n}; done"),
            6 => "cat <<'END'\none $x `y`\ntwo\nEND\n".to_owned(),
            _ => format!("dd if=data bs={} status=none", 1 + n),
        }
    }

    fn filter(&mut self) -> String {
        match self.below(8) {
            0 => "(cat; exit 3)".to_owned(),
            1 => "while read -r line; do echo \"$line\"; done".to_owned(),
            2 => "{ sed -n 1,500p; cat; }".to_owned(),
            _ => self.one_of(&[
                "cat",
                "tr 0-4 5-9",
                "sort -n",
                "grep -v 7",
                "sed s/1/22/g",
                "uniq -c",
                "cut -c1-3",
                "dd bs=3000 status=none",
                "awk '{ n += $1; print n }'",
            ]),
        }
    }

    fn pipeline(&mut self) -> String {
        let mut line = self.source();
        if line.ends_with("END\n") {
            // The next stage stands behind the word.
            line = line.replace("<<'END'", "<<'END' | cat");
            line.push_str("true");
            return line;
        }
        for _ in 0..self.below(4) {
            write!(line, " | {}", self.filter()).unwrap();
        }
        let end = self.one_of(&["cat", "wc -c", "cksum", "md5sum"]);
        write!(line, " | {end}").unwrap();
        line
    }

    fn script(&mut self) -> String {
        let mut script = String::new();
        if self.below(2) == 0 {
            script.push_str("set -o pipefail\n");
        }
        for _ in 0..1 + self.below(3) {
            let pipeline = self.pipeline();
            match self.below(6) {
                0 => writeln!(
                    script,
                    "cat data | {{ tee >(cksum > side.$$); wait $!; }} | \
                     {{ cat > /dev/null; {pipeline}\n}}\ncat side.$$"
                ),
                1 => writeln!(
                    script,
                    "( {pipeline}\n) > bg.$$ &\nwait $!; echo $?; cat bg.$$"
                ),
                2 => writeln!(script, "x=$( {pipeline}\n)\necho \"$? ${{#x}}\""),
                3 => writeln!(
                    script,
                    "while read -r a; do echo $a; done < <( {pipeline}\n)"
                ),
                _ => writeln!(script, "{pipeline}\necho ${{PIPESTATUS[@]}}"),
            }
            .unwrap();
        }
        writeln!(script, "exit {}", self.below(4)).unwrap();
        script
    }
}

fn in_directory(mut command: Command, directory: &Path) -> Outcome {
    command.current_dir(directory).stdin(Stdio::null());
    run_alone(command)
}

#[test]
fn generated_pipelines_have_the_same_output_and_status() {
    let directory = tempfile::tempdir().unwrap();
    let numbers: Vec<String> = (0..60_000)
        .map(|n| (n * 7919 % 100_003).to_string())
        .collect();
    std::fs::write(directory.path().join("data"), numbers.join("\n")).unwrap();
    let mut scripts = Scripts(Rng::new(pipelines()));
    for _ in 0..pipelines() {
        let script = scripts.script();
        let mut plain = Command::new("bash");
        plain.args(["-c", &script]);
        let plain = in_directory(plain, directory.path());
        let mut boosted = boost("--shell bash", &script);
        let mark = Mark::on(&mut boosted);
        let boosted = in_directory(boosted, directory.path());
        let outputs = plain.out.lines().zip(boosted.out.lines()).enumerate();
        let differing = { outputs }.find(|(_, (plain, boosted))| plain != boosted);
        let seen = |it: &Outcome| (it.code, it.signal, it.out.len(), it.err.clone());
        assert_eq!(seen(&plain), seen(&boosted), "{script}{differing:?}");
        assert_eq!(differing, None, "{script}");
        mark.nobody_left();
    }
}

#[test]
fn exit_status_and_signal_are_the_commands_own() {
    for (line, code, signal) in [
        ("exit 3", Some(3), None),
        ("true", Some(0), None),
        ("seq 3 | (cat >&2; exit 7)", Some(7), None),
        ("kill -TERM $$", None, Some(15)),
        ("kill -KILL $$", None, Some(9)),
    ] {
        let outcome = run_alone(boost("", line));
        assert_eq!(
            (outcome.code, outcome.signal),
            (code, signal),
            "{outcome:#?}"
        );
    }
    let mut program = crate::common::pipespeed("boost -- printf %s|");
    program.args(["a b", "c"]);
    assert_eq!(run_alone(program).succeeded_in_silence().out, "a b|c|");
}

#[test]
fn a_login_shell_that_runs_nothing_is_not_used() {
    let mut command = boost("", "echo run | cat");
    command.env("SHELL", "/usr/sbin/nologin");
    assert_eq!(run_alone(command).succeeded_in_silence().out, "run\n");
}

#[test]
fn a_missing_or_forbidden_program_has_the_status_of_shells() {
    run_alone(boost("--shell /no/such/shell", "true"))
        .refused(127, &["/no/such/shell (the shell: --shell"]);
    run_alone(boost("--shell /dev/null", "true")).refused(126, &["/dev/null"]);
    let outcome = run_alone(boost("", "/no/such/program"));
    assert_eq!(outcome.code, Some(127), "{outcome:#?}");
}

#[test]
fn a_signal_from_outside_ends_the_command_itself() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let (running, mark) = start_marked(boost("", "exec sleep 1000"));
        let is_sleep = |(_, line): &(_, String)| line.starts_with("sleep");
        eventually(|| mark.processes().iter().any(is_sleep).then_some(())).unwrap();
        running.send(signal);
        assert_eq!(running.finish().signal, Some(signal.as_raw()));
        mark.nobody_left();
    }
}

#[test]
fn a_signal_from_outside_is_passed_on_by_a_report() {
    for (signal, is_stopped) in [
        (Signal::INT, false),
        (Signal::TERM, false),
        (Signal::HUP, false),
        (Signal::QUIT, false),
        (Signal::USR1, false),
        (Signal::ALARM, false),
        (Signal::XCPU, false),
        (Signal::TERM, true),
    ] {
        let (running, mark) = start_marked(boost("--report", "exec sleep 1000"));
        let pid = running.pid().as_raw_pid();
        let is_sleep = |(_, line): &(_, String)| line.starts_with("sleep");
        let find_sleep = || mark.processes().into_iter().find(is_sleep);
        let is_waiting = || {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            let has_blocked = !status.contains("SigBlk:\t0000000000000000");
            find_sleep().filter(|_| has_blocked)
        };
        let (sleep, _) = eventually(is_waiting).unwrap();
        if is_stopped {
            kill_process(sleep, Signal::STOP).unwrap();
            eventually(|| (Stat::of(sleep)?.state == 'T').then_some(())).unwrap();
        }
        running.send(signal);
        let outcome = running.finish();
        assert_eq!(outcome.code, Some(128 + signal.as_raw()), "{outcome:#?}");
        assert!(outcome.err.contains("no pipe was raised"), "{outcome:#?}");
        mark.nobody_left();
    }
}

#[test]
fn command_that_adopts_orphans_has_no_sidecar_as_its_child() {
    let outcomes = ["", "--report"].map(|options| {
        let mut command = boost(options, "head -c 4M /dev/zero | od -v | wc -c");
        adopts_orphans(&mut command);
        run_marked(command).succeeded()
    });
    assert_eq!(outcomes[0].out, outcomes[1].out);
    says(
        &outcomes[0].err,
        &["pipes are not raised: the sidecar would be a child of the command"],
    );
    says(&outcomes[1].err, &["1MiB in place of"]);
}

/// What a process finds: signals, descriptors, session, limits and its parent.
const STATE: &str = "grep -E 'Sig(Ign|Blk|Cgt)|PPid|NoNewPrivs' /proc/self/status; \
     ls /proc/self/fd; cat /proc/self/limits; cut -d' ' -f6-8 /proc/self/stat; \
     pwd; env | grep -v -e '^_=' -e ^PIPESPEED | sort; ulimit -a";

#[test]
fn the_command_finds_what_it_would_without() {
    let with = |prepare: &dyn Fn(&mut Command)| {
        let mut plain = Command::new("/bin/sh");
        plain.args(["-c", STATE]);
        let boosted = boost("", STATE);
        let outcomes = [plain, boosted].map(|mut command| {
            command
                .current_dir(env!("CARGO_TARGET_TMPDIR"))
                .env("SHELL", "/bin/sh");
            prepare(&mut command);
            let outcome = run_alone(command).succeeded_in_silence().out;
            // The process groups are those of the processes, which have other numbers.
            let is_fixed = |line: &&str| !line.starts_with("PPid");
            outcome
                .lines()
                .filter(is_fixed)
                .collect::<Vec<&str>>()
                .join("\n")
        });
        assert_eq!(outcomes[0], outcomes[1]);
    };
    with(&|_| {});
    with(&|command| ignored(command, SIGPIPE));
    with(&|command| ignored(command, SIGCHLD));
    with(&|command| ignored(command, SIGINT));
    with(&|command| blocked(command, SIGUSR1));
}

#[test]
fn a_command_runs_without_a_standard_output() {
    for options in ["", "--report"] {
        let directory = tempfile::tempdir().unwrap();
        let line = "ls > out; echo x 2> error || exit 5";
        let script = format!("exec \"$0\" boost {options} '{line}' >&-");
        let mut command = Command::new("sh");
        command
            .args(["-c", &script, crate::common::PIPESPEED])
            .env("SHELL", "/bin/sh")
            .current_dir(&directory);
        let outcome = run_alone(command);
        assert_eq!(outcome.code, Some(5), "{outcome:#?}");
        let out = std::fs::read_to_string(directory.path().join("out"));
        assert_eq!(out.unwrap(), "out\n");
    }
}
