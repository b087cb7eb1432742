//! Bytes that never change, and so can be sent by reference over and over.

use std::io;
use std::sync::{Arc, OnceLock};

use crate::buffer::{Buffer, Pages};
use crate::pipe::page_size;

/// Bytes that never change.
///
/// Since nobody writes to them they are safe to hand to a pipe by reference as
/// often as one likes, whatever the reader does. A clone shares them.
///
/// ```
/// use fastpipe::writer::Frozen;
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
    /// Many copies one after the other, made when they are first worth it.
    many: OnceLock<Option<Buffer>>,
}

/// From so many bytes on it pays to lay out many copies.
const MANY_FROM: u128 = 256 << 10;

/// How many bytes of copies are laid out, about.
const MANY: usize = 1 << 20;

impl Frozen {
    /// A copy of `data` in pages of its own.
    ///
    /// # Errors
    /// `InvalidInput` if `data` is empty; else when no memory can be had.
    pub fn new(data: &[u8]) -> io::Result<Self> {
        let mut once = Buffer::builder().len(data.len()).touched(false).map()?;
        once.copy_from_slice(data);
        Ok(Self::from(once))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0.once
    }

    /// What to send from when `total` bytes of copies are left: a whole number
    /// of copies.
    pub(super) fn layout(&self, total: u128) -> &Buffer {
        let once = &self.0.once;
        if total < MANY_FROM || once.len() > MANY / 2 {
            return once;
        }
        // Not get_or_init: a child that is forked while another thread lays out
        // would wait for that thread, which it does not have, for ever.
        if self.0.many.get().is_none() {
            let _ = self.0.many.set(lay_out(once));
        }
        self.0.many.get().and_then(Option::as_ref).unwrap_or(once)
    }
}

/// The buffer's bytes are the data. Nothing can write to them any more.
impl From<Buffer> for Frozen {
    fn from(buffer: Buffer) -> Self {
        // A child that is forked may send it too.
        let _ = buffer.set_inherited(true);
        // Defence in depth: whatever goes wrong, nothing writes to what others
        // may be reading. Where it is refused, nothing writes to it either.
        let _ = buffer.set_read_only();
        Frozen(Arc::new(Shared {
            once: buffer,
            many: OnceLock::new(),
        }))
    }
}

/// As many copies as make whole pages, if that is not too many; else about
/// [`MANY`] bytes, whose last page is then a part of one: it costs a slot.
fn lay_out(once: &[u8]) -> Option<Buffer> {
    let len = once.len();
    let aligned = len * (page_size() / gcd(len, page_size()));
    let unit = if aligned <= MANY { aligned } else { len };
    let mut many = Buffer::builder()
        .len(MANY / unit * unit)
        .pages(Pages::Huge)
        .touched(false)
        .map()
        .ok()?;
    many[..len].copy_from_slice(once);
    let mut done = len;
    while done < many.len() {
        let step = done.min(many.len() - done);
        many.copy_within(..step, done);
        done += step;
    }
    // As for `once`.
    let _ = many.set_read_only();
    Some(many)
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_laid_out_without_a_gap_and_end_with_a_page_where_they_can() {
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
