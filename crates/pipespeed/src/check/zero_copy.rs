//! What becomes of pages that are handed over rather than copied.
//!
//! Nothing tells what a slot of a pipe refers to. So a page with a known byte is
//! handed over, the byte is changed, and what is read at the end shows whether
//! it was that page or a copy.

mod flags;
mod held;
mod null;
mod refers;
mod steps;

use super::{Check, Group};

/// The checks, in the order in which they are shown.
pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "vmsplice-refers",
        group: Group::ZeroCopy,
        statement: "vmsplice(2) puts references to the caller's pages into a pipe",
        explanation: "A page is vmspliced and then changed. Where the reader finds the change, the \
                      pipe refers to the page; where it does not, the kernel has copied it, and \
                      vmsplice(2) has nothing over write(2). A change to copying was proposed in \
                      2026, after CVE-2026-31431 and CVE-2026-43284.",
        reference: "vmsplice(2); fs/splice.c, iter_to_pipe",
        run: refers::from_memory,
    },
    Check {
        name: "vmsplice-to-memory",
        group: Group::ZeroCopy,
        statement: "vmsplice(2) from a pipe to memory copies",
        explanation: "A page that is in a pipe is taken out by vmsplice(2) on the read end and then \
                      changed. Where the memory it came to does not change with it, it was copied, \
                      as by read(2). Where this process may see them, the numbers of both page \
                      frames are compared as well.",
        reference: "vmsplice(2); fs/splice.c, vmsplice_to_user",
        run: refers::to_memory,
    },
    Check {
        name: "splice-to-null",
        group: Group::ZeroCopy,
        statement: "splice(2) to /dev/null drops pages without looking at them",
        explanation: "A pipe's slots are filled with one byte each, or with a page each, and the \
                      splice to /dev/null is timed. If nobody looks at the bytes, a page takes as \
                      long as a byte; read(2) of the same, which copies them, shows what looking \
                      costs. That is evidence, not proof: the kernel counts no looks at a page. Its \
                      source says that there are none. The splice rungs of the ladder are so fast \
                      because of that, and a reader that uses its data can't be.",
        reference: "null(4); drivers/char/mem.c, splice_write_null and pipe_to_null",
        run: null::run,
    },
    Check {
        name: "outlives-drain-splice",
        group: Group::ZeroCopy,
        statement: "a page outlives an empty pipe behind a reader that splices",
        explanation: "A page is vmspliced into a pipe and spliced on into a second one, as pv, cat \
                      and others do. The first pipe then has nothing unread (FIONREAD). Then the \
                      page is changed. Where the reader of the second pipe finds the change, an \
                      empty pipe does not mean that a page may be written again.",
        reference: "splice(2); fs/splice.c, splice_pipe_to_pipe; uutils/coreutils#7625",
        run: held::behind_splice,
    },
    Check {
        name: "outlives-drain-tee",
        group: Group::ZeroCopy,
        statement: "a page outlives an empty pipe behind a reader that tees",
        explanation: "The same with tee(2): the page is duplicated into a second pipe, and the first \
                      one is read until it is empty.",
        reference: "tee(2); fs/splice.c, link_pipe",
        run: held::behind_tee,
    },
    Check {
        name: "let-go-page-kept",
        group: Group::ZeroCopy,
        statement: "a pipe keeps a page that its owner has let go",
        explanation: "A page is vmspliced and let go (MADV_DONTNEED); new bytes are written where it \
                      was. The reader has to find the old ones. fastpipe's default policy, Fresh, \
                      rests on it.",
        reference: "madvise(2); fs/splice.c, iter_to_pipe: the pipe holds a reference of its own",
        run: held::let_go,
    },
    Check {
        name: "spliced-file-is-live",
        group: Group::ZeroCopy,
        statement: "what is spliced from a file is the file's own page",
        explanation: "A page of a file in memory (memfd_create) is spliced into a pipe, and then the \
                      file is written to. Where the reader finds the change, the pipe refers to the \
                      page cache: a file that changes meanwhile changes what is read.",
        reference: "splice(2); mm/shmem.c, shmem_file_splice_read; mm/filemap.c, filemap_splice_read",
        run: held::file,
    },
    Check {
        name: "splice-gift",
        group: Group::ZeroCopy,
        statement: "SPLICE_F_GIFT changes nothing",
        explanation: "Pages are vmspliced with the flag and without it. Each is changed while it is \
                      in the pipe, and another is spliced on to a file in memory with SPLICE_F_MOVE \
                      and changed then. What the readers of the pipe and of the file find is \
                      compared.",
        reference: "vmsplice(2); fs/splice.c, user_page_pipe_buf_try_steal",
        run: flags::gift,
    },
    Check {
        name: "splice-move",
        group: Group::ZeroCopy,
        statement: "SPLICE_F_MOVE changes nothing",
        explanation: "A page is spliced to a file in memory, and one to another pipe, with the flag \
                      and without it, and changed then. What the readers find is compared. Only \
                      /dev/fuse looks at the flag, which is not tried.",
        reference: "splice(2): no effect since Linux 2.6.21; fs/splice.c, iter_file_splice_write",
        run: flags::moved,
    },
    Check {
        name: "kernel-referees",
        group: Group::ZeroCopy,
        statement: "after a clone(2) the kernel decides whether a page may be written again",
        explanation: "A page is vmspliced, and the process's memory is duplicated by a clone(2) that \
                      leaves no process. If the next write to the page faults and the reader finds \
                      the old byte, the kernel has copied the page because the pipe holds it. \
                      fastpipe's policy Refereed rests on it, and tries it out before each use.",
        reference: "mm/memory.c, do_wp_page (Linux 5.19 on)",
        run: held::refereed,
    },
];

#[cfg(test)]
mod tests;
