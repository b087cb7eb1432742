//! Decisions for the interpreters, read from the bytes of a program. The fuzz targets
//! include this file, so it must not depend on others.

/// The bytes of a program, followed by endless zeroes.
pub struct Decisions<'a>(&'a [u8]);

impl<'a> Decisions<'a> {
    pub fn new(program: &'a [u8]) -> Self {
        Decisions(program)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> usize {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        usize::from(*first)
    }

    /// True for about one of `n` programs; false at the end of the program.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.byte() % n == n - 1
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.byte() % from.len()]
    }
}

/// Returns the eight bytes at offset `8 * word` of the stream. The function is
/// invertible, so each word occurs once, and lost, repeated, displaced or stale pieces
/// are detected.
#[inline(always)]
fn word(word: u64) -> u64 {
    let mut x = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Fills `bytes` with the stream from offset `at` on. Without iterators: tests are not optimised.
pub fn fill(bytes: &mut [u8], at: u64) {
    let before = ((8 - at % 8) % 8).min(bytes.len() as u64) as usize;
    let (before, rest) = bytes.split_at_mut(before);
    let (words, after) = rest.as_chunks_mut::<8>();
    let first = at.div_ceil(8);
    let mut n = 0;
    while n < words.len() {
        words[n] = word(first + n as u64).to_le_bytes();
        n += 1;
    }
    let skip = (at % 8) as usize;
    before.copy_from_slice(&word(at / 8).to_le_bytes()[skip..][..before.len()]);
    after.copy_from_slice(&word(first + n as u64).to_le_bytes()[..after.len()]);
}

/// Returns `len` bytes of the stream, starting at offset `at`.
pub fn stream(at: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fill(&mut bytes, at);
    bytes
}

/// Asserts equality without printing the bytes.
pub fn assert_same(got: &[u8], expected: &[u8]) {
    if got != expected {
        let at = got.iter().zip(expected).position(|(a, b)| a != b);
        panic!(
            "{} bytes instead of {}, the first difference at {at:?}",
            got.len(),
            expected.len()
        );
    }
}
