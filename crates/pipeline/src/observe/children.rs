//! What the children do for which a process waits: those of a shell or of xargs(1) may be too
//! short-lived to be sampled by themselves.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Children;
use super::tally::{Awake, Counts, Slice, activity, ticks};
use crate::find::Process;
use crate::proc::{End, Proc, Stat};
use crate::wait::{State, Wait, examine};

/// Children of a process, and of one of them, that are examined in a sample.
const MAX_CHILDREN: usize = 8;
/// A name is left out if it was seen less often than the most frequent one by this factor: a child
/// has its parent's name until it becomes another program.
const MIN_NAMED: u32 = 3;
/// Threads of a child that are examined in a sample.
const MAX_THREADS: usize = 8;
/// Children of children are examined down to this depth, where they wait for each other.
const MAX_DEPTH: u32 = 4;

/// Samples of the children for which a process waits.
#[derive(Debug, Default)]
pub(super) struct ChildTally {
    counts: Counts,
    /// How many were there at once at most.
    together: usize,
    /// How often a child with this name decided what they did together.
    names: BTreeMap<String, u32>,
    /// Processor time in ticks of the children that lived at the last sample: when they were seen
    /// first, and now.
    living: BTreeMap<i32, (u64, u64)>,
    is_begun: bool,
}

/// What they did during some time.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ChildSlice {
    counts: Counts,
    together: usize,
    names: BTreeMap<String, u32>,
    ran: Duration,
}

/// One child at one moment.
struct Child {
    name: String,
    states: Vec<State>,
}

impl ChildTally {
    /// Samples the children of a process that waits in these states.
    pub(super) fn sample(&mut self, proc: &Proc, parent: &Process, states: &[&State]) {
        let only = states.iter().find_map(|state| match state {
            State::Waiting(Wait::Child(Some(pid))) => Some(*pid),
            _ => None,
        });
        let mut children = proc.children(parent.id.pid);
        // In another namespace the child has another number.
        if let Some(only) = only.filter(|only| children.contains(only)) {
            children = vec![only];
        }
        let before = std::mem::take(&mut self.living);
        let mut seen = Vec::new();
        for pid in children.into_iter().take(MAX_CHILDREN) {
            if let Some(stat) = examine_child(proc, pid, &parent.ends, 1, &mut seen) {
                let now = stat.ran_ticks + stat.children_ticks;
                // A new one has used nothing before.
                let first = if self.is_begun { 0 } else { now };
                let first = before.get(&pid).map_or(first, |(first, _)| *first);
                self.living.insert(pid, (first.min(now), now));
            }
        }
        self.is_begun = true;
        let all: Vec<&State> = seen.iter().flat_map(|child| &child.states).collect();
        if all.is_empty() {
            return;
        }
        self.together = self.together.max(seen.len());
        let activity_of_all = self.counts.add(&all);
        let decides = |child: &&Child| {
            let states: Vec<&State> = child.states.iter().collect();
            activity(&states) == activity_of_all
        };
        if let Some(child) = seen.iter().find(decides) {
            *self.names.entry(child.name.clone()).or_default() += 1;
        }
    }

    /// Whether no child was seen.
    pub(super) fn is_empty(&self) -> bool {
        self.counts.samples == 0
    }

    /// What they did. `ended` is the processor time of those that ended.
    pub(super) fn slice(&self, ended: Duration) -> ChildSlice {
        let living = self.living.values().map(|(first, now)| now - first);
        ChildSlice {
            counts: self.counts.clone(),
            together: self.together,
            names: self.names.clone(),
            ran: ended + ticks(living.sum()),
        }
    }

    /// Counts anew from now on.
    pub(super) fn restart(&mut self) {
        self.counts = Counts::default();
        self.together = 0;
        self.names.clear();
        for (first, now) in self.living.values_mut() {
            *first = *now;
        }
    }
}

/// Examines a child, or its children if it only waits for them. `None` if it has ended.
fn examine_child(
    proc: &Proc,
    pid: i32,
    ends: &[End],
    depth: u32,
    seen: &mut Vec<Child>,
) -> Option<Stat> {
    let stat = proc.stat(pid).filter(|stat| stat.state != 'Z')?;
    let threads = proc.threads(pid).into_iter().take(MAX_THREADS);
    let states = threads.filter_map(|tid| Some(examine(proc, pid, tid, ends)?.0));
    let states: Vec<State> = states.collect();
    let is_waiting = |state: &State| matches!(state, State::Waiting(Wait::Child(_)));
    if depth < MAX_DEPTH && states.iter().any(is_waiting) {
        let before = seen.len();
        for child in proc.children(pid).into_iter().take(MAX_CHILDREN) {
            examine_child(proc, child, ends, depth + 1, seen);
        }
        if seen.len() > before {
            return Some(stat);
        }
    }
    let name = proc.name(pid)?;
    seen.push(Child { name, states });
    Some(stat)
}

impl ChildSlice {
    /// Their processor time.
    pub(super) fn ran(&self) -> Duration {
        self.ran
    }

    /// Adds those of an earlier time.
    pub(super) fn add(&mut self, other: &ChildSlice) {
        self.counts.merge(&other.counts);
        self.together = self.together.max(other.together);
        for (name, count) in &other.names {
            *self.names.entry(name.clone()).or_default() += count;
        }
        self.ran += other.ran;
    }

    /// What they did while their parent, which did `parent`, waited for them. `None` if none was
    /// seen.
    pub(super) fn observed(&self, parent: &Slice) -> Option<Children> {
        let samples = parent.counts.samples;
        if self.counts.samples == 0 || samples == 0 || parent.counted.is_zero() {
            return None;
        }
        let ran = self.ran.as_secs_f64() / parent.counted.as_secs_f64();
        // How long they were ready to run is not counted. They seem to be awake more often than they
        // are, so that is true only while others used the processors.
        let sampled = f64::from(self.counts.awake) / f64::from(samples);
        let awake = Awake {
            ran,
            queued: (sampled - ran).clamp(0.0, parent.limits.contention),
            // Not less than if they ran at the same time, as many as there were at once.
            longest: (ran / self.together.max(1) as f64).min(1.0),
        };
        let division = self.counts.divide(samples, awake);
        let mut names: Vec<(&String, &u32)> = self.names.iter().collect();
        names.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        let most = names.first().map_or(0, |(_, count)| **count);
        names.retain(|(_, count)| **count * MIN_NAMED >= most);
        Some(Children {
            names: names.into_iter().map(|(name, _)| name.clone()).collect(),
            shares: division.shares(&self.counts),
            outside: division.outside(&self.counts),
            on: division.on(&self.counts),
            processors: ran,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    use pipespeed_testing::procs::eventually;

    use super::*;
    use crate::fixtures::process;
    use crate::wait::Outside;

    fn children_of(script: &str) -> ChildTally {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).stdin(Stdio::null());
        shell.process_group(0);
        let mut shell = shell.spawn().unwrap();
        let parent = process(shell.id() as i32, "sh", Vec::new());
        let mut tally = ChildTally::default();
        let waiting = State::Waiting(Wait::Child(None));
        let found = eventually(|| {
            tally.sample(&Proc::default(), &parent, &[&waiting]);
            let sleeps = tally.counts.outside.contains_key(&Outside::Timer);
            sleeps.then_some(())
        });
        let group = rustix::process::Pid::from_child(&shell);
        rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
        shell.wait().unwrap();
        found.unwrap();
        tally
    }

    #[test]
    fn a_child_that_sleeps_is_named_with_its_timer_also_below_another_shell() {
        for script in ["sleep 1000; :", "(sleep 1000; :); :"] {
            let tally = children_of(script);
            assert!(tally.names.contains_key("sleep"), "{tally:?}");
        }
    }
}
