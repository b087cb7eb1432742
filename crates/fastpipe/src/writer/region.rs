//! The memory that a writer lends: a ring of slabs, each of several pages.
//!
//! ```text
//! slab 0 [sent, perhaps in the pipe | window | not used yet    ]
//! slab 1 [                                                     ]
//! ```
//! A slab is lent from start to end, page after page, so that the pages a pipe
//! holds are contiguous even if the loans are small. After a slab is used up the
//! next one follows. When a slab's turn comes again, the [`Reuse`] policy decides
//! whether its pages are written again or replaced by new ones.

use std::io;
use std::time::{Duration, Instant};

use crate::buffer::{Buffer, PageSlice, Pages, huge_page_size};
use crate::method::Reuse;
use crate::pipe::page_size;
use crate::sys::duplicate_memory;

/// Numbers of used-up slabs, by what was done with their pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SlabCounts {
    /// Slabs whose pages were replaced by new ones.
    pub renewed: u64,
    /// Slabs whose pages were written again.
    pub reused: u64,
    /// Length of the slabs whose bytes had left the pipe when their turn came, but
    /// to which something still referred, in bytes.
    pub held_bytes: u64,
}

#[derive(Debug)]
pub(super) struct Region {
    slabs: Vec<Slab>,
    current: usize,
    policy: Reuse,
    pages: Pages,
    cow_check: CowCheck,
    counts: SlabCounts,
    /// Whether the slabs tested so far consist of huge pages.
    huge: bool,
}

/// State of the copy-on-write check behind [`Reuse::CowChecked`].
///
/// A check has two steps. At the start of a round (one turn of every slab) the
/// process's memory is duplicated and the duplicate dropped
/// ([`duplicate_memory`]), as fork(2) does in a child that exits at once. From
/// then on the kernel treats every page as possibly shared: at the next write to
/// a page it makes a copy if a pipe or another process refers to the page, and
/// keeps the page otherwise. When a slab's turn comes, one write to each of
/// its huge pages therefore shows whether the slab may be reused
/// ([`Region::is_unreferenced`]).
///
/// Duplicating takes time proportional to the process's memory, so the check is
/// paused for a number of rounds where it costs more than it saves.
#[derive(Debug, Default)]
struct CowCheck {
    /// Whether memory was duplicated at the start of this round.
    is_armed: bool,
    /// Number of rounds for which the check remains paused.
    skip_rounds: u32,
    /// Length of the latest pause, in rounds; 0 after a cheap check.
    last_pause: u32,
    /// The shortest time that populating a new huge page took.
    new_page: Option<Duration>,
}

/// Limits of a pause, in rounds. Each pause is twice as long as the one before.
const MIN_PAUSE: u32 = 16;
const MAX_PAUSE: u32 = 1024;

impl CowCheck {
    /// Records that duplicating took `time`, for a region of `huge_pages`. A check that takes
    /// longer than new pages would is not worth it.
    fn record_cost(&mut self, time: Duration, huge_pages: usize) {
        let new_pages = self.new_page.map(|one| one * huge_pages as u32);
        if new_pages.is_none_or(|all| time <= all) {
            self.last_pause = 0;
        } else {
            self.pause();
        }
    }

    fn record_new_page(&mut self, time: Duration) {
        self.new_page = Some(self.new_page.map_or(time, |shortest| shortest.min(time)));
    }

    fn pause(&mut self) {
        self.last_pause = (self.last_pause * 2).clamp(MIN_PAUSE, MAX_PAUSE);
        self.skip_rounds = self.last_pause;
    }
}

#[derive(Debug)]
struct Slab {
    buffer: Buffer,
    /// Stream offset after the last byte sent from these pages; `None` if nothing
    /// was sent from them.
    sent_to: Option<u64>,
}

impl std::ops::AddAssign for SlabCounts {
    fn add_assign(&mut self, more: SlabCounts) {
        self.renewed += more.renewed;
        self.reused += more.reused;
        self.held_bytes += more.held_bytes;
    }
}

impl Region {
    /// Maps `count` slabs of `len` bytes each, rounded up to whole pages, for
    /// vmsplice(2). The pages are not populated.
    pub(super) fn new(len: usize, count: usize, pages: Pages, policy: Reuse) -> io::Result<Self> {
        Self::map(len, count, pages, policy, true)
    }

    /// Maps one slab of base pages for write(2), which a forked child inherits.
    pub(super) fn for_copying(len: usize) -> io::Result<Self> {
        Self::map(len, 1, Pages::Base, Reuse::Fresh, false)
    }

    fn map(
        len: usize,
        count: usize,
        pages: Pages,
        policy: Reuse,
        wiped_on_fork: bool,
    ) -> io::Result<Self> {
        let unit = match pages {
            Pages::Base => page_size(),
            Pages::Huge | Pages::HugeTlb => huge_page_size(),
        };
        let len = len.checked_next_multiple_of(unit).unwrap_or(len);
        let mut slabs = Vec::with_capacity(count);
        for _ in 0..count {
            let buffer = Buffer::builder()
                .len(len)
                .pages(pages)
                .touched(false)
                .wiped_on_fork(wiped_on_fork)
                .map()?;
            slabs.push(Slab {
                buffer,
                sent_to: None,
            });
        }
        Ok(Region {
            slabs,
            current: 0,
            policy,
            pages,
            cow_check: CowCheck::default(),
            counts: SlabCounts::default(),
            huge: true,
        })
    }

    pub(super) fn slab_len(&self) -> usize {
        self.slabs[self.current].buffer.len()
    }

    pub(super) fn counts(&self) -> SlabCounts {
        self.counts
    }

    pub(super) fn policy(&self) -> Reuse {
        self.policy
    }

    /// Whether huge pages were asked for and, as far as is known, granted.
    pub(super) fn is_huge(&self) -> bool {
        self.pages != Pages::Base && self.huge
    }

    /// Bytes of the current slab.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.slabs[self.current].buffer
    }

    #[inline]
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.slabs[self.current].buffer
    }

    /// Bytes `from..to` of the current slab, to be handed over.
    pub(super) fn slice(&self, from: usize, to: usize) -> PageSlice<'_> {
        self.slabs[self.current].buffer.slice(from..to)
    }

    /// Moves on to the next slab and makes it writable.
    ///
    /// `sent` is the stream offset after the last byte sent from the current
    /// slab; `drained` returns the offset before which all bytes have left the
    /// pipe.
    ///
    /// # Errors
    /// When new pages can't be mapped, or `drained` fails. The current slab then
    /// remains the current one.
    pub(super) fn advance(
        &mut self,
        sent: u64,
        drained: impl FnOnce() -> io::Result<u64>,
    ) -> io::Result<()> {
        self.slabs[self.current].sent_to = Some(sent);
        let next = (self.current + 1) % self.slabs.len();
        let Some(sent_to) = self.slabs[next].sent_to else {
            self.current = next;
            self.populate_start();
            return Ok(());
        };
        let may_be_reused = match self.policy {
            Reuse::Fresh => false,
            Reuse::Drained => drained()? >= sent_to,
            Reuse::CowChecked => {
                if next == 0 {
                    self.start_cow_round();
                }
                let is_free = self.cow_check.is_armed && self.is_unreferenced(next);
                // What is still in our pipe is no surprise.
                if self.cow_check.is_armed && !is_free && drained()? >= sent_to {
                    self.counts.held_bytes += self.slabs[next].buffer.len() as u64;
                }
                is_free
            }
        };
        if may_be_reused {
            self.counts.reused += 1;
            self.current = next;
            return Ok(());
        }
        self.slabs[next].buffer.renew()?;
        self.slabs[next].sent_to = None;
        self.counts.renewed += 1;
        self.current = next;
        self.populate_start();
        // A huge page that was split is released with its page table in place before Linux
        // 6.14 (CONFIG_PT_RECLAIM), and only base pages come in its stead.
        if !self.is_huge() && self.policy == Reuse::CowChecked {
            self.slabs[next].buffer.map_anew()?;
            self.populate_start();
        }
        Ok(())
    }

    /// Populates the first page of the current slab, which is new, and detects
    /// its size: if the next base page needs a fault of its own, the first one
    /// was no huge page.
    pub(super) fn populate_start(&mut self) {
        if self.pages == Pages::Base {
            return;
        }
        let slab = &mut self.slabs[self.current].buffer;
        let started = Instant::now();
        slab.fault_in_new(0);
        let time = started.elapsed();
        if slab.len() > page_size() {
            self.huge = !slab.fault_in_new(page_size());
        }
        if self.huge {
            self.cow_check.record_new_page(time);
        }
    }

    /// Makes the kernel treat all pages as possibly shared, unless the check is
    /// paused.
    fn start_cow_round(&mut self) {
        let check = &mut self.cow_check;
        check.is_armed = false;
        if check.skip_rounds > 0 {
            check.skip_rounds -= 1;
            return;
        }
        let started = Instant::now();
        self.cow_check.is_armed = self.duplicate().is_ok();
        let huge_pages = self.slab_len() / huge_page_size() * self.slabs.len();
        self.cow_check.record_cost(started.elapsed(), huge_pages);
    }

    fn duplicate(&self) -> io::Result<()> {
        for slab in &self.slabs {
            slab.buffer.set_inherited(true)?;
        }
        let outcome = duplicate_memory();
        for slab in &self.slabs {
            slab.buffer.set_inherited(false)?;
        }
        outcome.map(drop)
    }

    /// Writes to each huge page of the slab, and returns whether the kernel kept
    /// all of them, that is, whether no pipe and no other process refers to one.
    ///
    /// The first write to a huge page must fault, otherwise the page was not
    /// marked as shared and nothing was checked. A write to its second base page
    /// must not: if it does, a pipe or process referred to the huge page and the kernel
    /// split it (or it never was one).
    fn is_unreferenced(&mut self, slab: usize) -> bool {
        let buffer = &mut self.slabs[slab].buffer;
        let mut huge_pages = (0..buffer.len()).step_by(huge_page_size());
        huge_pages.all(|at| buffer.fault_in(at) && !buffer.fault_in(at + page_size()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of huge pages.
    const REGION: usize = 8;

    /// A check where a new huge page took 50 us.
    fn check() -> CowCheck {
        let mut check = CowCheck::default();
        for us in [70, 50, 3000] {
            check.record_new_page(Duration::from_micros(us));
        }
        check
    }

    #[test]
    fn expensive_checks_are_paused_ever_longer() {
        let mut check = check();
        let mut checks = 0;
        for _ in 0..10_000 {
            if check.skip_rounds > 0 {
                check.skip_rounds -= 1;
                continue;
            }
            checks += 1;
            check.record_cost(Duration::from_millis(3), REGION);
        }
        assert!((5..30).contains(&checks), "{checks} checks");
    }

    #[test]
    fn cheap_checks_are_not_paused() {
        let mut check = check();
        check.record_cost(Duration::from_millis(3), REGION);
        check.skip_rounds = 0;
        check.record_cost(Duration::from_micros(390), REGION);
        assert_eq!(check.skip_rounds, 0);
        check.record_cost(Duration::from_millis(3), REGION);
        assert_eq!(check.skip_rounds, MIN_PAUSE, "the shortest pause again");
    }
}
