//! [`Frozen`]: constant bytes, to be sent by reference any number of times.

use std::io;
use std::sync::{Arc, OnceLock};

use crate::buffer::{Buffer, BufferError, Pages};
use crate::pipe::page_size;

/// Constant bytes that can be sent by reference any number of times.
///
/// They are correct for every reader, since their pages are never written again.
/// Clones share the memory.
///
/// ```
/// use fastpipe::Frozen;
///
/// let line = Frozen::new(b"y\n")?;
/// assert_eq!(line.as_bytes(), b"y\n");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Frozen(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    once: Buffer,
    /// Many copies in sequence, laid out when first needed.
    many: OnceLock<Option<Buffer>>,
}

/// Repeating at least this many bytes is worth laying out many copies.
const MANY_FROM: u128 = 256 << 10;

/// Approximate lengths of such a layout in bytes, and its pages. A limit of the address space
/// (RLIMIT_AS) may refuse the first ones.
const LAYOUTS: [(usize, Pages); 4] = [
    (1 << 20, Pages::Huge),
    (1 << 20, Pages::Base),
    (256 << 10, Pages::Base),
    (64 << 10, Pages::Base),
];

impl Frozen {
    /// Copies `data` into pages of its own.
    ///
    /// # Errors
    /// `InvalidInput` if `data` is empty; otherwise those of mmap(2).
    pub fn new(data: &[u8]) -> io::Result<Self> {
        let mut once = Buffer::builder().len(data.len()).touched(false).map()?;
        once.copy_from_slice(data);
        Ok(Self::from(once))
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0.once
    }

    /// Returns the memory to send from if `total` bytes are to be repeated: a
    /// whole number of copies.
    pub(super) fn layout(&self, total: u128) -> &Buffer {
        let once = &self.0.once;
        if total < MANY_FROM {
            return once;
        }
        // Not get_or_init: if another thread is laying out copies during a fork,
        // the child would wait forever for a thread that it does not have.
        if self.0.many.get().is_none() {
            let _ = self.0.many.set(lay_out(once));
        }
        self.0.many.get().and_then(Option::as_ref).unwrap_or(once)
    }
}

/// Freezes a buffer, which can't be written any more.
impl From<Buffer> for Frozen {
    fn from(buffer: Buffer) -> Self {
        // A forked child may send it too.
        let _ = buffer.set_inherited(true);
        // Defence in depth against stray writes. Failure is harmless: no code
        // here writes to it.
        let _ = buffer.set_read_only();
        Frozen(Arc::new(Shared {
            once: buffer,
            many: OnceLock::new(),
        }))
    }
}

/// Lays out copies in the first memory that can be had. `None` if two don't fit into any.
fn lay_out(once: &[u8]) -> Option<Buffer> {
    let fitting = LAYOUTS.iter().filter(|(most, _)| once.len() <= most / 2);
    let mut many = fitting
        .map(|(most, pages)| map_layout(once.len(), *most, *pages))
        .find_map(Result::ok)?;
    let mut done = once.len();
    many[..done].copy_from_slice(once);
    while done < many.len() {
        let step = done.min(many.len() - done);
        many.copy_within(..step, done);
        done += step;
    }
    // As for `once`.
    let _ = many.set_read_only();
    Some(many)
}

/// Maps memory for as many copies of `len` bytes as make up whole pages, if that is at most `most`
/// bytes; otherwise for about `most` bytes, of which the last page is partial and takes a slot.
fn map_layout(len: usize, most: usize, pages: Pages) -> Result<Buffer, BufferError> {
    let aligned = len * (page_size() / gcd(len, page_size()));
    let unit = if aligned <= most { aligned } else { len };
    let asked = Buffer::builder().len(most / unit * unit);
    asked.pages(pages).touched(false).map()
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_leave_no_gap_and_end_with_pages_if_possible() {
        for len in [1, 2, 3, 7, 4096, 4097, 5000, 65_536, 100_000, 524_288] {
            let data: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
            let frozen = Frozen::new(&data).unwrap();
            let many = frozen.layout(1 << 40);
            assert!(many.len() >= len);
            assert_eq!(many.len() % len, 0);
            for (at, copy) in many.chunks(len).enumerate() {
                assert!(copy == data, "copy {at} of {len} bytes");
            }
            if len <= 4096 && len.is_power_of_two() {
                assert_eq!(many.len() % page_size(), 0);
            }
        }
    }

    #[test]
    fn few_bytes_are_not_laid_out_many_times() {
        let frozen = Frozen::new(b"y\n").unwrap();
        assert_eq!(frozen.layout(1000).len(), 2);
        assert!(frozen.0.many.get().is_none());
    }

    #[test]
    fn no_bytes_are_an_error() {
        assert_eq!(
            Frozen::new(b"").unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
    }
}
