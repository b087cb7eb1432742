//! Which way the bytes of a writer take, and why.

use std::fmt;
use std::io;

use rustix::fs::FileType;
use rustix::io::Errno;

use crate::reuse::Reuse;

/// Which technique a writer uses at the moment, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Path {
    /// vmsplice(2), with this policy in effect. It may be safer than the one
    /// asked for, never less safe.
    Vmsplice(Reuse),
    /// write(2), for this reason.
    Write(Reason),
}

/// Why a writer copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// Little has been written so far; more may be worth preparing for.
    LittleSoFar,
    /// It was asked to.
    Asked,
    /// The output is something else than a pipe.
    NotAPipe(Kind),
    /// The output was opened with O_APPEND.
    Append,
    /// vmsplice(2) was refused with this error number: EPERM or ENOSYS mostly
    /// mean a seccomp filter.
    Refused(i32),
    /// This kernel's vmsplice(2) copies, so it has nothing over write(2).
    KernelCopies,
    /// There are no huge pages to be had, and new base pages cost more than
    /// copying.
    NoHugePages,
    /// There is no memory for regions of pages.
    NoMemory,
    /// Memory can't be wiped in forked children here (MADV_WIPEONFORK).
    NoWipeOnFork,
    /// No file descriptor is left for a private duplicate of the output.
    NoDescriptor,
    /// A private duplicate of the output was refused with this error number.
    NoDuplicate(i32),
}

/// What an output is, if not a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A regular file.
    File,
    /// A socket.
    Socket,
    /// A character device: a terminal, /dev/null.
    CharacterDevice,
    /// A block device.
    BlockDevice,
    /// Something else, or nothing.
    Other,
}

impl Path {
    /// Whether pages are handed over rather than copied.
    pub fn is_zero_copy(self) -> bool {
        matches!(self, Path::Vmsplice(_))
    }
}

impl From<FileType> for Kind {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Kind::File,
            FileType::Socket => Kind::Socket,
            FileType::CharacterDevice => Kind::CharacterDevice,
            FileType::BlockDevice => Kind::BlockDevice,
            _ => Kind::Other,
        }
    }
}

/// As a person would want to read it: `vmsplice, fresh pages`, or `write:
/// the output is a regular file`.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Vmsplice(reuse) => write!(f, "vmsplice, {} pages", reuse.name()),
            Path::Write(reason) => write!(f, "write: {reason}"),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::LittleSoFar => "little has been written so far",
            Reason::Asked => "as asked",
            Reason::NotAPipe(Kind::File) => "the output is a regular file",
            Reason::NotAPipe(Kind::Socket) => "the output is a socket",
            Reason::NotAPipe(Kind::CharacterDevice) => "the output is a character device",
            Reason::NotAPipe(Kind::BlockDevice) => "the output is a block device",
            Reason::NotAPipe(Kind::Other) => "the output is no pipe",
            Reason::Append => "the output was opened to append",
            Reason::Refused(errno) => {
                let error = io::Error::from_raw_os_error(*errno);
                return write!(
                    f,
                    "vmsplice was refused, by a seccomp filter perhaps: {error}"
                );
            }
            Reason::KernelCopies => "this kernel's vmsplice copies too",
            Reason::NoHugePages => "there are no huge pages to be had",
            Reason::NoMemory => "there is no memory for pages of its own",
            Reason::NoWipeOnFork => {
                "memory can't be wiped in forked children here (MADV_WIPEONFORK)"
            }
            Reason::NoDescriptor => "no file descriptor is left (ulimit -n)",
            Reason::NoDuplicate(errno) => {
                let error = io::Error::from_raw_os_error(*errno);
                return write!(f, "the output's descriptor can't be duplicated: {error}");
            }
        })
    }
}

/// Whether an error of vmsplice(2) speaks against the technique rather than
/// against the output: then write(2) may do.
pub(super) fn refusal(error: &io::Error) -> Option<Reason> {
    // EBADF: no pipe any more; write(2) tells whether it is anything at all.
    const REFUSALS: [Errno; 8] = [
        Errno::INVAL,
        Errno::PERM,
        Errno::ACCESS,
        Errno::NOSYS,
        Errno::OPNOTSUPP,
        Errno::BADF,
        Errno::NOMEM,
        Errno::FAULT,
    ];
    let errno = Errno::from_io_error(error)?;
    REFUSALS
        .contains(&errno)
        .then(|| Reason::Refused(errno.raw_os_error()))
}
