//! Fakes of the kernel's benchmark, for each layout. They read and write the
//! argument through structs written down after the kernel's headers, not
//! through the table of offsets they test.

use std::cell::RefCell;
use std::io;
use std::mem::{offset_of, size_of};
use std::path::PathBuf;
use std::rc::Rc;

use fastpipe::pipe::page_size;
use rustix::io::Errno;

use super::{Argument, GupTest, Kernel};

/// mm/gup_benchmark.c of 4.15.
#[repr(C)]
#[allow(dead_code)]
struct GupBenchmark415 {
    delta_usec: u64,
    addr: u64,
    size: u64,
    nr_pages_per_call: u32,
    flags: u32,
}

/// The same before `expansion`.
#[repr(C)]
#[allow(dead_code)]
struct GupBenchmarkPut {
    get_delta_usec: u64,
    put_delta_usec: u64,
    addr: u64,
    size: u64,
    nr_pages_per_call: u32,
    flags: u32,
}

/// mm/gup_benchmark.c of 4.20 to 5.10.
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

/// mm/gup_test.h of 5.11.
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

/// mm/gup_test.h of 5.13.
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

/// One kernel's struct: its size and where the fields are.
#[derive(Debug, Clone, Copy)]
pub struct Struct {
    pub kernels: &'static str,
    pub bytes: usize,
    pub get: usize,
    pub put: Option<usize>,
    pub addr: usize,
    pub size: usize,
    pub nr: usize,
}

macro_rules! as_in_the_kernel {
    ($kernels:literal, $name:ident, $get:ident, $put:expr) => {
        Struct {
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
        as_in_the_kernel!(
            $kernels,
            $name,
            get_delta_usec,
            Some(offset_of!($name, put_delta_usec))
        )
    };
}

pub const KERNELS: [Struct; 5] = [
    as_in_the_kernel!("4.15", GupBenchmark415, delta_usec, None),
    as_in_the_kernel!("before 4.20", GupBenchmarkPut),
    as_in_the_kernel!("4.20", GupBenchmark420),
    as_in_the_kernel!("5.11", GupTest511),
    as_in_the_kernel!("5.13", GupTest513),
];

/// What the fake was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    pub addr: u64,
    pub size: u64,
    pub nr: u32,
}

#[derive(Debug)]
pub struct Fake {
    pub layout: Struct,
    pub refusal: Errno,
    /// Nanoseconds a page, for pinning and for letting go.
    pub page_ns: [f64; 2],
    /// Only so many pages are pinned.
    pub most_pages: u64,
    pub asked: Rc<RefCell<Vec<Asked>>>,
}

impl Fake {
    /// Of this kernel, with 10 ns a page for pinning and 5 for letting go.
    pub fn new(layout: Struct) -> Fake {
        Fake {
            layout,
            refusal: Errno::INVAL,
            page_ns: [10.0, 5.0],
            most_pages: u64::MAX,
            asked: Rc::default(),
        }
    }

    /// As the command would find it.
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
        let asked = Asked {
            addr: u64_at(layout.addr),
            size: u64_at(layout.size),
            nr,
        };
        assert!(
            bytes[layout.nr + 4..].iter().all(|&byte| byte == 0),
            "flags"
        );
        self.asked.borrow_mut().push(asked);

        let page = page_size() as u64;
        let pages = (asked.size / page).min(self.most_pages);
        bytes[layout.size..][..8].copy_from_slice(&(pages * page).to_ne_bytes());
        let fields = [Some(layout.get), layout.put];
        for (field, page_ns) in fields.into_iter().zip(self.page_ns) {
            // As ktime_us_delta has it: whole microseconds, cut off.
            let us = (pages as f64 * page_ns / 1000.0).floor() as u64;
            if let Some(at) = field {
                bytes[at..at + 8].copy_from_slice(&us.to_ne_bytes());
            }
        }
        Ok(())
    }
}
