//! Processes whose files can't be read, because reading them blocks.
//!
//! While a process is in execve(2), the kernel holds a lock (`exec_update_lock`, taken in exec_mmap() in
//! fs/exec.c) for which readers of many of its files in /proc wait, where only SIGKILL reaches them. Under that
//! lock the kernel closes the descriptors that are close-on-exec, which takes for ever if one of them is
//! on a FUSE, NFS or sshfs mount that does not answer. So any user can block the readers of a process.
//!
//! Each read is marked by `Proc::reading`. A thread that
//! [supervises](crate::supervise) the reading one leaves a process out if a mark does not change. The
//! files that are [read by a helper process](super::pipe_probe) block under other locks: a process whose files
//! of that kind block is still read otherwise.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use super::ProcessId;

/// While this many helpers are blocked by the processes of one user, none of these is asked for.
const MAX_BLOCKED_BY_USER: usize = 4;
/// Number of processes whose files blocked helpers, after which such files are not read any more. While as
/// many helpers are blocked, no other is started.
pub(super) const MAX_SILENT: usize = 16;

/// A process that does not answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SilentProcess {
    /// Its number.
    pub pid: i32,
    /// Its name.
    pub name: String,
}

/// What could not be read because it blocked. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct SilentList(Arc<SharedList>);

#[derive(Debug, Default)]
struct SharedList {
    /// The number of processes left out.
    count: AtomicUsize,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    left_out: Vec<SilentProcess>,
    /// Processes whose files blocked a helper.
    without_slow_files: Vec<ProcessId>,
    helpers: Vec<HelperEntry>,
    gave_up: bool,
}

#[derive(Debug)]
struct HelperEntry {
    id: ProcessId,
    is_blocked: bool,
    /// The user of the process that blocks it.
    user: Option<u32>,
}

impl SilentList {
    /// Never held while anything is read, so that it can't block.
    fn entries(&self) -> MutexGuard<'_, Entries> {
        let entries = self.0.entries.lock();
        entries.unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves out a process: nothing of it is read.
    pub(crate) fn leave_out(&self, process: SilentProcess) {
        let mut entries = self.entries();
        entries.left_out.push(process);
        self.0
            .count
            .store(entries.left_out.len(), Ordering::Relaxed);
    }

    /// Takes a process off the list: it has answered, or ended.
    pub(crate) fn take_back(&self, pid: i32) {
        let mut entries = self.entries();
        entries.left_out.retain(|process| process.pid != pid);
        self.0
            .count
            .store(entries.left_out.len(), Ordering::Relaxed);
    }

    /// The processes left out.
    pub fn left_out(&self) -> Vec<SilentProcess> {
        self.entries().left_out.clone()
    }

    /// A process, if it is left out.
    pub fn find(&self, pid: i32) -> Option<SilentProcess> {
        if self.0.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let left_out = self.left_out();
        left_out.into_iter().find(|process| process.pid == pid)
    }

    /// Whether something was not read because too many helpers were blocked.
    pub(crate) fn lacks_helpers(&self) -> bool {
        self.entries().gave_up
    }

    pub(super) fn give_up(&self) {
        self.entries().gave_up = true;
    }

    pub(super) fn add_without_slow_files(&self, id: ProcessId) {
        self.entries().without_slow_files.push(id);
    }

    pub(super) fn without_slow_files(&self) -> Vec<ProcessId> {
        self.entries().without_slow_files.clone()
    }

    pub(super) fn add_helper(&self, id: ProcessId) {
        self.entries().helpers.push(HelperEntry {
            id,
            is_blocked: false,
            user: None,
        });
    }

    /// Notes that a helper was killed and may be blocked by a process of this user.
    pub(super) fn add_blocked_helper(&self, id: ProcessId, user: Option<u32>) {
        let mut entries = self.entries();
        entries.helpers.retain(|helper| helper.id != id);
        entries.helpers.push(HelperEntry {
            id,
            is_blocked: true,
            user,
        });
    }

    /// The helper processes that may still exist.
    pub(crate) fn helper_pids(&self) -> Vec<i32> {
        let helpers = self.helpers().into_iter();
        helpers.map(|id| id.pid).collect()
    }

    pub(super) fn helpers(&self) -> Vec<ProcessId> {
        let entries = self.entries();
        entries.helpers.iter().map(|helper| helper.id).collect()
    }

    /// The number of killed helpers that may be blocked.
    pub(super) fn count_blocked_helpers(&self) -> usize {
        let entries = self.entries();
        let helpers = entries.helpers.iter();
        helpers.filter(|helper| helper.is_blocked).count()
    }

    /// Whether too many helpers are blocked by processes of this user.
    pub(super) fn has_blocked_enough(&self, user: Option<u32>) -> bool {
        let entries = self.entries();
        let helpers = entries.helpers.iter();
        let of_user = helpers.filter(|helper| helper.is_blocked && helper.user == user);
        user.is_some() && of_user.count() >= MAX_BLOCKED_BY_USER
    }

    /// Forgets processes and helpers that have ended.
    pub(super) fn forget(&self, has_ended: impl Fn(&ProcessId) -> bool) {
        let mut ended = self.without_slow_files();
        ended.extend(self.helpers());
        ended.retain(has_ended);
        let mut entries = self.entries();
        entries
            .without_slow_files
            .retain(|process| !ended.contains(process));
        entries.helpers.retain(|helper| !ended.contains(&helper.id));
    }
}

/// In place of a process: the thread has ended.
pub(crate) const ENDED: i32 = -1;

/// The read that is under way in one thread.
#[derive(Debug, Default)]
pub(crate) struct CurrentRead {
    /// The number of reads so far, in the upper half, and the process whose files are being read, or 0.
    mark: AtomicU64,
    /// The number of the thread.
    pub(crate) tid: AtomicI32,
    /// Whether nobody waits for the thread any more: then all reads fail.
    pub(crate) is_abandoned: AtomicBool,
    /// The process for which it was left behind, or 0; [`ENDED`] once it has ended.
    pub(crate) blocked_by: AtomicI32,
}

impl CurrentRead {
    /// A value that no other read has, and the process; `None` between reads.
    pub(crate) fn get(&self) -> Option<(u64, i32)> {
        let mark = self.mark.load(Ordering::Relaxed);
        let pid = mark as u32 as i32;
        (pid != 0).then_some((mark, pid))
    }
}

/// The marks of a thread, and the processes that it leaves out.
#[derive(Debug, Clone)]
pub(crate) struct ReadWatch {
    pub(crate) current: Arc<CurrentRead>,
    pub(crate) silent: SilentList,
}

impl ReadWatch {
    /// Marks the beginning of a read. `None` if the process is left out.
    pub(super) fn begin(&self, pid: i32) -> Option<ReadGuard<'_>> {
        if self.current.is_abandoned.load(Ordering::Relaxed) || self.silent.find(pid).is_some() {
            return None;
        }
        // No other thread stores to it.
        let before = self.current.mark.load(Ordering::Relaxed);
        let count = (before >> 32).wrapping_add(1);
        let mark = count << 32 | u64::from(pid as u32);
        self.current.mark.store(mark, Ordering::Relaxed);
        Some(ReadGuard(Some((&self.current, before as u32))))
    }
}

/// Marks that files of a process are being read. Within another one it takes its place.
pub(crate) struct ReadGuard<'a>(pub(super) Option<(&'a CurrentRead, u32)>);

impl Drop for ReadGuard<'_> {
    fn drop(&mut self) {
        if let Some((current, pid_before)) = self.0 {
            let now = current.mark.load(Ordering::Relaxed);
            // Counted as another read.
            let count = (now >> 32).wrapping_add(u64::from(pid_before != 0));
            let mark = count << 32 | u64::from(pid_before);
            current.mark.store(mark, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_lasts_as_long_as_one_read() {
        let watch = ReadWatch {
            current: Arc::default(),
            silent: SilentList::default(),
        };
        let current = || watch.current.get();
        assert_eq!(current(), None);
        let outer = watch.begin(7).unwrap();
        let first = current().unwrap();
        assert_eq!(first.1, 7);
        let inner = watch.begin(8).unwrap();
        assert_eq!(current().unwrap().1, 8);
        drop(inner);
        let later = current().unwrap();
        assert!(later.1 == 7 && later.0 != first.0);
        drop(outer);
        assert_eq!(current(), None);
    }

    #[test]
    fn a_process_is_left_out_until_it_is_taken_back() {
        let watch = ReadWatch {
            current: Arc::default(),
            silent: SilentList::default(),
        };
        let name = "sh".to_owned();
        watch.silent.leave_out(SilentProcess { pid: 7, name });
        assert!(watch.begin(7).is_none() && watch.begin(8).is_some());
        watch.silent.take_back(7);
        assert!(watch.begin(7).is_some());
    }

    #[test]
    fn one_user_can_block_few_helpers() {
        let list = SilentList::default();
        for pid in 0..4 {
            assert!(!list.has_blocked_enough(Some(1)));
            list.add_blocked_helper(ProcessId { pid, start: 0 }, Some(1));
        }
        assert!(list.has_blocked_enough(Some(1)) && !list.has_blocked_enough(Some(2)));
        list.forget(|id| id.pid == 0);
        assert!(!list.has_blocked_enough(Some(1)));
    }
}
