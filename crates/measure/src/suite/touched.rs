//! The ladder where the data matters: every byte is produced anew by the
//! writer and used by the reader, on one pipe size for all.
//!
//! A writer that vmsplices may not write to a page again before it has left
//! the pipe; it uses two buffers in turn and makes sure by counting what is
//! unread. `fastpipe::Writer` is measured as a program would use it; it
//! picks sizes of its own, so the pipe is as large as it would make it, and the
//! reader is the same plain read(2) as everywhere. The two cases without a pipe
//! are the ceilings: no channel can be faster than the slower of its ends.

use super::{BUFFER, Overrides};
use crate::case::Case;
use crate::endpoint::spec::{Policy, SinkTechnique};

/// One pipe size for all: a buffer's, so that with two buffers in turn the
/// next one has always left the pipe.
const PIPE: usize = 256 << 10;

/// What `fastpipe::Writer` asks for by itself: the pipe, and half of it a loan.
const LIBRARY_PIPE: usize = 1 << 20;
const LOAN: usize = 512 << 10;
/// What a program writes at a time.
const WRITTEN: usize = 64 << 10;

pub(super) fn cases(overrides: &Overrides) -> Vec<Case> {
    let buffer = overrides.buffer_bytes.unwrap_or(BUFFER);
    let pipe = overrides.pipe_bytes.unwrap_or(PIPE);
    let library_pipe = overrides.pipe_bytes.unwrap_or(LIBRARY_PIPE);
    let loan = overrides.buffer_bytes.unwrap_or(LOAN);
    let written = overrides.buffer_bytes.unwrap_or(WRITTEN);
    let writer = |name, policy| {
        Case::new(name, buffer, library_pipe)
            .library(SinkTechnique::Fastpipe(policy), loan, loan)
            .spin()
    };
    [
        Case::new("write_read", buffer, pipe).described("write(2) and read(2)"),
        Case::new("write_read_spin", buffer, pipe)
            .spin()
            .described("the same, neither end ever sleeping")
            .against("write_read", "spinning instead of sleeping"),
        Case::new("vmsplice_read", buffer, pipe)
            .vmsplice()
            .described("vmsplice(2), buffers written again once they left the pipe")
            .against("write_read", "vmsplice"),
        Case::new("vmsplice_read_huge", buffer, pipe)
            .vmsplice()
            .huge()
            .described("the same with huge pages")
            .against("vmsplice_read", "huge pages"),
        Case::new("vmsplice_read_huge_spin", buffer, pipe)
            .vmsplice()
            .huge()
            .spin()
            .described("the same, neither end ever sleeping")
            .against("vmsplice_read_huge", "spinning instead of sleeping"),
        writer("fastpipe_write_path", Policy::Copying)
            .described("fastpipe's Writer, made to copy by write(2)")
            .against(
                "write_read_spin",
                "fastpipe's Writer and its larger pipe, copying",
            ),
        writer("fastpipe_fresh", Policy::Fresh)
            .described("fastpipe's Writer as it is: pages are never written again")
            .against("write_read_spin", "fastpipe's Writer and its larger pipe"),
        writer("fastpipe_cow_checked", Policy::CowChecked)
            .described("pages are written again once the kernel finds nobody holding them")
            .against("fastpipe_fresh", "copy-on-write check"),
        writer("fastpipe_drained", Policy::Drained)
            .described("pages are written again once they left the pipe")
            .against(
                "write_read_spin",
                "fastpipe's Writer and its larger pipe, drained",
            ),
        Case::new("bufwriter_stdout_64k", buffer, pipe)
            .library(SinkTechnique::BufWriter, written, written)
            .described("BufWriter on standard output, 64 KiB written at a time"),
        Case::new("io_write_64k", buffer, library_pipe)
            .library(SinkTechnique::FastpipeIo(Policy::Fresh), written, loan)
            .described("the same bytes written to fastpipe's Writer")
            .against(
                "bufwriter_stdout_64k",
                "fastpipe's Writer and its larger pipe for BufWriter",
            ),
        Case::produce_alone("produce_alone", buffer)
            .described("only producing the data, into memory"),
        Case::consume_alone("consume_alone", buffer).described("only using the data, from memory"),
    ]
    .to_vec()
}
