//! Sending of queued bytes, and the choice of the memory to send from.

use std::io;
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use super::auto::{Auto, Way};
use super::builder::{MAX_LOAN, MAX_REGION};
use super::reason::refusal_reason;
use super::region::Region;
use super::{
    COPIED_FIRST, CopyReason, FIRST_REGION, Writer, WriterBuilder, copying_window, is_interruption,
    round_up_to_pages,
};
use crate::buffer::{BufferError, Pages, huge_page_size};
use crate::method::{AssertReaderCopies, Method, Reuse};
use crate::pipe::{self, page_size};
use crate::probe;
use crate::sys::{has_seccomp_filter, is_single_threaded, private_memory};
use crate::transfer::VmspliceOptions;
use crate::wait::Wait;

/// Pieces of whole pages that are at least this long are sent by vmsplice(2), in
/// bytes. A single page takes about as long either way (0.65 and 0.72 GiB/s
/// measured; two pages 1.13 and 0.88), and copying it pins no memory.
pub(super) const MIN_SPLICED: usize = 8 << 10;

/// Upper bound of the usual memory that a copying writer writes from, in bytes:
/// it should stay in the second-level cache.
pub(super) const COPIED_REGION: usize = 128 << 10;

/// Length of a write under [`Way::CopyLong`], in bytes.
pub(super) const LONG_PIECE: usize = 64 << 10;

/// Default region for [`Method::CowChecked`], in bytes. One check costs about as
/// much as zeroing two huge pages, so it should cover many; all of them should
/// fit in the last-level cache.
const COW_CHECKED_REGION: usize = 16 << 20;

/// Upper bound of the process's memory under which [`Method::Auto`] tries
/// [`Way::CowChecked`], in bytes, the region included.
const MAX_COW_CHECKED_MEMORY: u64 = 64 << 20;

/// Technique of a writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Copies, since few bytes have been written so far.
    First,
    /// Hands pages over by vmsplice(2).
    ZeroCopy,
    /// Copies by write(2), for this reason.
    Copying(CopyReason),
}

impl<F: AsFd> Writer<F> {
    /// Sends everything that is queued, in order.
    ///
    /// # Errors
    /// Those of sending; `Other` in a forked child; `Interrupted`, at once, if the call before was.
    pub(super) fn push(&mut self) -> io::Result<()> {
        if !self.is_ours() {
            return Err(io::Error::other(
                "a forked child can't use its parent's writer: make a new one",
            ));
        }
        if std::mem::take(&mut self.is_interruption_due) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let sent = self.send_all();
        self.interrupted_at = is_interruption(&sent).then_some(self.filled);
        sent
    }

    fn send_all(&mut self) -> io::Result<()> {
        self.send()?;
        while self.repeating.is_some() {
            self.repeat_some()?;
        }
        Ok(())
    }

    /// Sends `sent..filled`: whole pages by reference, the rest by copying.
    pub(super) fn send(&mut self) -> io::Result<()> {
        while self.sent < self.filled {
            let page = page_size();
            let whole = (self.filled - self.sent) / page * page;
            let aligned = self.sent.is_multiple_of(page);
            let by_reference = self.stage == Stage::ZeroCopy && !self.copied;
            if by_reference && aligned && whole >= MIN_SPLICED {
                self.splice(self.sent + whole)?;
            } else if by_reference && !aligned {
                // Up to the next page boundary.
                self.copy(self.filled.min(round_up_to_pages(self.sent)))?;
            } else {
                self.copy(self.filled)?;
            }
        }
        self.reset(self.held);
        Ok(())
    }

    /// Whether handing over `n` bytes of a loan that asked for `asked` would pin
    /// much more memory than `n`: the next loan like it needs a huge page of its
    /// own.
    pub(super) fn would_waste(&self, n: usize, asked: usize) -> bool {
        self.region.is_huge() && asked > self.region.slab_len() / 2 && n < asked / 2
    }

    /// Starts a new window at `held`, after everything was sent. While bytes are
    /// repeated the window is empty, so that `write` can't come in between.
    pub(super) fn reset(&mut self, held: usize) {
        self.held = held;
        self.sent = held;
        self.filled = held;
        self.copied = false;
        self.end = match self.repeating {
            Some(_) => held,
            None => self.region.slab_len().min(held + self.window),
        };
    }

    /// Hands `sent..to` over; switches to copying if the kernel refuses that.
    fn splice(&mut self, to: usize) -> io::Result<()> {
        let Some(out) = &mut self.out else {
            return Ok(());
        };
        let pages = self.region.slice(self.sent, to);
        let outcome = out.vmsplice(&[pages], VmspliceOptions::default());
        let (moved, error) = match outcome {
            Ok(()) => (to - self.sent, None),
            Err(incomplete) => (incomplete.moved as usize, Some(incomplete.source)),
        };
        self.spliced += moved as u64;
        self.sent += moved;
        // A page is pinned even if only a part of it was accepted.
        self.held = round_up_to_pages(self.sent).max(self.held);
        match error {
            None => Ok(()),
            Some(error) => match refusal_reason(&error) {
                Some(reason) => {
                    self.stage = Stage::Copying(reason);
                    self.stop_auto();
                    Ok(())
                }
                None => Err(error),
            },
        }
    }

    /// Copies the first piece of `sent..to` to the output.
    fn copy(&mut self, to: usize) -> io::Result<()> {
        let to = to.min(self.sent.saturating_add(self.piece));
        let Some(out) = &mut self.out else {
            return Ok(());
        };
        let outcome = out.write(&self.region.bytes()[self.sent..to]);
        match outcome {
            Ok(()) => self.sent = to,
            Err(incomplete) => {
                self.sent += incomplete.moved as usize;
                return Err(incomplete.source);
            }
        }
        Ok(())
    }

    /// Opens a window of at least `at_least` bytes, starting at a page boundary,
    /// after everything was sent.
    pub(super) fn open_window(&mut self, at_least: usize) -> io::Result<()> {
        debug_assert_eq!(self.sent, self.filled);
        self.prepare(at_least);
        let at_least = at_least.max(1);
        let is_used_up = self.region.slab_len() - self.held < at_least;
        let is_long = self.region.slab_len() > self.usual_slab && self.usual_slab >= at_least;
        if self.region.slab_len() < at_least || is_used_up && is_long {
            match self.replace_region(at_least) {
                // To copy takes less memory. If there is not even that much, nothing changes.
                Err(error) if self.stage == Stage::ZeroCopy => {
                    Region::for_copying(at_least)?;
                    self.switch_to_copying(mapping_failure(&error), at_least)?;
                }
                replaced => replaced?,
            }
        } else if is_used_up {
            let sent = self.out_ref().counts().bytes;
            let Some(out) = &self.out else {
                return Ok(());
            };
            let turned = self.region.advance(sent, || {
                let unread = pipe::unread(out.target())? as u64;
                Ok(sent.saturating_sub(unread))
            });
            // The current pages may still be referred to, so other memory must be
            // found.
            let instead = match turned {
                Err(error) => Some(mapping_failure(&error)),
                Ok(()) if !self.is_worthwhile() => Some(CopyReason::NoHugePages),
                Ok(()) if self.held_bytes() > self.plan.max_held => Some(CopyReason::PagesHeld),
                Ok(()) => None,
            };
            match instead {
                None => self.reset(0),
                Some(reason) => self.switch_to_copying(reason, at_least)?,
            }
        }
        let len = round_up_to_pages(at_least).max(self.window);
        self.end = self.region.slab_len().min(self.held + len);
        Ok(())
    }

    fn replace_region(&mut self, at_least: usize) -> io::Result<()> {
        let region = self.make_region(at_least)?;
        self.regions_mapped += 1;
        self.slab_counts += self.region.counts();
        self.region = region;
        self.reset(0);
        Ok(())
    }

    /// Whether handing over the region's pages is worth it: replacing used base
    /// pages costs more than copying.
    fn is_worthwhile(&self) -> bool {
        let replaced = matches!(self.region.policy(), Reuse::Fresh | Reuse::CowChecked);
        self.stage != Stage::ZeroCopy
            || !replaced
            || self.plan.pages == Pages::Base
            || self.region.is_huge()
    }

    /// Ends the first stage when enough was written, and replaces the region
    /// after a switch to copying. A new region has room for `at_least` bytes, if there
    /// is memory for that.
    pub(super) fn prepare(&mut self, at_least: usize) {
        debug_assert_eq!(self.sent, self.filled);
        match self.stage {
            Stage::First => {
                let much = self.plan.at_once
                    || at_least > FIRST_REGION
                    || self.out_ref().counts().bytes >= COPIED_FIRST
                    || self
                        .repeating
                        .as_ref()
                        .is_some_and(|r| r.left() >= u128::from(COPIED_FIRST));
                if much {
                    self.choose_technique(at_least);
                }
            }
            // The rest of the slab may be short, and is not needed.
            Stage::Copying(reason) if self.held > 0 || self.region.is_huge() => {
                let _ = self.switch_to_copying(reason, at_least);
            }
            _ => {}
        }
        self.tune(at_least);
    }

    /// Ends the first stage.
    fn choose_technique(&mut self, at_least: usize) {
        let reason = match (self.prepare_pipe(), self.plan.method) {
            (Some(reason), _) => Some(reason),
            (None, Method::Copy { .. }) => Some(CopyReason::Asked),
            (None, Method::Auto) => {
                self.start_auto();
                Some(CopyReason::NothingFaster)
            }
            (None, _) => self.start_zero_copy(at_least),
        };
        if let Some(reason) = reason {
            // If there is no memory for another region the small one will do.
            let _ = self.switch_to_copying(reason, at_least);
        }
    }

    /// Hands pages over from now on, or returns the reason not to.
    fn start_zero_copy(&mut self, at_least: usize) -> Option<CopyReason> {
        if let Some(reason) = self.find_obstacle() {
            return Some(reason);
        }
        self.stage = Stage::ZeroCopy;
        // A loan that is too long must not end zero copy.
        let mapped = self.replace_region(at_least);
        match mapped.or_else(|_| self.replace_region(0)) {
            Ok(()) if self.is_worthwhile() => None,
            Ok(()) => Some(CopyReason::NoHugePages),
            Err(error) => Some(mapping_failure(&error)),
        }
    }

    fn start_auto(&mut self) {
        if matches!(self.plan.wait, Wait::Never | Wait::Poll) {
            return;
        }
        let ways = ways(&self.plan, probe::copy_piece());
        let out = self.out_ref();
        let capacity = pipe::capacity(out.target()).unwrap_or(64 << 10);
        let region = self
            .plan
            .region
            .unwrap_or(COW_CHECKED_REGION)
            .min(MAX_REGION);
        self.auto = Some(Auto::new(
            ways,
            capacity as u64,
            region as u64,
            out.counts().bytes,
        ));
    }

    /// Lets [`Method::Auto`] reconsider the way to send, if that is due.
    fn tune(&mut self, at_least: usize) {
        let sent = self.out_ref().counts().bytes;
        let Some(auto) = &mut self.auto else {
            return;
        };
        if sent < auto.due() {
            return;
        }
        let before = auto.way();
        let now = self.started.elapsed();
        let mut way = auto.advance(sent, now);
        if way == Way::CowChecked && !is_cow_check_advisable() {
            auto.remove(way, sent, now);
            way = auto.way();
        }
        if way == before {
            return;
        }
        let reason = match way {
            Way::Copy | Way::CopyLong => Some(CopyReason::NothingFaster),
            Way::CowChecked if probe::cow_check().is_ok_and(|works| works.is_none()) => {
                Some(CopyReason::NoHugePages)
            }
            Way::Fresh | Way::CowChecked => self.start_zero_copy(at_least),
        };
        if let Some(reason) = reason {
            let _ = self.switch_to_copying(reason, at_least);
        }
    }

    /// Enlarges the pipe, or returns the reason why the output can only be written to.
    fn prepare_pipe(&mut self) -> Option<CopyReason> {
        let fd = self.out_ref().target();
        let kind = rustix::fs::fstat(fd).map(|stat| FileType::from_raw_mode(stat.st_mode));
        match kind {
            Ok(FileType::Fifo) => {}
            Ok(kind) => return Some(CopyReason::of_output(kind)),
            Err(_) => return Some(CopyReason::NotAPipe),
        }
        if let Some(wish) = self.plan.capacity
            && pipe::capacity(fd).is_ok_and(|has| has < wish)
        {
            // Best effort: a smaller pipe works too.
            let _ = pipe::set_capacity_up_to(fd, wish);
        }
        None
    }

    /// Returns the reason not to hand pages over, if any.
    pub(super) fn find_obstacle(&mut self) -> Option<CopyReason> {
        if self.obstacle.is_none() {
            self.obstacle = Some(self.look_for_obstacle());
        }
        self.obstacle.flatten()
    }

    fn look_for_obstacle(&mut self) -> Option<CopyReason> {
        let fd = self.out_ref().target();
        if rustix::fs::fcntl_getfl(fd).is_ok_and(|flags| flags.contains(OFlags::APPEND)) {
            return Some(CopyReason::Append);
        }
        let obstacle = match probe::vmsplice_refers() {
            Ok(true) => None,
            Ok(false) => Some(CopyReason::KernelCopies),
            // If the probe itself fails, as for lack of descriptors, the first
            // real transfer will show the reason.
            Err(error) => refusal_reason(&error),
        };
        obstacle.or_else(|| match self.out().duplicate() {
            Ok(()) => None,
            Err(Errno::MFILE) => Some(CopyReason::NoDescriptor),
            Err(errno) => Some(CopyReason::NoDuplicate(errno.raw_os_error())),
        })
    }

    /// Maps a region of slabs of at least `at_least` bytes each, to hand over or
    /// to copy from.
    fn make_region(&mut self, at_least: usize) -> io::Result<Region> {
        if self.stage != Stage::ZeroCopy {
            let window = copying_window(&self.plan, self.piece);
            let mut region = Region::for_copying(at_least.max(window))?;
            self.window = window;
            self.usual_slab = window;
            region.populate_start();
            return Ok(region);
        }
        let capacity = pipe::capacity(self.out_ref().target()).unwrap_or(64 << 10);
        self.window = match self.plan.loan {
            Some(bytes) => round_up_to_pages(bytes.clamp(1, MAX_LOAN)),
            None => round_up_to_pages((capacity / 2).clamp(64 << 10, 512 << 10)),
        };
        let policy = match (self.wanted_reuse(), self.plan.pages) {
            // Probed with huge pages only. Base pages would have to be checked
            // one by one. For reserved huge pages the kernel counts mappings,
            // not references, and would reuse a page that a pipe holds
            // (hugetlb_wp in mm/hugetlb.c).
            (Reuse::CowChecked, Pages::Base | Pages::HugeTlb) => Reuse::Fresh,
            (Reuse::CowChecked, Pages::Huge) if !probe::cow_check_works().unwrap_or(false) => {
                Reuse::Fresh
            }
            (policy, _) => policy,
        };
        let unit = match self.plan.pages {
            Pages::Base => self.window,
            Pages::Huge | Pages::HugeTlb => huge_page_size(),
        };
        let wish = self.plan.region.map(|bytes| bytes.min(MAX_REGION));
        self.usual_slab = match (policy, wish) {
            (Reuse::Fresh, Some(bytes)) => bytes.next_multiple_of(unit).max(unit),
            _ => unit,
        };
        let slab = match at_least.checked_next_multiple_of(unit) {
            Some(bytes) => bytes.max(self.usual_slab),
            None => at_least,
        };
        let count = match (policy, wish) {
            (Reuse::Fresh, _) => 1,
            (Reuse::Drained, None) => capacity.div_ceil(slab) + 1,
            (Reuse::Drained, Some(bytes)) => bytes.div_ceil(slab).max(2),
            (Reuse::CowChecked, wish) => (wish.unwrap_or(COW_CHECKED_REGION) / slab).max(1),
        };
        let mut region = Region::new(slab, count, self.plan.pages, policy)?;
        region.populate_start();
        Ok(region)
    }

    /// When pages are to be written again, as requested or as `auto` has found.
    fn wanted_reuse(&self) -> Reuse {
        match self.plan.method {
            Method::Drained(AssertReaderCopies) => Reuse::Drained,
            Method::CowChecked => Reuse::CowChecked,
            Method::Auto if self.auto.as_ref().map(Auto::way) == Some(Way::CowChecked) => {
                Reuse::CowChecked
            }
            Method::Auto | Method::Fresh | Method::Copy { .. } => Reuse::Fresh,
        }
    }

    /// Copies from now on, from a region with room for `at_least` bytes.
    pub(super) fn switch_to_copying(
        &mut self,
        reason: CopyReason,
        at_least: usize,
    ) -> io::Result<()> {
        self.stage = Stage::Copying(reason);
        match reason {
            CopyReason::NothingFaster => {}
            // There may be some later.
            CopyReason::NoHugePages => self.postpone_auto(),
            _ => self.stop_auto(),
        }
        let is_pipe = !reason.is_of_output();
        if is_pipe && !matches!(self.plan.method, Method::Copy { .. }) {
            self.piece = match self.auto.as_ref().map(Auto::way) {
                Some(Way::CopyLong) => LONG_PIECE,
                _ => probe::copy_piece(),
            };
        }
        self.replace_region(at_least)
    }

    /// Length of the slabs that were found to be held by readers, in bytes.
    fn held_bytes(&self) -> u64 {
        self.slab_counts.held_bytes + self.region.counts().held_bytes
    }

    /// Ends the trials of [`Method::Auto`]: pages can't be handed over.
    pub(super) fn stop_auto(&mut self) {
        if let Some(auto) = &mut self.auto {
            auto.stop();
        }
    }

    /// Puts off the next trial of [`Method::Auto`], unless it copies anyway.
    fn postpone_auto(&mut self) {
        let sent = self.out_ref().counts().bytes;
        let now = self.started.elapsed();
        if let Some(auto) = &mut self.auto
            && auto.way() != Way::Copy
        {
            auto.postpone(sent, now);
        }
    }

    /// Waits until the pipe is empty.
    pub(super) fn wait_until_read(&mut self) -> io::Result<()> {
        const SHORTEST: Duration = Duration::from_micros(20);
        const LONGEST: Duration = Duration::from_millis(1);
        let wait = self.plan.wait;
        let out = self.out_ref().target();
        if !pipe::is_pipe(out)? {
            return Ok(());
        }
        if rustix::fs::fcntl_getfl(out)?.contains(OFlags::RDWR) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "wait_drained can't notice that the reader is gone if the output is open for reading \
                 too (O_RDWR): open it for writing only",
            ));
        }
        let mut pause = SHORTEST;
        while pipe::unread(out)? > 0 {
            // The reader may have read the last byte in between, and closed.
            // Unread bytes remain in the pipe while this end is open.
            if !pipe::has_reader(out)? && pipe::unread(out)? > 0 {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            match wait {
                Wait::Never => return Err(io::ErrorKind::WouldBlock.into()),
                Wait::Spin => std::hint::spin_loop(),
                Wait::Block | Wait::Poll | Wait::Adaptive => {
                    thread::sleep(pause);
                    pause = (pause * 2).min(LONGEST);
                }
            }
        }
        Ok(())
    }
}

/// The ways that [`Method::Auto`] tries, in this order, where bytes are copied in pieces of this length.
fn ways(plan: &WriterBuilder, piece: usize) -> Vec<Way> {
    let mut ways = vec![Way::Copy];
    if plan.pages == Pages::Huge && plan.allow_clone {
        ways.push(Way::CowChecked);
    }
    // A page of 64 KiB is as long.
    if piece < LONG_PIECE {
        ways.push(Way::CopyLong);
    }
    ways.push(Way::Fresh);
    ways
}

/// Whether [`Way::CowChecked`] may be tried. The kernel must support it, as far as is
/// known. There must be no other thread and little memory, all of which would fault at
/// the next write: costs that the timing of the stream does not show. And no filter of system
/// calls, which may end the process for a clone(2).
fn is_cow_check_advisable() -> bool {
    is_single_threaded()
        && !has_seccomp_filter()
        && private_memory().is_some_and(|bytes| bytes <= MAX_COW_CHECKED_MEMORY)
        && probe::cow_check().is_ok_and(|works| works != Some(false))
}

/// Returns why a region could not be mapped.
fn mapping_failure(error: &io::Error) -> CopyReason {
    match error.get_ref().and_then(|source| source.downcast_ref()) {
        Some(BufferError::NoHugeTlb { .. }) => CopyReason::NoHugePages,
        Some(BufferError::NoWipe { .. }) => CopyReason::NoWipeOnFork,
        _ => CopyReason::NoMemory,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clone_is_tried_only_where_it_is_allowed_and_long_pieces_where_they_are_longer() {
        const KIB: usize = 1 << 10;
        let plan = WriterBuilder::new();
        let usual = [Way::Copy, Way::CopyLong, Way::Fresh];
        for piece in [4 * KIB, 8 * KIB, 32 * KIB] {
            assert_eq!(ways(&plan, piece), usual);
        }
        // The pages of some aarch64 machines.
        assert_eq!(ways(&plan, 64 * KIB), [Way::Copy, Way::Fresh]);
        let allowed = plan.allow_clone(true);
        let all = [Way::Copy, Way::CowChecked, Way::CopyLong, Way::Fresh];
        assert_eq!(ways(&allowed, 8 * KIB), all);
        assert_eq!(ways(&allowed.pages(Pages::Base), 8 * KIB), usual);
    }
}
