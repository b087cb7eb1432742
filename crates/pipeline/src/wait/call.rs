//! System calls as proc_pid_syscall(5) shows them.

use libc::c_long;

use super::LinkSide;
use crate::proc::Target;
use crate::proc::files::ProcessFiles;

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
    pub(super) fn is_on_pipe(self, files: ProcessFiles<'_>, side: LinkSide) -> bool {
        let fd = self.descriptor(side).filter(|_| !self.is_uncounted());
        let target = fd.and_then(|fd| files.target(fd));
        self.number != libc::SYS_sendfile && matches!(target, Some(Target::Pipe(..)))
    }

    /// The descriptor that the call reads from (`Input`) or writes to (`Room`).
    pub(super) fn descriptor(self, side: LinkSide) -> Option<i32> {
        let args = self.args;
        let fd = match (self.number, side) {
            (libc::SYS_read | libc::SYS_readv | libc::SYS_preadv2, LinkSide::Input) => args[0],
            (libc::SYS_write | libc::SYS_writev | libc::SYS_pwritev2, LinkSide::Room) => args[0],
            (libc::SYS_splice, LinkSide::Input) => args[0],
            (libc::SYS_splice, LinkSide::Room) => args[2],
            (libc::SYS_tee, LinkSide::Input) => args[0],
            (libc::SYS_tee, LinkSide::Room) => args[1],
            (libc::SYS_vmsplice, _) => args[0],
            (libc::SYS_sendfile, LinkSide::Input) => args[1],
            (libc::SYS_sendfile, LinkSide::Room) => args[0],
            (libc::SYS_recvfrom | libc::SYS_recvmsg | libc::SYS_accept, LinkSide::Input) => args[0],
            (libc::SYS_accept4 | libc::SYS_recvmmsg | libc::SYS_connect, LinkSide::Input) => {
                args[0]
            }
            (libc::SYS_sendto | libc::SYS_sendmsg | libc::SYS_sendmmsg, LinkSide::Room) => args[0],
            _ => return None,
        };
        i32::try_from(fd).ok()
    }
}
