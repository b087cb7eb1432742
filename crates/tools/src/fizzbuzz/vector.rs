//! Fills in templates, 32 bytes at a time.
//!
//! ```text
//! x = the digits, one per byte, beginning with the hundreds; 246 is added to
//!     each, so that ten carries into the next byte
//! for each segment:
//!     digits = x - 246 + '0' + (0, 1, 2, ...)      in each 16 bytes of a register
//!     for each 32 bytes of the template's code:
//!         out = shuffle(digits, code) - code
//!             code is the digit's index i: digit + i - i
//!             code is 256 - c:             0 - (256 - c) = c
//!     x = max(x + 1, 246)                          repairs bytes that carried, which are 0
//! ```
//!
//! That is four instructions for 32 bytes. All stores except the first of a segment
//! are aligned. The last one extends beyond the segment, where the next segment
//! overwrites it.
#![allow(unsafe_code)]

use super::DigitRun;

#[cfg(target_arch = "x86_64")]
pub(super) use self::x86_64::{fill_avx2, has_avx2};

#[cfg(not(target_arch = "x86_64"))]
pub(super) use self::other::{fill_avx2, has_avx2};

#[cfg(not(target_arch = "x86_64"))]
mod other {
    use super::DigitRun;

    pub(crate) fn has_avx2() -> bool {
        false
    }

    pub(crate) fn fill_avx2(run: DigitRun<'_>, out: &mut [u8]) -> (u64, usize) {
        super::super::portable::fill(run, out)
    }
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::x86_64::*;

    use super::DigitRun;
    use crate::fizzbuzz::template::{MAX_SEGMENT, SLACK};

    /// Added to a digit so that ten carries.
    const BIAS: u8 = 256u16.wrapping_sub(10) as u8;

    pub(crate) fn has_avx2() -> bool {
        is_x86_feature_detected!("avx2")
    }

    pub(crate) fn fill_avx2(run: DigitRun<'_>, out: &mut [u8]) -> (u64, usize) {
        assert!(has_avx2());
        // SAFETY: the processor has the instructions.
        unsafe { fill_by_32(run, out) }
    }

    /// The digits of the hundreds, biased.
    fn biased(hundreds: u64) -> u128 {
        let mut rest = hundreds;
        let bytes = [0; 16].map(|_: u8| {
            let digit = (rest % 10) as u8;
            rest /= 10;
            digit + BIAS
        });
        u128::from_le_bytes(bytes)
    }

    /// Returns the digits to shuffle, and adds one to `x`.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn step(x: &mut u128) -> __m128i {
        let to_vector = |x: u128| _mm_set_epi64x((x >> 64) as i64, x as i64);
        let add: [u8; 16] = std::array::from_fn(|i| (b'0' + i as u8).wrapping_sub(BIAS));
        let add = to_vector(u128::from_le_bytes(add));
        let digits = _mm_add_epi8(to_vector(*x), add);
        let next = to_vector(x.wrapping_add(1));
        let next = _mm_max_epu8(next, _mm_set1_epi8(BIAS as i8));
        let low = _mm_cvtsi128_si64(next) as u64;
        let high = _mm_extract_epi64::<1>(next) as u64;
        *x = u128::from(high) << 64 | u128::from(low);
        digits
    }

    #[target_feature(enable = "avx2")]
    fn fill_by_32(run: DigitRun<'_>, out: &mut [u8]) -> (u64, usize) {
        let mut x = biased(run.hundreds);
        let mut third = (run.hundreds % 3) as usize;
        let (mut count, mut at) = (0, 0);
        while count < run.max_count {
            let template = &run.templates[third];
            let len = template.len();
            let Some(room) = out.get_mut(at..at + len + SLACK) else {
                break;
            };
            put_segment(step(&mut x), template.code(), len, room);
            at += len;
            count += 1;
            third = if third == 2 { 0 } else { third + 1 };
        }
        (count, at)
    }

    /// Bytes of a register.
    const BYTES: usize = 32;

    /// Writes a segment: 32 bytes at its beginning, then [`SLACK`] bytes per iteration from
    /// the first aligned address.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn put_segment(digits: __m128i, code: &[u8; MAX_SEGMENT + SLACK], len: usize, out: &mut [u8]) {
        assert!(len <= MAX_SEGMENT && len + SLACK <= out.len());
        let digits = _mm256_broadcastsi128_si256(digits);
        let (from, to) = (code.as_ptr(), out.as_mut_ptr());
        // SAFETY: both have at least SLACK bytes, and a store writes fewer.
        unsafe { put_32(digits, from, to) };
        let mut at = BYTES - to.addr() % BYTES;
        while at < len {
            for ahead in (0..SLACK).step_by(BYTES) {
                let (from, to) = (from.wrapping_add(at + ahead), to.wrapping_add(at + ahead));
                // SAFETY: at most SLACK bytes from `at`, which is less than `len`; both
                // have `len + SLACK` bytes.
                unsafe { put_32(digits, from, to) };
            }
            at += SLACK;
        }
    }

    /// # Safety
    /// 32 bytes can be read at `from`, and written at `to`.
    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn put_32(digits: __m256i, from: *const u8, to: *mut u8) {
        // SAFETY: guaranteed by the caller.
        let code = unsafe { _mm256_loadu_si256(from.cast()) };
        let bytes = _mm256_sub_epi8(_mm256_shuffle_epi8(digits, code), code);
        // SAFETY: guaranteed by the caller.
        unsafe { _mm256_storeu_si256(to.cast(), bytes) };
    }
}
