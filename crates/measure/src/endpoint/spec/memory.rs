//! The pages of buffers, and when they may be written again.

use serde::{Deserialize, Serialize};

/// The kind of pages of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PageKind {
    /// Base pages.
    #[default]
    Base,
    /// Transparent huge pages.
    Huge,
    /// Huge pages of the pool that the administrator reserved. No option selects it;
    /// one case uses it.
    HugeTlb,
}

pipespeed_base::named!(PageKind {
    Base = "base": "base pages",
    Huge = "huge": "transparent huge pages",
    HugeTlb = "hugetlb": "reserved huge pages",
});

impl From<PageKind> for fastpipe::buffer::Pages {
    fn from(kind: PageKind) -> Self {
        match kind {
            PageKind::Base => Self::Base,
            PageKind::Huge => Self::Huge,
            PageKind::HugeTlb => Self::HugeTlb,
        }
    }
}

/// When a vmspliced page may be written again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reuse {
    /// Once it has left the pipe. Correct if the reader copies.
    #[default]
    Drained,
    /// Never: new pages replace it. Correct for every reader.
    Fresh,
}
