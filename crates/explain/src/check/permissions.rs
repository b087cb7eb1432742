//! Checks of what this process may do.

use fastpipe::buffer::{Buffer, BufferError, Pages, huge_page_size};
use fastpipe::pipe::page_size;
use fastpipe::transfer::{SpliceOptions, VmspliceOptions};
use rustix::io::Errno;
use rustix::thread::sched_getcpu;

use super::pipes::{PipePair, at, frame, page};
use super::{CheckGroup, CheckResult};
use crate::profile::perf::{PerfSampler, Sampling, SamplingError};
use pipespeed_base::limits::{Resource, soft_limit};
use pipespeed_base::size;
use pipespeed_host::Root;
use pipespeed_host::process_memory::{Backing, FrameFlags};
use pipespeed_host::refusals::{self, RefusableCall};
use pipespeed_measure::channel::uring;
use pipespeed_measure::endpoint::huge_pages_refused;

checks! {
    CHECKS, CheckGroup::Permissions;

    /// Splices bytes from one pipe to another. Seccomp filters of some containers refuse it;
    /// relays then copy instead.
    "may-splice" => may_splice {
        statement: "splice(2) is allowed",
        reference: "splice(2); seccomp(2)",
    }

    /// Duplicates bytes from one pipe into another. If this is refused, data that is sent
    /// repeatedly is written instead.
    "may-tee" => may_tee {
        statement: "tee(2) is allowed",
        reference: "tee(2); seccomp(2)",
    }

    /// Adds a page to a pipe by vmsplice(2). Seccomp filters of some containers refuse it;
    /// writers then use write(2), and the rungs of the ladder that need vmsplice(2) are not run.
    "may-vmsplice" => may_vmsplice {
        statement: "vmsplice(2) is allowed",
        reference: "vmsplice(2); seccomp(2)",
    }

    /// Creates a ring and submits a request without effect. It may be refused by
    /// /proc/sys/kernel/io_uring_disabled, by the seccomp filters of most containers, or by
    /// kernels before 5.1. The channel uring of bench channels needs it.
    "may-use-io-uring" => may_use_io_uring {
        statement: "io_uring is allowed",
        reference: "io_uring_setup(2); Documentation/admin-guide/sysctl/kernel.rst, io_uring_disabled",
    }

    /// Maps a buffer of one huge page, requests a huge page (MADV_HUGEPAGE) and touches it; smaps
    /// or pagemap show which kind it got. It may be refused by
    /// /sys/kernel/mm/transparent_hugepage/enabled, by PR_SET_THP_DISABLE, or because memory is
    /// too fragmented.
    "may-have-huge-pages" => may_have_huge_pages {
        statement: "transparent huge pages are granted on request",
        reference: "madvise(2); Documentation/admin-guide/mm/transhuge.rst",
    }

    /// Maps one page of the pool that the administrator has reserved (MAP_HUGETLB). The page is
    /// not touched: beyond a control group's limit that would kill the process.
    "may-have-hugetlb-pages" => may_have_hugetlb_pages {
        statement: "reserved huge pages (hugetlb) are available",
        reference: "mmap(2); Documentation/admin-guide/mm/hugetlbpage.rst",
    }

    /// Locks a buffer of 256 KiB by mlock(2). Without CAP_IPC_LOCK it is refused beyond
    /// RLIMIT_MEMLOCK (ulimit -l). The option --lock-memory needs it.
    "may-lock-memory" => may_lock_memory {
        statement: "256 KiB, the ladder's buffer, may be locked",
        reference: "mlock(2); getrlimit(2)",
    }

    /// Reads a page's frame number from /proc/self/pagemap and its flags from /proc/kpageflags.
    /// The first needs CAP_SYS_ADMIN, the second may be read by root only. Without them, huge pages
    /// are verified by smaps, and `pipespeed pages` shows less.
    "may-see-frames" => may_see_frames {
        statement: "numbers and flags of page frames are shown",
        reference: "Documentation/admin-guide/mm/pagemap.rst",
    }

    /// Opens a perf event on this process, maps memory for samples and reads /proc/kallsyms. It
    /// may be refused by perf_event_paranoid, kptr_restrict or a seccomp filter. The costs of
    /// `pipespeed profile` need it.
    "may-sample" => may_sample {
        statement: "the kernel may be sampled, and its functions have names",
        reference: "perf_event_open(2); Documentation/admin-guide/sysctl/kernel.rst, perf_event_paranoid",
    }
}

fn yes() -> anyhow::Result<CheckResult> {
    Ok(CheckResult::pass("yes"))
}

fn may_splice() -> anyhow::Result<CheckResult> {
    let (from, to) = (PipePair::new()?, PipePair::new()?);
    from.write(page_size())?;
    from.splice(&to.write, SpliceOptions::default())?;
    yes()
}

fn may_tee() -> anyhow::Result<CheckResult> {
    let (from, to) = (PipePair::new()?, PipePair::new()?);
    from.write(1)?;
    from.tee(&to)?;
    yes()
}

fn may_vmsplice() -> anyhow::Result<CheckResult> {
    PipePair::holding(&page()?, VmspliceOptions::default())?;
    yes()
}

fn may_use_io_uring() -> anyhow::Result<CheckResult> {
    at(RefusableCall::IoUring, uring::try_out())?;
    yes()
}

fn may_have_huge_pages() -> anyhow::Result<CheckResult> {
    let builder = Buffer::builder().len(huge_page_size());
    let buffer = at("mmap(2)", builder.pages(Pages::Huge).map())?;
    let backing = match Backing::examine(&buffer) {
        Ok(backing) => backing,
        Err(error) => return Ok(CheckResult::refused(format!("unknown: {error}"))),
    };
    let shown_by = backing.shown_by.name();
    Ok(if backing.all_huge() {
        let bytes = size::format(backing.mapped);
        CheckResult::pass(format!("yes, {bytes} in one page, as {shown_by} shows"))
    } else {
        CheckResult::refused(format!("no huge page was granted, as {shown_by} shows"))
            .with_note(huge_pages_refused(backing.huge, backing.mapped))
    })
}

fn may_have_hugetlb_pages() -> anyhow::Result<CheckResult> {
    const POOL: &str = "proc/sys/vm/nr_hugepages";
    let builder = Buffer::builder().len(1).pages(Pages::HugeTlb);
    match builder.touched(false).map() {
        Ok(_) => return yes(),
        Err(BufferError::NoHugeTlb { source, .. })
            if refusals::errno_of(&source) == Some(Errno::NOMEM) => {}
        Err(error) => return Ok(at("mmap(2) MAP_HUGETLB", Err(error))?),
    }
    Ok(match Root::default().number::<u64>(POOL) {
        Some(pages @ 1..) => CheckResult::refused(format!(
            "all {pages} are in use, or not allowed in this control group"
        ))
        .with_note(format!(
            "raise /{POOL}, or the control group's limit (hugetlb)"
        )),
        Some(0) => CheckResult::refused(format!("none are reserved: /{POOL} is 0"))
            .with_note("root reserves them by writing their number there, soon after boot"),
        None => CheckResult::refused(format!("none are free, and /{POOL} can't be read")),
    })
}

fn may_lock_memory() -> anyhow::Result<CheckResult> {
    /// The ladder's buffer.
    const LOCKED: usize = 256 << 10;
    match Buffer::builder().len(LOCKED).locked(true).map() {
        Ok(_) => {
            let limit = soft_limit(Resource::RLIMIT_MEMLOCK);
            let limit = limit.map_or("unlimited".to_owned(), size::format);
            Ok(CheckResult::pass(format!("yes, RLIMIT_MEMLOCK is {limit}")))
        }
        Err(BufferError::Lock { source, .. }) => Ok(at(RefusableCall::Mlock, Err(source))?),
        Err(error) => Ok(at("mmap(2)", Err(error))?),
    }
}

fn may_see_frames() -> anyhow::Result<CheckResult> {
    const NEEDED: &str = "it takes root with CAP_SYS_ADMIN in the initial user namespace, and a \
                          kernel with CONFIG_PROC_PAGE_MONITOR";
    let page = page()?;
    let reason = match frame(&page) {
        Err(error) => format!("/proc/self/pagemap: {error}"),
        Ok(None) => "hidden: pagemap shows 0 for all of them".to_owned(),
        Ok(Some(frame)) => match FrameFlags::open().and_then(|flags| flags.get(frame)) {
            Ok(_) => return Ok(CheckResult::pass("yes, both")),
            Err(error) => format!("/proc/kpageflags: {error}"),
        },
    };
    Ok(CheckResult::refused(reason).with_note(NEEDED))
}

fn may_sample() -> anyhow::Result<CheckResult> {
    let cpus = [sched_getcpu()];
    let sampled = Sampling::find().and_then(|sampling| {
        PerfSampler::new(&sampling, &[&cpus]).add(0, std::process::id(), &cpus)?;
        Ok(sampling.event)
    });
    Ok(match sampled {
        Ok(event) => CheckResult::pass(format!("yes, by {}", event.name())),
        Err(SamplingError::Refused(refusal)) => refusal.into(),
        Err(error) => CheckResult::refused(error.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_filter_the_calls_of_pipes_are_allowed() {
        if refusals::Privileges::current(&Root::default()).filtered {
            return pipespeed_testing::skip("a seccomp filter is in force");
        }
        for run in [may_splice, may_tee, may_vmsplice] {
            assert_eq!(run().unwrap(), CheckResult::pass("yes"));
        }
    }
}
