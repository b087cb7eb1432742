//! The processes that this process had before it started a command.
//!
//! A shell that becomes this process by exec leaves its children to it: process substitutions
//! (`> >(tee log)`) and background jobs. They do not belong to the command.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::getpid;

use crate::proc::{Proc, tree};

/// Descendants of this process that do not belong to its command. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct OtherProcesses(Arc<Mutex<KnownProcesses>>);

#[derive(Debug, Default)]
struct KnownProcesses {
    others: BTreeSet<i32>,
    /// The processes of the command, if there were others before it. A process that has lost its parent may then
    /// be of either, and counts as the command's only if it was seen before that.
    command: Option<BTreeSet<i32>>,
}

impl OtherProcesses {
    /// The present descendants of this process, which has not started the command yet.
    pub fn find(proc: &Proc) -> Self {
        let mut tree = proc.tree(getpid().as_raw_pid()).into_iter();
        // This process.
        tree.next();
        OtherProcesses(Arc::new(Mutex::new(KnownProcesses {
            others: tree.collect(),
            command: None,
        })))
    }

    /// Notes the process of the command, which has just been started.
    pub fn set_command(&self, pid: i32) {
        let mut known = self.lock();
        if !known.others.is_empty() {
            known.command = Some(BTreeSet::from([pid]));
        }
    }

    /// Adds processes.
    pub fn add(&self, pids: impl IntoIterator<Item = i32>) {
        self.lock().others.extend(pids);
    }

    /// Adds the processes that these have started, and forgets those that were reaped, whose
    /// numbers the command's next processes may get. To be called now and then: children whose
    /// parent has ended become those of this process.
    pub fn update(&self, proc: &Proc) {
        let own = getpid().as_raw_pid();
        let mut known = self.lock();
        update(proc, own, &mut known.others);
        if let Some(mut command) = known.command.take() {
            update(proc, own, &mut command);
            let mut children = proc.children(own);
            children.retain(|pid| !command.contains(pid));
            known.others.extend(children);
            known.command = Some(command);
        }
    }

    /// Whether a process is one of them.
    pub fn contains(&self, pid: i32) -> bool {
        self.lock().others.contains(&pid)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.lock().others.is_empty()
    }

    /// Their numbers.
    pub fn pids(&self) -> Vec<i32> {
        self.lock().others.iter().copied().collect()
    }

    /// The children of this process but these.
    pub fn command_children(&self, proc: &Proc) -> Vec<i32> {
        let mut children = proc.children(getpid().as_raw_pid());
        children.retain(|pid| !self.contains(*pid));
        children
    }

    /// The descendants of this process but these and theirs, each before its children.
    pub fn command_tree(&self, proc: &Proc) -> Vec<i32> {
        let children = |pid: i32| {
            let mut children = proc.children(pid);
            children.retain(|pid| !self.contains(*pid));
            children
        };
        tree(getpid().as_raw_pid(), &children).split_off(1)
    }

    fn lock(&self) -> MutexGuard<'_, KnownProcesses> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds the processes that these have started, and removes those that were reaped.
fn update(proc: &Proc, own: i32, pids: &mut BTreeSet<i32>) {
    let before = pids.clone();
    pids.retain(|pid| {
        // Not by `stat`, whose reading may block (see `proc::silent`).
        let parent = proc.status(*pid).map(|status| status.parent);
        parent.is_some_and(|parent| parent == own || before.contains(&parent))
    });
    let started: Vec<i32> = pids.iter().flat_map(|pid| proc.tree(*pid)).collect();
    pids.extend(started);
}
