//! Counts lines in a stream of bytes.

use super::progress::Trail;

/// Minimum distance between marks, in bytes: a page.
const MIN_DISTANCE: u64 = 4096;

/// Marks cover this many of the last bytes: more than the usual capacity of a pipe.
const MARKED_BYTES: u64 = 4 << 20;

/// Counts lines. Marks record the count at positions in the last bytes, which may still
/// be unread in the output pipe.
#[derive(Debug, Clone)]
pub struct LineCounter {
    end: u8,
    bytes: u64,
    /// The number of lines so far.
    pub lines: u64,
    /// Positions, and the number of lines before them.
    marks: Trail<u64>,
}

impl LineCounter {
    /// Counts lines that end with `end`.
    pub fn new(end: u8) -> Self {
        LineCounter {
            end,
            bytes: 0,
            lines: 0,
            marks: Trail::new((0, 0), MIN_DISTANCE, MARKED_BYTES),
        }
    }

    /// Counts the lines in the next bytes and returns their number.
    pub fn count(&mut self, bytes: &[u8]) -> u64 {
        let lines = memchr::memchr_iter(self.end, bytes).count() as u64;
        self.bytes += bytes.len() as u64;
        self.lines += lines;
        self.marks.add(self.bytes, self.lines);
        lines
    }

    /// The expected length of the next line, in bytes.
    pub fn likely_length(&self) -> u64 {
        (self.bytes + 1).div_ceil(self.lines + 1)
    }

    /// The number of lines before the last `unread` bytes: exact for 0, else interpolated
    /// between marks.
    pub fn lines_before(&self, unread: u64) -> u64 {
        let place = self.bytes.saturating_sub(unread);
        let marks = &self.marks.points;
        let after = marks.partition_point(|mark| mark.0 < place);
        let (Some(after), Some(before)) = (marks.get(after), marks.get(after.saturating_sub(1)))
        else {
            return self.lines;
        };
        let (bytes, lines) = (after.0 - before.0, after.1 - before.1);
        if bytes == 0 || place < before.0 {
            return before.1;
        }
        before.1 + (u128::from(lines) * u128::from(place - before.0) / u128::from(bytes)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn counts_match_a_naive_count(
            pieces in prop::collection::vec(prop::collection::vec(0..4_u8, 0..9000), 0..20),
            end in 0..4_u8,
        ) {
            let mut counter = LineCounter::new(end);
            for piece in &pieces {
                let naive = piece.iter().filter(|byte| **byte == end).count() as u64;
                prop_assert_eq!(counter.count(piece), naive);
            }
            let all: Vec<u8> = pieces.concat();
            let naive = all.iter().filter(|byte| **byte == end).count() as u64;
            prop_assert_eq!(counter.lines, naive);
            prop_assert_eq!(counter.lines_before(0), naive);
            prop_assert_eq!(counter.lines_before(all.len() as u64), 0);
            let mut before = naive;
            for unread in (0..all.len() + 100).step_by(977) {
                let now = counter.lines_before(unread as u64);
                prop_assert!(now <= before);
                before = now;
            }
        }
    }

    #[test]
    fn unread_lines_of_equal_length_are_counted_exactly() {
        let mut counter = LineCounter::new(b'\n');
        let block = b"0123456\n".repeat(16_384);
        for _ in 0..100 {
            counter.count(&block);
        }
        assert_eq!(counter.lines_before(0), 1_638_400);
        assert_eq!(counter.lines_before(8), 1_638_399);
        assert_eq!(counter.lines_before(1 << 20), 1_638_400 - (1 << 17));
        assert!(counter.marks.points.len() < 50);
    }

    #[test]
    fn single_bytes_leave_few_marks() {
        let mut counter = LineCounter::new(b'\n');
        for _ in 0..100_000 {
            counter.count(b"\n");
        }
        assert!(
            counter.marks.points.len() < 60,
            "{}",
            counter.marks.points.len()
        );
        assert_eq!(counter.lines_before(50_000), 50_000);
    }
}
