//! Invented observations.

use std::collections::{BTreeMap, BTreeSet};

use pipespeed_host::CpuList;

use crate::diagnosis::{Bottleneck, Certainty, Room, Who};
use crate::graph::LinkSide;
use crate::graph::{INIT, Process, Unseen};
use crate::observe::{Observation, ObservedLink};
use crate::proc::ProcessId;
use crate::proc::{Io, Language, LinkFd, LinkId, OtherFiles};
use crate::processors::Load;
use crate::sample::{Observed, OnLink, Shares, Start};
use crate::wait::{BlockedOn, LinkWait, Outside, ThreadState};

/// A process with these pipes.
pub fn process(pid: i32, name: &str, ends: Vec<LinkFd>) -> Process {
    Process {
        id: ProcessId { pid, start: 1 },
        parent: 1,
        group: 1,
        name: name.to_owned(),
        ends: ends.into(),
        sockets: Vec::new(),
        terminals: Vec::new(),
        network: None,
        remotes: BTreeSet::new(),
        others: OtherFiles::default(),
    }
}

/// A read end of a pipe.
pub fn reads(fd: i32, inode: u64) -> LinkFd {
    LinkFd {
        fd,
        pipe: LinkId::pipe(inode),
        reads: true,
        writes: false,
        path: None,
    }
}

/// A write end of a pipe.
pub fn writes(fd: i32, inode: u64) -> LinkFd {
    LinkFd {
        reads: false,
        writes: true,
        ..reads(fd, inode)
    }
}

/// A thread that waits for data in a pipe.
pub fn on_input(inode: u64) -> ThreadState {
    on(inode, LinkSide::Input)
}

/// A thread that waits for room in a pipe.
pub fn on_room(inode: u64) -> ThreadState {
    on(inode, LinkSide::Room)
}

fn on(inode: u64, side: LinkSide) -> ThreadState {
    let wait = LinkWait {
        pipe: LinkId::pipe(inode),
        fd: None,
        side,
    };
    ThreadState::Waiting(BlockedOn::Pipes {
        any_of: vec![wait],
        or: None,
    })
}

/// A thread that waits for something but pipes.
pub fn on_outside(outside: Outside) -> ThreadState {
    ThreadState::Waiting(BlockedOn::Outside(outside))
}

/// A thread that waits for any of its children.
pub fn on_child() -> ThreadState {
    ThreadState::Waiting(BlockedOn::Child(None))
}

/// A child of a process.
pub fn child_of(parent: i32, process: Process) -> Process {
    Process { parent, ..process }
}

/// A process that was asked for and that sleeps in this way all the time.
pub fn frozen(process: Process, thread: ThreadState) -> Observed {
    let mut shares = Shares::default();
    let mut waits = Vec::new();
    match &thread {
        ThreadState::Waiting(BlockedOn::Pipes { any_of, .. }) => {
            for wait in any_of {
                waits.push(OnLink {
                    pipe: wait.pipe,
                    side: wait.side,
                    share: 1.0,
                    thread_share: 0.0,
                });
            }
            match any_of[0].side {
                LinkSide::Input => shares.starved = 1.0,
                LinkSide::Room => shares.blocked = 1.0,
            }
        }
        ThreadState::Stopped => shares.stopped = 1.0,
        _ => shares.elsewhere = 1.0,
    }
    let outside = match &thread {
        ThreadState::Waiting(BlockedOn::Outside(outside)) => BTreeMap::from([(*outside, 1.0)]),
        ThreadState::Waiting(BlockedOn::Child(_)) => BTreeMap::from([(Outside::Child, 1.0)]),
        _ => BTreeMap::new(),
    };
    Observed {
        is_orphan: process.parent == INIT,
        process,
        arguments: None,
        is_asked: true,
        watches_others: false,
        has_timers: false,
        mover: None,
        starters: Vec::new(),
        runs_between: None,
        has_ended: false,
        samples: 100,
        shares,
        outside,
        on: waits,
        children: None,
        is_frozen: true,
        idle_s: None,
        language: Language::Other,
        is_in_background: false,
        threads: vec![thread],
        age_s: 2.0,
        counted_s: 2.0,
        ran_s: 0.0,
        in_kernel_s: 0.0,
        delayed_s: 0.0,
        allowed: CpuList::parse("0-63"),
        quota: None,
        has_reaped: false,
        has_reaped_late: false,
        children_ran_s: 0.0,
        io: Some(Io::default()),
        has_io_limit: false,
        splices: false,
        start: Start::default(),
        polled: BTreeSet::new(),
        polled_beside: BTreeMap::new(),
        tried: BTreeSet::new(),
        handled_signals: 0,
        ancestors: Vec::new(),
        unseen: Unseen::None,
    }
}

/// A process that moves data, with these shares of running, blocked and starved.
pub fn busy(process: Process, runs: f64, blocked: f64, starved: f64) -> Observed {
    let mut on = Vec::new();
    for end in &process.ends {
        let (side, share) = if end.reads {
            (LinkSide::Input, starved)
        } else {
            (LinkSide::Room, blocked)
        };
        on.push(OnLink {
            pipe: end.pipe,
            side,
            share,
            thread_share: 0.0,
        });
    }
    Observed {
        shares: Shares {
            runs,
            blocked,
            starved,
            ..Shares::default()
        },
        on,
        is_frozen: false,
        ran_s: 2.0 * runs,
        io: Some(Io {
            read_bytes: 100 << 20,
            written_bytes: 100 << 20,
            reads: 3200,
            writes: 1600,
        }),
        ..frozen(process, ThreadState::Working)
    }
}

/// A bottleneck, with these shares of its time.
pub fn bottleneck(pid: i32, name: &str, shares: Shares) -> Bottleneck {
    Bottleneck {
        stage: Who {
            pid,
            name: name.to_owned(),
        },
        certainty: Certainty::Clear,
        shares,
        outside: BTreeMap::new(),
        children: None,
        also_awaited: None,
        threads_queued: 0.0,
        has_threads: false,
        is_estimated: false,
        socket_waits: 0.0,
        peer: None,
        delay: None,
        is_stopped: false,
        room: Room::Usual,
        waits: 0.0,
        iowait: 0.0,
        has_io_limit: false,
        limiter: None,
        bystanders: Vec::new(),
        before: Vec::new(),
        after: Vec::new(),
    }
}

/// An observation of these processes.
pub fn observation(processes: Vec<Observed>) -> Observation {
    let mut pipes: BTreeMap<LinkId, ObservedLink> = BTreeMap::new();
    for end in processes.iter().flat_map(|process| &process.process.ends) {
        pipes.entry(end.pipe).or_insert_with(|| ObservedLink {
            id: end.pipe,
            path: end.path.clone(),
            capacity: Some(65536),
            fill: Some(0.5),
            fill_change: None,
            unread: None,
            bytes_per_s: None,
            owner: Some(1000),
            is_held: false,
            held_by: None,
        });
    }
    let mut observation = Observation {
        seconds: 2.0,
        samples: 100,
        cost: 0.008,
        processes,
        pipes: pipes.into_values().collect(),
        scan_s: 0.004,
        users: Vec::new(),
        hidden: 0,
        silent: Vec::new(),
        hidden_asked: 0,
        reads_any: true,
        hides_processes: false,
        hidden_calls: 0,
        other_networks: Vec::new(),
        is_survey: false,
        asked: None,
        is_cut_short: false,
        unlisted_sockets: None,
        lacks_helpers: false,
        index: Default::default(),
        own_parent: None,
        own_output: BTreeSet::new(),
        own_links: BTreeSet::new(),
        has_eventfd: false,
        load: Load::default(),
        new_pipe: None,
    };
    observation.set_rates();
    observation
}
