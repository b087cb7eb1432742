//! The memory that a writer lends: slabs of pages, one after the other.
//!
//! ```text
//! slab 0 [sent and held by the pipe | window | not used yet    ]
//! slab 1 [                                                     ]
//! ```
//! A slab is handed out from its beginning to its end, page after page, however
//! small the pieces: so what others hold of it is never spread thin. Used up,
//! it has its turn again after the other slabs; then the policy decides
//! whether its pages are written again or let go.

use std::io;
use std::time::{Duration, Instant};

use crate::buffer::{Buffer, PageSlice, Pages, huge_page_size};
use crate::pipe::page_size;
use crate::reuse::{AssertReaderCopies, Reuse};
use crate::sys::duplicate_memory;

/// What became of used-up slabs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Turns {
    /// Their pages were let go and replaced.
    pub renewed: u64,
    /// They were written again.
    pub reused: u64,
}

#[derive(Debug)]
pub(super) struct Region {
    slabs: Vec<Slab>,
    current: usize,
    policy: Reuse,
    pages: Pages,
    referee: Referee,
    turns: Turns,
    /// Whether the slabs that were looked at turned out to be of huge pages.
    huge: bool,
}

/// Whether the kernel decides about this round's slabs.
#[derive(Debug, Default)]
struct Referee {
    /// Whether the memory was duplicated since the first slab's last turn.
    was_here: bool,
    /// So many rounds it is not asked.
    rounds_off: u32,
    /// How many it was the last time.
    last_off: u32,
    /// The slabs that had been written again when it was last asked.
    reused_before: u64,
}

/// What zeroing new pages costs at least, in bytes a microsecond: 2 MiB in
/// 48 us were measured, and up to twice that. Duplicating the process's page
/// tables for longer than zeroing the region would take loses.
const ZEROED_PER_US: u128 = 40 << 10;

/// The most rounds without asking again.
const MAX_OFF: u32 = 1024;

impl Referee {
    fn took(&mut self, time: Duration, bytes: usize) {
        if time.as_micros() * ZEROED_PER_US <= bytes as u128 {
            self.last_off = 0;
        } else {
            self.stay_away();
        }
    }

    fn stay_away(&mut self) {
        self.last_off = (self.last_off * 2).clamp(16, MAX_OFF);
        self.rounds_off = self.last_off;
    }
}

#[derive(Debug)]
struct Slab {
    buffer: Buffer,
    /// The stream offset up to which pages of it were sent; `None` if none was
    /// since its pages were new.
    sent_to: Option<u64>,
}

impl std::ops::AddAssign for Turns {
    fn add_assign(&mut self, more: Turns) {
        self.renewed += more.renewed;
        self.reused += more.reused;
    }
}

impl Region {
    /// `count` slabs of `len` bytes each, rounded up to whole pages of the kind
    /// asked for, to be handed over by vmsplice(2). No page is there yet.
    pub(super) fn new(len: usize, count: usize, pages: Pages, policy: Reuse) -> io::Result<Self> {
        Self::map(len, count, pages, policy, true)
    }

    /// One slab of base pages, to be copied from. A forked child inherits it.
    pub(super) fn copied_from(len: usize) -> io::Result<Self> {
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
            referee: Referee::default(),
            turns: Turns::default(),
            huge: true,
        })
    }

    pub(super) fn slab_len(&self) -> usize {
        self.slabs[self.current].buffer.len()
    }

    pub(super) fn turns(&self) -> Turns {
        self.turns
    }

    pub(super) fn policy(&self) -> Reuse {
        self.policy
    }

    /// Whether the pages are as large as was hoped for, so far as is known.
    pub(super) fn is_huge(&self) -> bool {
        self.pages != Pages::Base && self.huge
    }

    /// The current slab.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.slabs[self.current].buffer
    }

    #[inline]
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.slabs[self.current].buffer
    }

    /// A part of the current slab.
    pub(super) fn slice(&self, from: usize, to: usize) -> PageSlice<'_> {
        self.slabs[self.current].buffer.slice(from..to)
    }

    /// Makes the first slab, which has not been used, ready.
    pub(super) fn open_first(&mut self) {
        self.open_new();
    }

    /// Leaves the current slab, of which pages were sent up to the stream
    /// offset `sent`, and makes the next one ready. `drained` tells up to which
    /// offset everything has left the pipe.
    ///
    /// # Errors
    /// When new pages are needed and can't be had, or `drained` fails. The
    /// current slab is then the same as before.
    pub(super) fn turn(
        &mut self,
        sent: u64,
        drained: impl FnOnce() -> io::Result<u64>,
    ) -> io::Result<()> {
        self.slabs[self.current].sent_to = Some(sent);
        let next = (self.current + 1) % self.slabs.len();
        let Some(sent_to) = self.slabs[next].sent_to else {
            self.current = next;
            self.open_new();
            return Ok(());
        };
        let may_be_written = match self.policy {
            Reuse::Fresh => false,
            Reuse::Drained(AssertReaderCopies) => drained()? >= sent_to,
            Reuse::CowChecked => {
                if next == 0 {
                    self.call_the_referee();
                }
                self.referee.was_here && self.is_ours(next)
            }
        };
        if may_be_written {
            self.turns.reused += 1;
            self.current = next;
            return Ok(());
        }
        self.slabs[next].buffer.renew()?;
        self.slabs[next].sent_to = None;
        self.turns.renewed += 1;
        self.current = next;
        self.open_new();
        Ok(())
    }

    /// Has the first page come, and finds out how large it is: if the next one
    /// takes a fault of its own, it was a base page.
    fn open_new(&mut self) {
        if self.pages == Pages::Base {
            return;
        }
        let slab = &mut self.slabs[self.current].buffer;
        slab.fault_in_new(0);
        if slab.len() > page_size() {
            self.huge = !slab.fault_in_new(page_size());
        }
    }

    /// Marks all pages as shared with a process that is gone, if that pays.
    fn call_the_referee(&mut self) {
        if self.referee.was_here && self.turns.reused == self.referee.reused_before {
            // All for nothing: everything is held, or the pages are not huge.
            self.referee.stay_away();
        }
        self.referee.reused_before = self.turns.reused;
        self.referee.was_here = false;
        if self.referee.rounds_off > 0 {
            self.referee.rounds_off -= 1;
            return;
        }
        let started = Instant::now();
        self.referee.was_here = self.duplicate().is_ok();
        let bytes = self.slab_len() * self.slabs.len();
        self.referee.took(started.elapsed(), bytes);
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

    /// Has the referee decide on the slab's huge pages. If the first write to
    /// one does not fault, the referee was not there. If the next one faults
    /// too, the huge page was held by somebody and has been taken apart (or was
    /// none); its remains are not worth keeping.
    fn is_ours(&mut self, slab: usize) -> bool {
        let buffer = &mut self.slabs[slab].buffer;
        let mut huge_pages = (0..buffer.len()).step_by(huge_page_size());
        huge_pages.all(|at| buffer.fault_in(at) && !buffer.fault_in(at + page_size()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGION: usize = 16 << 20;

    #[test]
    fn a_referee_who_costs_more_than_zeroing_is_asked_more_and_more_seldom() {
        let mut referee = Referee::default();
        let mut asked = 0;
        for _ in 0..10_000 {
            if referee.rounds_off > 0 {
                referee.rounds_off -= 1;
                continue;
            }
            asked += 1;
            referee.took(Duration::from_millis(3), REGION);
        }
        assert!((5..30).contains(&asked), "asked {asked} times");
    }

    #[test]
    fn a_referee_who_costs_less_than_zeroing_is_asked_every_time() {
        let mut referee = Referee::default();
        referee.took(Duration::from_millis(3), REGION);
        referee.rounds_off = 0;
        referee.took(Duration::from_micros(200), REGION);
        assert_eq!(referee.rounds_off, 0);
        referee.took(Duration::from_millis(3), REGION);
        assert_eq!(referee.rounds_off, 16, "begins anew");
    }
}
