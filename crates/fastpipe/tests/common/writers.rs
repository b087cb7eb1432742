//! Helpers for tests of the writer: a stream in which every byte can be verified, the
//! settings that must be correct for every reader, and ways to feed a writer.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::JoinHandle;

pub use super::decisions::{fill, stream};
use super::skip::skip;
use fastpipe::buffer::{Buffer, Pages};
use fastpipe::method::{AssertReaderCopies, Method};
use fastpipe::wait::Wait;
use fastpipe::writer::{CopyReason, Report, Writer, WriterBuilder};

pub const KIB: usize = 1 << 10;
pub const MIB: usize = 1 << 20;

/// Error: bytes differ from the stream.
#[derive(Debug)]
pub struct Wrong {
    /// The offset of the first wrong byte.
    at: u64,
    /// Number of wrong bytes in the piece.
    bytes: usize,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} wrong bytes from offset {} on", self.bytes, self.at)
    }
}

/// Checks that `bytes` are the stream at offset `at`.
pub fn check(bytes: &[u8], at: u64) -> Result<(), Wrong> {
    let mut expected = [0; 4096];
    for (n, piece) in bytes.chunks(4096).enumerate() {
        let from = at + 4096 * n as u64;
        let expected = &mut expected[..piece.len()];
        fill(expected, from);
        if piece != expected {
            let first = piece.iter().zip(&*expected).position(|(a, b)| a != b);
            let first = first.unwrap();
            let bytes = piece.iter().zip(&*expected).filter(|(a, b)| a != b);
            return Err(Wrong {
                at: from + first as u64,
                bytes: bytes.count(),
            });
        }
    }
    Ok(())
}

/// Reads exactly `len` bytes and compares them with the stream at offset `at`.
pub fn expect(from: &mut impl Read, at: u64, len: usize) {
    let mut left = len;
    let mut chunk = vec![0; left.min(256 * KIB)];
    let mut at = at;
    while left > 0 {
        let n = left.min(chunk.len());
        from.read_exact(&mut chunk[..n]).unwrap();
        check(&chunk[..n], at).unwrap_or_else(|wrong| panic!("{wrong}"));
        at += n as u64;
        left -= n;
    }
}

/// Reads to the end, cycling through these sizes, and compares with the stream at
/// offset `at`. Returns the offset of the end.
pub fn expect_all(from: &mut impl Read, at: u64, sizes: &[usize]) -> u64 {
    let mut chunk = vec![0; sizes.iter().copied().max().unwrap()];
    let mut at = at;
    for size in sizes.iter().cycle() {
        match from.read(&mut chunk[..*size]).unwrap() {
            0 => break,
            n => {
                check(&chunk[..n], at).unwrap_or_else(|wrong| panic!("{wrong}"));
                at += n as u64;
            }
        }
    }
    at
}

/// Reads in a thread, as [`expect_all`].
pub fn expecting(fd: OwnedFd, sizes: &'static [usize]) -> JoinHandle<u64> {
    std::thread::spawn(move || expect_all(&mut File::from(fd), 0, sizes))
}

/// A writer of fresh pages.
pub fn fresh() -> WriterBuilder {
    Writer::builder().method(Method::Fresh)
}

/// Settings of a writer, with a name for messages.
#[derive(Clone, Copy)]
pub struct Setting {
    pub name: &'static str,
    pub builder: WriterBuilder,
    /// When pages are reused once much was lent; `None` if they may be copied.
    pub reuse: Option<Method>,
}

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

fn setting(name: &'static str, reuse: Option<Method>, builder: WriterBuilder) -> Setting {
    Setting {
        name,
        builder,
        reuse,
    }
}

/// Settings that must be correct for every reader. The regions are small, so that pages
/// are reused soon.
pub fn safe_settings() -> Vec<Setting> {
    let auto = Writer::builder();
    let copying = auto.method(Method::Copy { piece: 8 * KIB });
    let fresh = auto.method(Method::Fresh);
    let cow_checked = auto.method(Method::CowChecked).region(4 * MIB);
    let base_pages = |builder: WriterBuilder| builder.at_once().pages(Pages::Base).region(MIB);
    let never = Some(Method::Fresh);
    let checked = Some(Method::CowChecked);
    vec![
        setting("auto", None, auto),
        setting("auto, at once", None, auto.at_once()),
        setting("copying", None, copying),
        setting("copying, at once", None, copying.at_once()),
        setting("fresh", never, fresh),
        setting("fresh, at once", never, fresh.at_once()),
        setting("fresh, base pages", never, base_pages(fresh)),
        setting("cow_checked", checked, cow_checked),
        setting("cow_checked, at once", checked, cow_checked.at_once()),
        // Base pages are not checked, but always replaced.
        setting("cow_checked, base pages", never, base_pages(cow_checked)),
    ]
}

/// Settings with [`Method::Drained`], for readers that copy.
pub fn drained_settings() -> Vec<Setting> {
    let drained = Writer::builder()
        .method(Method::Drained(AssertReaderCopies))
        .region(4 * MIB);
    let reuse = Some(Method::Drained(AssertReaderCopies));
    vec![
        setting("drained", reuse, drained),
        setting("drained, at once", reuse, drained.at_once()),
        setting(
            "drained, base pages",
            reuse,
            drained.at_once().pages(Pages::Base).region(MIB),
        ),
    ]
}

/// All settings.
pub fn settings() -> Vec<Setting> {
    let mut all = safe_settings();
    all.extend(drained_settings());
    all
}

/// How bytes are passed to a writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    Lend,
    Write,
    Both,
}

pub const HOWS: [How; 3] = [How::Lend, How::Write, How::Both];

const LENT: [usize; 9] = [
    4096, 1, 65_536, 4097, 524_288, 100_000, 8192, 300_001, 1_048_576,
];
const WRITTEN: [usize; 8] = [3, 4096, 70_000, 1, 600_001, 17, 65_536, 131_072];

/// Sends `len` bytes of the stream from offset `at` on.
pub fn send<F: AsFd>(out: &mut Writer<F>, how: How, at: u64, len: usize) -> Result<(), io::Error> {
    let (mut at, mut left) = (at, len);
    let mut bytes = Vec::new();
    let mut turn = 0;
    while left > 0 {
        let lend = match how {
            How::Lend => true,
            How::Write => false,
            How::Both => turn % 2 == 0,
        };
        let n = if lend {
            let n = LENT[turn % LENT.len()].min(left);
            let mut loan = out.lend(n)?;
            fill(&mut loan[..n], at);
            loan.commit(n)?;
            n
        } else {
            let n = WRITTEN[turn % WRITTEN.len()].min(left);
            bytes.resize(n, 0);
            fill(&mut bytes, at);
            out.write_all(&bytes)?;
            n
        };
        at += n as u64;
        left -= n;
        turn += 1;
    }
    Ok(())
}

/// Whether a writer that has sent many bytes uses the method `wish`. Otherwise reports a
/// skipped test if the machine does not support it, and panics if it does.
pub fn uses_method(report: &Report, wish: Method, of: &str) -> bool {
    if report.is_zero_copy() && report.method == wish {
        return true;
    }
    assert!(is_excused(report), "{of}: {report}");
    skip(format_args!(
        "{of}: {wish:?} is not available here: {report}"
    ));
    false
}

/// Whether the machine's lack of support may be the reason for how a writer sends.
pub fn is_excused(report: &Report) -> bool {
    use CopyReason::{KernelCopies, NoHugePages, NoMemory, Refused};
    match report.reason() {
        Some(reason) => matches!(reason, KernelCopies | NoHugePages | NoMemory | Refused(_)),
        None => report.method == Method::Fresh,
    }
}

/// Returns page-aligned memory that contains `bytes`.
pub fn own_pages(bytes: &[u8]) -> Buffer {
    super::buffer_with(bytes, 0)
}

/// Every [`Wait`] that may sleep.
pub const SLEEPING: [Wait; 3] = [Wait::Block, Wait::Poll, Wait::Adaptive];

/// Returns the message of a panic.
pub fn said(why: &Box<dyn std::any::Any + Send>) -> &str {
    let text = why.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| why.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without words")
}

/// Checks that a writer with absurd sizes delivers every byte.
pub fn stays_sane(region: usize, loan: usize) {
    // More than a region holds, and not many thousands of the smallest loans.
    let len = 2 * region.clamp(128 * KIB, MIB);
    for method in [
        Method::Auto,
        Method::Copy { piece: loan },
        Method::Fresh,
        Method::Drained(AssertReaderCopies),
        Method::CowChecked,
    ] {
        let (reader, writer) = super::pipe_of(64 * KIB);
        let reading = super::read_all(reader, vec![256 * KIB]);
        let builder = Writer::builder().method(method).region(region).loan(loan);
        let sane = catch_unwind(AssertUnwindSafe(|| {
            let mut out = builder.at_once().open(writer).unwrap();
            send(&mut out, How::Both, 0, len).unwrap();
        }));
        let said = sane.err().map(|why| said(&why).to_owned());
        assert_eq!(said, None, "{method:?}, region {region}, loan {loan}");
        let got = reading.join().unwrap();
        assert_eq!(got.len(), len);
        check(&got, 0).unwrap();
    }
}
