//! The argument of gup_test, and ioctl(2) on it, for which rustix has no safe function.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::path::Path;

use rustix::ioctl::{self, Direction, Ioctl, IoctlOutput, Opcode};

use super::GupTest;

/// The argument of a call, which pins memory that it borrows for `'a`, and releases it:
/// `struct gup_test` in mm/gup_test.h, since Linux 5.13. The other fields (flags, pages to
/// dump) are zero, which pins for reading, as vmsplice(2) does.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Argument<'a> {
    get_delta_usec: u64,
    put_delta_usec: u64,
    addr: u64,
    size: u64,
    nr_pages_per_call: u32,
    gup_flags: u32,
    test_flags: u32,
    which_pages: [u32; 8],
    range: PhantomData<&'a [u8]>,
}

/// The kernel's reply to a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reply {
    /// The time to pin, in whole microseconds.
    pub get_us: u64,
    /// The time to release, in whole microseconds.
    pub put_us: u64,
    /// The bytes pinned. If the kernel stopped within a batch of `pages_per_call` pages,
    /// it counts the whole batch.
    pub bytes: u64,
}

impl<'a> Argument<'a> {
    /// An argument to pin `range`, `pages_per_call` pages at a time.
    pub fn new(range: &'a [u8], pages_per_call: u32) -> Argument<'a> {
        Argument {
            addr: range.as_ptr().addr() as u64,
            size: range.len() as u64,
            nr_pages_per_call: pages_per_call,
            ..Argument::default()
        }
    }

    /// The kernel's reply after the call.
    pub fn reply(&self) -> Reply {
        Reply {
            get_us: self.get_delta_usec,
            put_us: self.put_delta_usec,
            bytes: self.size,
        }
    }

    /// Replies as the kernel does, for fakes of it.
    #[cfg(any(test, feature = "fixtures"))]
    pub(super) fn set_reply(&mut self, reply: Reply) {
        self.get_delta_usec = reply.get_us;
        self.put_delta_usec = reply.put_us;
        self.size = reply.bytes;
    }

    /// The address, the bytes to pin, and the pages per call.
    #[cfg(any(test, feature = "fixtures"))]
    pub(super) fn request(&self) -> (u64, u64, u32) {
        (self.addr, self.size, self.nr_pages_per_call)
    }
}

/// The kernel's gup_test.
#[derive(Debug)]
pub(super) struct GupFile(File);

impl GupFile {
    pub(super) fn open(path: &Path) -> io::Result<GupFile> {
        let file = File::options().read(true).write(true).open(path)?;
        Ok(GupFile(file))
    }
}

impl GupTest for GupFile {
    fn fast_benchmark(&mut self, argument: &mut Argument<'_>) -> io::Result<()> {
        // SAFETY: see the implementation of Ioctl. The kernel takes references to the
        // pages of the range that the argument borrows, does not access their contents,
        // and releases the references before it returns.
        unsafe { ioctl::ioctl(&self.0, FastBenchmark(argument)) }?;
        Ok(())
    }
}

/// GUP_FAST_BENCHMARK: _IOWR('g', 1, struct gup_test).
const GUP_FAST_BENCHMARK: Opcode = ioctl::opcode::from_components(
    Direction::ReadWrite,
    b'g',
    1,
    size_of::<Argument<'static>>(),
);

struct FastBenchmark<'a, 'b>(&'a mut Argument<'b>);

// SAFETY: the ioctl's number contains the size of the argument. A driver that implements
// this number accesses exactly that many bytes; any other driver returns EINVAL or ENOTTY.
// All bit patterns are valid in the argument. The output is not used.
unsafe impl Ioctl for FastBenchmark<'_, '_> {
    type Output = ();

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        GUP_FAST_BENCHMARK
    }

    fn as_ptr(&mut self) -> *mut c_void {
        (&raw mut *self.0).cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> rustix::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn number_and_fields_are_those_of_the_kernels_header() {
        // The value of _IOWR('g', 1, struct gup_test) in C.
        assert_eq!(GUP_FAST_BENCHMARK, 0xC050_6701_u32 as Opcode);
        let offsets = [
            offset_of!(Argument<'static>, get_delta_usec),
            offset_of!(Argument<'static>, put_delta_usec),
            offset_of!(Argument<'static>, addr),
            offset_of!(Argument<'static>, size),
            offset_of!(Argument<'static>, nr_pages_per_call),
            offset_of!(Argument<'static>, gup_flags),
        ];
        assert_eq!(offsets, [0, 8, 16, 24, 32, 36]);
    }

    #[test]
    fn a_file_without_this_ioctl_refuses_it() {
        let range = [0; 64];
        let mut file = GupFile::open(Path::new("/dev/null")).unwrap();
        let error = file.fast_benchmark(&mut Argument::new(&range, 1));
        let error = error.unwrap_err().raw_os_error();
        assert!(
            matches!(error, Some(libc::ENOTTY | libc::EINVAL)),
            "{error:?}"
        );
    }
}
