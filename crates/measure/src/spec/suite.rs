//! The names of the suites.

use serde::{Deserialize, Serialize};

/// The suites.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Suite {
    /// The published experiment: from write and read to busy waiting on huge
    /// pages, one step at a time.
    #[default]
    Ladder,
    /// Every byte is produced by the writer and used by the reader: writers beside
    /// the best plain write found here.
    Touched,
    /// Pipes beside shared memory, sockets, TCP and other ways to pass data, by
    /// the size of the messages.
    Channels,
    /// What most programs do with a pipe, and single changes to it: what would
    /// help most here?
    Changes,
    /// The fastest sizes of buffer and pipe here, searched for and measured
    /// beside the published ones.
    Sizes,
    /// The published side experiments, each beside the case without it:
    /// untouched, gifted, locked, shared and unaligned buffers, reserved huge
    /// pages, poll.
    Options,
    /// The spinning vmsplice and splice with pages of every size: why do huge pages
    /// help?
    Pages,
    /// Write and read over growing volumes: does the rate depend on them?
    Volumes,
    /// Reading, writing and copying memory by the size of the block, through
    /// the caches, with the ladder beside it.
    Memory,
}

pipespeed_base::named!(Suite {
    Ladder = "ladder": "the published experiment: from write and read to busy waiting on huge pages",
    Touched = "touched": "every byte produced and used: writers beside the best plain write here",
    Channels = "channels": "pipes beside shared memory, sockets, TCP and others, by message size",
    Changes = "changes": "a typical pipe and each single change to it: what would help most here?",
    Sizes = "sizes": "the fastest sizes of buffer and pipe here, searched for and confirmed",
    Options = "options": "the published side experiments, each beside the case without it",
    Pages = "pages": "pages of every size: why do huge pages help?",
    Volumes = "volumes": "write and read over growing volumes: does the rate depend on them?",
    Memory = "memory": "reading, writing and copying memory by block size, through the caches",
});
