//! Helpers shared by the tests.
#![allow(dead_code)] // Each test program uses a part of them.

pub mod decisions;
pub mod ends;
pub mod interpreter;
pub mod onward;
pub mod process;
pub mod prohibited;
pub mod relay_interpreter;
pub mod ring_interpreter;
pub mod rings;
pub mod seccomp;
pub mod shapes;
pub mod skip;
pub mod smaps;
pub mod state;
pub mod storm;
pub mod vmsplice;
pub mod writers;

pub use decisions::assert_same;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;

use fastpipe::buffer::Buffer;
use fastpipe::wait::Wait;
use rustix::fs::{Mode, OFlags};

/// Every [`Wait`] except `Never`.
pub const WAITS: [Wait; 4] = [Wait::Block, Wait::Poll, Wait::Spin, Wait::Adaptive];

/// Every [`Wait`].
pub const ALL_WAITS: [Wait; 5] = [
    Wait::Block,
    Wait::Poll,
    Wait::Spin,
    Wait::Adaptive,
    Wait::Never,
];

/// Returns pseudo-random bytes, in which lost, repeated or displaced pieces are
/// detected.
pub fn pattern(len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 8);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Returns a buffer that contains `bytes` at `offset`.
pub fn buffer_with(bytes: &[u8], offset: usize) -> Buffer {
    let mut buffer = Buffer::builder()
        .len((offset + bytes.len()).max(1))
        .map()
        .unwrap();
    buffer[offset..offset + bytes.len()].copy_from_slice(bytes);
    buffer
}

/// Creates a pipe with this capacity, or as close to it as permitted.
pub fn pipe_of(capacity: usize) -> (OwnedFd, OwnedFd) {
    state::watch();
    let (reader, writer) = fastpipe::pipe::create().unwrap();
    fastpipe::pipe::set_capacity_up_to(&writer, capacity).unwrap();
    (reader, writer)
}

/// A naive reader: reads to the end, cycling through the given sizes.
pub fn read_all(fd: OwnedFd, chunks: Vec<usize>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut file = File::from(fd);
        let mut got = Vec::new();
        let mut chunk = vec![0; chunks.iter().copied().max().unwrap_or(1)];
        for size in chunks.iter().cycle() {
            match file.read(&mut chunk[..*size]).unwrap() {
                0 => break,
                n => got.extend_from_slice(&chunk[..n]),
            }
        }
        got
    })
}

/// Reads to the end.
pub fn read_rest(fd: impl Into<File>) -> Vec<u8> {
    let mut got = Vec::new();
    fd.into().read_to_end(&mut got).unwrap();
    got
}

/// A naive writer: writes pieces of the given sizes, then the rest, and closes.
pub fn write_all(fd: OwnedFd, bytes: Vec<u8>, pieces: Vec<usize>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut file = File::from(fd);
        let mut rest = &bytes[..];
        for size in pieces {
            let (piece, after) = rest.split_at(size.min(rest.len()));
            file.write_all(piece).unwrap();
            rest = after;
        }
        file.write_all(rest).unwrap();
    })
}

/// Returns the flags of the open file (F_GETFL).
pub fn flags(fd: impl AsFd) -> OFlags {
    rustix::fs::fcntl_getfl(fd).unwrap()
}

/// A temporary directory, removed when dropped.
pub struct Directory(PathBuf);

impl Directory {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "fastpipe-test-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Directory(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Creates a file with these bytes, open for reading and writing.
    pub fn file(&self, name: &str, bytes: &[u8]) -> File {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        File::options().read(true).write(true).open(path).unwrap()
    }

    /// Creates a FIFO and opens both ends.
    pub fn fifo(&self, name: &str) -> (File, File) {
        state::watch();
        let path = self.path(name);
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
        assert!(is_fifo(&path));
        // Opened for reading and writing first, so that the ends do not wait for each other.
        let both = File::options().read(true).write(true).open(&path).unwrap();
        let reader = File::open(&path).unwrap();
        let writer = File::options().write(true).open(&path).unwrap();
        drop(both);
        (reader, writer)
    }
}

fn is_fifo(path: &Path) -> bool {
    std::fs::metadata(path).unwrap().file_type().is_fifo()
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
