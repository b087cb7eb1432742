//! ioctl(2) on gup_test, for which rustix has no safe function.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::path::Path;

use rustix::ioctl::{self, Direction, Ioctl, IoctlOutput, Opcode};

use super::GupTest;
use super::layout::Argument;

/// The kernel's gup_test or gup_benchmark.
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
        let call = FastBenchmark(argument.as_bytes_mut());
        // SAFETY: see the implementation of Ioctl. The kernel takes references to the
        // pages of the range that the argument borrows, does not access their contents,
        // and releases the references before it returns.
        unsafe { ioctl::ioctl(&self.0, call) }?;
        Ok(())
    }
}

/// GUP_FAST_BENCHMARK: _IOWR('g', 1, struct). The size of the struct depends on the kernel.
struct FastBenchmark<'a>(&'a mut [u8]);

// SAFETY: the ioctl's number contains the length of the buffer. A driver that implements
// this number accesses exactly that many bytes; any other driver returns EINVAL or ENOTTY.
// The output is not used.
unsafe impl Ioctl for FastBenchmark<'_> {
    type Output = ();

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        ioctl::opcode::from_components(Direction::ReadWrite, b'g', 1, self.0.len())
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.0.as_mut_ptr().cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> rustix::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::pinning::layout::LAYOUTS;

    #[test]
    fn the_numbers_are_those_of_the_kernels_headers() {
        // The values of _IOWR('g', 1, struct gup_test) and of its predecessors in C.
        for (bytes, number) in [
            (80, 0xC050_6701),
            (72, 0xC048_6701),
            (120, 0xC078_6701),
            (40, 0xC028_6701),
            (32, 0xC020_6701_u32),
        ] {
            assert!(LAYOUTS.iter().any(|layout| layout.bytes == bytes));
            let opcode = FastBenchmark(&mut vec![0; bytes]).opcode();
            assert_eq!(opcode, number as Opcode);
        }
    }

    #[test]
    fn a_file_without_this_ioctl_refuses_it() {
        let range = [0; 64];
        let mut argument = Argument::new(&LAYOUTS[0], &range, 1);
        let mut file = GupFile::open(Path::new("/dev/null")).unwrap();
        let error = file.fast_benchmark(&mut argument).unwrap_err();
        let expected = [rustix::io::Errno::NOTTY, rustix::io::Errno::INVAL];
        assert!(
            expected
                .map(|errno| Some(errno.raw_os_error()))
                .contains(&error.raw_os_error())
        );
    }
}
