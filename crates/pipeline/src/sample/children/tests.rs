use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use pipespeed_testing::procs::eventually;

use super::*;
use crate::fixtures::process;
use crate::sample::limits::ProcessorLimits;
use crate::wait::Outside;

const LIMITS: ProcessorLimits = ProcessorLimits {
    contention: 1.0,
    allowed: None,
    processors: 2,
    quota: None,
};

/// Takes 50 samples of a shell once it has `all` children, and waits for `awaited` of its descendants.
fn children_of(script: &str, all: usize, awaited: usize) -> ChildTally {
    // Whoever runs the tests may ignore them.
    let mut shell = Command::new("env");
    shell.args(["--default-signal=INT,QUIT", "sh", "-c", script]);
    shell.stdin(Stdio::null()).process_group(0);
    let mut shell = shell.spawn().unwrap();
    let parent = process(shell.id() as i32, "sh", Vec::new());
    let mut tally = ChildTally::default();
    let waiting = ThreadState::Waiting(BlockedOn::Child(None));
    let sample = |tally: &mut ChildTally| {
        tally.sample(&Proc::default(), &parent, &[parent.id.pid], &[&waiting]);
        // Before that, the shell that has started it by vfork(2) may wait for its execve(2) only.
        let waits = |named: &child_slice::NamedChildren| !named.each.outside.is_empty();
        let sleeps = tally.slice.names.get("sleep").is_some_and(waits);
        let mut names = tally.slice.names.keys();
        let are_awaited = tally.schedules.len() == awaited && names.all(|name| name != "sh");
        // Those in the background are started one after the other, and first in the foreground.
        let are_all = Proc::default().children(parent.id.pid).len() == all;
        (sleeps && are_awaited && are_all).then_some(())
    };
    let found = eventually(|| {
        tally.restart();
        sample(&mut tally)
    });
    for _ in 0..50 {
        sample(&mut tally);
    }
    let group = rustix::process::Pid::from_child(&shell);
    rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
    shell.wait().unwrap();
    found.unwrap();
    tally
}

#[test]
fn a_sleeping_child_below_shells_is_named_with_its_timer() {
    for (script, is_below) in [("sleep 1000; :", false), ("(sleep 1000; :); :", true)] {
        let tally = children_of(script, 1, 1);
        assert!(tally.slice.names.contains_key("sleep"), "{tally:?}");
        let found = tally
            .slice(Duration::ZERO)
            .observed(50, Duration::from_secs(1), &LIMITS);
        assert_eq!(found.unwrap().are_descendants, is_below, "{script}");
    }
}

#[test]
fn a_shell_waits_for_what_it_runs_in_the_foreground() {
    let busy = "while :; do :; done";
    for (script, all, awaited) in [
        (format!("{busy} & sleep 1000; :"), 2, 1),
        (format!("{busy} & (sleep 1000; :); :"), 2, 1),
        (
            format!("sleep 1000 & sleep 1000 & {busy} & sleep 1000; :"),
            4,
            1,
        ),
        // All of them, by its command.
        ("sleep 1000 & sleep 1000 & wait".to_owned(), 2, 2),
    ] {
        let tally = children_of(&script, all, awaited);
        // The shell that has started it by vfork(2) may be on its way to wait for it.
        let names = tally.slice.names.iter();
        let most = names.max_by_key(|(_, named)| named.each.samples);
        let most = most.map(|(name, _)| name.as_str());
        assert_eq!(most, Some("sleep"), "{script}: {tally:?}");
    }
}

#[test]
fn a_shell_between_two_commands_does_not_wait_for_the_background() {
    let mut shell = Command::new("env");
    let script = "exec 2>&-; sleep 1000 & sleep 1000; wait";
    shell.args(["--default-signal=INT,QUIT", "sh", "-c", script]);
    shell.stdin(Stdio::null()).process_group(0);
    let mut shell = shell.spawn().unwrap();
    let pid = shell.id() as i32;
    let parent = process(pid, "sh", Vec::new());
    let proc = Proc::default();
    let children = |is_foreground: bool| {
        let children = proc.children(pid);
        let found = children.into_iter().filter(|child| {
            proc.name(*child).as_deref() == Some("sleep")
                && proc
                    .stat(*child)
                    .is_some_and(|stat| stat.ignores_interrupts != is_foreground)
        });
        found.collect::<Vec<i32>>()
    };
    let mut tally = ChildTally::default();
    let waiting = ThreadState::Waiting(BlockedOn::Child(None));
    let mut sample = || {
        tally.restart();
        tally.sample(&proc, &parent, &[pid], &[&waiting]);
        tally.slice.awaited.clone()
    };
    let both = || Some((*children(true).first()?, *children(false).first()?));
    let found = eventually(both);
    let seen = found.map(|(foreground, _)| {
        let first = sample();
        let child = rustix::process::Pid::from_raw(foreground).unwrap();
        rustix::process::kill_process(child, rustix::process::Signal::KILL).unwrap();
        let ended = eventually(|| children(true).is_empty().then_some(()));
        ended.map(|()| [first, sample(), sample()])
    });
    let group = rustix::process::Pid::from_child(&shell);
    rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
    shell.wait().unwrap();
    let (foreground, background) = found.unwrap();
    let expected = [vec![foreground], Vec::new(), vec![background]];
    assert_eq!(seen.unwrap().unwrap(), expected);
}

/// Short-lived children of which no wait for a processor was seen to end, on a busy machine and on an idle one.
#[test]
fn children_that_are_ready_and_do_not_run_wait_for_a_processor() {
    let mut slice = ChildSlice::default();
    for _ in 0..50 {
        slice.counts.add(&[&ThreadState::Working]);
    }
    slice.awake = (50, 50);
    let named = slice.names.entry("md5sum".to_owned()).or_default();
    named.ran = Duration::from_micros(10);
    let queued = |contention: f64| {
        let limits = ProcessorLimits {
            contention,
            ..LIMITS
        };
        let found = slice.observed(50, Duration::from_secs(1), &limits);
        found.unwrap().shares.queued
    };
    assert!(queued(1.0) > 0.9, "{}", queued(1.0));
    assert!(queued(0.5) <= 0.5, "{}", queued(0.5));
}

/// As a shell of which one child waits on a socket, and one for its timer.
#[test]
fn what_is_said_of_children_is_said_of_those_that_are_named() {
    let state = |outside| ThreadState::Waiting(BlockedOn::Outside(outside));
    let (timer, socket) = (state(Outside::Timer), state(Outside::Socket));
    let mut slice = ChildSlice::default();
    for _ in 0..50 {
        slice.counts.add(&[&timer, &timer, &socket]);
        for (name, state) in [("sleep", &timer), ("sleep", &timer), ("socat", &socket)] {
            let named = slice.names.entry(name.to_owned()).or_default();
            named.each.add(&[state]);
        }
    }
    let (samples, seconds) = (slice.counts.samples, Duration::from_secs(1));
    let found = slice.observed(samples, seconds, &LIMITS).unwrap();
    assert_eq!(found.names, ["sleep"], "{found:?}");
    let timer = found.outside.get(&Outside::Timer).copied();
    assert_eq!(timer, Some(1.0), "{found:?}");
}

/// Samples the children of a shell that runs this script until they satisfy a condition.
fn sample_until(script: &str, mut is_done: impl FnMut(&mut ChildTally, &Process) -> bool) {
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).stdin(Stdio::null());
    let mut shell = shell.process_group(0).spawn().unwrap();
    let parent = process(shell.id() as i32, "sh", Vec::new());
    let mut tally = ChildTally::default();
    let found = eventually(|| is_done(&mut tally, &parent).then_some(()));
    let group = rustix::process::Pid::from_child(&shell);
    rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
    shell.wait().unwrap();
    found.unwrap();
}

const WAITING: ThreadState = ThreadState::Waiting(BlockedOn::Child(None));
const SHORT: Duration = Duration::from_millis(200);

#[test]
fn what_a_childs_child_uses_counts_before_it_ends() {
    sample_until("(sh -c 'while :; do :; done'; :); :", |tally, parent| {
        tally.sample(&Proc::default(), parent, &[parent.id.pid], &[&WAITING]);
        tally.slice(Duration::ZERO).ran() > SHORT
    });
}

/// As GNU parallel's helper, which writes to the job.
#[test]
fn a_child_that_only_feeds_its_own_child_is_not_the_one_that_works() {
    if Command::new("bash").arg("--version").output().is_err() {
        return pipespeed_testing::skip("no bash");
    }
    let script = "bash -c 'exec cat /dev/zero > >(while :; do :; done)'; :";
    sample_until(script, |tally, parent| {
        tally.sample(&Proc::default(), parent, &[parent.id.pid], &[&WAITING]);
        let names = &tally.slice.names;
        let decided = |name| names.get(name).map_or(0, |named| named.decided);
        let is_done = decided("bash") >= 20 && tally.schedules.len() == 1;
        // It works until the pipe is full.
        if decided("cat") > 2 {
            tally.restart();
            return false;
        }
        is_done
    });
}

#[test]
fn what_a_child_used_before_it_was_seen_does_not_count() {
    let proc = Proc::default();
    let directory = tempfile::tempdir().unwrap();
    let end = directory.path().join("end");
    let busy = format!("while [ ! -e {} ]; do :; done", end.display());
    let script = format!("sh -c '{busy}'; sleep 1000; :");
    let mut is_seen = false;
    sample_until(&script, |tally, parent| {
        let children = proc.children(parent.id.pid);
        let stats = children.iter().filter_map(|pid| proc.stat(*pid));
        let ran: u64 = stats.map(|stat| stat.ran_ticks).sum();
        if !is_seen && ticks(ran) > SHORT {
            tally.sample(&proc, parent, &[parent.id.pid], &[&WAITING]);
            std::fs::write(&end, "").unwrap();
            is_seen = true;
        }
        let stat = proc.stat(parent.id.pid);
        let used = ticks(stat.map_or(0, |stat| stat.children_ticks));
        if !is_seen || used.is_zero() {
            return false;
        }
        let ended = tally.ended(&proc, parent.id.pid);
        tally.forget(&ended);
        let counted = tally.slice(used).ran();
        assert!(counted + SHORT / 2 < used, "{counted:?} of {used:?}");
        true
    });
}

#[test]
fn children_that_wait_for_other_children_are_not_the_cause() {
    let tally = children_of("(sleep 1000 | cat; :) & (sleep 1000 | cat; :) & wait", 2, 4);
    let slice = tally.slice(Duration::ZERO);
    let seconds = Duration::from_secs(1);
    let found = slice
        .observed(slice.counts.samples, seconds, &LIMITS)
        .unwrap();
    assert_eq!(found.names, ["sleep"], "{found:?}");
    assert!(
        found.shares.elsewhere > 0.5 && found.shares.starved < 0.1,
        "{found:?}"
    );
}

/// As timeout(1), which waits for the signal of its child's end.
#[test]
fn a_child_that_waits_for_a_signal_waits_for_its_own_child() {
    sample_until(
        "timeout --foreground 1000 sh -c 'while :; do :; done'; :",
        |tally, parent| {
            tally.sample(&Proc::default(), parent, &[parent.id.pid], &[&WAITING]);
            let names = &tally.slice.names;
            let decided = |name| names.get(name).map_or(0, |named| named.decided);
            let (below, above) = (decided("sh"), decided("timeout"));
            // It starts first.
            if above > 2 {
                tally.restart();
            }
            below >= 20 && above <= 2
        },
    );
}

#[test]
fn of_children_that_take_turns_by_a_lock_the_one_counts_that_has_it() {
    if Command::new("flock").arg("--version").output().is_err() {
        return pipespeed_testing::skip("no flock");
    }
    let directory = tempfile::tempdir().unwrap();
    let flock = format!("flock {}/lock", directory.path().display());
    let script = format!("{flock} sleep 1000 & {flock} sleep 1000 & wait");
    sample_until(&script, |tally, parent| {
        tally.sample(&Proc::default(), parent, &[parent.id.pid], &[&WAITING]);
        let slice = tally.slice(Duration::ZERO);
        let seconds = Duration::from_secs(1);
        let found = slice.observed(slice.counts.samples, seconds, &LIMITS);
        let is_done = slice.counts.samples >= 20
            && found.is_some_and(|found| {
                let timer = found.outside.get(&Outside::Timer).copied();
                found.names == ["sleep"] && timer.unwrap_or(0.0) > 0.9
            });
        if slice.counts.samples >= 20 {
            tally.restart();
        }
        is_done
    });
}
