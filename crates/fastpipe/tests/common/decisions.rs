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

/// Fills `bytes` with values that depend on their offset in the stream.
pub fn fill(bytes: &mut [u8], at: usize) {
    for (n, byte) in bytes.iter_mut().enumerate() {
        let at = (at + n) as u32;
        *byte = ((at.wrapping_mul(0x9e37_79b1) ^ (at >> 3)) >> 11) as u8;
    }
}

pub fn made(at: usize, len: usize) -> Vec<u8> {
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
