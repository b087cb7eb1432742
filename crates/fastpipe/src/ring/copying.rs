//! Copies to and from memory that another process may access at the same time.
//!
//! Such memory is a slice of atomics here, and each copy is equivalent to relaxed
//! loads or stores of its single bytes, in any order. So there is no data race,
//! and bytes that change meanwhile are each old or new.
//!
//! memcpy(3) is not permitted, since the compiler treats it as plain accesses. A
//! loop over the atomics would be correct, but at least eight times slower, since
//! compilers do not merge atomic accesses. On x86-64 (not x32) the copies
//! therefore are inline assembly, in which each instruction does what several
//! relaxed accesses to single bytes may do. Elsewhere they are relaxed accesses to
//! words of eight bytes. The processor supports that, but the language does not
//! define it if the peer accesses parts of the same word.
//!
//! `rep movsb` is not used: some processors are twenty times slower if the
//! destination is a few bytes behind the source, modulo 4 KiB.
#![allow(unsafe_code)]

use std::sync::atomic::AtomicU8;

#[cfg(not(all(target_arch = "x86_64", target_pointer_width = "64")))]
use words as fast;
#[cfg(all(target_arch = "x86_64", target_pointer_width = "64"))]
use x86_64 as fast;

/// Copies `from` to `to`.
///
/// # Panics
/// If the lengths differ.
#[inline]
pub(super) fn copy_in(from: &[u8], to: &[AtomicU8]) {
    assert_eq!(from.len(), to.len());
    fast::copy_in(from, to);
}

/// Copies `from` to `to`.
///
/// # Panics
/// If the lengths differ.
#[inline]
pub(super) fn copy_out(from: &[AtomicU8], to: &mut [u8]) {
    assert_eq!(from.len(), to.len());
    fast::copy_out(from, to);
}

/// Sets all bytes of `to` to `value`.
#[inline]
pub(super) fn fill(to: &[AtomicU8], value: u8) {
    #[cfg(all(target_arch = "x86_64", target_pointer_width = "64"))]
    if to.len() >= x86_64::MIN_STRING_FILL && std::arch::is_x86_feature_detected!("ermsb") {
        return x86_64::fill_by_string(to, value);
    }
    let pattern = [value; 256];
    for part in to.chunks(pattern.len()) {
        fast::copy_in(&pattern[..part.len()], part);
    }
}

/// The fast path: up to 64 bytes at a time.
#[cfg(all(target_arch = "x86_64", target_pointer_width = "64"))]
mod x86_64 {
    use std::arch::asm;
    use std::sync::atomic::AtomicU8;

    #[inline]
    pub(super) fn copy_in(from: &[u8], to: &[AtomicU8]) {
        let len = from.len().min(to.len());
        // SAFETY: both are valid for `len` bytes, and `to` may be written since it
        // consists of atomics.
        unsafe { copy(from.as_ptr(), to.as_ptr().cast_mut().cast(), len) };
    }

    #[inline]
    pub(super) fn copy_out(from: &[AtomicU8], to: &mut [u8]) {
        let len = from.len().min(to.len());
        // SAFETY: both are valid for `len` bytes.
        unsafe { copy(from.as_ptr().cast(), to.as_mut_ptr(), len) };
    }

    /// From this length on `rep stosb` is faster than stores of 16 bytes: 1.3 times
    /// at 64 KiB on Zen 3. memset(3) of glibc uses it from here on, too.
    pub(super) const MIN_STRING_FILL: usize = 2048;

    /// Sets all bytes of `to` to `value`. Its stores may be reordered among themselves,
    /// but not with those before and after (Intel's manual, volume 3, 10.2.4).
    pub(super) fn fill_by_string(to: &[AtomicU8], value: u8) {
        // SAFETY: it stores to bytes that consist of atomics, and the direction flag
        // is clear at the start of inline assembly.
        unsafe {
            asm!(
                "rep stosb",
                inout("rcx") to.len() => _,
                inout("rdi") to.as_ptr() => _,
                in("al") value,
                options(nostack, preserves_flags),
            );
        }
    }

    /// Copies `len` bytes. The last block overlaps the one before, so no loop over
    /// single bytes is needed after the blocks.
    ///
    /// # Safety
    /// `from` must be valid for reading and `to` for writing `len` bytes, as atomics
    /// if others may access them at the same time. They must not overlap.
    #[inline]
    unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
        let mut at = 0;
        if len >= 16 {
            while len - at > 64 {
                // SAFETY: more than 64 bytes remain, and the caller's promise.
                unsafe { copy_64(from, to, at) };
                at += 64;
            }
            while len - at > 16 {
                // SAFETY: more than 16 bytes remain, and the caller's promise.
                unsafe { copy_16(from, to, at) };
                at += 16;
            }
            // SAFETY: there are 16 bytes or more, and the caller's promise.
            unsafe { copy_16(from, to, len - 16) };
        } else if len >= 8 {
            // SAFETY: there are 8 bytes or more, and the caller's promise.
            unsafe { copy_8(from, to, 0) };
            // SAFETY: as above.
            unsafe { copy_8(from, to, len - 8) };
        } else {
            while at < len {
                // SAFETY: a byte remains, and the caller's promise.
                unsafe { copy_1(from, to, at) };
                at += 1;
            }
        }
    }

    /// Copies 64 bytes at offset `at`.
    ///
    /// # Safety
    /// As for [`copy`]; `at + 64` must not exceed its `len`.
    #[inline]
    unsafe fn copy_64(from: *const u8, to: *mut u8, at: usize) {
        // SAFETY: it loads and stores memory that the caller has promised to be
        // accessible; movdqu has no alignment requirement.
        unsafe {
            asm!(
                "movdqu {a}, [{from} + {at}]",
                "movdqu {b}, [{from} + {at} + 16]",
                "movdqu {c}, [{from} + {at} + 32]",
                "movdqu {d}, [{from} + {at} + 48]",
                "movdqu [{to} + {at}], {a}",
                "movdqu [{to} + {at} + 16], {b}",
                "movdqu [{to} + {at} + 32], {c}",
                "movdqu [{to} + {at} + 48], {d}",
                from = in(reg) from,
                to = in(reg) to,
                at = in(reg) at,
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                options(nostack, preserves_flags),
            );
        }
    }

    /// Defines a function that copies a few bytes at offset `at` through one register.
    macro_rules! copy_by_register {
        ($name:ident, $load:literal, $store:literal, $class:ident) => {
            /// # Safety
            /// As for [`copy_64`], with the number of bytes in the name.
            #[inline]
            unsafe fn $name(from: *const u8, to: *mut u8, at: usize) {
                // SAFETY: as in `copy_64`.
                unsafe {
                    asm!(
                        $load,
                        $store,
                        from = in(reg) from,
                        to = in(reg) to,
                        at = in(reg) at,
                        value = out($class) _,
                        options(nostack, preserves_flags),
                    );
                }
            }
        };
    }

    copy_by_register!(
        copy_16,
        "movdqu {value}, [{from} + {at}]",
        "movdqu [{to} + {at}], {value}",
        xmm_reg
    );
    copy_by_register!(
        copy_8,
        "mov {value}, [{from} + {at}]",
        "mov [{to} + {at}], {value}",
        reg
    );
    copy_by_register!(
        copy_1,
        "mov {value}, [{from} + {at}]",
        "mov [{to} + {at}], {value}",
        reg_byte
    );
}

/// The portable path: up to eight bytes at a time.
#[cfg(any(test, not(all(target_arch = "x86_64", target_pointer_width = "64"))))]
mod words {
    use std::iter::zip;
    use std::sync::atomic::Ordering::Relaxed;
    use std::sync::atomic::{AtomicU8, AtomicU64};

    const WORD: usize = size_of::<AtomicU64>();

    /// Returns the bytes before the first aligned word, the words, and the bytes
    /// after the last one.
    fn split(shared: &[AtomicU8]) -> (&[AtomicU8], &[AtomicU64], &[AtomicU8]) {
        // SAFETY: any eight aligned atomic bytes are a valid word, and vice versa.
        unsafe { shared.align_to() }
    }

    pub(super) fn copy_in(from: &[u8], to: &[AtomicU8]) {
        let (to_head, to_words, to_tail) = split(to);
        let (head, rest) = from.split_at(to_head.len());
        let (words, tail) = rest.split_at(to_words.len() * WORD);
        for (to, from) in zip(to_words, words.as_chunks().0) {
            to.store(u64::from_ne_bytes(*from), Relaxed);
        }
        for (to, from) in zip(to_head, head).chain(zip(to_tail, tail)) {
            to.store(*from, Relaxed);
        }
    }

    pub(super) fn copy_out(from: &[AtomicU8], to: &mut [u8]) {
        let (from_head, from_words, from_tail) = split(from);
        let (head, rest) = to.split_at_mut(from_head.len());
        let (words, tail) = rest.split_at_mut(from_words.len() * WORD);
        for (to, from) in zip(words.as_chunks_mut().0, from_words) {
            *to = from.load(Relaxed).to_ne_bytes();
        }
        for (to, from) in zip(head, from_head).chain(zip(tail, from_tail)) {
            *to = from.load(Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::iter::zip;
    use std::sync::atomic::Ordering::Relaxed;

    /// The model: one byte at a time.
    mod naive {
        use super::*;

        pub(super) fn copy_in(from: &[u8], to: &[AtomicU8]) {
            for (to, from) in zip(to, from) {
                to.store(*from, Relaxed);
            }
        }

        pub(super) fn copy_out(from: &[AtomicU8], to: &mut [u8]) {
            for (to, from) in zip(to, from) {
                *to = from.load(Relaxed);
            }
        }

        pub(super) fn fill(to: &[AtomicU8], value: u8) {
            for to in to {
                to.store(value, Relaxed);
            }
        }
    }

    /// Bytes that differ from their neighbours and from those of the next block.
    fn pattern(len: usize, seed: u8) -> Vec<u8> {
        (0..len)
            .map(|n| (n as u8).wrapping_mul(37).wrapping_add((n >> 8) as u8) ^ seed)
            .collect()
    }

    fn shared(len: usize, seed: u8) -> Vec<AtomicU8> {
        pattern(len, seed).into_iter().map(AtomicU8::new).collect()
    }

    fn loaded(shared: &[AtomicU8]) -> Vec<u8> {
        shared.iter().map(|byte| byte.load(Relaxed)).collect()
    }

    /// Bytes around each copy that must not change.
    const MARGIN: usize = 70;

    type CopyIn = fn(&[u8], &[AtomicU8]);
    type CopyOut = fn(&[AtomicU8], &mut [u8]);

    /// Asserts that each path has the same result as the model, within the copy and
    /// around it.
    fn compare(len: usize, shared_at: usize, private_at: usize) {
        let whole = len + 2 * MARGIN + 64;
        let in_shared = MARGIN + shared_at..MARGIN + shared_at + len;
        let in_private = MARGIN + private_at..MARGIN + private_at + len;

        let source = pattern(whole, 0x55);
        let put = |copy: CopyIn| {
            let target = shared(whole, 0);
            copy(&source[in_private.clone()], &target[in_shared.clone()]);
            loaded(&target)
        };
        let expected = put(naive::copy_in);
        let paths: [CopyIn; 2] = [copy_in, words::copy_in];
        for path in paths {
            assert_eq!(put(path), expected, "in: {len}, {shared_at}, {private_at}");
        }

        let source = shared(whole, 0x55);
        let take = |copy: CopyOut| {
            let mut target = pattern(whole, 0);
            copy(&source[in_shared.clone()], &mut target[in_private.clone()]);
            target
        };
        let expected = take(naive::copy_out);
        let paths: [CopyOut; 2] = [copy_out, words::copy_out];
        for path in paths {
            assert_eq!(
                take(path),
                expected,
                "out: {len}, {shared_at}, {private_at}"
            );
        }

        let filled = |fill: fn(&[AtomicU8], u8)| {
            let target = shared(whole, 0);
            fill(&target[in_shared.clone()], 0xaa);
            loaded(&target)
        };
        assert_eq!(
            filled(fill),
            filled(naive::fill),
            "fill: {len}, {shared_at}"
        );
    }

    #[test]
    fn short_lengths_are_copied_as_by_the_model() {
        for len in 0..=300 {
            for alignment in 0..16 {
                compare(len, alignment, 0);
                compare(len, 0, alignment);
            }
        }
    }

    proptest! {
        #[test]
        fn any_length_and_alignment_is_copied_as_by_the_model(
            len in 0usize..5000,
            shared_at in 0usize..64,
            private_at in 0usize..64,
        ) {
            compare(len, shared_at, private_at);
        }
    }

    #[test]
    #[should_panic(expected = "left == right")]
    fn a_longer_target_is_refused() {
        copy_in(&[0; 8], &shared(9, 0));
    }

    #[test]
    fn bytes_that_change_meanwhile_are_old_or_new() {
        let memory = shared(4096, 0);
        fill(&memory, 1);
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| {
                for value in [2, 1].repeat(2000) {
                    fill(&memory, value);
                }
            });
            let mut got = [0; 4096];
            while !writing.is_finished() {
                copy_out(&memory, &mut got);
                assert!(got.iter().all(|byte| [1, 2].contains(byte)));
            }
        });
    }
}
