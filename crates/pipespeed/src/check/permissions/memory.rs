//! Memory of particular kinds, and what is shown of it.

use std::io;

use fastpipe::buffer::{Buffer, BufferError, Pages, huge_page_size};
use fastpipe::memory::{FrameFlags, Pagemap, Process};
use fastpipe::pipe::page_size;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::check::Outcome;
use crate::check::refusal::{self, out_of_descriptors};
use crate::endpoint::process::huge_pages_refused;
use crate::machine::Root;
use crate::size::format;

pub(super) fn transparent() -> anyhow::Result<Outcome> {
    let builder = Buffer::builder().len(huge_page_size());
    let backing = match builder.pages(Pages::Huge).map()?.backing() {
        Ok(backing) => backing,
        // No /proc, say; whether they are given is then not to be seen.
        Err(error) if !out_of_descriptors(&error.source) => {
            return Ok(Outcome::refused(format!("can't be told, {error}")));
        }
        Err(error) => return Err(error.into()),
    };
    let shown_by = backing.shown_by.name();
    Ok(match backing.all_huge() {
        true => Outcome::pass(format!(
            "yes, {} in one page, as {shown_by} shows",
            format(backing.mapped)
        )),
        false => Outcome::refused(format!("none was, as {shown_by} shows"))
            .noting(huge_pages_refused(backing.huge, backing.mapped)),
    })
}

const POOL: &str = "proc/sys/vm/nr_hugepages";

pub(super) fn reserved() -> anyhow::Result<Outcome> {
    let builder = Buffer::builder().len(1).pages(Pages::HugeTlb);
    // Mapped means reserved. To touch it is to be killed (SIGBUS) where a
    // control group has no huge page left.
    let source = match builder.touched(false).map() {
        Ok(_) => return Ok(Outcome::pass("yes, one is there for us")),
        Err(BufferError::NoHugeTlb { source, .. }) => source,
        Err(error) => return Err(error.into()),
    };
    let pool = Root::default().number(POOL);
    let errno = Errno::from_io_error(&source);
    Ok(match (errno, pool) {
        (Some(Errno::NOMEM), pool) => none_left(pool),
        (_, None) => Outcome::refused("this kernel has none (CONFIG_HUGETLBFS)"),
        _ => return refusal::or_error("mmap(2) with MAP_HUGETLB", source),
    })
}

pub(super) fn none_left(pool: Option<u64>) -> Outcome {
    match pool {
        Some(0) => Outcome::refused(format!("none are reserved, /{POOL} is 0")).noting(
            "root reserves some by writing their number there, early, while memory is whole",
        ),
        Some(pool) => Outcome::refused(format!("all {pool} are taken, or not for us")).noting(
            format!("raise /{POOL}; control groups (hugetlb) bound them too"),
        ),
        None => Outcome::refused("none are reserved"),
    }
}

/// The ladder's.
const LOCKED: usize = 256 << 10;

pub(super) fn locked() -> anyhow::Result<Outcome> {
    let (limit, source) = match Buffer::builder().len(LOCKED).locked(true).map() {
        Ok(_) => {
            let limit = match getrlimit(Resource::Memlock).current {
                Some(limit) => format!("is {}", format(limit)),
                None => "is unlimited".to_owned(),
            };
            return Ok(Outcome::pass(format!("yes, RLIMIT_MEMLOCK {limit}")));
        }
        Err(BufferError::Lock { limit, source, .. }) => (limit, source),
        Err(error) => return Err(error.into()),
    };
    match over_limit(&source, limit) {
        Some(refused) => Ok(refused),
        None => refusal::or_error("mlock(2)", source),
    }
}

/// The limit, where it is what refuses (mlock(2)): EPERM where it is 0, ENOMEM
/// where it would be exceeded by this and all that is locked already.
pub(super) fn over_limit(error: &io::Error, limit: Option<u64>) -> Option<Outcome> {
    let limit = match (Errno::from_io_error(error)?, limit?) {
        (Errno::PERM, 0) => 0,
        (Errno::NOMEM, limit) => limit,
        _ => return None,
    };
    let limit = format(limit);
    Some(
        Outcome::refused(format!("refused by RLIMIT_MEMLOCK, which is {limit}"))
            .noting("raise it (ulimit -l), or have CAP_IPC_LOCK; it makes nothing faster"),
    )
}

pub(super) fn frames() -> anyhow::Result<Outcome> {
    const NEEDED: &str = "it takes CAP_SYS_ADMIN, in the initial user namespace; huge pages are \
                          proven from smaps without it";
    let page = Buffer::builder().len(page_size()).map()?;
    let pagemap = match Pagemap::open(Process::Own) {
        Ok(pagemap) => pagemap,
        Err(error) => return closed("/proc/self/pagemap", error),
    };
    let address = page.as_ptr().addr() as u64;
    let entries = match pagemap.entries(address, 1) {
        Ok(entries) => entries,
        Err(error) => return closed("/proc/self/pagemap", error),
    };
    let Some(frame) = entries.first().and_then(|entry| entry.frame()) else {
        return Ok(Outcome::refused("hidden, pagemap shows 0 for all of them").noting(NEEDED));
    };
    match FrameFlags::open().and_then(|flags| flags.of(frame)) {
        Ok(_) => Ok(Outcome::pass("yes, both")),
        Err(error) => closed("/proc/kpageflags", error),
    }
}

/// A file that can't be read is a refusal, unless it is for lack of descriptors.
fn closed(file: &str, error: io::Error) -> anyhow::Result<Outcome> {
    if out_of_descriptors(&error) {
        return Err(anyhow::Error::new(error).context(file.to_owned()));
    }
    Ok(Outcome::refused(format!("{file}: {error}"))
        .noting("it takes root, CAP_SYS_ADMIN, and a /proc that has it"))
}
