//! What may not be seen is said.

use std::process::Command;

use rustix::process::geteuid;

use super::commands::STUCK;
use super::{Group, assert_contains, pipe, yes_to_cat};
use crate::common::conditions::{ForAll, in_mount_namespace, ordinary, without_rights};
use crate::common::procs::{Mark, eventually};
use crate::common::{PIPESPEED, pipespeed, run_alone, skip};

/// Exit status of a script that could not set up its conditions.
const NOT_ALLOWED: i32 = 77;
/// A right of Landlock (LANDLOCK_ACCESS_FS_TRUNCATE in linux/landlock.h).
const TRUNCATE: u64 = 1 << 14;

#[test]
fn an_ordinary_user_sees_own_pipelines_and_counts_the_others() {
    let Some(program) = ForAll::new(PIPESPEED) else {
        return;
    };
    let mut command = program.command("doctor --time 1 -v --");
    command.arg("sleep 3 | cat");
    let own = run_alone(command);
    assert_eq!(own.code, Some(0), "{own:#?}");
    assert_contains(&own.err, &["is the bottleneck: it waits for a timer"]);
    let mut others = program.command("doctor 1");
    others.env_remove("TERM");
    let outcome = run_alone(others);
    if outcome.code == Some(0) {
        return skip("process 1 belongs to this user");
    }
    outcome.refused(2, &["process 1: Permission denied", "try as root"]);
    let words = "can't be examined without more privileges; they may hold ends";
    assert_contains(&own.unwrapped_err(), &[words]);
    let outcome = run_alone(program.command("doctor --all --time 0.1"));
    assert_contains(&outcome.err, &["--all: without privileges", "try as root"]);
}

#[test]
fn without_proc_nothing_is_said_of_pipelines() {
    let script = "mount -t tmpfs none /proc && exec \"$0\" \"$@\"";
    for (args, code) in [
        (&["doctor", "--no-open"][..], 2),
        (&["doctor", "1"], 2),
        (&["top", "--once"], 1),
        (&["boost", "--pid=1"], 1),
        (&["boost", "--prove", "true"], 1),
    ] {
        let Some(command) = in_mount_namespace(script, PIPESPEED, args) else {
            return;
        };
        run_alone(command).refused(code, &["no process can be seen: is /proc mounted?"]);
    }
    let Some(command) = in_mount_namespace(script, PIPESPEED, &["boost", "echo run"]) else {
        return;
    };
    let outcome = run_alone(command).succeeded();
    assert_eq!(outcome.out, "run\n");
    assert_contains(
        &outcome.err,
        &["pipes are not raised: no process can be seen"],
    );
}

/// Landlock denies what ptrace(2) may see, and lists descriptors.
#[test]
fn descriptors_that_a_sandbox_keeps_from_being_read_are_not_called_none() {
    let (_group, [yes, _]) = yes_to_cat();
    let refused = format!("process {yes}: Permission denied: a sandbox (Landlock, say)");
    for (args, code, words) in [
        (format!("doctor --time 0.1 {yes}"), 2, &*refused),
        (format!("boost --pid {yes}"), 1, &refused),
        (
            "doctor --time 0.1".to_owned(),
            2,
            "of this user can't be read: a sandbox (Landlock, say)",
        ),
    ] {
        let mut command = pipespeed(&args);
        if !without_rights(&mut command, TRUNCATE) {
            return;
        }
        run_alone(command).refused(code, &[words]);
    }
    let mut top = pipespeed("top --once");
    assert!(without_rights(&mut top, TRUNCATE));
    assert_contains(&run_alone(top).out, &[" hidden"]);
}

/// A command of an ordinary user in a mount namespace with this /proc.
fn with_hidepid(program: &Command, hidepid: &str, args: &[&str]) -> Option<Command> {
    let script = format!(
        "mount -t proc -o hidepid={hidepid} none /proc && \
         exec setpriv --reuid 65534 --regid 65534 --clear-groups -- \"$0\" \"$@\"; \
         exit {NOT_ALLOWED}"
    );
    in_mount_namespace(&script, program.get_program().to_str().unwrap(), args)
}

#[test]
fn a_proc_that_hides_processes_is_noted() {
    let Some(program) = ForAll::new(PIPESPEED) else {
        return;
    };
    let program = program.command("");
    for (hidepid, words) in [
        ("1", "can't be examined without more privileges"),
        ("2", "(/proc is mounted with hidepid)"),
    ] {
        let args = ["doctor", "--time", "1", "-v", "--", "sleep 3 | cat"];
        let Some(command) = with_hidepid(&program, hidepid, &args) else {
            return;
        };
        let outcome = run_alone(command);
        if outcome.code == Some(NOT_ALLOWED) {
            return skip("proc can't be mounted with hidepid here");
        }
        assert_eq!(outcome.code, Some(0), "{outcome:#?}");
        assert_contains(&outcome.unwrapped_err(), &["sleep", words]);
        let Some(command) = with_hidepid(&program, hidepid, &["boost", "--pid", "1"]) else {
            return;
        };
        run_alone(command).refused(1, &["process 1: /proc hides it (hidepid)"]);
    }
}

/// A user whose processes root's can't be told from: without privileges root's pipes stay closed.
#[test]
fn other_end_of_another_users_pipe_is_not_called_missing() {
    let Some(program) = ForAll::new(PIPESPEED) else {
        return;
    };
    // The reader belongs to the ordinary user, the writer to this one.
    let (reader, writer) = pipe();
    let mut group = Group::default();
    let mut cat = Command::new("cat");
    ordinary(&mut cat);
    let pid = group.start(cat, [reader, None, None]);
    group.add("sleep 1000", [None, writer, None]);
    let is_doubtful = eventually(|| {
        let command = program.command(&format!("doctor --time 0.3 {pid}"));
        let text = run_alone(command).succeeded().unwrapped();
        let words = format!("WAITING FOR data of a pipe whose writer isn't seen: cat (pid {pid})");
        (text.starts_with(&words) || !geteuid().is_root()).then_some(())
    });
    is_doubtful.expect("the writer can't be seen");
}

/// A child of another user holds the write end, too, as one that sudo has started.
#[test]
fn a_descendant_that_cannot_be_examined_may_end_a_wait() {
    let Some(program) = ForAll::new(PIPESPEED) else {
        return;
    };
    if !geteuid().is_root() {
        return skip("only root can start processes that this user may not examine");
    }
    for (child, code) in [("", 1), ("sleep 1000 & ", 0)] {
        let (reader, writer) = pipe();
        let mut group = Group::default();
        let mut shell = Command::new("sh");
        // With a parent of its own: this process starts others, which might have the pipe.
        let script = format!(
            "exec 3<&0; \
             ({child}exec setpriv --reuid 65534 --regid 65534 --clear-groups cat) <&3 3<&- & \
             exec </dev/null 2>/dev/null 3<&-; wait"
        );
        shell.args(["-c", &script]);
        let mark = Mark::on(&mut shell);
        group.start(shell, [reader, None, writer]);
        let cat = || {
            let mut processes = mark.processes().into_iter();
            processes.find_map(|(pid, line)| (line == "cat ").then_some(pid))
        };
        let pid = eventually(cat).unwrap().as_raw_pid();
        let outcome = eventually(|| {
            let outcome = run_alone(program.command(&format!("doctor --time 0.3 --no-open {pid}")));
            (outcome.code == Some(code)).then_some(outcome)
        });
        let is_stuck = outcome.unwrap().out.contains("STUCK: cat");
        assert_eq!(is_stuck, child.is_empty());
    }
}

#[test]
fn what_an_unlisted_process_may_wake_is_not_killed() {
    let Some(program) = ForAll::new(PIPESPEED) else {
        return;
    };
    let program = program.command("");
    let args = ["doctor", "--time", "0.3", "--kill", "--", STUCK];
    let Some(mut command) = with_hidepid(&program, "2", &args) else {
        return;
    };
    let mark = Mark::on(&mut command);
    let outcome = run_alone(command);
    if outcome.code == Some(NOT_ALLOWED) {
        return skip("proc can't be mounted with hidepid here");
    }
    assert_eq!(outcome.code, Some(1), "{outcome:#?}");
    assert_contains(
        &outcome.unwrapped_err(),
        &[
            "PROBABLY STUCK: cat (pid",
            "is left running (something else may wake or end it)",
        ],
    );
    assert!(mark.processes().iter().any(|(_, line)| line == "cat "));
}

/// Sockets in the network namespace of a container.
#[test]
fn sockets_in_another_network_namespace_are_looked_at_or_named() {
    let Some(program) = ForAll::new(PIPESPEED) else {
        return;
    };
    let script = "import os, socket; a, b = socket.socketpair(); os.fork(); a.recv(1)";
    let unshare = |options: &str, program: &str| {
        let mut command = crate::common::command("unshare", options);
        command.arg(program);
        command
    };
    let start = |mut command: Command| {
        let mut group = Group::default();
        command.args(["-c", script]);
        group.start(command, [None, None, None]);
        group
    };
    let mut probe = unshare("-U -r -n", "true");
    if !ordinary(&mut probe)
        .status()
        .is_ok_and(|status| status.success())
    {
        return skip("network namespaces are not allowed here");
    }
    // A user may not enter even an own one from outside.
    let mut python = unshare("-U -r -n", "python3");
    ordinary(&mut python);
    let group = start(python);
    let start_of_line = "NOTHING WRONG SEEN, but the sockets of python3 (pid ";
    let is_named = eventually(|| {
        let outcome = run_alone(program.command(&format!("doctor --time 0.3 {}", group.first())));
        let first = outcome.unwrapped();
        (first.starts_with(start_of_line) && first.contains(") and python3 (pid ")).then_some(())
    });
    is_named.expect("the processes are named");
    if !geteuid().is_root() {
        return skip("only root may enter the network namespaces of others");
    }
    let found = start(unshare("-n", "python3")).stuck();
    assert_contains(&found, &["STUCK: python3 (pid ", "socket "]);
}
