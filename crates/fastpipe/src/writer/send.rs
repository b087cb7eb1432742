//! How queued bytes get into the kernel, and from which memory.

use std::io;
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use super::builder::{MAX_LOAN, MAX_REGION};
use super::path::refusal;
use super::region::Region;
use super::{LITTLE, Reason, Writer, pages_up, probe};
use crate::buffer::{BufferError, Pages, huge_page_size};
use crate::pipe::{self, page_size};
use crate::reuse::Reuse;
use crate::transfer::VmspliceOptions;
use crate::wait::Wait;

/// From what size on a piece of whole pages goes by vmsplice, in bytes. One page
/// takes about as long either way (measured: 0.65 and 0.72 GiB/s, two pages
/// 1.13 and 0.88), and copied it holds nothing of ours.
pub(super) const MIN_SPLICED: usize = 8 << 10;

/// The slabs of a region from which is copied.
const COPIED_REGION: usize = 128 << 10;

/// The region for [`Reuse::CowChecked`], in bytes: calling the referee costs about
/// as much as zeroing two huge pages, so it should serve many; and all of them
/// should stay in the last-level cache.
const REFEREED_REGION: usize = 16 << 20;

/// How a writer goes about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Copies, since little was written so far.
    Little,
    /// Hands pages over.
    Zero,
    /// Copies.
    Copying(Reason),
}

impl<F: AsFd> Writer<F> {
    /// Sends everything that is queued, in order.
    ///
    /// # Errors
    /// Those of sending; in a forked child of the writer's process `Other`, always.
    pub(super) fn push(&mut self) -> io::Result<()> {
        if !self.is_ours() {
            return Err(io::Error::other(
                "a forked child can't use its parent's writer: make a new one",
            ));
        }
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
            let by_reference = self.stage == Stage::Zero && !self.copied;
            if by_reference && aligned && whole >= MIN_SPLICED {
                self.splice(self.sent + whole)?;
            } else if by_reference && !aligned {
                // Up to where pages begin again.
                self.copy(self.filled.min(pages_up(self.sent)))?;
            } else {
                self.copy(self.filled)?;
            }
        }
        self.reset(self.held);
        Ok(())
    }

    /// Whether handing over `n` bytes where `asked` were asked for would hold
    /// much more memory than that: the next loan like it needs a huge page of
    /// its own.
    pub(super) fn would_waste(&self, n: usize, asked: usize) -> bool {
        self.region.is_huge() && asked > self.region.slab_len() / 2 && n < asked / 2
    }

    /// Everything was sent; goes on at `held`. While something is repeated
    /// there is no room for `write` to come in between.
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

    /// Hands `sent..to` over. If that is refused, goes over to copying.
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
        // A page is held even if only a part of it was taken.
        self.held = pages_up(self.sent).max(self.held);
        match error {
            None => Ok(()),
            Some(error) => match refusal(&error) {
                Some(reason) => {
                    self.stage = Stage::Copying(reason);
                    Ok(())
                }
                None => Err(error),
            },
        }
    }

    /// Copies `sent..to` to the output.
    fn copy(&mut self, to: usize) -> io::Result<()> {
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

    /// Makes room for `at_least` bytes from a page boundary on. Everything was
    /// sent.
    pub(super) fn open_window(&mut self, at_least: usize) -> io::Result<()> {
        debug_assert_eq!(self.sent, self.filled);
        self.prepare(at_least);
        let at_least = at_least.max(1);
        let is_used_up = self.region.slab_len() - self.held < at_least;
        let is_long = self.region.slab_len() > self.usual_slab && self.usual_slab >= at_least;
        if self.region.slab_len() < at_least || is_used_up && is_long {
            self.replace_region(at_least)?;
        } else if is_used_up {
            let sent = self.out_ref().counts().bytes;
            let Some(out) = &self.out else {
                return Ok(());
            };
            let turned = self.region.turn(sent, || {
                let unread = pipe::unread(out.target())? as u64;
                Ok(sent.saturating_sub(unread))
            });
            // The pages it has may be held by somebody, so that there is no way
            // round others.
            let instead = match turned {
                Err(error) => Some(no_pages(&error)),
                Ok(()) if !self.pays() => Some(Reason::NoHugePages),
                Ok(()) => None,
            };
            match instead {
                None => self.reset(0),
                Some(reason) => {
                    self.stage = Stage::Copying(reason);
                    self.replace_region(at_least)?;
                }
            }
        }
        let len = pages_up(at_least).max(self.window);
        self.end = self.region.slab_len().min(self.held + len);
        Ok(())
    }

    fn replace_region(&mut self, at_least: usize) -> io::Result<()> {
        let region = self.make_region(at_least)?;
        self.turns += self.region.turns();
        self.region = region;
        self.reset(0);
        Ok(())
    }

    /// Whether the region's pages are worth handing over: replacing base pages
    /// costs more than copying.
    fn pays(&self) -> bool {
        let replaced = matches!(self.region.policy(), Reuse::Fresh | Reuse::CowChecked);
        self.stage != Stage::Zero
            || !replaced
            || self.plan.pages == Pages::Base
            || self.region.is_huge()
    }

    /// Leaves the first stage once it is worth it, and cleans up after a
    /// switch in mid-stream.
    pub(super) fn prepare(&mut self, at_least: usize) {
        debug_assert_eq!(self.sent, self.filled);
        match self.stage {
            Stage::Little => {
                let much = self.plan.at_once
                    || at_least > self.region.slab_len()
                    || self.out_ref().counts().bytes >= LITTLE
                    || self
                        .repeating
                        .as_ref()
                        .is_some_and(|r| r.left() >= u128::from(LITTLE));
                if much {
                    self.decide();
                }
            }
            // What is left of the slab may be little, and is not needed.
            Stage::Copying(reason) if self.held > 0 => {
                let _ = self.go_over_to_copying(reason);
            }
            _ => {}
        }
    }

    fn decide(&mut self) {
        let reason = match self.obstacle() {
            Some(reason) => reason,
            None => {
                self.stage = Stage::Zero;
                match self.replace_region(0) {
                    Ok(()) if self.pays() => return,
                    Ok(()) => Reason::NoHugePages,
                    Err(error) => no_pages(&error),
                }
            }
        };
        // The small region does as well if there is no memory for another.
        let _ = self.go_over_to_copying(reason);
    }

    /// Why not to hand pages over, if there is a reason. Raises the capacity.
    fn obstacle(&mut self) -> Option<Reason> {
        let fd = self.out_ref().target();
        let kind = rustix::fs::fstat(fd).map(|stat| FileType::from_raw_mode(stat.st_mode));
        match kind {
            Ok(FileType::Fifo) => {}
            Ok(kind) => return Some(Reason::NotAPipe(kind.into())),
            Err(_) => return Some(Reason::NotAPipe(FileType::Unknown.into())),
        }
        if let Some(wish) = self.plan.capacity
            && pipe::capacity(fd).is_ok_and(|has| has < wish)
        {
            // A wish: a smaller pipe works too.
            let _ = pipe::set_capacity_up_to(fd, wish);
        }
        if self.plan.copying {
            return Some(Reason::Asked);
        }
        if rustix::fs::fcntl_getfl(fd).is_ok_and(|flags| flags.contains(OFlags::APPEND)) {
            return Some(Reason::Append);
        }
        let obstacle = match probe::vmsplice_refers() {
            Ok(true) => None,
            Ok(false) => Some(Reason::KernelCopies),
            // Where the experiment itself fails, as for lack of descriptors,
            // the real thing will show.
            Err(error) => refusal(&error),
        };
        obstacle.or_else(|| match self.out().duplicate() {
            Ok(()) => None,
            Err(Errno::MFILE) => Some(Reason::NoDescriptor),
            Err(errno) => Some(Reason::NoDuplicate(errno.raw_os_error())),
        })
    }

    /// Slabs of pages to hand over, each of at least `at_least` bytes; or
    /// memory to copy from.
    fn make_region(&mut self, at_least: usize) -> io::Result<Region> {
        if self.stage != Stage::Zero {
            let mut region = Region::copied_from(at_least.max(COPIED_REGION))?;
            self.window = region.slab_len();
            self.usual_slab = COPIED_REGION;
            region.open_first();
            return Ok(region);
        }
        let capacity = pipe::capacity(self.out_ref().target()).unwrap_or(64 << 10);
        self.window = match self.plan.loan {
            Some(bytes) => pages_up(bytes.clamp(1, MAX_LOAN)),
            None => pages_up((capacity / 2).clamp(64 << 10, 512 << 10)),
        };
        let policy = match (self.plan.reuse, self.plan.pages) {
            // Tried out for huge pages. For base pages the kernel would be asked
            // page by page; for reserved ones it looks at mappings only, and
            // would give a page back that a pipe holds (hugetlb_wp).
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
            (Reuse::Drained(_), None) => capacity.div_ceil(slab) + 1,
            (Reuse::Drained(_), Some(bytes)) => bytes.div_ceil(slab).max(2),
            (Reuse::CowChecked, wish) => (wish.unwrap_or(REFEREED_REGION) / slab).max(1),
        };
        let mut region = Region::new(slab, count, self.plan.pages, policy)?;
        region.open_first();
        Ok(region)
    }

    fn go_over_to_copying(&mut self, reason: Reason) -> io::Result<()> {
        self.stage = Stage::Copying(reason);
        self.replace_region(0)
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
        let mut pause = SHORTEST;
        while pipe::unread(out)? > 0 {
            // It may have read the last byte in between, and gone. What nobody
            // has read stays in the pipe as long as we have it open.
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

/// Why a region could not be made.
fn no_pages(error: &io::Error) -> Reason {
    match error.get_ref().and_then(|source| source.downcast_ref()) {
        Some(BufferError::NoHugeTlb { .. }) => Reason::NoHugePages,
        Some(BufferError::NoWipe { .. }) => Reason::NoWipeOnFork,
        _ => Reason::NoMemory,
    }
}
