//! The names of the suites.

use serde::{Deserialize, Serialize};

pipespeed_base::named! {
    /// The suites.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Suite {
        /// the published experiment: from write and read to busy waiting on huge pages
        #[default]
        Ladder = "ladder",
        /// every byte produced and used: writers beside the best plain write here
        Touched = "touched",
        /// pipes beside shared memory, sockets, TCP and others, by message size
        Channels = "channels",
        /// a typical pipe and each single change to it: what would help most here?
        Changes = "changes",
        /// the fastest sizes of buffer and pipe here, searched for and confirmed
        Sizes = "sizes",
        /// the published side experiments, each beside the case without it
        ///
        /// Untouched, gifted, locked, shared and unaligned buffers, reserved huge pages, poll.
        Options = "options",
        /// pages of every size: why do huge pages help?
        ///
        /// vmsplice and splice, both spinning.
        Pages = "pages",
        /// write and read over growing volumes: does the rate depend on them?
        Volumes = "volumes",
        /// reading, writing and copying memory by block size, through the caches
        ///
        /// The ladder is measured beside it.
        Memory = "memory",
    }
}
