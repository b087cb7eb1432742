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
pub struct OtherProcesses(Arc<Mutex<BTreeSet<i32>>>);

impl OtherProcesses {
    /// The present descendants of this process, which has not started the command yet.
    pub fn find(proc: &Proc) -> Self {
        let mut tree = proc.tree(getpid().as_raw_pid()).into_iter();
        // This process.
        tree.next();
        OtherProcesses(Arc::new(Mutex::new(tree.collect())))
    }

    /// Adds processes.
    pub fn add(&self, pids: impl IntoIterator<Item = i32>) {
        self.lock().extend(pids);
    }

    /// Adds the processes that these have started, and forgets those that were reaped, whose
    /// numbers the command's next processes may get. To be called now and then: children whose
    /// parent has ended become those of this process.
    pub fn update(&self, proc: &Proc) {
        let own = getpid().as_raw_pid();
        let mut pids = self.lock();
        let before = pids.clone();
        pids.retain(|pid| {
            // Not by `stat`, whose reading may block (see `proc::silent`).
            let parent = proc.status(*pid).map(|status| status.parent);
            parent.is_some_and(|parent| parent == own || before.contains(&parent))
        });
        let started: Vec<i32> = pids.iter().flat_map(|pid| proc.tree(*pid)).collect();
        pids.extend(started);
    }

    /// Whether a process is one of them.
    pub fn contains(&self, pid: i32) -> bool {
        self.lock().contains(&pid)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Their numbers.
    pub fn pids(&self) -> Vec<i32> {
        self.lock().iter().copied().collect()
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

    fn lock(&self) -> MutexGuard<'_, BTreeSet<i32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
