//! The ladder where the data matters: every byte is produced anew by the
//! writer and used by the reader, on one pipe size for all.
//!
//! A writer that vmsplices may not write to a page again before it has left
//! the pipe; it uses two buffers in turn and makes sure by counting what is
//! unread. The two cases without a pipe are the ceilings: no channel can be
//! faster than the slower of its ends.

use super::Overrides;
use crate::case::Case;
use crate::results::DataUse;

/// The ladder's buffer.
const BUFFER: usize = 256 << 10;
/// One pipe size for all: a buffer's, so that with two buffers in turn the
/// next one has always left the pipe.
const PIPE: usize = 256 << 10;

pub(super) fn cases(overrides: &Overrides) -> Vec<Case> {
    let buffer = overrides.buffer_bytes.unwrap_or(BUFFER);
    let pipe = overrides.pipe_bytes.unwrap_or(PIPE);
    let data = overrides.data.unwrap_or(DataUse::Touch);
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
        Case::new("produce_alone", buffer, pipe)
            .produce_alone()
            .described("only producing the data, into memory"),
        Case::new("consume_alone", buffer, pipe)
            .consume_alone()
            .described("only using the data, from memory"),
    ]
    .map(|case| case.with_data(data))
    .to_vec()
}
