//! The argument of the kernel's own benchmark, and its layout in different kernels.
//!
//! The ioctl's number contains the argument's size (_IOWR), and a kernel accepts no other
//! number. So the size that it accepts identifies its layout.

use std::marker::PhantomData;

use serde::Serialize;

/// The size of the largest argument, in bytes.
const MAX_BYTES: usize = 120;

/// A layout of the argument: the offsets of its fields in bytes. All other fields (flags,
/// pages to dump) are zero, which pins for reading, as vmsplice(2) does.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Layout {
    /// The kernels that use it.
    pub kernels: &'static str,
    /// The size of the argument.
    pub bytes: usize,
    /// The time to pin, in microseconds.
    #[serde(skip)]
    get_us: usize,
    /// The time to release, in microseconds.
    #[serde(skip)]
    put_us: Option<usize>,
    #[serde(skip)]
    address: usize,
    /// The bytes to pin; after the call, the bytes pinned.
    #[serde(skip)]
    size: usize,
    #[serde(skip)]
    pages_per_call: usize,
}

impl Layout {
    /// A layout with the time to release. These differ only after the flags.
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

/// All layouts. Sources in the kernel's history: mm/gup_benchmark.c in its first commit
/// (64c349f4ae78, Linux 4.15) and in "time put_page()" (26db3d09d9e1, 4.20), mm/gup_test.h
/// of 5.11 (`which_pages`) and of 5.13 (`test_flags`). The layout of 40 bytes existed only
/// in trees between 4.19 and 4.20.
pub static LAYOUTS: [Layout; 5] = [
    Layout::with_put_time("5.13 and later", 80),
    Layout::with_put_time("5.11 and 5.12", 72),
    Layout::with_put_time("4.20 to 5.10", 120),
    Layout::with_put_time("between 4.19 and 4.20", 40),
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

/// The argument of a call, which pins memory that it borrows for `'a`, and releases it.
#[derive(Debug)]
pub struct Argument<'a> {
    bytes: [u8; MAX_BYTES],
    layout: &'static Layout,
    range: PhantomData<&'a [u8]>,
}

impl<'a> Argument<'a> {
    /// An argument to pin `range`, `pages_per_call` pages at a time.
    pub fn new(layout: &'static Layout, range: &'a [u8], pages_per_call: u32) -> Argument<'a> {
        let mut bytes = [0; MAX_BYTES];
        let mut set =
            |offset: usize, field: &[u8]| bytes[offset..][..field.len()].copy_from_slice(field);
        set(
            layout.address,
            &(range.as_ptr().addr() as u64).to_ne_bytes(),
        );
        set(layout.size, &(range.len() as u64).to_ne_bytes());
        set(layout.pages_per_call, &pages_per_call.to_ne_bytes());
        Argument {
            bytes,
            layout,
            range: PhantomData,
        }
    }

    /// The bytes that the kernel reads and writes. Only the kernel may change them: the
    /// address must remain that of the borrowed range.
    pub(super) fn as_bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.layout.bytes]
    }

    /// The kernel's reply after the call.
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

/// The kernel's reply to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// The time to pin, in whole microseconds.
    pub get_us: u64,
    /// The time to release, in whole microseconds, if the kernel reports it.
    pub put_us: Option<u64>,
    /// The bytes pinned. If the kernel stopped within a batch of `pages_per_call` pages,
    /// it counts the whole batch.
    pub bytes: u64,
}
