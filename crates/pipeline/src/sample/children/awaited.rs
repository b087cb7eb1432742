//! For which of its children a process waits.

use std::collections::BTreeMap;

use rustix::process::getpid;

use crate::graph::{Feeders, Process};
use crate::proc::{Language, LinkId, Proc};
use crate::wait::{BlockedOn, ThreadState};

/// A shell's child is in the background if it outlived this many other children.
const MIN_PASSED: u32 = 2;
/// If a process has had no other children for this many samples, it waits for its feeders and background children.
const MIN_IDLE: u32 = 3;

/// Finds the children for which a process waits, by what was seen of them so far.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    /// Those that give it data.
    pub(super) feeders: Feeders,
    /// Whether it is a shell, once that was asked.
    is_shell: Option<bool>,
    /// Whether a child was in the foreground in the last sample.
    had_foreground: bool,
    /// All of its children in the last sample.
    before: Vec<i32>,
    /// How many times other children have ended during the life of each child.
    passed: BTreeMap<i32, u32>,
    /// The number of children known to be in the background.
    background: usize,
    /// Whether that number has grown since it was last asked for.
    has_learned: bool,
    /// The child that its wait named in the last sample, if it was not among its children.
    missing: Option<i32>,
    /// The number of samples since a child was seen that is neither a feeder nor in the background. `None` if none
    /// was seen yet.
    idle: Option<u32>,
}

impl Awaited {
    /// The children for which a process may wait, given its threads and their states. `None` between two children,
    /// when it waits for none of those that are there.
    pub(super) fn children(
        &mut self,
        proc: &Proc,
        parent: &Process,
        threads: &[i32],
        states: &[&ThreadState],
    ) -> Option<Vec<i32>> {
        let only = states.iter().find_map(|state| match state {
            ThreadState::Waiting(BlockedOn::Child(Some(pid))) => Some(*pid),
            _ => None,
        });
        let (mut children, has_foreground) = foreground(proc, parent.id.pid, threads);
        // A shell between two commands does not wait for those in the background.
        let had_foreground = std::mem::replace(&mut self.had_foreground, has_foreground);
        self.count_passed(&children);
        if !children.is_empty() && had_foreground && !has_foreground {
            return None;
        }
        if let Some(only) = only.filter(|only| children.contains(only)) {
            return Some(vec![only]);
        }
        // It has ended meanwhile. In another namespace the child has another number.
        let missing = std::mem::replace(&mut self.missing, only);
        let ended = only.filter(|only| missing != Some(*only));
        let is_shell = children.iter().any(|pid| self.has_passed(*pid))
            && *self
                .is_shell
                .get_or_insert_with(|| proc.language(parent.id.pid) == Language::Shell);
        let passed = children.iter().filter(|pid| self.has_passed(**pid));
        let background = if is_shell { passed.count() } else { 0 };
        self.has_learned |= background > self.background;
        self.background = background;
        let is_beside = |pid: i32| self.feeds(pid, states) || is_shell && self.has_passed(pid);
        if leave(&mut children, is_beside) {
            self.idle = Some(0);
            return Some(children);
        }
        if ended.is_some() {
            return Some(Vec::from_iter(ended));
        }
        self.idle = self.idle.map(|samples| samples + 1);
        let is_between = self.idle.is_some_and(|samples| samples < MIN_IDLE);
        (!is_between && !are_busy(states)).then_some(children)
    }

    /// Whether other children came and went while this one was there.
    fn has_passed(&self, pid: i32) -> bool {
        let times = self.passed.get(&pid);
        times.is_some_and(|times| *times >= MIN_PASSED)
    }

    /// Whether one is in the background that was counted so far.
    pub(super) fn take_learned(&mut self) -> bool {
        std::mem::take(&mut self.has_learned)
    }

    fn count_passed(&mut self, children: &[i32]) {
        let has_ended = |pid: &i32| !children.contains(pid);
        let before = std::mem::replace(&mut self.before, children.to_vec());
        self.passed.retain(|pid, _| children.contains(pid));
        if before.iter().any(has_ended) {
            for pid in before.iter().filter(|pid| children.contains(pid)) {
                *self.passed.entry(*pid).or_default() += 1;
            }
        }
    }

    /// Whether a child gives the process data for which it does not wait now.
    fn feeds(&self, pid: i32, states: &[&ThreadState]) -> bool {
        let is_awaited = |link: &LinkId| {
            states.iter().any(|state| match state {
                ThreadState::Waiting(BlockedOn::Pipes { any_of, .. }) => {
                    any_of.iter().any(|on| on.pipe == *link)
                }
                _ => false,
            })
        };
        let fed = self.feeders.get(&pid);
        fed.is_some_and(|links| !links.iter().any(is_awaited))
    }
}

/// Removes these children, unless all would be removed. Returns false in that case.
fn leave(children: &mut Vec<i32>, is_left_out: impl Fn(i32) -> bool) -> bool {
    let are_all = children.iter().all(|pid| is_left_out(*pid));
    if !are_all {
        children.retain(|pid| !is_left_out(*pid));
    }
    !are_all || children.is_empty()
}

/// Whether a process waits neither for a child nor for a signal or a timer.
fn are_busy(states: &[&ThreadState]) -> bool {
    let is_busy = |state: &&ThreadState| {
        matches!(
            state,
            ThreadState::Working | ThreadState::Waiting(BlockedOn::Pipes { .. })
        )
    };
    states.iter().all(is_busy)
}

/// The children that a process may wait for: all, or of a shell without job control those in the foreground, if
/// there are any. Which one it waits for is not known of a wait for any of them. And whether some are in the
/// foreground.
pub(super) fn foreground(proc: &Proc, parent: i32, threads: &[i32]) -> (Vec<i32>, bool) {
    let mut children = proc.children_of(parent, threads);
    // Whoever samples itself sees itself run.
    children.retain(|pid| *pid != getpid().as_raw_pid());
    let is_interruptible = |pid: i32| proc.stat(pid).is_some_and(|stat| !stat.ignores_interrupts);
    if children.is_empty() || !is_interruptible(parent) {
        return (children, true);
    }
    let all = children.iter().copied();
    let foreground: Vec<i32> = all.filter(|pid| is_interruptible(*pid)).collect();
    if foreground.is_empty() {
        (children, false)
    } else {
        (foreground, true)
    }
}
