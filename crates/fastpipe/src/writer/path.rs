//! [`Path`]: the technique that a writer uses, and the reason for it.

use std::fmt;
use std::io;

use rustix::fs::FileType;
use rustix::io::Errno;

use crate::method::Reuse;
use crate::transfer::is_refusal;

/// Technique that a writer uses at the moment, and the reason for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Path {
    /// vmsplice(2), with the reuse of pages in effect: as requested, or safer.
    Vmsplice(Reuse),
    /// write(2), for this reason.
    Write(CopyReason),
}

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
    /// The output is not a pipe.
    NotAPipe(OutputKind),
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

/// Type of an output that is not a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputKind {
    /// A regular file.
    File,
    /// A socket.
    Socket,
    /// A character device: a terminal, /dev/null.
    CharacterDevice,
    /// A block device.
    BlockDevice,
    /// Anything else.
    Other,
}

impl Path {
    /// Whether pages are handed over rather than copied.
    pub fn is_zero_copy(self) -> bool {
        matches!(self, Path::Vmsplice(_))
    }
}

impl From<FileType> for OutputKind {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => OutputKind::File,
            FileType::Socket => OutputKind::Socket,
            FileType::CharacterDevice => OutputKind::CharacterDevice,
            FileType::BlockDevice => OutputKind::BlockDevice,
            _ => OutputKind::Other,
        }
    }
}

/// For people: `vmsplice, fresh pages`, or `write: the output is a regular
/// file`.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Vmsplice(reuse) => write!(f, "vmsplice, {} pages", reuse.name()),
            Path::Write(reason) => write!(f, "write: {reason}"),
        }
    }
}

impl fmt::Display for CopyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CopyReason::FewBytes => "few bytes have been written so far",
            CopyReason::Asked => "as requested",
            CopyReason::NothingFaster => "no faster way was found so far",
            CopyReason::NotAPipe(OutputKind::File) => "the output is a regular file",
            CopyReason::NotAPipe(OutputKind::Socket) => "the output is a socket",
            CopyReason::NotAPipe(OutputKind::CharacterDevice) => "the output is a character device",
            CopyReason::NotAPipe(OutputKind::BlockDevice) => "the output is a block device",
            CopyReason::NotAPipe(OutputKind::Other) => "the output is not a pipe",
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

/// Returns the reason to fall back to write(2) if an error of vmsplice(2)
/// concerns the technique rather than the output.
pub(super) fn refusal_reason(error: &io::Error) -> Option<CopyReason> {
    let errno = Errno::from_io_error(error)?;
    is_refusal(errno).then(|| CopyReason::Refused(errno.raw_os_error()))
}
