use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::time::Instant;

use pipespeed_testing::procs::eventually;
use rustix::process::{getpid, getppid};

use super::*;

#[test]
fn a_process_is_idle_since_it_last_ran() {
    const LONG: Duration = Duration::from_millis(2500);
    /// A thread that runs on is only updated by the timer interrupt, and one that is about to sleep may
    /// have to wait for a processor first.
    const TICK: Duration = Duration::from_millis(600);
    let proc = Proc::default();
    if !fs::exists("/proc/self/sched").unwrap_or(false) {
        return pipespeed_testing::skip("no /proc/PID/sched");
    }
    let before = Instant::now();
    let mut child = Command::new("cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let (pid, mut input) = (child.id() as i32, child.stdin.take().unwrap());
    eventually(|| {
        let waits = proc.name(pid)? == "cat" && proc.stat(pid)?.state == 'S';
        waits.then_some(())
    })
    .unwrap();
    let asleep = Instant::now();
    let (at_least, idle) = eventually(|| {
        let at_least = asleep.elapsed();
        let idle = proc.idle_time(pid)?;
        (idle > LONG).then_some((at_least, idle))
    })
    .unwrap();
    assert!(idle + TICK >= at_least, "{idle:?} after {at_least:?}");
    assert!(idle <= before.elapsed() + TICK, "{idle:?}");
    input.write_all(b"x").unwrap();
    let written = Instant::now();
    eventually(|| (proc.idle_time(pid)? <= written.elapsed() + TICK).then_some(())).unwrap();
    drop(input);
    child.wait().unwrap();
}

#[test]
fn only_a_living_child_is_a_descendant() {
    let proc = Proc::default();
    let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let pid = child.id() as i32;
    assert!(proc.is_descendant(pid));
    drop(child.stdin.take());
    child.wait().unwrap();
    assert!(!proc.is_descendant(pid));
    assert!(!proc.is_descendant(getpid().as_raw_pid()));
    assert!(!proc.is_descendant(1));
}

#[test]
fn a_process_tree_with_a_loop_is_walked_once() {
    let children = |pid: i32| match pid {
        1 => vec![2, 3],
        2 => vec![4],
        4 => vec![1, 2],
        _ => Vec::new(),
    };
    assert_eq!(tree(1, &children), [1, 2, 3, 4]);
}

#[test]
fn this_process_has_byte_counts_and_a_parent() {
    let (proc, own) = (Proc::default(), getpid().as_raw_pid());
    if let (Some(before), Some(after)) = (proc.io(own), proc.io(own)) {
        assert!(after.read_bytes > before.read_bytes);
    }
    let parent = getppid().map_or(0, |pid| pid.as_raw_pid());
    assert_eq!(proc.stat(own).unwrap().parent, parent);
    assert!(proc.switches(own, own).is_some());
}

#[test]
fn a_pipes_ends_share_its_inode_and_differ_in_access() {
    let (reader, writer) = io::pipe().unwrap();
    let ends = Proc::default().ends(getpid().as_raw_pid()).unwrap();
    let end = |fd: i32| ends.iter().find(|end| end.fd == fd).unwrap();
    let (reader, writer) = (end(reader.as_raw_fd()), end(writer.as_raw_fd()));
    assert_eq!(reader.pipe, writer.pipe);
    assert!(!reader.pipe.is_fifo());
    assert_eq!((reader.reads, reader.writes), (true, false));
    assert_eq!((writer.reads, writer.writes), (false, true));
}

#[test]
fn a_fifo_has_a_path_and_is_opened_by_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fi\nfo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let own = getpid().as_raw_pid();
    let Some(Target::Pipe(id, Some(name))) = Proc::default().target(own, file.as_raw_fd()) else {
        panic!("not a FIFO");
    };
    assert!(id.is_fifo() && name.ends_with("/fi?fo"), "{id:?} {name}");
}

#[test]
fn a_name_with_parentheses_and_escapes_confuses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().join("proc/7");
    fs::create_dir_all(&at).unwrap();
    let rest = "S 3 5 9 0 -1 4194560 1 9 0 0 2 3 4 3 20 0 1 0 4711 1 1";
    fs::write(at.join("stat"), format!("7 (a) R 1 (b) {rest}\n")).unwrap();
    fs::write(at.join("comm"), "a\x1b[31m\n").unwrap();
    let proc = Proc::below(Root(directory.path().to_owned()));
    let expected = Stat {
        state: 'S',
        parent: 3,
        group: 5,
        session: 9,
        foreground: -1,
        start: 4711,
        threads: 1,
        ran_ticks: 5,
        kernel_ticks: 3,
        children_ticks: 7,
        children_faults: 9,
        stack: 0,
        processor: None,
        ignores_interrupts: false,
    };
    assert_eq!(proc.stat(7), Some(expected));
    assert_eq!(proc.name(7).as_deref(), Some("a?[31m"));
    assert_eq!(proc.processes(), [7]);
    assert!(proc.ends(7).is_err());
    for (words, line) in [
        ("sh\0-c\0sleep 1\0", "sh -c 'sleep 1'"),
        // A title, as of setproctitle(3).
        ("server: worker  \0\0\0", "server: worker"),
        ("server: worker  ", "server: worker"),
        ("grep\0\0", "grep ''"),
        ("grep\0-v\0\0", "grep -v ''"),
    ] {
        fs::write(at.join("cmdline"), words).unwrap();
        assert_eq!(proc.command_line(7).as_deref(), Some(line));
    }
    fs::write(at.join("cmdline"), "x".repeat(1 << 20)).unwrap();
    let long = proc.command_line(7).unwrap();
    assert!(long.len() == MAX_COMMAND_LINE + 3 && long.ends_with("x..."));
}

#[test]
fn who_has_a_descriptor_of_inotify_watches_others() {
    let directory = tempfile::tempdir().unwrap();
    for (pid, link) in [
        (7, "anon_inode:inotify"),
        (8, "anon_inode:[eventfd]"),
        (9, "anon_inode:[perf_event]"),
        (10, "anon_inode:[io_uring]"),
    ] {
        let at = directory.path().join(format!("proc/{pid}"));
        for name in ["fd", "fdinfo"] {
            fs::create_dir_all(at.join(name)).unwrap();
        }
        fs::write(at.join("fdinfo/3"), "pos:\t0\n").unwrap();
        std::os::unix::fs::symlink(link, at.join("fd/3")).unwrap();
    }
    let proc = Proc::below(Root(directory.path().to_owned()));
    let watches = |language| {
        [7, 8, 9, 10].map(|pid| proc.watches_others(pid, &BTreeSet::from([7, 8]), language))
    };
    assert_eq!(watches(Language::Java), [true, false, true, false]);
    assert_eq!(watches(Language::Python), [true, true, true, false]);
}

#[test]
fn a_tracer_and_a_process_whose_first_thread_has_ended_are_known_by_their_status() {
    let directory = tempfile::tempdir().unwrap();
    for (pid, state, tracer, threads) in [(7, 'S', 8, 1), (8, 'Z', 0, 2), (9, 'Z', 0, 1)] {
        let at = directory.path().join(format!("proc/{pid}"));
        fs::create_dir_all(&at).unwrap();
        let text =
            format!("State:\t{state}\nPPid:\t1\nTracerPid:\t{tracer}\nThreads:\t{threads}\n");
        fs::write(at.join("status"), text).unwrap();
    }
    let proc = Proc::below(Root(directory.path().to_owned()));
    let of_each = |is: fn(&Proc, i32) -> bool| [7, 8, 9].map(|pid| is(&proc, pid));
    assert_eq!(of_each(Proc::is_tracer), [false, true, false]);
    assert_eq!(of_each(Proc::runs), [true, true, false]);
}
