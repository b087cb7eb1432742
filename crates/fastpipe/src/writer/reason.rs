//! [`CopyReason`]: why a writer copies.

use std::fmt;
use std::io;

use rustix::fs::FileType;
use rustix::io::Errno;

use crate::transfer::is_refusal;

/// Reason why a writer copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CopyReason {
    /// Few bytes have been written so far.
    FewBytes,
    /// The caller asked for it ([`Method::Copy`](crate::Method::Copy)).
    Asked,
    /// No faster way was found so far ([`Method::Auto`](crate::Method::Auto)).
    NothingFaster,
    /// The output is a regular file.
    File,
    /// The output is a socket.
    Socket,
    /// The output is a character device: a terminal, /dev/null.
    CharacterDevice,
    /// The output is not a pipe, but a block device or something else.
    NotAPipe,
    /// The output was opened with O_APPEND.
    Append,
    /// vmsplice(2) failed with this error number. EPERM and ENOSYS usually
    /// mean a seccomp filter.
    Refused(i32),
    /// vmsplice(2) of this kernel copies, and so has no advantage.
    KernelCopies,
    /// No huge pages are available, and new base pages cost more than copying.
    NoHugePages,
    /// Not enough memory for pages to hand over.
    NoMemory,
    /// Readers hold more pages than
    /// [`WriterBuilder::max_held`](crate::WriterBuilder::max_held) allows.
    PagesHeld,
    /// Memory can't be wiped in forked children (MADV_WIPEONFORK).
    NoWipeOnFork,
    /// No file descriptor is available for a private duplicate of the output.
    NoDescriptor,
    /// Duplicating the output's descriptor failed with this error number.
    NoDuplicate(i32),
}

/// For people: `the output is a regular file`.
impl fmt::Display for CopyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CopyReason::FewBytes => "few bytes have been written so far",
            CopyReason::Asked => "as requested",
            CopyReason::NothingFaster => "no faster way was found so far",
            CopyReason::File => "the output is a regular file",
            CopyReason::Socket => "the output is a socket",
            CopyReason::CharacterDevice => "the output is a character device",
            CopyReason::NotAPipe => "the output is not a pipe",
            CopyReason::Append => "the output was opened with O_APPEND",
            CopyReason::Refused(errno) => {
                let error = io::Error::from_raw_os_error(*errno);
                return write!(
                    f,
                    "vmsplice was refused, perhaps by a seccomp filter: {error}"
                );
            }
            CopyReason::KernelCopies => "this kernel's vmsplice copies too",
            CopyReason::NoHugePages => "no huge pages are available",
            CopyReason::PagesHeld => "readers hold too many pages",
            CopyReason::NoMemory => "not enough memory for pages to hand over",
            CopyReason::NoWipeOnFork => {
                "memory can't be wiped in forked children (MADV_WIPEONFORK)"
            }
            CopyReason::NoDescriptor => "no file descriptor is available (ulimit -n)",
            CopyReason::NoDuplicate(errno) => {
                let error = io::Error::from_raw_os_error(*errno);
                return write!(f, "the output's descriptor can't be duplicated: {error}");
            }
        })
    }
}

impl CopyReason {
    /// That of an output of this type, which is not a pipe.
    pub(super) fn of_output(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => CopyReason::File,
            FileType::Socket => CopyReason::Socket,
            FileType::CharacterDevice => CopyReason::CharacterDevice,
            _ => CopyReason::NotAPipe,
        }
    }

    /// Whether the output is not a pipe.
    pub(super) fn is_of_output(self) -> bool {
        use CopyReason::{CharacterDevice, File, NotAPipe, Socket};
        matches!(self, File | Socket | CharacterDevice | NotAPipe)
    }
}

/// Returns the reason to fall back to write(2) if an error of vmsplice(2)
/// concerns the technique rather than the output.
pub(super) fn refusal_reason(error: &io::Error) -> Option<CopyReason> {
    let errno = Errno::from_io_error(error)?;
    is_refusal(errno).then(|| CopyReason::Refused(errno.raw_os_error()))
}
