//! The argument of the kernel's own benchmark, and how kernels lay it out.
//!
//! A kernel knows the call by a number in which the argument's size stands
//! (_IOWR), and refuses all others: so the size tells which layout it has.

use std::marker::PhantomData;

use serde::Serialize;

/// The largest argument of all layouts, in bytes.
const LARGEST: usize = 120;

/// How one kernel lays out the argument: the offsets of its fields in bytes.
/// Whatever is not named here (flags, pages to be dumped) is zero, which means
/// to pin for reading, as vmsplice(2) does.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Layout {
    /// Which kernels have it.
    pub kernels: &'static str,
    /// The argument's size.
    pub bytes: usize,
    /// The time it took to pin, in microseconds.
    #[serde(skip)]
    get_us: usize,
    /// The time it took to let the pages go.
    #[serde(skip)]
    put_us: Option<usize>,
    #[serde(skip)]
    address: usize,
    /// Bytes to pin; afterwards, bytes that were pinned.
    #[serde(skip)]
    size: usize,
    #[serde(skip)]
    pages_per_call: usize,
}

impl Layout {
    /// All but the first differ only in what follows the flags.
    const fn with_put_time(kernels: &'static str, bytes: usize) -> Layout {
        Layout {
            kernels,
            bytes,
            get_us: 0,
            put_us: Some(8),
            address: 16,
            size: 24,
            pages_per_call: 32,
        }
    }
}

/// All layouts, by the kernel's history: mm/gup_benchmark.c as of its first
/// commit (64c349f4ae78, Linux 4.15), "time put_page()" (26db3d09d9e1, 4.20),
/// mm/gup_test.h as of 5.11 (`which_pages`) and of 5.13 (`test_flags`); the one
/// of 40 bytes was in trees between 4.19 and 4.20.
pub static LAYOUTS: [Layout; 5] = [
    Layout::with_put_time("5.13 and later", 80),
    Layout::with_put_time("5.11 and 5.12", 72),
    Layout::with_put_time("4.20 to 5.10", 120),
    Layout::with_put_time("before 4.20, with put_page", 40),
    Layout {
        kernels: "4.15 to 4.19",
        bytes: 32,
        get_us: 0,
        put_us: None,
        address: 8,
        size: 16,
        pages_per_call: 24,
    },
];

/// The argument of one call, which pins `'a`'s memory and lets it go again.
#[derive(Debug)]
pub struct Argument<'a> {
    bytes: [u8; LARGEST],
    layout: &'static Layout,
    range: PhantomData<&'a [u8]>,
}

impl<'a> Argument<'a> {
    /// For pinning `range`, so many pages at a time.
    pub fn new(layout: &'static Layout, range: &'a [u8], pages_per_call: u32) -> Argument<'a> {
        let mut bytes = [0; LARGEST];
        let mut put =
            |offset: usize, field: &[u8]| bytes[offset..][..field.len()].copy_from_slice(field);
        put(
            layout.address,
            &(range.as_ptr().addr() as u64).to_ne_bytes(),
        );
        put(layout.size, &(range.len() as u64).to_ne_bytes());
        put(layout.pages_per_call, &pages_per_call.to_ne_bytes());
        Argument {
            bytes,
            layout,
            range: PhantomData,
        }
    }

    /// What the kernel reads and writes. Only the call itself may change it:
    /// the memory it names must stay the one it was made for.
    pub(super) fn as_bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.layout.bytes]
    }

    /// What the kernel has written.
    pub fn reply(&self) -> Reply {
        let number = |offset: usize| {
            let mut field = [0; 8];
            field.copy_from_slice(&self.bytes[offset..][..8]);
            u64::from_ne_bytes(field)
        };
        Reply {
            get_us: number(self.layout.get_us),
            put_us: self.layout.put_us.map(number),
            bytes: number(self.layout.size),
        }
    }
}

/// What the kernel answers to one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// Whole microseconds it took to pin.
    pub get_us: u64,
    /// Whole microseconds it took to let go, where the kernel tells.
    pub put_us: Option<u64>,
    /// What was pinned. When the kernel gave up amid a piece of
    /// `pages_per_call` pages, the whole piece is counted.
    pub bytes: u64,
}
