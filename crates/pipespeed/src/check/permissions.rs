//! What this process may do. Each permission is found out by using it.

mod calls;
mod memory;
mod others;
mod sampling;

use super::{Check, Group};

/// The checks, in the order in which they are shown.
pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "may-splice",
        group: Group::Permissions,
        statement: "splice(2) is allowed",
        explanation: "A byte is spliced from one pipe to another. Where it is refused, the errno and \
                      what answers it are told: a seccomp filter (Seccomp is 2 in \
                      /proc/self/status), as containers have one, or a kernel without the call. \
                      Relays then copy.",
        reference: "splice(2); seccomp(2)",
        run: calls::splice,
    },
    Check {
        name: "may-tee",
        group: Group::Permissions,
        statement: "tee(2) is allowed",
        explanation: "A byte is duplicated from one pipe into another. Where it is refused, data \
                      that is sent again and again is written instead.",
        reference: "tee(2); seccomp(2)",
        run: calls::tee,
    },
    Check {
        name: "may-vmsplice",
        group: Group::Permissions,
        statement: "vmsplice(2) is allowed",
        explanation: "A page is vmspliced into a pipe. Filters of some containers refuse it; writers \
                      then fall back to write(2), and the rungs of the ladder that need it are \
                      refused.",
        reference: "vmsplice(2); seccomp(2)",
        run: calls::vmsplice,
    },
    Check {
        name: "may-use-io-uring",
        group: Group::Permissions,
        statement: "io_uring is allowed",
        explanation: "A ring is made (io_uring_setup) and does a request without effect \
                      (io_uring_enter). Refused by /proc/sys/kernel/io_uring_disabled, by the seccomp \
                      filters of most containers, by kernels before 5.1. The channel uring of bench \
                      channels needs it.",
        reference: "io_uring_setup(2); Documentation/admin-guide/sysctl/kernel.rst, io_uring_disabled",
        run: calls::io_uring,
    },
    Check {
        name: "may-read-processes",
        group: Group::Permissions,
        statement: "process_vm_readv(2) may read a child's memory",
        explanation: "The program is started once more, and the first byte of its memory is read by \
                      process_vm_readv(2). The rules are those of ptrace(2): the same user, \
                      a program that is dumpable, and whatever the Yama module adds. The channel vm_readv of bench channels \
                      needs it.",
        reference: "process_vm_readv(2); ptrace(2); Documentation/admin-guide/LSM/Yama.rst",
        run: others::process_vm_readv,
    },
    Check {
        name: "may-have-huge-pages",
        group: Group::Permissions,
        statement: "transparent huge pages are given to who asks",
        explanation: "A buffer of one huge page is mapped, asked for (MADV_HUGEPAGE) and touched, and \
                      smaps or pagemap show which pages it got. Refused by \
                      /sys/kernel/mm/transparent_hugepage/enabled, by PR_SET_THP_DISABLE, or by \
                      memory that is too fragmented.",
        reference: "madvise(2); Documentation/admin-guide/mm/transhuge.rst",
        run: memory::transparent,
    },
    Check {
        name: "may-have-hugetlb-pages",
        group: Group::Permissions,
        statement: "reserved huge pages (hugetlb) are there to be used",
        explanation: "One huge page is mapped from the pool that the administrator has reserved \
                      (MAP_HUGETLB), and not touched: where a control group allows none, that would \
                      end the program.",
        reference: "mmap(2); Documentation/admin-guide/mm/hugetlbpage.rst",
        run: memory::reserved,
    },
    Check {
        name: "may-lock-memory",
        group: Group::Permissions,
        statement: "256 KiB, the ladder's buffer, may be locked in memory",
        explanation: "A buffer of 256 KiB is locked by mlock(2). Refused beyond RLIMIT_MEMLOCK (ulimit \
                      -l) without CAP_IPC_LOCK. --lock-memory needs it.",
        reference: "mlock(2); getrlimit(2)",
        run: memory::locked,
    },
    Check {
        name: "may-see-frames",
        group: Group::Permissions,
        statement: "numbers and flags of page frames are shown",
        explanation: "/proc/self/pagemap is asked for the page frame of a page, and /proc/kpageflags \
                      what it is used for. Both need CAP_SYS_ADMIN. Without them huge pages are \
                      proven from smaps, and pipespeed pages shows less.",
        reference: "Documentation/admin-guide/mm/pagemap.rst",
        run: memory::frames,
    },
    Check {
        name: "may-sample",
        group: Group::Permissions,
        statement: "the kernel may be sampled, and its functions have names",
        explanation: "An event is opened on this process (perf_event_open), memory for samples is \
                      mapped, and /proc/kallsyms is read. Refused by perf_event_paranoid, \
                      kptr_restrict, seccomp filters. pipespeed profile needs it.",
        reference: "perf_event_open(2); Documentation/admin-guide/sysctl/kernel.rst, \
                    perf_event_paranoid",
        run: sampling::run,
    },
];

#[cfg(test)]
mod tests;
