//! Probes of the kernel's handling of spliced pages, on a private pipe.
//!
//! The writers ask them. Public only for this project's `pipespeed check`, which shows the
//! answers, and for the tests of this crate; no part of the library's interface.

use std::io;
use std::sync::OnceLock;
use std::time::Instant;

use crate::buffer::{Buffer, Pages, huge_page_size};
use crate::pipe::{self, page_size};
use crate::sys::duplicate_memory;
use crate::transfer::{Input, Output, VmspliceOptions};
use crate::wait::Wait;

/// Whether vmsplice(2) puts references to the caller's pages into the pipe.
///
/// Linux has done so since 2.6.17. A change proposed in 2026 would make it copy.
///
/// # Errors
/// Those of vmsplice(2), pipe(2), and of mapping memory that is [wiped on
/// fork](crate::buffer::BufferBuilder::wiped_on_fork).
pub fn vmsplice_refers() -> io::Result<bool> {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    Ok(remembered(&KNOWN, probe_vmsplice)?.unwrap_or(false))
}

fn probe_vmsplice() -> io::Result<Option<bool>> {
    // Otherwise a child forked by another thread meanwhile would share the
    // page, and the kernel would copy it at the next write.
    let mut page = Buffer::builder()
        .len(page_size())
        .wiped_on_fork(true)
        .map()?;
    let seen = seen_after_a_write(&mut page, |_| Ok(()))?;
    Ok(Some(seen == NEW))
}

/// Whether the copy-on-write check works that
/// [`Method::CowChecked`](crate::Method::CowChecked) relies on.
///
/// That is, whether the kernel copies a huge page that it treats as shared at
/// the next write if a pipe refers to it. Also true if vmsplice(2) copies, so ask
/// [`vmsplice_refers`] first. False while no huge page is available to try it
/// on: Linux 5.9 to 5.17 treat base pages differently.
///
/// # Errors
/// Those of vmsplice(2), clone(2), pipe(2), and of mapping memory that is
/// [wiped on fork](crate::buffer::BufferBuilder::wiped_on_fork); `Unsupported`
/// on architectures other than x86-64 and aarch64.
pub fn cow_check_works() -> io::Result<bool> {
    Ok(cow_check()?.unwrap_or(false))
}

/// As [`cow_check_works`], but `None` while no huge page is available to try it on.
pub(crate) fn cow_check() -> io::Result<Option<bool>> {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    remembered(&KNOWN, probe_cow_check)
}

/// Returns `None` if no huge page is available.
fn probe_cow_check() -> io::Result<Option<bool>> {
    let mut page = Buffer::builder()
        .len(huge_page_size())
        .pages(Pages::Huge)
        .touched(false)
        .wiped_on_fork(true)
        .map()?;
    page.fault_in_new(0);
    if page.fault_in_new(huge_page_size() - page_size()) {
        // The last base page needed a fault of its own.
        return Ok(None);
    }
    let mut faulted = false;
    let seen = seen_after_a_write(&mut page, |page| {
        page.set_inherited(true)?;
        duplicate_memory()?;
        page.set_inherited(false)?;
        faulted = page.fault_in(0);
        Ok(())
    })?;
    Ok(Some(faulted && seen == OLD))
}

/// The number of times that each length is tried by [`copy_piece`].
const PIECE_ROUNDS: usize = 32;
/// Pieces of two pages must take at most this share of the time of two pieces of one.
const MAX_PIECE_RATIO: f64 = 0.8;

/// The length of a write(2) for which the kernel allocates no page while the reader keeps up, in
/// bytes: two pages, or one.
///
/// A pipe keeps pages that were read for the next write: one before Linux 6.15, two since, and
/// since 7.2 only writes of a single page take them (`tmp_page` in fs/pipe.c). Which length is
/// right is measured on a private pipe, once a process, in some 50 us. One page if the two take
/// about the same time, or if it can't be measured.
pub fn copy_piece() -> usize {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    let takes_two = remembered(&KNOWN, probe_copy_piece);
    if matches!(takes_two, Ok(Some(true))) {
        2 * page_size()
    } else {
        page_size()
    }
}

/// Whether pieces of two pages are faster. `None` if no pipe has room for them.
fn probe_copy_piece() -> io::Result<Option<bool>> {
    let (reader, writer) = pipe::create()?;
    if pipe::capacity(&writer)? < 2 * page_size() {
        return Ok(None);
    }
    let mut out = Output::new(&writer, Wait::Block);
    let mut input = Input::new(&reader, Wait::Block);
    let mut bytes = vec![0; 2 * page_size()];
    let mut time_pieces = |length: usize| {
        let started = Instant::now();
        for piece in bytes.chunks_exact_mut(length) {
            out.write(piece)?;
            input.read(piece)?;
        }
        Ok::<f64, io::Error>(started.elapsed().as_secs_f64())
    };
    let mut ratios = Vec::with_capacity(PIECE_ROUNDS);
    for _ in 0..PIECE_ROUNDS {
        let one = time_pieces(page_size())?;
        ratios.push(time_pieces(2 * page_size())? / one);
    }
    // An interruption makes some of them far too high or too low.
    ratios.sort_by(f64::total_cmp);
    Ok(Some(ratios[PIECE_ROUNDS / 2] <= MAX_PIECE_RATIO))
}

/// Returns the known answer, or probes and remembers the answer of the probe. The
/// kernel does not change while a process runs, but permissions and free memory
/// may: errors are not remembered, nor is `None`.
fn remembered(
    known: &OnceLock<bool>,
    probe: fn() -> io::Result<Option<bool>>,
) -> io::Result<Option<bool>> {
    if let Some(known) = known.get() {
        return Ok(Some(*known));
    }
    let found = probe()?;
    Ok(found.map(|found| *known.get_or_init(|| found)))
}

const OLD: u8 = b'o';
const NEW: u8 = b'n';

/// Hands a page to a pipe, calls `between`, writes to the page, and returns the
/// byte that a reader of the pipe finds.
fn seen_after_a_write(
    page: &mut Buffer,
    between: impl FnOnce(&mut Buffer) -> io::Result<()>,
) -> io::Result<u8> {
    let (reader, writer) = pipe::create()?;
    page[..page_size()].fill(OLD);
    let mut out = Output::new(&writer, Wait::Block);
    // So that its error is not mistaken for one of vmsplice(2).
    out.duplicate()
        .map_err(|errno| io::Error::new(errno.kind(), errno))?;
    out.vmsplice(&[page.slice(..page_size())], VmspliceOptions::default())?;
    between(page)?;
    page[0] = NEW;
    let mut seen = [0];
    Input::new(&reader, Wait::Block).read(&mut seen)?;
    Ok(seen[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skip::skip;

    /// Kernel version, as (6, 18).
    fn kernel() -> (u32, u32) {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers = release
            .split(['.', '-'])
            .map_while(|part| part.parse().ok());
        (numbers.next().unwrap(), numbers.next().unwrap())
    }

    #[test]
    fn vmsplice_refers_to_pages_on_kernels_that_are_known_to() {
        match vmsplice_refers() {
            Err(error) => skip(format_args!("vmsplice is refused here: {error}")),
            // 7.2 still does; a copying vmsplice was proposed after it.
            Ok(refers) => assert!(refers || kernel() > (7, 2)),
        }
    }

    #[test]
    fn pieces_are_as_long_as_known_kernels_keep_pages() {
        let expected = match kernel() {
            (5, _) | (6, ..=12) => false,
            (6, 18) => true,
            (7, 2) => false,
            _ => return skip("it is not known how many pages this kernel keeps"),
        };
        let mut found = Vec::new();
        for _ in 0..9 {
            match probe_copy_piece() {
                Ok(Some(takes_two)) => found.push(takes_two),
                other => return skip(format_args!("no pipe of two pages: {other:?}")),
            }
        }
        let agree = found.iter().filter(|takes_two| **takes_two == expected);
        assert!(agree.count() >= 7, "{found:?}");
    }

    #[test]
    fn known_kernels_copy_a_shared_huge_page_when_written() {
        match probe_cow_check() {
            Err(error) => skip(format_args!("vmsplice or clone is refused here: {error}")),
            Ok(None) => skip("no huge page is available"),
            Ok(Some(copies)) => assert!(copies || kernel() < (5, 19) || kernel() >= (7, 2)),
        }
    }

    #[test]
    fn experiment_sees_old_bytes_where_page_was_replaced_in_between() {
        let mut page = Buffer::builder().len(page_size()).map().unwrap();
        match seen_after_a_write(&mut page, |page| page.renew()) {
            Err(error) => skip(format_args!("vmsplice is refused here: {error}")),
            Ok(seen) => assert_eq!(seen, OLD),
        }
    }
}
