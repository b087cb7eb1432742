use super::*;
use crate::fixtures::{
    busy, child_of, frozen, observation, on_child, on_input, on_outside, on_room, process, reads,
    writes,
};
use crate::observe::FillChange;
use crate::proc::{Io, Language};
use crate::wait::LinkWait;

fn found(processes: Vec<Observed>) -> Vec<Unread> {
    find(&observation(processes), &BTreeSet::new())
}

fn blocked() -> Observed {
    let yes = child_of(2, process(1, "yes", vec![writes(1, 7)]));
    frozen(yes, on_room(7))
}

fn reader(thread: ThreadState) -> Observed {
    frozen(process(2, "python3", vec![reads(5, 7)]), thread)
}

#[test]
fn a_parent_that_waits_and_does_not_read_is_named() {
    let mut parent = reader(on_outside(Outside::Timer));
    parent.is_frozen = false;
    let [unread] = &found(vec![blocked(), parent.clone()])[..] else {
        panic!();
    };
    assert_eq!((&*unread.writer.name, unread.readers.len()), ("yes", 1));
    assert_eq!(unread.readers[0].child, None);
    parent
        .threads
        .push(ThreadState::Waiting(BlockedOn::Child(Some(1))));
    let [unread] = &found(vec![blocked(), parent.clone()])[..] else {
        panic!();
    };
    assert_eq!(unread.readers[0].child, Some(blocked().who()));
    // asyncio: the thread that waits holds nothing up.
    parent.language = Language::Python;
    parent.outside = [(Outside::Child, 1.0)].into();
    for (other, child, waits_for) in [
        (Outside::Timer, Some(blocked().who()), Outside::Child),
        (Outside::EventOrTimer, None, Outside::EventOrTimer),
    ] {
        parent.threads[0] = on_outside(other);
        let [unread] = &found(vec![blocked(), parent.clone()])[..] else {
            panic!();
        };
        let reader = &unread.readers[0];
        assert_eq!((&reader.child, reader.waits_for), (&child, Some(waits_for)));
    }
}

/// `yes | timeout 12 sleep 30`.
#[test]
fn timeout_is_no_reader_of_what_its_command_leaves() {
    let mut timeout = frozen(
        process(2, "timeout", vec![reads(0, 7)]),
        on_outside(Outside::Signal),
    );
    let sleep = frozen(
        child_of(2, process(3, "sleep", vec![reads(0, 7)])),
        on_outside(Outside::Timer),
    );
    let readers = |timeout: &Observed| {
        let [unread] = &found(vec![blocked(), timeout.clone(), sleep.clone()])[..] else {
            panic!();
        };
        let readers = unread.readers.iter();
        readers.map(|reader| reader.who.pid).collect::<Vec<i32>>()
    };
    assert_eq!(readers(&timeout), [3]);
    timeout.process.name = "nice".to_owned();
    assert_eq!(readers(&timeout), [2, 3]);
}

/// `for line in p.stdout: run(["sleep", "60"])`.
#[test]
fn a_parent_that_waits_for_another_child_may_read_on() {
    let sleep = |parent| {
        let sleep = child_of(parent, process(3, "sleep", Vec::new()));
        frozen(sleep, on_outside(Outside::Timer))
    };
    let parent = |waited: Option<i32>, other: &Observed| {
        let mut parent = reader(ThreadState::Waiting(BlockedOn::Child(waited)));
        parent.children = Some(Children {
            names: vec![other.process.name.clone()],
            awaited: Vec::new(),
            shares: other.shares,
            outside: other.outside.clone(),
            on: Vec::new(),
            processors: 0.0,
            are_short: false,
            are_descendants: false,
        });
        parent
    };
    let found = |waited: Option<i32>, other: Observed| {
        let found = found(vec![blocked(), parent(waited, &other), other]);
        let [unread] = &found[..] else {
            panic!("{found:?}");
        };
        (unread.readers[0].child.is_some(), unread.may_be_read)
    };
    assert_eq!(found(Some(3), sleep(2)), (false, true));
    assert_eq!(found(None, sleep(2)), (false, true));
    assert_eq!(found(Some(1), sleep(1000)), (true, false));
    // A client that waits for the writer.
    let ends = vec![reads(0, 9)];
    let client = frozen(child_of(2, process(3, "curl", ends)), on_input(9));
    let mut server = blocked();
    server.process.ends = vec![writes(1, 7), writes(4, 9)].into();
    let parent = parent(Some(3), &client);
    let all = find(&observation(vec![server, parent, client]), &BTreeSet::new());
    assert!(matches!(&all[..], [one] if !one.may_be_read), "{all:?}");
}

/// Go: `io.ReadAll(stdout)` of `sh -c 'yes >&2; echo done'`, and then of its standard error.
#[test]
fn who_reads_another_stream_of_a_child_that_waits_does_not_read_on() {
    let parent = |runs: f64| {
        let mut parent = frozen(
            process(2, "go", vec![reads(5, 7), reads(6, 8)]),
            on_input(8),
        );
        parent.children = Some(Children {
            names: vec!["sh".to_owned()],
            awaited: Vec::new(),
            shares: Shares {
                runs,
                blocked: 1.0 - runs,
                ..Shares::default()
            },
            outside: [].into(),
            on: Vec::new(),
            processors: 0.0,
            are_short: false,
            are_descendants: false,
        });
        parent
    };
    let sh = || {
        let sh = child_of(2, process(3, "sh", vec![writes(1, 8), writes(2, 7)]));
        frozen(sh, ThreadState::Waiting(BlockedOn::Child(Some(1))))
    };
    let [unread] = &found(vec![blocked(), parent(0.0), sh()])[..] else {
        panic!();
    };
    assert!(!unread.may_be_read, "{unread:?}");
    assert_eq!(found(vec![blocked(), parent(1.0), sh()]), []);
}

#[test]
fn a_client_reads_on_once_its_server_answers_but_a_parent_need_not() {
    let socket = LinkId::Socket { inode: 9 };
    let at_server = || {
        ThreadState::Waiting(BlockedOn::Pipes {
            any_of: vec![LinkWait {
                pipe: socket,
                fd: Some(3),
                side: LinkSide::Input,
            }],
            or: None,
        })
    };
    let waits = [
        (at_server(), true),
        (on_outside(Outside::Socket), true),
        (on_outside(Outside::Tracer), true),
        (on_outside(Outside::Event), true),
        (on_outside(Outside::EventOrTimer), true),
        (on_outside(Outside::Lock), true),
        (on_outside(Outside::Other), false),
    ];
    for (wait, may_be_read) in waits {
        let mut stranger = blocked();
        stranger.process.parent = 1000;
        stranger.ancestors.clear();
        let [unread] = &found(vec![stranger, reader(wait.clone())])[..] else {
            panic!("{wait:?}");
        };
        assert_eq!(unread.may_be_read, may_be_read, "{wait:?}");
        let [unread] = &found(vec![blocked(), reader(wait.clone())])[..] else {
            panic!("{wait:?}");
        };
        let by_itself = wait == on_outside(Outside::Tracer);
        assert_eq!(unread.may_be_read, by_itself, "{wait:?}");
    }
}

#[test]
fn a_working_or_blocked_reader_is_not_named() {
    let works = busy(process(2, "gzip", vec![reads(0, 7)]), 0.9, 0.0, 0.0);
    assert_eq!(found(vec![blocked(), works]), []);
    let cat = frozen(
        process(2, "cat", vec![reads(0, 7), writes(1, 8)]),
        on_room(8),
    );
    let sleep = frozen(
        process(3, "sleep", vec![reads(0, 8)]),
        on_outside(Outside::Timer),
    );
    let unread = found(vec![blocked(), cat, sleep]);
    let names = unread.iter().map(|unread| &*unread.writer.name);
    assert_eq!(names.collect::<Vec<&str>>(), ["cat"]);
}

#[test]
fn who_takes_its_inputs_in_order_comes_to_this_one() {
    let ends = vec![reads(3, 8), reads(5, 7), writes(1, 9)];
    let mut cat = busy(process(2, "cat", ends), 0.1, 0.0, 0.9);
    cat.on.retain(|on| on.pipe == LinkId::pipe(8));
    (cat.threads, cat.io) = (vec![on_input(8)], None);
    let found = |reader: &Observed| {
        let mut observation = observation(vec![blocked(), reader.clone()]);
        observation.pipes[0].fill_change = Some(FillChange {
            is_steady_growth: false,
            least: 0,
            is_constant: true,
            bytes_per_s: 0.0,
        });
        find(&observation, &BTreeSet::new()).len()
    };
    assert_eq!(found(&cat), 1);
    cat.io = Some(Io {
        read_bytes: 1 << 20,
        reads: 16,
        ..Io::default()
    });
    assert_eq!(found(&cat), 0);
    // A server reads from others, too.
    cat.polled = [(LinkId::pipe(8), LinkSide::Input)].into();
    assert_eq!(found(&cat), 1);
}

/// As `comm <(sleep 9; sort) <(sort)`.
#[test]
fn who_waits_for_its_first_input_comes_to_the_second() {
    let comm = frozen(
        process(2, "comm", vec![reads(63, 8), reads(62, 7)]),
        on_input(8),
    );
    let sleep = |ends| frozen(process(3, "sleep", ends), on_outside(Outside::Timer));
    let first = || sleep(vec![writes(1, 8)]);
    assert_eq!(found(vec![blocked(), comm.clone(), first()]), []);
    // A copy of the read end has been left to the other one.
    let both = sleep(vec![writes(1, 8), reads(60, 7)]);
    assert_eq!(found(vec![blocked(), comm.clone(), both]), []);
    // Who could write there waits for the writer here, as a filter of what tee(1) passes on.
    let mut filter = frozen(
        process(3, "filter", vec![reads(0, 9), writes(1, 8)]),
        on_input(9),
    );
    let mut tee = blocked();
    tee.process.ends = vec![writes(1, 7), writes(3, 9)].into();
    let all = vec![tee.clone(), comm.clone(), filter.clone()];
    assert_eq!(found(all).len(), 1);
    // It may hear from another machine, as ssh.
    filter.threads = vec![ThreadState::Waiting(BlockedOn::Pipes {
        any_of: vec![LinkWait {
            pipe: LinkId::pipe(9),
            fd: Some(0),
            side: LinkSide::Input,
        }],
        or: Some(Outside::Socket),
    })];
    assert_eq!(found(vec![tee, comm.clone(), filter]), []);
    // Whoever writes there can't be examined.
    assert_eq!(found(vec![blocked(), comm.clone()]), []);
    // Its standard error, which is its standard output, too.
    let mut error = blocked();
    error.process.ends = vec![writes(1, 7), writes(2, 7)].into();
    assert_eq!(found(vec![error, comm.clone(), first()]).len(), 1);
    // A runtime that polls has forgotten it.
    let mut polls = comm;
    polls.polled = [(LinkId::pipe(8), LinkSide::Input)].into();
    assert_eq!(found(vec![blocked(), polls, first()]).len(), 1);
}

/// `Popen(server)`, and then `check_output(client)`, whose server does not get as far as to answer.
#[test]
fn who_reads_a_client_may_have_forgotten_its_server() {
    let reader = |language: Language| {
        let ends = vec![reads(3, 8), reads(5, 7)];
        let mut reader = frozen(process(2, "reader", ends), on_input(8));
        reader.language = language;
        reader
    };
    let timer = on_outside(Outside::Timer);
    let client = || frozen(process(3, "curl", vec![writes(1, 8)]), timer.clone());
    let all = found(vec![blocked(), reader(Language::Python), client()]);
    assert!(matches!(&all[..], [one] if one.may_be_read), "{all:?}");
    // As a client of a server that works, at a socket.
    let mut remote = reader(Language::Python);
    let socket = LinkId::Socket { inode: 8 };
    let mut helper = client();
    for process in [&mut remote, &mut helper] {
        let mut ends = process.process.ends.to_vec();
        for end in ends.iter_mut().filter(|end| end.pipe == LinkId::pipe(8)) {
            end.pipe = socket;
        }
        process.process.ends = ends.into();
        for on in &mut process.on {
            on.pipe = socket;
        }
    }
    let all = found(vec![blocked(), remote.clone(), helper]);
    assert!(matches!(&all[..], [one] if one.may_be_read), "{all:?}");
    let all = found(vec![blocked(), remote]);
    assert!(matches!(&all[..], [one] if !one.may_be_read), "{all:?}");
    let shell = found(vec![blocked(), reader(Language::Shell), client()]);
    assert_eq!(shell, []);
    // Not if it was started by somebody else.
    let mut stranger = blocked();
    stranger.process.parent = 1000;
    stranger.ancestors.clear();
    let all = vec![stranger, reader(Language::Python), client()];
    assert_eq!(found(all), []);
    // The client's parent, as timeout(1), waits for it, and it waits for the server.
    let ends = vec![writes(1, 8), reads(6, 9)];
    let client = frozen(child_of(4, process(3, "client", ends)), on_input(9));
    let signal = on_outside(Outside::Signal);
    let timeout = frozen(process(4, "timeout", vec![writes(1, 8)]), signal);
    let mut server = blocked();
    server.process.ends = vec![writes(1, 7), writes(4, 9)].into();
    let all = found(vec![server, reader(Language::Python), client, timeout]);
    assert!(matches!(&all[..], [one] if !one.may_be_read), "{all:?}");
}

/// Python's `for line in p.stdout`, of a shell whose child fills standard error.
#[test]
fn the_other_stream_of_who_is_read_in_order_is_unread() {
    let mut python = busy(
        process(2, "python3", vec![reads(3, 8), reads(5, 7)]),
        0.0,
        0.0,
        1.0,
    );
    python.on.retain(|on| on.pipe == LinkId::pipe(8));
    python.threads = vec![on_input(8)];
    python.io = Some(Io {
        read_bytes: 40,
        reads: 20,
        ..Io::default()
    });
    let found = |standard_error: i32| {
        let ends = vec![writes(1, 8), writes(standard_error, 7)];
        let shell = busy(process(3, "sh", ends), 0.0, 0.0, 0.0);
        let all = vec![blocked(), python.clone(), shell];
        let mut observation = observation(all);
        observation.pipes[0].fill_change = Some(FillChange {
            is_steady_growth: false,
            least: 0,
            is_constant: true,
            bytes_per_s: 0.0,
        });
        find(&observation, &BTreeSet::new()).len()
    };
    // An end that was left to it by accident is none of its streams.
    assert_eq!((found(2), found(9)), (1, 0));
}

/// xargs has read what it passes to children that end by and by.
#[test]
fn who_notices_the_ends_of_children_reads_on_unless_the_writer_is_one() {
    let found_with = |has_reaped_late: bool, writer: Observed| {
        let waiting = ThreadState::Waiting(BlockedOn::Child(None));
        let xargs = frozen(process(2, "xargs", vec![reads(0, 7)]), waiting);
        let xargs = Observed {
            has_reaped_late,
            ..xargs
        };
        found(vec![writer, xargs]).len()
    };
    let other = || frozen(process(1, "yes", vec![writes(1, 7)]), on_room(7));
    assert_eq!(found_with(false, other()), 1);
    assert_eq!(found_with(true, other()), 0);
    assert_eq!(found_with(true, blocked()), 1);
}

#[test]
fn a_writer_that_ran_had_a_reader() {
    let writer = busy(blocked().process, 0.01, 0.99, 0.0);
    assert_eq!(found(vec![writer, reader(on_outside(Outside::Timer))]), []);
}

/// Node and asyncio wait in a poll with a timeout.
#[test]
fn a_reader_in_an_event_loop_takes_nothing_and_a_sleeper_may() {
    let in_loop = ThreadState::Waiting(BlockedOn::Pipes {
        any_of: vec![LinkWait {
            pipe: LinkId::pipe(7),
            fd: Some(5),
            side: LinkSide::Input,
        }],
        or: Some(Outside::Timer),
    });
    let constant = |observation: &mut Observation| {
        observation.pipes[0].unread = Some(4096);
        observation.pipes[0].fill_change = Some(FillChange {
            is_steady_growth: false,
            least: 0,
            is_constant: true,
            bytes_per_s: 0.0,
        });
    };
    for (thread, may_be_read) in [(in_loop, false), (on_outside(Outside::Timer), true)] {
        let mut observation = observation(vec![blocked(), reader(thread)]);
        constant(&mut observation);
        let [unread] = &find(&observation, &BTreeSet::new())[..] else {
            panic!("{observation:?}");
        };
        assert_eq!((unread.may_be_read, unread.fd), (may_be_read, Some(1)));
        assert_eq!(unread.readers[0].fd, Some(5));
    }
}

/// What ends such a wait comes from outside: a signal of a process or of a file, a futex in shared memory, a timeout.
#[test]
fn whoever_may_be_woken_from_outside_is_not_said_to_do_nothing() {
    let are_idle = |writer: Observed, reader: Observed| {
        let [unread] = &found(vec![writer, reader])[..] else {
            panic!();
        };
        unread.are_readers_idle
    };
    let idle_in = |thread: ThreadState| {
        let mut reader = reader(thread);
        reader.io = Some(Io::default());
        reader.language = Language::Python;
        reader
    };
    let idle = || idle_in(on_outside(Outside::Event));
    assert!(are_idle(blocked(), idle()));
    let mut in_c = idle();
    in_c.language = Language::Other;
    assert!(!are_idle(blocked(), in_c));
    for timed in [Outside::EventOrTimer, Outside::LockOrTimer] {
        assert!(!are_idle(blocked(), idle_in(on_outside(timed))));
    }
    // pause(2), and a message queue.
    for unknown in [Outside::Signal, Outside::Other] {
        let mut waits = idle_in(on_outside(unknown));
        waits.outside = [(unknown, 1.0)].into();
        let mut stranger = blocked();
        stranger.process.parent = 1;
        assert!(!are_idle(stranger, waits.clone()));
        assert!(!are_idle(blocked(), waits.clone()));
        // The shell of a writer waits for its end.
        waits.language = Language::Shell;
        let is_for_children = unknown == Outside::Signal;
        assert_eq!(are_idle(blocked(), waits), is_for_children);
    }
    // Another thread may wait for what does not show in the shares.
    for (other, language, is_idle) in [
        (Outside::Socket, Language::Java, false),
        (Outside::Signal, Language::Python, false),
        (Outside::Timer, Language::Python, false),
        (Outside::Timer, Language::Java, true),
        (Outside::LockOrTimer, Language::Go, true),
        (Outside::Lock, Language::Python, false),
        (Outside::Event, Language::Python, true),
        // The kernel may write to an eventfd(2) for it.
        (Outside::Event, Language::Other, false),
    ] {
        let mut with_other = blocked();
        with_other.language = language;
        with_other.threads.push(on_outside(other));
        assert_eq!(are_idle(with_other, idle()), is_idle, "{other:?}");
    }
    // One that has woken up and not read on does so regularly.
    let mut beats = idle_in(on_child());
    beats.threads.push(on_outside(Outside::Timer));
    assert!(!are_idle(blocked(), beats.clone()));
    beats.is_frozen = false;
    assert!(are_idle(blocked(), beats));
    // Its handler of a child's end may read on, or the kernel by a ring.
    let handles = |process: Observed| Observed {
        handled_signals: 1 << (libc::SIGCHLD - 1),
        ..process
    };
    for (writer, is_idle) in [(handles(blocked()), false), (blocked(), true)] {
        let other = child_of(1, process(3, "node", Vec::new()));
        let beside = |thread: ThreadState| {
            let other = frozen(other.clone(), thread);
            let [unread] = &found(vec![writer.clone(), idle(), other])[..] else {
                panic!();
            };
            unread.are_readers_idle
        };
        assert_eq!(beside(ThreadState::Waiting(BlockedOn::Thread)), is_idle);
        // One that sleeps may end them.
        assert!(!beside(on_outside(Outside::Timer)));
    }
    let mut in_ring = blocked();
    in_ring.process.others.has_uring = true;
    assert!(!are_idle(in_ring, idle()));
    let mut with_alarm = idle();
    with_alarm.handled_signals = 1 << (libc::SIGALRM - 1);
    assert!(!are_idle(blocked(), with_alarm));
    // The client of a server elsewhere.
    let mut connected = idle();
    connected
        .process
        .remotes
        .insert("192.0.2.1:80".parse().unwrap());
    assert!(!are_idle(blocked(), connected));
    let mut watches = idle();
    watches.watches_others = true;
    assert!(!are_idle(blocked(), watches));
    let mut watches = blocked();
    watches.watches_others = true;
    assert!(!are_idle(watches, idle()));
    // By a child or a connection of another thread somebody outside may end it.
    let mut at_door = blocked();
    at_door
        .threads
        .push(ThreadState::Waiting(BlockedOn::FifoPeer { path: None }));
    assert!(!are_idle(at_door, idle()));
    let mut told = blocked();
    told.process.ends.extend([reads(5, 9)]);
    told.on.push(OnLink {
        pipe: LinkId::pipe(9),
        side: LinkSide::Input,
        share: 1.0,
        thread_share: 0.0,
    });
    assert!(!are_idle(told, idle()));
    // Anybody may write to a FIFO that it holds open for both, or to one that it reads.
    let mut at_fifo = idle();
    at_fifo.threads.push(on_outside(Outside::FifoPeer));
    assert!(!are_idle(blocked(), at_fifo));
    let mut on_futex = idle();
    on_futex.threads = vec![on_outside(Outside::Lock)];
    assert!(!are_idle(blocked(), on_futex));
    let mut with_timeout = blocked();
    let ThreadState::Waiting(BlockedOn::Pipes { or, .. }) = &mut with_timeout.threads[0] else {
        panic!();
    };
    *or = Some(Outside::Timer);
    assert!(!are_idle(with_timeout, idle()));
    let mut in_ring = idle();
    in_ring.process.others.has_uring = true;
    assert!(!are_idle(blocked(), in_ring));
    // Its handler of a signal may write to its own pipe. Python always has one of SIGINT.
    for (signal, thread, is_idle) in [
        (libc::SIGCHLD, on_input(9), false),
        (libc::SIGTERM, on_outside(Outside::Event), false),
        (libc::SIGINT, on_outside(Outside::Event), true),
    ] {
        let mut woken = idle_in(thread);
        woken.process.ends.extend([reads(3, 9), writes(4, 9)]);
        woken.handled_signals = 1 << (signal - 1);
        assert_eq!(are_idle(blocked(), woken.clone()), is_idle, "{signal}");
        // A runtime handles many of which its program knows nothing.
        woken.language = Language::JavaScript;
        let is_loop = woken.threads != [on_input(9)];
        assert_eq!(are_idle(blocked(), woken), is_loop, "{signal}");
    }
}

/// `yes | python3`, which runs curl by run(capture_output=True) first: it polls two pipes of that. Not where that waits
/// for the writer, or is the writer's shell.
#[test]
fn whoever_waits_for_a_child_that_waits_outside_is_not_said_to_do_nothing() {
    let are_idle = |child_waits: ThreadState, outside: &[Outside], is_polled: bool| {
        let any_of = [8, 9].map(|pipe| LinkWait {
            pipe: LinkId::pipe(pipe),
            fd: Some(pipe as i32),
            side: LinkSide::Input,
        });
        let polls = ThreadState::Waiting(BlockedOn::Pipes {
            any_of: any_of.into(),
            or: None,
        });
        let polls = if is_polled {
            polls
        } else {
            on_outside(Outside::Event)
        };
        let python = process(2, "python3", vec![reads(0, 7), reads(8, 8), reads(9, 9)]);
        let python = Observed {
            io: Some(Io::default()),
            language: Language::Python,
            ..frozen(python, polls)
        };
        let curl = child_of(2, process(3, "curl", vec![writes(1, 8), writes(2, 9)]));
        let curl = Observed {
            io: Some(Io::default()),
            outside: outside.iter().map(|outside| (*outside, 1.0)).collect(),
            ..frozen(curl, child_waits)
        };
        let mut stranger = blocked();
        stranger.process.parent = 1;
        let all = found(vec![stranger, python, curl]);
        let unread = all.iter().find(|unread| unread.pipe == LinkId::pipe(7));
        unread.unwrap().are_readers_idle
    };
    for is_polled in [true, false] {
        let socket = on_outside(Outside::Socket);
        assert!(!are_idle(socket, &[Outside::Socket], is_polled));
        assert!(are_idle(on_room(8), &[], is_polled));
    }
}

/// A filter in an event loop that takes 64 KiB and pauses at each line reads on once these are used up.
#[test]
fn who_writes_on_what_it_has_read_of_its_input_reads_on() {
    let mut filter = frozen(
        process(2, "node", vec![reads(0, 7), writes(1, 8)]),
        on_outside(Outside::EventOrTimer),
    );
    filter.is_frozen = false;
    let mut yes = blocked();
    yes.process.parent = 900;
    let io = |written_bytes: u64| {
        Some(Io {
            written_bytes,
            writes: written_bytes.min(10),
            ..Io::default()
        })
    };
    filter.io = io(0);
    assert_eq!(found(vec![yes.clone(), filter.clone()]).len(), 1);
    filter.io = io(5000);
    assert_eq!(found(vec![yes.clone(), filter.clone()]).len(), 0);
    // It may have forgotten what it has started.
    assert_eq!(found(vec![blocked(), filter.clone()]).len(), 1);
    filter.process.ends = vec![reads(5, 7), writes(1, 8)].into();
    assert_eq!(found(vec![yes, filter]).len(), 1);
}
