//! How a process ended that is no child of this one.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::ioctl::{self, Direction, Ioctl, IoctlOutput, Opcode, opcode};

use crate::profile::record::Status;

/// Whether the exit status is asked for, and was given (PIDFD_INFO_EXIT).
const EXIT: u64 = 1 << 3;

/// `struct pidfd_info` in its first version (include/uapi/linux/pidfd.h).
#[repr(C)]
#[derive(Debug, Default)]
struct Info {
    mask: u64,
    cgroup: u64,
    ids: [u32; 11],
    exit_code: i32,
}

/// How the process of a pidfd ended. `None` before it was reaped, and before Linux 6.15.
pub fn read(pidfd: &OwnedFd) -> Option<Status> {
    let mut info = Info {
        mask: EXIT,
        ..Info::default()
    };
    // SAFETY: see the implementation of Ioctl; the argument is a plain struct of integers.
    unsafe { ioctl::ioctl(pidfd, GetInfo(&mut info)) }.ok()?;
    (info.mask & EXIT != 0).then(|| Status::new(ExitStatus::from_raw(info.exit_code)))
}

/// PIDFD_GET_INFO: _IOWR(0xFF, 11, struct pidfd_info).
struct GetInfo<'a>(&'a mut Info);

// SAFETY: the number contains the size of the struct, and the kernel writes no more than that;
// on any other file, and before Linux 6.13, the call fails. The output is not used.
unsafe impl Ioctl for GetInfo<'_> {
    type Output = ();

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        opcode::from_components(Direction::ReadWrite, 0xFF, 11, size_of::<Info>())
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::from_mut(self.0).cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> rustix::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    use super::*;

    #[test]
    fn a_process_has_a_status_only_after_its_end() {
        for (script, expected) in [
            ("read x; exit 3", Status::Exited(3)),
            ("read x; kill -9 $$", Status::Signal(9)),
        ] {
            let mut shell = Command::new("sh")
                .args(["-c", script])
                .stdin(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            let pidfd = pidfd_open(Pid::from_child(&shell), PidfdFlags::empty()).unwrap();
            assert_eq!(read(&pidfd), None);
            drop(shell.stdin.take());
            let status = shell.wait().unwrap();
            // Before Linux 6.15 it is not known.
            let found = read(&pidfd);
            assert!(found.is_none_or(|found| found == expected), "{status}");
        }
    }
}
