//! Descriptors that a program has registered for events once and for all.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::{LinkSide, Node, STDIN};
use crate::proc::LinkId;
use crate::sample::Observed;
use crate::wait::{BlockedOn, Outside, ThreadState};

/// Samples may contradict each other by so much.
const MAX_ERROR: f64 = 0.1;

/// Whoever waits for room in a link that seems empty for this share has it only registered.
const MIN_REGISTERED: f64 = 0.8;

/// Corrects what event loops waited for. Whoever seems to wait for room in a link that `is_empty` at every
/// look has it only registered. So has whoever seems to wait for data in a link while a writer waits for room
/// in it.
pub(crate) fn correct(processes: &mut [Observed], is_empty: impl Fn(LinkId) -> bool) {
    let has_loop = |process: &&mut Observed| !process.polled.is_empty();
    for process in processes.iter_mut().filter(has_loop) {
        leave_room(process, &is_empty);
    }
    let mut full: BTreeMap<LinkId, f64> = BTreeMap::new();
    for process in &*processes {
        for on in process.on.iter().filter(|on| on.side == LinkSide::Room) {
            let share = full.entry(on.pipe).or_default();
            *share = share.max(on.share);
        }
    }
    // Both sides may wait in read(2) and write(2): waking a process takes time.
    for process in processes.iter_mut().filter(has_loop) {
        let mut most_real: f64 = 0.0;
        let mut excess: f64 = 0.0;
        for on in process
            .on
            .iter_mut()
            .filter(|on| on.side == LinkSide::Input)
        {
            let most = 1.0 - full.get(&on.pipe).copied().unwrap_or(0.0);
            let is_polled = process.polled.contains(&(on.pipe, on.side));
            if is_polled && on.share > most + MAX_ERROR {
                excess = excess.max(on.share - most);
                on.share = most;
            }
            most_real = most_real.max(on.share);
        }
        // A timer goes on with what it has paused: the other links are only registered, too.
        if has_full_input(process, &full) && has_timer(process) {
            excess = excess.max(most_real);
            most_real = 0.0;
            process.on.retain(|on| on.side == LinkSide::Room);
        }
        // What it waits for on other links stays.
        let moved = excess.min((process.shares.starved - most_real).max(0.0));
        if moved > 0.0 {
            process.shares.starved -= moved;
            process.shares.elsewhere += moved;
            *process.outside.entry(Outside::EventOrTimer).or_default() += moved;
        }
        process.on.retain(|on| on.share > 0.0);
    }
}

/// Corrects waits for children of processes that read what one of these writes now and then, and pause meanwhile in
/// another thread, as Java programs do: the one that waits for the child's end holds nothing up.
pub(crate) fn leave_reapers(processes: &mut [Observed]) {
    /// Who waits for room for this share is held up.
    const MIN_BLOCKED: f64 = 0.5;
    let above = |process: &Observed| {
        let all = std::iter::once(process.process.parent);
        all.chain(process.ancestors.iter().copied()).collect()
    };
    let blocked: Vec<(BTreeSet<i32>, LinkId)> = processes
        .iter()
        .flat_map(|process| process.on.iter().map(move |on| (process, on)))
        .filter(|(_, on)| on.side == LinkSide::Room && on.share >= MIN_BLOCKED)
        .map(|(process, on)| (above(process), on.pipe))
        .collect();
    for process in processes {
        let pid = process.process.id.pid;
        let reads = |link: LinkId| process.process.holds(link, LinkSide::Input);
        let mut own = blocked.iter().filter(|(above, _)| above.contains(&pid));
        let is_reader =
            own.any(|(_, link)| reads(*link)) && process.io.is_some_and(|io| io.reads > 0);
        let pause = |state: &ThreadState| match state {
            ThreadState::Waiting(BlockedOn::Outside(outside)) if outside.may_be_timer() => {
                Some(*outside)
            }
            _ => None,
        };
        let pause = process.threads.iter().find_map(pause);
        if let Some(pause) = pause.filter(|_| is_reader && process.threads.len() > 1)
            && let Some(share) = process.outside.remove(&Outside::Child)
        {
            *process.outside.entry(pause).or_default() += share;
        }
    }
}

/// Corrects waits for input from pipes that carry no data: one by which a program wakes itself, or one whose end tells
/// it that a process above it has ended, as in the workers of PostgreSQL. `holders` are those of a side of a link.
pub(crate) fn leave_wakes(
    processes: &mut [Observed],
    holders: impl Fn(LinkId, LinkSide) -> BTreeSet<i32>,
) {
    let mut known: BTreeMap<LinkId, [BTreeSet<i32>; 2]> = BTreeMap::new();
    let mut ends = |link: LinkId| -> [BTreeSet<i32>; 2] {
        let sides = || [LinkSide::Input, LinkSide::Room].map(|side| holders(link, side));
        known.entry(link).or_insert_with(sides).clone()
    };
    for process in processes {
        let may_be_woken =
            process.handles_signals() || process.threads.len() > 1 || process.has_ended;
        if !may_be_woken && process.polled_beside.is_empty() {
            continue;
        }
        let mut on = std::mem::take(&mut process.on);
        let mut moved: BTreeMap<Outside, f64> = BTreeMap::new();
        on.retain(|on| {
            let wakes = (on.side == LinkSide::Input)
                .then(|| only_wakes(process, on.pipe, may_be_woken, &mut ends));
            let Some(outside) = wakes.flatten() else {
                return true;
            };
            let share = moved.entry(outside).or_default();
            *share = share.max(on.share);
            false
        });
        let rest = on.iter().filter(|on| on.side == LinkSide::Input);
        let rest = rest.map(|on| on.share).fold(0.0, f64::max);
        process.on = on;
        for (outside, share) in moved {
            let share = share.min(process.shares.starved - rest);
            if share > 0.0 {
                process.shares.starved -= share;
                process.shares.elsewhere += share;
                *process.outside.entry(outside).or_default() += share;
            }
        }
    }
}

/// What a process really waits for where it seems to wait for input from a link; `None` if data may come there.
fn only_wakes(
    process: &Observed,
    link: LinkId,
    may_be_woken: bool,
    ends: &mut impl FnMut(LinkId) -> [BTreeSet<i32>; 2],
) -> Option<Outside> {
    // Others may open a FIFO or a terminal for a moment.
    if link.is_fifo() || link.is_terminal() {
        return None;
    }
    let pid = process.process.id.pid;
    // Tokens that make(1) and those that it has started take and give back, as their children begin and end. Without
    // a child it would have one to begin with.
    let [mut readers, mut writers] = ends(link);
    let children = process.children.as_ref();
    // Of one that has ended neither its signals nor its ends are known any more.
    let mut handles_ends = process.handles(libc::SIGCHLD);
    if process.has_ended {
        let had = |side| process.process.holds(link, side).then_some(pid);
        readers.extend(had(LinkSide::Input));
        writers.extend(had(LinkSide::Room));
        handles_ends = children.is_some();
    }
    if handles_ends && readers == writers && readers.contains(&pid) {
        return Some(children.map_or(Outside::Event, |_| Outside::Child));
    }
    match process.polled_beside.get(&link) {
        // With a timeout alone it may wait for a job, as by Queue.get() of Python's multiprocessing.
        Some(Outside::Timer) => None,
        Some(or) => {
            // Who keeps the end for reading, too, says by the other one that it is there.
            let is_sign_of_life = link.is_pipe()
                && !writers.is_empty()
                && writers.is_subset(&readers)
                && writers.iter().all(|pid| process.is_below(*pid))
                && !process.has_as(link, STDIN);
            is_sign_of_life.then_some(*or)
        }
        None if may_be_woken => {
            let is_own = [readers, writers].iter().all(|all| all.iter().eq([&pid]));
            is_own.then_some(Outside::Event)
        }
        None => None,
    }
}

/// Removes waits for room in empty links.
fn leave_room(process: &mut Observed, is_empty: impl Fn(LinkId) -> bool) {
    let longest = |process: &Observed, side: LinkSide| {
        let waits = process.on.iter().filter(|on| on.side == side);
        waits.map(|on| on.share).fold(0.0, f64::max)
    };
    let before = longest(process, LinkSide::Room);
    let polled = &process.polled;
    process.on.retain(|on| {
        let is_registered = on.share >= MIN_REGISTERED && polled.contains(&(on.pipe, on.side));
        on.side == LinkSide::Input || !is_registered || !is_empty(on.pipe)
    });
    let moved = (before - longest(process, LinkSide::Room)).min(process.shares.blocked);
    if moved <= 0.0 {
        return;
    }
    process.shares.blocked -= moved;
    if longest(process, LinkSide::Input) > 0.0 {
        process.shares.starved += moved;
    } else {
        process.shares.elsewhere += moved;
        *process.outside.entry(Outside::EventOrTimer).or_default() += moved;
    }
}

/// Whether a writer waits nearly all the time for room in a link that this process can read.
fn has_full_input(process: &Observed, full: &BTreeMap<LinkId, f64>) -> bool {
    const MIN_FULL: f64 = 0.8;
    let mut ends = process.process.ends.iter();
    ends.any(|end| end.reads && full.get(&end.pipe).is_some_and(|share| *share >= MIN_FULL))
}

/// Whether a thread waits in a poll with a timeout.
fn has_timer(process: &Observed) -> bool {
    process.threads.iter().any(|state| {
        matches!(
            state,
            ThreadState::Waiting(BlockedOn::Pipes {
                or: Some(Outside::Timer | Outside::EventOrTimer | Outside::SocketOrTimer),
                ..
            })
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{
        busy, child_of, frozen, on_child, on_input, on_outside, on_room, process, reads, writes,
    };
    use crate::proc::{Io, LinkFd};
    use crate::sample::{Children, Shares};

    #[test]
    fn a_reader_of_a_full_pipe_waits_for_something_else() {
        let writer = frozen(process(1, "cat", vec![writes(1, 7)]), on_room(7));
        let reader = Observed {
            polled: [(LinkId::pipe(7), LinkSide::Input)].into(),
            ..frozen(process(2, "node", vec![reads(5, 7)]), on_input(7))
        };
        let mut all = [writer.clone(), reader];
        correct(&mut all, |_| false);
        assert_eq!(all[0], writer);
        assert_eq!((all[1].shares.starved, all[1].shares.elsewhere), (0.0, 1.0));
        assert_eq!(all[1].outside[&Outside::EventOrTimer], 1.0);
        let by_turns = [
            busy(process(1, "cat", vec![writes(1, 7)]), 0.5, 0.5, 0.0),
            busy(process(2, "wc", vec![reads(0, 7)]), 0.5, 0.0, 0.5),
        ];
        let mut same = by_turns.clone();
        correct(&mut same, |_| false);
        assert_eq!(same, by_turns);
        // Each waits while the other one wakes up on another processor.
        let waking = [
            busy(process(1, "cat", vec![writes(1, 7)]), 0.4, 0.58, 0.0),
            busy(process(2, "wc", vec![reads(0, 7)]), 0.35, 0.0, 0.64),
        ];
        let mut same = waking.clone();
        correct(&mut same, |_| false);
        assert_eq!(same, waking);
    }

    #[test]
    fn a_writer_to_an_empty_pipe_waits_for_something_else() {
        let writer = Observed {
            polled: [(LinkId::pipe(7), LinkSide::Room)].into(),
            ..frozen(process(1, "tokio", vec![writes(5, 7)]), on_room(7))
        };
        let reader = frozen(process(2, "cat", vec![reads(0, 7)]), on_input(7));
        // In write(2) it does wait.
        let blocked = frozen(process(1, "python", vec![writes(5, 7)]), on_room(7));
        let mut same = [blocked.clone(), reader.clone()];
        correct(&mut same, |_| true);
        assert_eq!(same[0], blocked);
        let mut all = [writer, reader.clone()];
        correct(&mut all, |_| true);
        assert_eq!(all[1], reader);
        assert_eq!((all[0].shares.blocked, all[0].shares.elsewhere), (0.0, 1.0));
        assert!(all[0].on.is_empty());
    }

    /// Java's Process has a thread that waits for the end of what it has started.
    #[test]
    fn who_reads_from_a_child_between_pauses_does_not_wait_for_its_end() {
        let outside = |count: u64, pauses: bool| {
            let mut java = frozen(process(1, "java", vec![reads(5, 7)]), on_child());
            if pauses {
                java.threads.push(on_outside(Outside::LockOrTimer));
            }
            java.io = Some(Io {
                reads: count,
                read_bytes: count * 8192,
                ..Io::default()
            });
            let yes = child_of(1, process(2, "yes", vec![writes(1, 7)]));
            let mut all = [java, frozen(yes, on_room(7))];
            leave_reapers(&mut all);
            all[0].outside.keys().copied().collect::<Vec<Outside>>()
        };
        assert_eq!(outside(400, true), [Outside::LockOrTimer]);
        assert_eq!(outside(400, false), [Outside::Child]);
        assert_eq!(outside(0, true), [Outside::Child]);
    }

    /// A worker of PostgreSQL polls a signal and a pipe. The pipe only ends: when the first process does. Other
    /// programs write to a pipe of their own in signal handlers.
    #[test]
    fn who_can_only_be_woken_waits_for_an_event() {
        let make = |children, or: Option<Outside>, signals: u64, ends: Vec<LinkFd>| {
            let worker = child_of(1, process(2, "postgres", ends));
            let mut worker = frozen(worker, on_input(7));
            worker.children = children;
            worker.polled_beside = or.into_iter().map(|or| (LinkId::pipe(7), or)).collect();
            worker.handled_signals = signals;
            worker
        };
        let told = |worker: Observed, both: &[i32]| {
            let is_there = !worker.has_ended;
            let mut all = [worker];
            leave_wakes(&mut all, |_, side| {
                let reader = (side == LinkSide::Input && is_there).then_some(2);
                reader.into_iter().chain(both.iter().copied()).collect()
            });
            let [worker] = all;
            assert_eq!(worker.on.is_empty(), worker.shares.starved == 0.0);
            worker.outside
        };
        let corrected = |or, signals, ends, both: &[i32]| told(make(None, or, signals, ends), both);
        let event = BTreeMap::from([(Outside::Event, 1.0)]);
        let (reader, own) = (vec![reads(3, 7)], vec![reads(3, 7), writes(4, 7)]);
        assert_eq!(
            corrected(Some(Outside::Event), 0, reader.clone(), &[1]),
            event
        );
        let timer = corrected(Some(Outside::EventOrTimer), 0, reader.clone(), &[1]);
        assert_eq!(timer[&Outside::EventOrTimer], 1.0);
        // It waits for nothing else, or for a time, or another process only writes.
        assert!(corrected(Some(Outside::Timer), 0, reader.clone(), &[1]).is_empty());
        assert!(corrected(None, 0, reader.clone(), &[1]).is_empty());
        assert!(corrected(Some(Outside::Event), 0, reader, &[]).is_empty());
        // That is none above it, or it is its standard input.
        let input = vec![reads(0, 7)];
        assert!(corrected(Some(Outside::Event), 0, input, &[1]).is_empty());
        assert!(corrected(Some(Outside::Event), 0, vec![reads(3, 7)], &[9]).is_empty());
        let terminates = 1 << (libc::SIGTERM - 1);
        assert_eq!(corrected(None, terminates, own.clone(), &[2]), event);
        // Nobody writes to it.
        assert!(corrected(None, 0, own.clone(), &[2]).is_empty());
        // The tokens of make(1), which others have, too. Queue of Python's multiprocessing is such a pipe without the signal.
        let handles_ends = 1 << (libc::SIGCHLD - 1);
        assert_eq!(corrected(None, handles_ends, own.clone(), &[1, 2]), event);
        let shell = Children {
            names: vec!["sh".to_owned()],
            awaited: Vec::new(),
            shares: Shares::default(),
            outside: BTreeMap::new(),
            on: Vec::new(),
            processors: 0.0,
            are_short: false,
            are_descendants: false,
        };
        let child = BTreeMap::from([(Outside::Child, 1.0)]);
        for has_ended in [false, true] {
            // Then nobody has its ends any more.
            let both: &[i32] = if has_ended { &[] } else { &[1, 2] };
            let mut make = make(Some(shell.clone()), None, handles_ends, own.clone());
            make.has_ended = has_ended;
            if has_ended {
                make.handled_signals = 0;
            }
            assert_eq!(told(make, both), child, "{has_ended}");
        }
        assert!(corrected(None, terminates, own, &[1, 2]).is_empty());
    }
}
