//! What this process is allowed to do, tried by doing it.

use std::fs;
use std::io::{self, IoSliceMut, PipeWriter, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

use fastpipe::buffer::{Buffer, BufferError, Pages, huge_page_size};
use fastpipe::memory::{FrameFlags, Pagemap, Process as Target, regions};
use fastpipe::pipe::page_size;
use fastpipe::transfer::{SpliceOptions, VmspliceOptions};
use nix::sys::uio::RemoteIoVec;
use nix::unistd::Pid;
use rustix::io::Errno;
use rustix::process::{Resource, geteuid, getrlimit};
use rustix::thread::{CapabilitySet, sched_getcpu};

use super::pipes::{Pipe, at};
use super::{Check, Group, Outcome};
use crate::costs::echo::{self, encode};
use crate::profile::perf::{Event, Probe, best_event, ring_bytes};
use crate::profile::refusal::{self as sampling, Facts};
use crate::profile::symbols::Symbols;
use pipespeed_base::size;
use pipespeed_host::Root;
use pipespeed_host::refusals::{self, Process};
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
        statement: "transparent huge pages are given if asked for",
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

fn may_splice() -> anyhow::Result<Outcome> {
    let (from, to) = (Pipe::new()?, Pipe::new()?);
    from.write(page_size())?;
    from.splice(&to.write, SpliceOptions::default())?;
    Ok(Outcome::pass("yes"))
}

fn may_tee() -> anyhow::Result<Outcome> {
    let (from, to) = (Pipe::new()?, Pipe::new()?);
    from.write(1)?;
    from.tee(&to)?;
    Ok(Outcome::pass("yes"))
}

fn may_vmsplice() -> anyhow::Result<Outcome> {
    let page = at("mmap(2)", Buffer::builder().len(page_size()).map())?;
    Pipe::holding(&page, VmspliceOptions::default())?;
    Ok(Outcome::pass("yes"))
}

fn may_use_io_uring() -> anyhow::Result<Outcome> {
    at("io_uring_setup(2) or io_uring_enter(2)", uring::try_out())?;
    Ok(Outcome::pass("yes"))
}

fn may_read_processes() -> anyhow::Result<Outcome> {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => {
            return Ok(Outcome::refused(format!(
                "the program can't be found: {error}"
            )));
        }
    };
    let other = at("clone(2)", Other::start(&program))?;
    let pid = other.child.id();
    let mappings = regions(Target::Other(pid)).unwrap_or_default();
    let mut byte = [0];
    let there = [RemoteIoVec {
        base: mappings.first().map_or(0, |region| region.start) as usize,
        len: byte.len(),
    }];
    let read = nix::sys::uio::process_vm_readv(
        Pid::from_raw(pid as i32),
        &mut [IoSliceMut::new(&mut byte)],
        &there,
    );
    let errno = match read.map_err(|errno| Errno::from_raw_os_error(errno as i32)) {
        // EFAULT: nothing is mapped there, as where the mappings are hidden. The
        // permission comes first (mm/process_vm_access.c).
        Ok(_) | Err(Errno::FAULT) => return Ok(Outcome::pass("yes")),
        Err(errno) => errno,
    };
    let root = Root::default();
    let process = Process::current(&root);
    let capable = process.capabilities.contains(CapabilitySet::SYS_PTRACE);
    if errno == Errno::PERM && !capable && !is_dumpable(pid, &root) {
        let too = "; a seccomp filter is in force, too";
        let too = if process.filtered { too } else { "" };
        return Ok(
            Outcome::refused("refused (EPERM): the program is not dumpable").with_note(format!(
                "this user can't read its file, or it gives privileges (ptrace(2)){too}"
            )),
        );
    }
    Ok(at("process_vm_readv(2)", Err(errno))?)
}

/// Whether a child is dumpable. If not, most of its files in /proc are root's
/// (proc_pid(5)).
fn is_dumpable(pid: u32, root: &Root) -> bool {
    let files = fs::metadata(root.path(format!("proc/{pid}/fd")));
    files.map_or(true, |files| files.uid() == geteuid().as_raw())
}

/// This program once more, as the process that echoes. It ends with its input.
struct Other {
    child: Child,
    input: Option<PipeWriter>,
}

impl Other {
    /// Returns when it runs.
    fn start(program: &Path) -> io::Result<Self> {
        let (stdin, input) = io::pipe()?;
        let (mut output, stdout) = io::pipe()?;
        let child = Command::new(program)
            .args([SUBCOMMAND, echo::ROLE])
            .stdin(stdin)
            .stderr(stdout.try_clone()?)
            .stdout(stdout)
            // A terminal's signals are for us.
            .process_group(0)
            .spawn()?;
        let mut other = Other {
            child,
            input: Some(input),
        };
        let mut message = encode(0, 0);
        if let Some(input) = &mut other.input {
            input.write_all(&message)?;
        }
        output.read_exact(&mut message)?;
        Ok(other)
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.wait();
    }
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
    let source = match builder.touched(false).map() {
        Ok(_) => return Ok(Outcome::pass("yes")),
        Err(BufferError::NoHugeTlb { source, .. }) => source,
        Err(error) => return Ok(at("mmap(2)", Err(error))?),
    };
    if refusals::errno_of(&source) != Some(Errno::NOMEM) {
        return Ok(at("mmap(2) MAP_HUGETLB", Err(source))?);
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
        Err(BufferError::Lock { source, .. }) => Ok(at("mlock(2)", Err(source))?),
        Err(error) => Ok(at("mmap(2)", Err(error))?),
    }
}

fn may_see_frames() -> anyhow::Result<Outcome> {
    const NEEDED: &str = "it takes CAP_SYS_ADMIN in the first user namespace";
    let page = at("mmap(2)", Buffer::builder().len(page_size()).map())?;
    let address = page.as_ptr().addr() as u64;
    let entries = Pagemap::open(Target::Own).and_then(|pagemap| pagemap.entries(address, 1));
    let refused = |seen: String| Ok(Outcome::refused(seen).with_note(NEEDED));
    let frame = match entries {
        Ok(entries) => entries.first().and_then(|entry| entry.frame()),
        Err(error) => return refused(format!("/proc/self/pagemap: {error}")),
    };
    let Some(frame) = frame else {
        return refused("hidden: pagemap shows 0 for all of them".to_owned());
    };
    match FrameFlags::open().and_then(|flags| flags.of(frame)) {
        Ok(_) => Ok(Outcome::pass("yes, both")),
        Err(error) => refused(format!("/proc/kpageflags: {error}")),
    }
}

fn may_sample() -> anyhow::Result<Outcome> {
    let root = Root::default();
    Ok(match sample(&root, &Facts::read(&root)) {
        Ok(event) => Outcome::pass(format!("yes, by {}", event.name())),
        Err(refusal) => Outcome::refused(refusal.to_string()),
    })
}

fn sample(root: &Root, facts: &Facts) -> Result<Event, sampling::Refusal> {
    let event = best_event(facts)?;
    let cpus = [sched_getcpu()];
    Probe::attach(event, std::process::id(), &cpus, ring_bytes(1), facts)?;
    let names = Symbols::read(&root.path("proc/kallsyms"));
    names.map_err(|error| sampling::symbols(error, facts))?;
    Ok(event)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_filter_the_calls_of_pipes_are_allowed() {
        if Process::current(&Root::default()).filtered {
            return eprintln!("skipped: a seccomp filter is in force");
        }
        for run in [may_splice, may_tee, may_vmsplice] {
            assert_eq!(run().unwrap(), Outcome::pass("yes"));
        }
    }
}
