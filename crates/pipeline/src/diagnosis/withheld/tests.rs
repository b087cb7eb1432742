use std::collections::BTreeMap;

use super::*;
use crate::fixtures::{
    busy, child_of, frozen, observation, on_child, on_input, on_outside, process, reads, writes,
};
use crate::graph::Process;
use crate::proc::{Io, LinkFd};
use crate::sample::{Children, Shares};
use crate::wait::LinkWait;

/// Process 2, which reads from a pipe.
fn reader() -> Observed {
    Observed {
        ancestors: vec![9, 1],
        ..frozen(
            child_of(9, process(2, "cat", vec![reads(0, 7)])),
            on_input(7),
        )
    }
}

fn leaked(all: impl IntoIterator<Item = Observed>) -> Vec<LeakedWriteEnd> {
    leaked_write_ends(&observation(all.into_iter().collect()), &BTreeSet::new())
}

/// The processes with a leaked write end of a pipe from which process 2 reads.
fn spare(others: impl IntoIterator<Item = Observed>) -> Vec<i32> {
    let found = leaked(others.into_iter().chain([reader()]));
    found.iter().map(|leaked| leaked.holder.pid).collect()
}

/// A sleeping process with a write end, and the ancestors of the reader.
fn sleeper(pid: i32, fd: i32) -> Observed {
    let own = child_of(9, process(pid, "sleep", vec![writes(fd, 7)]));
    Observed {
        ancestors: vec![9, 1],
        ..frozen(own, on_outside(Outside::Timer))
    }
}

#[test]
fn stray_write_end_is_named_unless_it_is_standard_output() {
    let reader = frozen(process(2, "cat", vec![reads(0, 7)]), on_input(7));
    let expected = LeakedWriteEnd {
        pipe: LinkId::pipe(7),
        reader: reader.who(),
        holder: sleeper(3, 5).who(),
        fd: 5,
        is_output: false,
        waits_for: Vec::new(),
        is_last: true,
    };
    let observation = observation(vec![reader, sleeper(3, 5)]);
    assert_eq!(
        leaked_write_ends(&observation, &BTreeSet::new()),
        [expected]
    );
    // A stage that has not written yet.
    assert!(spare([sleeper(3, 1)]).is_empty());
    assert!(spare([sleeper(3, 2)]).is_empty());
    let writer = busy(process(4, "yes", vec![writes(1, 7)]), 0.1, 0.0, 0.0);
    assert_eq!(spare([sleeper(3, 5), writer]), [3]);
}

/// `sort big | mbuffer -q | wc -c`: mbuffer writes by descriptor 3.
#[test]
fn a_filter_may_write_by_another_descriptor_than_1() {
    let filter = |ends: &[LinkFd]| {
        let ends = [&[reads(0, 6), writes(3, 7)], ends].concat();
        let own = child_of(9, process(3, "mbuffer", ends));
        Observed {
            ancestors: vec![9, 1],
            ..frozen(own, on_input(6))
        }
    };
    assert!(spare([filter(&[])]).is_empty());
    // Another one has the pipe, too, or the filter writes elsewhere.
    let writer = busy(process(4, "yes", vec![writes(1, 7)]), 0.1, 0.0, 0.0);
    assert_eq!(spare([filter(&[]), writer]), [3]);
    assert_eq!(spare([filter(&[writes(1, 8)])]), [3]);
}

/// multiprocessing's process that looks after shared memory, and a worker beside it.
#[test]
fn workers_of_one_process_keep_their_fellows_open() {
    let found = |holder: &str, parent: i32, reader_fd: i32| {
        let reader = child_of(9, process(2, "python3", vec![reads(reader_fd, 7)]));
        let worker = child_of(parent, process(3, holder, vec![writes(6, 7)]));
        let worker = frozen(worker, on_outside(Outside::Lock));
        leaked([frozen(reader, on_input(7)), worker]).len()
    };
    assert_eq!(found("python3", 9, 5), 0);
    for (holder, parent, reader_fd) in [("sleep", 9, 5), ("python3", 8, 5), ("python3", 9, 0)] {
        assert_eq!(
            found(holder, parent, reader_fd),
            1,
            "{holder} {parent} {reader_fd}"
        );
    }
}

/// What a script has left behind, with its output.
#[test]
fn who_waits_for_its_turn_may_write_then() {
    let found = |waits_for: Outside| {
        let left = child_of(INIT, process(3, "flock", vec![writes(1, 7)]));
        spare([frozen(left, on_outside(waits_for))])
    };
    assert_eq!(found(Outside::Timer), [3]);
    assert!(found(Outside::FileLock).is_empty());
}

#[test]
fn who_opened_a_fifo_to_read_waits_for_its_end() {
    let end = |fd, can_read, can_write| LinkFd {
        fd,
        pipe: LinkId::Fifo {
            device: 1,
            inode: 7,
        },
        reads: can_read,
        writes: can_write,
        ..reads(fd, 7)
    };
    // `exec 5<>p; sort p`; a client of a job server opens it twice.
    let holder = || {
        frozen(
            child_of(9, process(3, "bash", vec![end(5, true, true)])),
            on_child(),
        )
    };
    for (ends, expected) in [
        (vec![end(3, true, false), end(5, true, true)], vec![3]),
        (vec![end(3, true, false), end(4, false, true)], vec![]),
    ] {
        let input = ThreadState::Waiting(BlockedOn::Pipes {
            any_of: vec![LinkWait {
                pipe: end(3, true, false).pipe,
                fd: Some(3),
                side: LinkSide::Input,
            }],
            or: None,
        });
        let reader = frozen(child_of(9, process(2, "sort", ends)), input);
        let observation = observation(vec![holder(), reader]);
        let found = leaked_write_ends(&observation, &BTreeSet::new());
        let found: Vec<i32> = found.iter().map(|leaked| leaked.holder.pid).collect();
        assert_eq!(found, expected);
    }
}

/// `exec 9<>f; cat f | wc -l`, beside a job that may write.
#[test]
fn who_waits_for_the_readers_own_output_has_no_fifo_kept_open_for_it() {
    let fifo = |fd, can_write| LinkFd {
        pipe: LinkId::Fifo {
            device: 1,
            inode: 7,
        },
        writes: can_write,
        ..reads(fd, 7)
    };
    let below = |process: Process, state| Observed {
        ancestors: vec![3, 1],
        ..frozen(child_of(3, process), state)
    };
    let found = |others: Vec<Observed>| {
        let shell = frozen(
            child_of(1, process(3, "bash", vec![fifo(9, true)])),
            on_child(),
        );
        let ends = vec![fifo(3, false), fifo(9, true), writes(1, 8)];
        let input = ThreadState::Waiting(BlockedOn::Pipes {
            any_of: vec![LinkWait {
                pipe: fifo(3, false).pipe,
                fd: Some(3),
                side: LinkSide::Input,
            }],
            or: None,
        });
        let cat = below(process(4, "cat", ends), input);
        let wc = process(5, "wc", vec![reads(0, 8), fifo(9, true)]);
        let all = [shell, cat, below(wc, on_input(8))];
        leaked(all.into_iter().chain(others))
    };
    let leaked = found(Vec::new());
    let holders: Vec<i32> = leaked.iter().map(|leaked| leaked.holder.pid).collect();
    assert_eq!(holders, [3, 5]);
    assert!(leaked.iter().all(|leaked| leaked.is_last), "{leaked:?}");
    let job = process(6, "job", vec![fifo(9, true)]);
    let leaked = found(vec![below(job, on_outside(Outside::Timer))]);
    assert!(leaked.iter().all(|leaked| !leaked.is_last), "{leaked:?}");
}

#[test]
fn who_waits_for_an_unseen_writer_is_named_and_no_bottleneck() {
    let stages = |polls: bool, others: Vec<Observed>| {
        let first = process(2, "cat", vec![reads(0, 7), writes(1, 8)]);
        let mut first = frozen(first, on_input(7));
        if polls {
            first.polled = [(LinkId::pipe(7), LinkSide::Input)].into();
        }
        let last = frozen(process(3, "wc", vec![reads(0, 8)]), on_input(8));
        let all = [first, last].into_iter().chain(others);
        crate::diagnosis::diagnose(&observation(all.collect()))
    };
    let expected = Finding::UnseenPeer {
        process: Who {
            pid: 2,
            name: "cat".to_owned(),
        },
        pipe: LinkId::pipe(7),
        side: LinkSide::Input,
    };
    assert_eq!(stages(false, vec![]), [expected]);
    assert_eq!(stages(true, vec![]), []);
    let mut writer = sleeper(5, 1);
    writer.is_asked = false;
    let found = stages(false, vec![writer]);
    assert!(
        !found
            .iter()
            .any(|finding| matches!(finding, Finding::UnseenPeer { .. })),
        "{found:?}"
    );
}

#[test]
fn the_writer_of_a_fifo_may_be_unseen_too() {
    let pipe = LinkId::Fifo {
        device: 1,
        inode: 7,
    };
    let input = ThreadState::Waiting(BlockedOn::Pipes {
        any_of: vec![LinkWait {
            pipe,
            fd: Some(0),
            side: LinkSide::Input,
        }],
        or: None,
    });
    let end = LinkFd {
        pipe,
        ..reads(0, 7)
    };
    let reader = frozen(process(2, "cat", vec![end]), input);
    let found = crate::diagnosis::diagnose(&observation(vec![reader]));
    assert!(
        matches!(found[..], [Finding::UnseenPeer { .. }]),
        "{found:?}"
    );
}

#[test]
fn a_process_that_has_just_come_withholds_nothing() {
    let mut child = sleeper(3, 5);
    assert_eq!(spare([child.clone()]), [3]);
    child.age_s = 0.2;
    assert!(spare([child]).is_empty());
}

#[test]
fn a_process_that_wrote_anything_may_have_written_there() {
    let mut writer = sleeper(3, 5);
    writer.is_frozen = false;
    assert_eq!(spare([writer.clone()]), [3]);
    writer.io = writer.io.map(|io| Io { writes: 1, ..io });
    assert!(spare([writer]).is_empty());
}

#[test]
fn a_shell_that_waits_for_the_writer_is_no_stray() {
    let shell = |pid| {
        frozen(
            child_of(9, process(pid, "sh", vec![writes(1, 7)])),
            on_child(),
        )
    };
    let writer = busy(process(4, "cat", vec![writes(1, 7)]), 0.1, 0.0, 0.0);
    let child = Observed {
        process: child_of(3, writer.process.clone()),
        ..writer.clone()
    };
    assert!(spare([shell(3), child]).is_empty());
    // It waits for somebody else, and the writer for nobody.
    assert_eq!(spare([shell(3), writer]), [3]);
    let other = frozen(
        child_of(3, process(4, "sleep", vec![])),
        on_outside(Outside::Timer),
    );
    assert_eq!(spare([shell(3), other]), [3]);
}

#[test]
fn who_made_the_pipe_for_the_reader_may_write_later() {
    // An interactive shell and its coprocess.
    let terminal = on_outside(Outside::Terminal);
    let shell = || frozen(process(9, "bash", vec![writes(63, 7)]), terminal.clone());
    assert!(spare([shell()]).is_empty());
    // It waits for the end of the coprocess, which comes with that of its input.
    assert_eq!(spare([frozen(shell().process, on_child())]), [9]);
    // The end that another process has inherited is not meant.
    assert_eq!(spare([shell(), sleeper(3, 5)]), [3]);
    // Another process writes, for which the shell does not wait.
    let writer = busy(process(4, "yes", vec![writes(1, 7)]), 0.1, 0.0, 0.0);
    assert_eq!(spare([shell(), writer]), [9]);
}

/// `exec 3> >(logger); sleep 100; echo end >&3`.
#[test]
fn what_a_script_keeps_for_its_logger_is_not_withheld_by_others() {
    let script = |ends| {
        let bash = process(9, "bash", ends);
        frozen(bash, ThreadState::Waiting(BlockedOn::Child(Some(3))))
    };
    let is_last = |ends| {
        let all = leaked([script(ends), sleeper(3, 3), reader()]);
        all.iter().map(|one| one.is_last).collect::<Vec<bool>>()
    };
    assert_eq!(is_last(vec![writes(3, 7)]), [false]);
    assert_eq!(is_last(Vec::new()), [true]);
}

/// `timeout 9 pipespeed doctor | cat`, and a script that calls it: `sh script | cat`.
#[test]
fn who_waits_for_this_report_is_not_called_held_up() {
    let found = |own_output: &[u64], own_parent: Option<i32>, holder: Observed| {
        let mut observation = observation(vec![holder, reader()]);
        observation.own_output = own_output.iter().copied().map(LinkId::pipe).collect();
        observation.own_parent = own_parent;
        leaked_write_ends(&observation, &BTreeSet::new()).len()
    };
    let shell = || frozen(sleeper(3, 1).process, on_child());
    assert_eq!(found(&[], None, shell()), 1);
    assert_eq!(found(&[], Some(3), shell()), 0);
    assert_eq!(found(&[7], None, shell()), 0);
    // The user's shell may hold one by mistake.
    assert_eq!(found(&[], Some(3), sleeper(3, 5)), 1);
}

/// A language server whose editor waits for it.
#[test]
fn a_server_may_watch_for_the_end_of_its_parent() {
    let waits = ThreadState::Waiting(BlockedOn::Child(Some(2)));
    let parent = frozen(process(9, "node", vec![writes(5, 7)]), waits);
    let found = |serves: bool| {
        let mut server = reader();
        let accepts = serves.then(|| on_outside(Outside::Socket));
        server.threads.extend(accepts);
        leaked([parent.clone(), server]).len()
    };
    assert_eq!((found(false), found(true)), (1, 0));
}

#[test]
fn a_process_left_behind_with_the_output_is_named() {
    let left = |ancestors| Observed {
        ancestors,
        ..frozen(
            process(3, "daemon", vec![writes(1, 7)]),
            on_outside(Outside::Timer),
        )
    };
    assert_eq!(spare([left(vec![1])]), [3]);
    assert_eq!(spare([left(vec![])]), [3]);
    assert!(spare([left(vec![5, 9, 1])]).is_empty());
}

#[test]
fn a_pipe_of_tokens_has_no_end() {
    let make = |pid| {
        let own = process(pid, "make", vec![reads(3, 7), writes(4, 7)]);
        frozen(own, on_input(7))
    };
    assert!(spare([make(3), make(4)]).is_empty());
}

#[test]
fn a_shell_does_not_wait_for_what_it_runs_in_the_background() {
    let cat = frozen(
        child_of(9, process(2, "cat", vec![reads(0, 7)])),
        on_input(7),
    );
    let sleep = child_of(9, process(3, "sleep", vec![writes(1, 8)]));
    let sleep = frozen(sleep, on_outside(Outside::Timer));
    let mut shell = frozen(process(9, "bash", vec![writes(3, 7)]), on_child());
    let waited_for = |shell: &Observed| {
        let all = vec![shell.clone(), cat.clone(), sleep.clone()];
        let observation = observation(all);
        let waited_for = children(&observation, observation.find(9).unwrap());
        let pids: Vec<i32> = waited_for.iter().map(|who| who.pid).collect();
        pids
    };
    assert_eq!(waited_for(&shell), [2, 3]);
    shell.children = Some(Children {
        names: vec!["sleep".to_owned()],
        awaited: vec![3],
        shares: sleep.shares,
        outside: sleep.outside.clone(),
        on: Vec::new(),
        processors: 0.0,
        are_short: false,
        are_descendants: false,
    });
    assert_eq!(waited_for(&shell), [3]);
}

#[test]
fn fifo_that_a_shell_holds_for_its_reader_is_named() {
    let fifo = |end: LinkFd| LinkFd {
        pipe: LinkId::Fifo {
            device: 5,
            inode: 7,
        },
        ..end
    };
    let input = |end: &LinkFd| {
        ThreadState::Waiting(BlockedOn::Pipes {
            any_of: vec![LinkWait {
                pipe: end.pipe,
                fd: Some(0),
                side: LinkSide::Input,
            }],
            or: None,
        })
    };
    let both = fifo(LinkFd {
        writes: true,
        ..reads(3, 7)
    });
    let child = |pid, name: &str, ends: Vec<LinkFd>| {
        let waits = input(&ends[0]);
        Observed {
            ancestors: vec![9],
            ..frozen(child_of(9, process(pid, name, ends)), waits)
        }
    };
    let cat = child(2, "cat", vec![fifo(reads(0, 7)), writes(1, 8)]);
    let wc = child(3, "wc", vec![reads(0, 8)]);
    // `cat fifo | wc -l & exec 3>fifo; wait`: wc waits for cat. Something else may end, and the shell go on.
    let other = child(4, "wc", vec![reads(0, 99)]);
    let shell = |end: LinkFd| frozen(process(9, "bash", vec![end]), on_child());
    for (shell, children, is_named) in [
        (shell(both), vec![cat.clone()], true),
        (
            shell(fifo(writes(3, 7))),
            vec![cat.clone(), wc.clone()],
            true,
        ),
        (shell(fifo(writes(3, 7))), vec![cat, wc, other], false),
    ] {
        let all = [shell].into_iter().chain(children);
        let findings = leaked_write_ends(&observation(all.collect()), &BTreeSet::new());
        let named = findings
            .iter()
            .map(|leaked| (&*leaked.holder.name, leaked.fd));
        let expected = is_named.then_some(("bash", 3));
        assert_eq!(named.collect::<Vec<_>>(), Vec::from_iter(expected));
    }
}

/// `sh -c 'timeout 60 gzip log >/dev/null; echo' | cat`: dash keeps its standard output elsewhere meanwhile.
#[test]
fn who_waits_for_a_child_that_works_withholds_no_end() {
    let shell = |runs: f64| {
        let own = child_of(9, process(3, "sh", vec![writes(11, 7)]));
        let shares = Shares {
            runs,
            elsewhere: 1.0 - runs,
            ..Shares::default()
        };
        Observed {
            ancestors: vec![9, 1],
            children: Some(Children {
                names: vec!["gzip".to_owned()],
                awaited: Vec::new(),
                shares,
                outside: BTreeMap::new(),
                on: Vec::new(),
                processors: runs,
                are_short: false,
                are_descendants: false,
            }),
            ..frozen(own, on_child())
        }
    };
    assert!(spare([shell(0.9)]).is_empty());
    assert_eq!(spare([shell(0.1)]), [3]);
}
