//! System calls as proc_pid_syscall(5) shows them.

use libc::c_long;

use super::Side;
use crate::proc::Target;
use crate::proc::files::Files;

/// A system call with its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) number: c_long,
    pub(super) args: [u64; 6],
}

/// Parses the text of proc_pid_syscall(5). `None` for a thread that runs, or sleeps outside
/// of a system call.
pub(super) fn parse_call(text: &str) -> Option<Call> {
    let mut words = text.split_ascii_whitespace();
    let number: c_long = words.next()?.parse().ok()?;
    let mut args = [0; 6];
    for arg in &mut args {
        *arg = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    }
    (number >= 0).then_some(Call { number, args })
}

impl Call {
    /// Whether it moves data by splice(2), vmsplice(2) or tee(2), which the kernel does not
    /// count.
    pub(super) fn is_uncounted(self) -> bool {
        matches!(
            self.number,
            libc::SYS_splice | libc::SYS_vmsplice | libc::SYS_tee
        )
    }

    /// Whether it can only wait on this side of a pipe: it is no splice, which has two
    /// descriptors.
    pub(super) fn is_on_pipe(self, files: Files<'_>, side: Side) -> bool {
        let fd = self.descriptor(side).filter(|_| !self.is_uncounted());
        let target = fd.and_then(|fd| files.target(fd));
        self.number != libc::SYS_sendfile && matches!(target, Some(Target::Pipe(..)))
    }

    /// The descriptor that the call reads from (`Input`) or writes to (`Room`).
    pub(super) fn descriptor(self, side: Side) -> Option<i32> {
        let args = self.args;
        let fd = match (self.number, side) {
            (libc::SYS_read | libc::SYS_readv | libc::SYS_preadv2, Side::Input) => args[0],
            (libc::SYS_write | libc::SYS_writev | libc::SYS_pwritev2, Side::Room) => args[0],
            (libc::SYS_splice, Side::Input) => args[0],
            (libc::SYS_splice, Side::Room) => args[2],
            (libc::SYS_tee, Side::Input) => args[0],
            (libc::SYS_tee, Side::Room) => args[1],
            (libc::SYS_vmsplice, _) => args[0],
            (libc::SYS_sendfile, Side::Input) => args[1],
            (libc::SYS_sendfile, Side::Room) => args[0],
            (libc::SYS_recvfrom | libc::SYS_recvmsg | libc::SYS_accept, Side::Input) => args[0],
            (libc::SYS_accept4 | libc::SYS_recvmmsg | libc::SYS_connect, Side::Input) => args[0],
            (libc::SYS_sendto | libc::SYS_sendmsg | libc::SYS_sendmmsg, Side::Room) => args[0],
            _ => return None,
        };
        i32::try_from(fd).ok()
    }
}
