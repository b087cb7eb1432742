use std::io::Write;
use std::process::{Command, Stdio};

use pipespeed_testing::procs::eventually;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::*;
use crate::graph::Scanner;

#[test]
fn a_process_that_opens_files_for_a_moment_may_move_bytes_there() {
    let (proc, fd_budget) = (Proc::default(), FdBudget::new());
    if !proc.counts_descriptors() {
        return pipespeed_testing::skip("/proc/PID/fd has no size");
    }
    for (body, opens) in [("echo > /dev/null", true), (":", false)] {
        let script = format!("while :; do {body}; done");
        let mut shell = Command::new("sh").args(["-c", &script]).spawn().unwrap();
        let pid = shell.id() as i32;
        let found = eventually(|| {
            let mut scanner = Scanner::default();
            scanner.read_all(&proc, &[]);
            let process = scanner.graph.processes.get(&pid)?.clone();
            let mut tally = Tally::new(&proc, process, true, &fd_budget);
            for _ in 0..50 {
                std::thread::sleep(Duration::from_millis(1));
                tally.sample(&proc, &fd_budget);
            }
            let limits = ProcessorLimits::default();
            let observed = tally.observed(&proc, limits, None, Vec::new(), true);
            let others = observed.process.others;
            (tally.counts.opens_files == opens && (others.writes || !opens)).then_some(())
        });
        shell.kill().unwrap();
        shell.wait().unwrap();
        assert!(found.is_some(), "{body}");
    }
}

#[test]
fn time_in_the_kernel_is_a_part_of_the_running_time() {
    let (proc, fd_budget) = (Proc::default(), FdBudget::new());
    let mut dd = Command::new("dd");
    let dd = dd.args(["if=/dev/zero", "of=/dev/null", "bs=1"]);
    let mut dd = dd.stderr(Stdio::null()).spawn().unwrap();
    let mut scanner = Scanner::default();
    scanner.read_all(&proc, &[]);
    let process = scanner.graph.processes[&(dd.id() as i32)].clone();
    let mut tally = Tally::new(&proc, process, true, &fd_budget);
    let found = eventually(|| {
        tally.sample(&proc, &fd_budget);
        tally.update(&proc, &fd_budget);
        let observed = tally.slice(ProcessorLimits::default());
        let mut twice = observed.clone();
        twice.add(&observed);
        let observed = twice.observed(tally.process.clone());
        (observed.in_kernel_s >= 0.1).then_some((observed.in_kernel_s, observed.ran_s))
    });
    dd.kill().unwrap();
    dd.wait().unwrap();
    let (in_kernel, ran) = found.unwrap();
    // It is counted in ticks.
    assert!(in_kernel <= ran + 0.05, "{in_kernel} {ran}");
}

#[test]
fn what_a_program_reads_while_it_starts_is_told_apart() {
    let (proc, fd_budget) = (Proc::default(), FdBudget::new());
    let input = vec![b'\n'; 100_000];
    let sorted = || {
        let began = Instant::now();
        let mut sort = Command::new("sort");
        let sort = sort.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut sort = sort.spawn().unwrap();
        let mut scanner = Scanner::default();
        scanner.read_all(&proc, &[]);
        let process = scanner.graph.processes[&(sort.id() as i32)].clone();
        let mut tally = Tally::new_since(&proc, process, began, &fd_budget);
        let mut read_bytes = |wanted: u64| {
            eventually(|| {
                tally.sample(&proc, &fd_budget);
                tally.update(&proc, &fd_budget);
                let slice = tally.slice(ProcessorLimits::default());
                let bytes = slice.io?.read_bytes - slice.start.read_bytes;
                (!tally.is_starting && bytes == wanted).then_some(slice.start.read_bytes)
            })
        };
        let before = read_bytes(0);
        sort.stdin.as_mut().unwrap().write_all(&input).unwrap();
        let after = read_bytes(input.len() as u64);
        sort.kill().unwrap();
        sort.wait().unwrap();
        // On a busy machine it may have taken too long to start.
        (before? > 0).then_some((before, after))
    };
    let (before, after) = eventually(sorted).unwrap();
    assert_eq!(before, after);
}

#[test]
fn children_of_a_wrapper_are_not_those_of_the_program_that_it_becomes() {
    let (proc, fd_budget) = (Proc::default(), FdBudget::new());
    let began = Instant::now();
    let mut shell = Command::new("sh");
    // It starts its child once its counts were read.
    let shell = shell.args(["-c", "read line; sh -c :; read line; exec cat"]);
    let mut shell = shell.stdin(Stdio::piped()).spawn().unwrap();
    let mut scanner = Scanner::default();
    scanner.read_all(&proc, &[]);
    let process = scanner.graph.processes[&(shell.id() as i32)].clone();
    let mut tally = Tally::new_since(&proc, process, began, &fd_budget);
    let mut has_reaped = |wanted| {
        let found = eventually(|| {
            tally.sample(&proc, &fd_budget);
            tally.update(&proc, &fd_budget);
            let slice = tally.slice(ProcessorLimits::default());
            (slice.has_reaped == wanted).then_some(slice.has_reaped_late)
        });
        (found.is_some(), tally.last.1.stack > 0)
    };
    shell.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    let (reaps, is_readable) = has_reaped(true);
    shell.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    let (forgets, _) = if is_readable {
        has_reaped(false)
    } else {
        pipespeed_testing::skip("/proc/PID/stat does not show stacks");
        (true, false)
    };
    shell.kill().unwrap();
    shell.wait().unwrap();
    assert!(reaps && forgets, "{tally:?}");
}

#[test]
fn a_childless_process_is_asked_for_children_again_only_once_it_ran() {
    use std::os::unix::process::CommandExt;

    let script = "$SIG{USR1} = sub { exec 'sleep', 1000 if !fork }; sleep while 1";
    let mut perl = Command::new("perl");
    let perl = perl.args(["-e", script]).stdin(Stdio::null());
    let Ok(mut perl) = perl.process_group(0).spawn() else {
        return pipespeed_testing::skip("no perl");
    };
    let (proc, fd_budget) = (Proc::default(), FdBudget::new());
    let pid = Pid::from_child(&perl);
    let mut scanner = Scanner::default();
    scanner.read_all(&proc, &[]);
    let process = scanner.graph.processes[&pid.as_raw_pid()].clone();
    let mut tally = Tally::new(&proc, process, true, &fd_budget);
    let mut sample = |is_done: fn(&Tally, bool) -> bool| {
        let sampled = eventually(|| {
            tally.sample(&proc, &fd_budget);
            let is_due = tally.due.children;
            tally.complete(&proc, &fd_budget);
            is_done(&tally, is_due).then_some(())
        });
        sampled.is_some()
    };
    let rests = sample(|tally, is_due| tally.children.has_none() && !is_due);
    kill_process(pid, Signal::USR1).unwrap();
    let finds = sample(|tally, _| !tally.children.is_empty());
    let goes_on = sample(|_, is_due| is_due);
    kill_process_group(pid, Signal::KILL).unwrap();
    perl.wait().unwrap();
    assert!(rests && finds && goes_on, "{tally:?}");
}

#[test]
fn how_long_a_process_waited_for_a_processor_counts_once_if_it_has_ended() {
    use std::os::unix::process::CommandExt;

    let (proc, fd_budget) = (Proc::default(), FdBudget::new());
    // Two that share a processor.
    let script = "(while :; do :; done) & while :; do :; done";
    let mut shell = Command::new("taskset");
    let shell = shell.args(["-c", "0", "sh", "-c", script]);
    let Ok(mut shell) = shell.process_group(0).spawn() else {
        return pipespeed_testing::skip("no taskset");
    };
    let pid = Pid::from_child(&shell);
    let mut scanner = Scanner::default();
    scanner.read_all(&proc, &[]);
    let process = scanner.graph.processes[&pid.as_raw_pid()].clone();
    let mut tally = Tally::new(&proc, process, true, &fd_budget);
    let waits = eventually(|| {
        tally.sample(&proc, &fd_budget);
        tally.update(&proc, &fd_budget);
        let delayed = tally.slice(ProcessorLimits::default()).delayed;
        (delayed > Duration::from_millis(50)).then_some(delayed)
    });
    kill_process_group(pid, Signal::KILL).unwrap();
    shell.wait().unwrap();
    tally.sample(&proc, &fd_budget);
    let slice = tally.slice(ProcessorLimits::default());
    assert_eq!(Some(slice.delayed), waits);
    assert!(slice.queued <= slice.delayed, "{slice:?}");
    assert!(!tally.delayed_before_end.is_empty(), "{tally:?}");
}

/// Of an inherited pipe it may wait for anybody.
#[test]
fn who_waits_for_a_timer_or_a_pipe_of_its_own_may_wait_for_a_living_child() {
    use crate::fixtures::{on_input, on_outside};
    use crate::wait::{BlockedOn, LinkWait, Outside};

    let (proc, fd_budget) = (Proc::default(), FdBudget::new());
    let process = crate::fixtures::process(std::process::id() as i32, "a", Vec::new());
    let mut tally = Tally::new(&proc, process, true, &fd_budget);
    let on_fd = |fd| {
        let any_of = vec![LinkWait {
            pipe: LinkId::pipe(7),
            fd: Some(fd),
            side: LinkSide::Input,
        }];
        ThreadState::Waiting(BlockedOn::Pipes { any_of, or: None })
    };
    for (state, expected) in [
        (on_outside(Outside::Timer), true),
        (on_fd(5), true),
        (on_fd(0), false),
        (on_input(7), false),
        (on_outside(Outside::Socket), false),
    ] {
        assert_eq!(tally.waits_for_children(&[&state]), expected, "{state:?}");
    }
}
