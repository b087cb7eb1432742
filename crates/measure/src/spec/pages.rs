//! The pages of buffers, and when they may be written again.

use fastpipe::buffer::{Buffer, BufferBuilder, Pages};
use serde::{Deserialize, Serialize};

pipespeed_base::named! {
    /// The kind of pages of a buffer.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum PageKind {
        /// base pages
        #[default]
        Base = "base",
        /// transparent huge pages
        Huge = "huge",
        /// reserved huge pages
        HugeTlb = "hugetlb",
        /// reserved huge pages of 1 GiB
        HugeTlb1G = "hugetlb1g",
        /// transparent huge pages, mapped by an entry per base page
        Split = "split",
        /// transparent huge pages of 16 KiB
        Thp16K = "thp16k",
        /// transparent huge pages of 32 KiB
        Thp32K = "thp32k",
        /// transparent huge pages of 64 KiB
        Thp64K = "thp64k",
        /// transparent huge pages of 128 KiB
        Thp128K = "thp128k",
        /// transparent huge pages of 256 KiB
        Thp256K = "thp256k",
        /// transparent huge pages of 512 KiB
        Thp512K = "thp512k",
        /// transparent huge pages of 1 MiB
        Thp1M = "thp1m",
    }
}

impl PageKind {
    /// The transparent huge pages below the usual size, from 16 KiB on, each twice as large.
    pub const THP: [Self; 7] = [
        Self::Thp16K,
        Self::Thp32K,
        Self::Thp64K,
        Self::Thp128K,
        Self::Thp256K,
        Self::Thp512K,
        Self::Thp1M,
    ];

    /// The size of the pages in bytes, unless it is a default of the system.
    pub fn bytes(self) -> Option<usize> {
        let thp = Self::THP.iter().position(|kind| *kind == self);
        match self {
            PageKind::HugeTlb1G => Some(1 << 30),
            _ => thp.map(|at| (16 << 10) << at),
        }
    }

    /// Whether it is a transparent huge page below the usual size.
    pub fn is_thp(self) -> bool {
        Self::THP.contains(&self)
    }

    /// A buffer of such pages, without a length.
    pub fn buffer(self) -> BufferBuilder {
        let builder = Buffer::builder()
            .pages(self.into())
            .split(self == PageKind::Split);
        match self.bytes() {
            Some(bytes) => builder.page_bytes(bytes),
            None => builder,
        }
    }
}

impl From<PageKind> for Pages {
    fn from(kind: PageKind) -> Self {
        match kind {
            PageKind::Base => Self::Base,
            PageKind::HugeTlb | PageKind::HugeTlb1G => Self::HugeTlb,
            // The others are transparent huge pages.
            _ => Self::Huge,
        }
    }
}

pipespeed_base::named! {
    /// When a page that was sent by reference may be written again.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum PageReuse {
        /// After they have left the pipe: faster, but wrong if the reader splices or tees them onward
        #[default]
        Drained = "drained",
        /// Never: correct for every reader
        Fresh = "fresh",
        /// After the kernel has found nothing else that refers to them
        ///
        /// fastpipe's `Writer` only.
        CowChecked = "cow_checked",
        /// As the fastest safe way, found while sending
        ///
        /// fastpipe's `Writer` only.
        Auto = "auto",
        /// As `auto`, which may also have the kernel find out what else refers to them
        ///
        /// fastpipe's `Writer` only.
        AutoClone = "auto_clone",
    }
}
