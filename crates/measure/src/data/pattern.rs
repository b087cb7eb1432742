//! A stream of bytes that can be verified from any offset.
//!
//! The stream is a sequence of 64-bit little-endian words; word `k`, at byte
//! `8 k`, is `k` times an odd constant, modulo 2^64. Two words at different
//! places are always different, so bytes that are lost, repeated, displaced or
//! stale show. Each word is the one before plus the constant, which compilers
//! turn into vector additions: producing costs about as much as storing,
//! checking about as much as loading.

/// An odd number with well-distributed bits: 2^64 divided by the golden ratio.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// The word at byte `8 * index` of the stream.
fn word(index: u64) -> u64 {
    index.wrapping_mul(STEP)
}

/// The byte at `offset` of the stream.
pub fn byte(offset: u64) -> u8 {
    word(offset / 8).to_le_bytes()[(offset % 8) as usize]
}

/// Fills `buffer` with the stream from byte `offset` on.
pub fn fill(buffer: &mut [u8], offset: u64) {
    let head = to_word_boundary(offset, buffer.len());
    let (head, rest) = buffer.split_at_mut(head);
    for (at, slot) in (offset..).zip(&mut *head) {
        *slot = byte(at);
    }
    let offset = offset + head.len() as u64;
    let mut index = offset / 8;
    let (words, tail) = rest.as_chunks_mut::<8>();
    for chunk in &mut *words {
        *chunk = word(index).to_le_bytes();
        index += 1;
    }
    for (at, slot) in (index * 8..).zip(tail) {
        *slot = byte(at);
    }
}

/// A byte that is not the stream's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("wrong data: the byte at offset {offset} is {found:#04x} and should be {expected:#04x}")]
pub struct WrongByte {
    /// Its offset in the stream.
    pub offset: u64,
    /// The byte that belongs there.
    pub expected: u8,
    /// The byte found.
    pub found: u8,
}

/// Compares `bytes` with the stream from byte `offset` on.
///
/// # Errors
/// The first byte that differs.
pub fn check(bytes: &[u8], offset: u64) -> Result<(), WrongByte> {
    let (head, rest) = bytes.split_at(to_word_boundary(offset, bytes.len()));
    let body = offset + head.len() as u64;
    let (words, tail) = rest.as_chunks::<8>();
    let first = body / 8;
    // Blocks are compared as a whole: no branch per word, so that compilers can
    // vectorise the comparison.
    let words_match = words.chunks(512).enumerate().all(|(block, words)| {
        let from = first + block as u64 * 512;
        let differences = (from..)
            .zip(words)
            .map(|(index, chunk)| u64::from_le_bytes(*chunk) ^ word(index));
        differences.fold(0, |all, difference| all | difference) == 0
    });
    let matches = |bytes: &[u8], at: u64| (at..).zip(bytes).all(|(at, found)| *found == byte(at));
    if words_match && matches(head, offset) && matches(tail, body + words.len() as u64 * 8) {
        return Ok(());
    }
    match (offset..)
        .zip(bytes)
        .find(|(at, found)| **found != byte(*at))
    {
        Some((offset, &found)) => Err(WrongByte {
            offset,
            expected: byte(offset),
            found,
        }),
        None => Ok(()),
    }
}

/// The number of bytes from `offset` to the next word boundary, at most `max`.
fn to_word_boundary(offset: u64, max: usize) -> usize {
    ((8 - offset % 8) % 8).min(max as u64) as usize
}

/// Reads every byte. Returns the sum of the words and of the bytes after the last whole
/// word.
pub fn sum(bytes: &[u8]) -> u64 {
    let (words, tail) = bytes.as_chunks::<8>();
    let of_words = words.iter().fold(0u64, |sum, word| {
        sum.wrapping_add(u64::from_le_bytes(*word))
    });
    tail.iter()
        .fold(of_words, |sum, byte| sum.wrapping_add(u64::from(*byte)))
}

/// One pass of computing over the data: a multiplication and a rotation per word, each
/// of which depends on the previous one in its lane. There are four lanes.
pub fn compute(bytes: &[u8], seed: u64) -> u64 {
    let mut lanes = [seed, !seed, seed.rotate_left(17), seed.rotate_left(41)];
    let (words, _) = bytes.as_chunks::<8>();
    for group in words.chunks_exact(4) {
        for (lane, word) in lanes.iter_mut().zip(group) {
            *lane = (*lane ^ u64::from_le_bytes(*word))
                .wrapping_mul(STEP)
                .rotate_left(29);
        }
    }
    lanes.iter().fold(0, |all, lane| all ^ lane)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_part_of_the_stream_is_what_the_bytes_say(
            offset in 0u64..1 << 40,
            len in 0usize..5000,
        ) {
            let mut part = vec![0; len];
            fill(&mut part, offset);
            for (at, found) in (offset..).zip(&part) {
                prop_assert_eq!(*found, byte(at));
            }
            prop_assert_eq!(check(&part, offset), Ok(()));
        }

        #[test]
        fn the_first_wrong_byte_is_named(
            offset in 0u64..1 << 40,
            len in 1usize..9000,
            wrong in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..4),
        ) {
            let mut part = vec![0; len];
            fill(&mut part, offset);
            let good = part.clone();
            for (at, change) in wrong {
                part[at.index(len)] ^= change;
            }
            let first = good.iter().zip(&part).position(|(good, bad)| good != bad);
            match first {
                Some(at) => prop_assert_eq!(
                    check(&part, offset),
                    Err(WrongByte {
                        offset: offset + at as u64,
                        expected: good[at],
                        found: part[at],
                    })
                ),
                // Two changes to one byte may cancel out.
                None => prop_assert_eq!(check(&part, offset), Ok(())),
            }
        }

        #[test]
        fn a_part_of_the_stream_from_elsewhere_is_wrong(
            offset in 0u64..1 << 40,
            shift in 1u64..1 << 30,
            len in 16usize..5000,
        ) {
            let mut part = vec![0; len];
            fill(&mut part, offset + shift);
            prop_assert!(check(&part, offset).is_err());
        }

        #[test]
        fn the_sum_depends_on_every_byte(
            bytes in prop::collection::vec(any::<u8>(), 1..200),
            at in any::<prop::sample::Index>(),
            change in 1u8..,
        ) {
            let before = sum(&bytes);
            let mut bytes = bytes;
            let at = at.index(bytes.len());
            bytes[at] = bytes[at].wrapping_add(change);
            prop_assert_ne!(sum(&bytes), before);
        }
    }
}
