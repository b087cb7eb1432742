//! The one system call that rustix has no safe form of: ioctl(2) on gup_test.
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
        // SAFETY: see the implementation of Ioctl. The kernel takes references
        // to the pages of the range that the argument borrows, reads no byte
        // of them, and has let them go when it returns.
        unsafe { ioctl::ioctl(&self.0, call) }?;
        Ok(())
    }
}

/// GUP_FAST_BENCHMARK: _IOWR('g', 1, struct), whatever the struct's size.
struct FastBenchmark<'a>(&'a mut [u8]);

// SAFETY: the number carries the length of the bytes behind the pointer, and a
// driver that knows it reads and writes just so many; any other answers EINVAL
// or ENOTTY. Nothing is made of the output.
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
        // _IOWR('g', 1, struct gup_test) and its forerunners, as gcc has them.
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
    fn a_file_that_knows_no_such_call_refuses_it() {
        let range = [0; 64];
        let mut argument = Argument::new(&LAYOUTS[0], &range, 1);
        let mut file = GupFile::open(Path::new("/dev/null")).unwrap();
        let error = file.fast_benchmark(&mut argument).unwrap_err();
        let known = [rustix::io::Errno::NOTTY, rustix::io::Errno::INVAL];
        assert!(
            known
                .map(|known| Some(known.raw_os_error()))
                .contains(&error.raw_os_error())
        );
    }
}
