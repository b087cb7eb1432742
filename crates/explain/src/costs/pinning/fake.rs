//! Fakes of the kernel's benchmark, one for each layout. They access the argument through
//! copies of the kernel's structs, independent of the offsets under test.

use std::cell::RefCell;
use std::io;
use std::mem::{offset_of, size_of};
use std::path::PathBuf;
use std::rc::Rc;

use fastpipe::pipe::page_size;
use rustix::io::Errno;

use super::{Argument, GupTest, Kernel};

/// mm/gup_benchmark.c in 4.15.
#[repr(C)]
#[allow(dead_code)]
struct GupBenchmark415 {
    delta_usec: u64,
    addr: u64,
    size: u64,
    nr_pages_per_call: u32,
    flags: u32,
}

/// mm/gup_benchmark.c before 4.20, with the time to release.
#[repr(C)]
#[allow(dead_code)]
struct GupBenchmark40Bytes {
    get_delta_usec: u64,
    put_delta_usec: u64,
    addr: u64,
    size: u64,
    nr_pages_per_call: u32,
    flags: u32,
}

/// mm/gup_benchmark.c in 4.20 to 5.10.
#[repr(C)]
#[allow(dead_code)]
struct GupBenchmark420 {
    get_delta_usec: u64,
    put_delta_usec: u64,
    addr: u64,
    size: u64,
    nr_pages_per_call: u32,
    flags: u32,
    expansion: [u64; 10],
}

/// mm/gup_test.h in 5.11.
#[repr(C)]
#[allow(dead_code)]
struct GupTest511 {
    get_delta_usec: u64,
    put_delta_usec: u64,
    addr: u64,
    size: u64,
    nr_pages_per_call: u32,
    flags: u32,
    which_pages: [u32; 8],
}

/// mm/gup_test.h in 5.13.
#[repr(C)]
#[allow(dead_code)]
struct GupTest513 {
    get_delta_usec: u64,
    put_delta_usec: u64,
    addr: u64,
    size: u64,
    nr_pages_per_call: u32,
    gup_flags: u32,
    test_flags: u32,
    which_pages: [u32; 8],
}

/// The size of a kernel's struct, and the offsets of its fields.
#[derive(Debug, Clone, Copy)]
pub struct KernelStruct {
    pub kernels: &'static str,
    pub bytes: usize,
    pub get: usize,
    pub put: Option<usize>,
    pub addr: usize,
    pub size: usize,
    pub nr: usize,
}

macro_rules! kernel_struct {
    ($kernels:literal, $name:ident, $get:ident, $put:expr) => {
        KernelStruct {
            kernels: $kernels,
            bytes: size_of::<$name>(),
            get: offset_of!($name, $get),
            put: $put,
            addr: offset_of!($name, addr),
            size: offset_of!($name, size),
            nr: offset_of!($name, nr_pages_per_call),
        }
    };
    ($kernels:literal, $name:ident) => {
        kernel_struct!(
            $kernels,
            $name,
            get_delta_usec,
            Some(offset_of!($name, put_delta_usec))
        )
    };
}

pub const KERNELS: [KernelStruct; 5] = [
    kernel_struct!("4.15", GupBenchmark415, delta_usec, None),
    kernel_struct!("between 4.19", GupBenchmark40Bytes),
    kernel_struct!("4.20", GupBenchmark420),
    kernel_struct!("5.11", GupTest511),
    kernel_struct!("5.13", GupTest513),
];

/// A request to the fake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    pub addr: u64,
    pub size: u64,
    pub nr: u32,
}

#[derive(Debug)]
pub struct Fake {
    pub layout: KernelStruct,
    /// The error for arguments of other layouts.
    pub refusal: Errno,
    /// Nanoseconds per page, for pinning and for releasing.
    pub page_ns: [f64; 2],
    /// At most this many pages are pinned.
    pub max_pages: u64,
    pub requests: Rc<RefCell<Vec<Request>>>,
}

impl Fake {
    /// A fake that takes 10 ns per page for pinning and 5 for releasing.
    pub fn new(layout: KernelStruct) -> Fake {
        Fake {
            layout,
            refusal: Errno::INVAL,
            page_ns: [10.0, 5.0],
            max_pages: u64::MAX,
            requests: Rc::default(),
        }
    }

    /// The kernel with this benchmark, as the command would find it.
    pub fn kernel(self) -> Kernel {
        Kernel::new(PathBuf::from("/fake"), self).unwrap()
    }
}

impl GupTest for Fake {
    fn fast_benchmark(&mut self, argument: &mut Argument<'_>) -> io::Result<()> {
        let bytes = argument.as_bytes_mut();
        let layout = self.layout;
        if bytes.len() != layout.bytes {
            return Err(self.refusal.into());
        }
        let u64_at = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
        let nr = u32::from_ne_bytes(bytes[layout.nr..layout.nr + 4].try_into().unwrap());
        let request = Request {
            addr: u64_at(layout.addr),
            size: u64_at(layout.size),
            nr,
        };
        assert!(
            bytes[layout.nr + 4..].iter().all(|&byte| byte == 0),
            "flags"
        );
        self.requests.borrow_mut().push(request);

        let page = page_size() as u64;
        let pages = (request.size / page).min(self.max_pages);
        bytes[layout.size..][..8].copy_from_slice(&(pages * page).to_ne_bytes());
        let fields = [Some(layout.get), layout.put];
        for (field, page_ns) in fields.into_iter().zip(self.page_ns) {
            // Truncated to whole microseconds, as by ktime_us_delta.
            let us = (pages as f64 * page_ns / 1000.0).floor() as u64;
            if let Some(at) = field {
                bytes[at..at + 8].copy_from_slice(&us.to_ne_bytes());
            }
        }
        Ok(())
    }
}
