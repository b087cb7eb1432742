//! Checks of what this process may do.

use std::fs;
use std::io::IoSliceMut;
use std::os::unix::fs::MetadataExt;

use fastpipe::buffer::{Buffer, BufferError, Pages, huge_page_size};
use fastpipe::memory::{FrameFlags, Process as Target, regions};
use fastpipe::pipe::page_size;
use fastpipe::transfer::{SpliceOptions, VmspliceOptions};
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use rustix::io::Errno;
use rustix::process::{Resource, geteuid, getrlimit};
use rustix::thread::{CapabilitySet, sched_getcpu};

use super::pipes::{Pipe, Process, at, frame, page};
use super::{Check, Group, Outcome};
use crate::costs::echo;
use crate::profile::perf::{Probe, Sampling, SamplingError, ring_bytes};
use pipespeed_base::size;
use pipespeed_host::Root;
use pipespeed_host::refusals::{self, Call, Process as Privileges};
use pipespeed_measure::channel::uring;
use pipespeed_measure::endpoint::process::huge_pages_refused;
use pipespeed_measure::session::SUBCOMMAND;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "may-splice",
        group: Group::Permissions,
        statement: "splice(2) is allowed",
        explanation: "Bytes are spliced from one pipe to another. The seccomp filters of some \
                      containers refuse it; relays then copy.",
        reference: "splice(2); seccomp(2)",
        run: may_splice,
    },
    Check {
        name: "may-tee",
        group: Group::Permissions,
        statement: "tee(2) is allowed",
        explanation: "Bytes are duplicated from one pipe into another. If it is refused, data that \
                      is sent again and again is written instead.",
        reference: "tee(2); seccomp(2)",
        run: may_tee,
    },
    Check {
        name: "may-vmsplice",
        group: Group::Permissions,
        statement: "vmsplice(2) is allowed",
        explanation: "A page is vmspliced into a pipe. The seccomp filters of some containers refuse \
                      it; writers then use write(2), and the ladder's rungs that need it are \
                      refused.",
        reference: "vmsplice(2); seccomp(2)",
        run: may_vmsplice,
    },
    Check {
        name: "may-use-io-uring",
        group: Group::Permissions,
        statement: "io_uring is allowed",
        explanation: "A ring is made and does a request without effect. Refused by \
                      /proc/sys/kernel/io_uring_disabled, by the seccomp filters of most containers, \
                      by kernels before 5.1. The channel uring of bench channels needs it.",
        reference: "io_uring_setup(2); Documentation/admin-guide/sysctl/kernel.rst, io_uring_disabled",
        run: may_use_io_uring,
    },
    Check {
        name: "may-read-processes",
        group: Group::Permissions,
        statement: "process_vm_readv(2) may read a child's memory",
        explanation: "The program is started once more, and a byte of its memory is read. The rules \
                      are those of ptrace(2): the same user, a program that is dumpable, and \
                      whatever the Yama module adds. The channel vm_readv of bench channels needs \
                      it.",
        reference: "process_vm_readv(2); ptrace(2); Documentation/admin-guide/LSM/Yama.rst",
        run: may_read_processes,
    },
    Check {
        name: "may-have-huge-pages",
        group: Group::Permissions,
        statement: "transparent huge pages are granted on request",
        explanation: "A buffer of one huge page is mapped, asked for (MADV_HUGEPAGE) and touched; \
                      smaps or pagemap show which pages it got. Refused by \
                      /sys/kernel/mm/transparent_hugepage/enabled, by PR_SET_THP_DISABLE, or if \
                      memory is too fragmented.",
        reference: "madvise(2); Documentation/admin-guide/mm/transhuge.rst",
        run: may_have_huge_pages,
    },
    Check {
        name: "may-have-hugetlb-pages",
        group: Group::Permissions,
        statement: "reserved huge pages (hugetlb) are available",
        explanation: "One page is mapped from the pool that the administrator has reserved \
                      (MAP_HUGETLB). It is not touched: where a control group allows none, that \
                      would end the program.",
        reference: "mmap(2); Documentation/admin-guide/mm/hugetlbpage.rst",
        run: may_have_hugetlb_pages,
    },
    Check {
        name: "may-lock-memory",
        group: Group::Permissions,
        statement: "256 KiB, the ladder's buffer, may be locked",
        explanation: "A buffer of 256 KiB is locked by mlock(2). Refused beyond RLIMIT_MEMLOCK \
                      (ulimit -l) without CAP_IPC_LOCK. The option --lock-memory needs it.",
        reference: "mlock(2); getrlimit(2)",
        run: may_lock_memory,
    },
    Check {
        name: "may-see-frames",
        group: Group::Permissions,
        statement: "numbers and flags of page frames are shown",
        explanation: "The page frame of a page is read from /proc/self/pagemap, and its use from \
                      /proc/kpageflags. Both need CAP_SYS_ADMIN. Without them huge pages are proven \
                      from smaps, and pipespeed pages shows less.",
        reference: "Documentation/admin-guide/mm/pagemap.rst",
        run: may_see_frames,
    },
    Check {
        name: "may-sample",
        group: Group::Permissions,
        statement: "the kernel may be sampled, and its functions have names",
        explanation: "An event is opened on this process, memory for samples is mapped, and \
                      /proc/kallsyms is read. Refused by perf_event_paranoid, kptr_restrict, seccomp \
                      filters. pipespeed profile needs it.",
        reference: "perf_event_open(2); Documentation/admin-guide/sysctl/kernel.rst, \
                    perf_event_paranoid",
        run: may_sample,
    },
];

fn yes() -> anyhow::Result<Outcome> {
    Ok(Outcome::pass("yes"))
}

fn may_splice() -> anyhow::Result<Outcome> {
    let (from, to) = (Pipe::new()?, Pipe::new()?);
    from.write(page_size())?;
    from.splice(&to.write, SpliceOptions::default())?;
    yes()
}

fn may_tee() -> anyhow::Result<Outcome> {
    let (from, to) = (Pipe::new()?, Pipe::new()?);
    from.write(1)?;
    from.tee(&to)?;
    yes()
}

fn may_vmsplice() -> anyhow::Result<Outcome> {
    Pipe::holding(&page()?, VmspliceOptions::default())?;
    yes()
}

fn may_use_io_uring() -> anyhow::Result<Outcome> {
    at(Call::IoUring, uring::try_out())?;
    yes()
}

fn may_read_processes() -> anyhow::Result<Outcome> {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => {
            let reason = format!("the program can't be found: {error}");
            return Ok(Outcome::refused(reason));
        }
    };
    // The child ends with its standard input.
    let (stdin, stdout) = (Pipe::blocking()?, Pipe::blocking()?);
    let args = [SUBCOMMAND, echo::ROLE];
    let child = Process::start(&program, args, stdin.read, stdout.write)?;
    let pid = child.pid().as_raw_pid();
    let mappings = regions(Target::Other(pid as u32)).unwrap_or_default();
    let mut byte = [0];
    let there = [RemoteIoVec {
        base: mappings.first().map_or(0, |region| region.start) as usize,
        len: byte.len(),
    }];
    let mut here = [IoSliceMut::new(&mut byte)];
    let errno = match process_vm_readv(nix::unistd::Pid::from_raw(pid), &mut here, &there) {
        // EFAULT: the mappings are hidden, and nothing is mapped at 0. Permission is
        // checked first (mm/process_vm_access.c).
        Ok(_) | Err(nix::Error::EFAULT) => return yes(),
        Err(errno) => Errno::from_raw_os_error(errno as i32),
    };
    let root = Root::default();
    let privileges = Privileges::current(&root);
    let capable = privileges.capabilities.contains(CapabilitySet::SYS_PTRACE);
    // Most files in /proc of a process that is not dumpable are root's (proc_pid(5)).
    let owner = fs::metadata(root.path(format!("proc/{pid}/fd"))).map(|files| files.uid());
    let is_protected = owner.is_ok_and(|owner| owner != geteuid().as_raw());
    if errno == Errno::PERM && !capable && is_protected {
        let filter = "; a seccomp filter is in force, too";
        let filter = if privileges.filtered { filter } else { "" };
        let note = "this user can't read its file, or it gives privileges (ptrace(2))";
        let outcome = Outcome::refused("refused (EPERM): the program is not dumpable");
        return Ok(outcome.with_note(format!("{note}{filter}")));
    }
    Ok(at(Call::ProcessVmReadv, Err(errno))?)
}

fn may_have_huge_pages() -> anyhow::Result<Outcome> {
    let builder = Buffer::builder().len(huge_page_size());
    let buffer = at("mmap(2)", builder.pages(Pages::Huge).map())?;
    let backing = match buffer.backing() {
        Ok(backing) => backing,
        Err(error) => return Ok(Outcome::refused(format!("unknown: {error}"))),
    };
    let shown_by = backing.shown_by.name();
    Ok(if backing.all_huge() {
        let bytes = size::format(backing.mapped);
        Outcome::pass(format!("yes, {bytes} in one page, as {shown_by} shows"))
    } else {
        Outcome::refused(format!("none was, as {shown_by} shows"))
            .with_note(huge_pages_refused(backing.huge, backing.mapped))
    })
}

fn may_have_hugetlb_pages() -> anyhow::Result<Outcome> {
    const POOL: &str = "proc/sys/vm/nr_hugepages";
    let builder = Buffer::builder().len(1).pages(Pages::HugeTlb);
    match builder.touched(false).map() {
        Ok(_) => return yes(),
        Err(BufferError::NoHugeTlb { source, .. })
            if refusals::errno_of(&source) == Some(Errno::NOMEM) => {}
        Err(error) => return Ok(at("mmap(2) MAP_HUGETLB", Err(error))?),
    }
    Ok(match Root::default().number::<u64>(POOL) {
        Some(pages @ 1..) => Outcome::refused(format!("all {pages} are in use, or not for us"))
            .with_note(format!(
                "raise /{POOL}, or the control group's limit (hugetlb)"
            )),
        _ => Outcome::refused(format!("none are reserved: /{POOL} is 0"))
            .with_note("root reserves them by writing their number there, soon after the start"),
    })
}

fn may_lock_memory() -> anyhow::Result<Outcome> {
    /// The ladder's buffer.
    const LOCKED: usize = 256 << 10;
    match Buffer::builder().len(LOCKED).locked(true).map() {
        Ok(_) => {
            let limit = getrlimit(Resource::Memlock).current;
            let limit = limit.map_or("unlimited".to_owned(), size::format);
            Ok(Outcome::pass(format!("yes, RLIMIT_MEMLOCK is {limit}")))
        }
        Err(BufferError::Lock { source, .. }) => Ok(at(Call::Mlock, Err(source))?),
        Err(error) => Ok(at("mmap(2)", Err(error))?),
    }
}

fn may_see_frames() -> anyhow::Result<Outcome> {
    const NEEDED: &str = "it takes CAP_SYS_ADMIN in the first user namespace";
    let page = page()?;
    let reason = match frame(&page) {
        Err(error) => format!("/proc/self/pagemap: {error}"),
        Ok(None) => "hidden: pagemap shows 0 for all of them".to_owned(),
        Ok(Some(frame)) => match FrameFlags::open().and_then(|flags| flags.of(frame)) {
            Ok(_) => return Ok(Outcome::pass("yes, both")),
            Err(error) => format!("/proc/kpageflags: {error}"),
        },
    };
    Ok(Outcome::refused(reason).with_note(NEEDED))
}

fn may_sample() -> anyhow::Result<Outcome> {
    let cpus = [sched_getcpu()];
    let sampled = Sampling::find().and_then(|sampling| {
        Probe::attach(sampling.event, std::process::id(), &cpus, ring_bytes(1))?;
        Ok(sampling.event)
    });
    Ok(match sampled {
        Ok(event) => Outcome::pass(format!("yes, by {}", event.name())),
        Err(SamplingError::Refused(refusal)) => refusal.into(),
        Err(error) => Outcome::refused(error.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_filter_the_calls_of_pipes_are_allowed() {
        if Privileges::current(&Root::default()).filtered {
            return pipespeed_testing::skip("a seccomp filter is in force");
        }
        for run in [may_splice, may_tee, may_vmsplice] {
            assert_eq!(run().unwrap(), Outcome::pass("yes"));
        }
    }
}
