//! Templates of the 100 lines that begin at a multiple of 100.

use super::naive::word;

/// Number of lines of a segment.
pub(super) const LINES: u64 = 100;

/// Maximum length of a segment in bytes: 54 numbers of 19 digits with their line
/// ends, and 46 words.
pub(super) const MAX_SEGMENT: usize = 54 * 20 + 46 * 9;

/// Bytes that may be written beyond a segment, where the next one overwrites them, and
/// read beyond a template.
pub(super) const SLACK: usize = 128;

/// Maximum number of digits filled in. The last lines have 19 digits, of which the
/// first and the last two belong to the template.
pub(super) const MAX_FILLED: usize = 16;

/// Template of every third segment with a given number of digits (and, for 19
/// digits, a given first digit).
pub(super) struct Template {
    len: usize,
    /// For each byte, the index of the digit to fill in (0 for the hundreds, 1 for
    /// the thousands ...), or 256 minus a literal character.
    ///
    /// The byte is `shuffle(digits, code) - code`, if its index was added to each digit:
    /// `shuffle` yields 0 for an index above 127.
    code: [u8; MAX_SEGMENT + SLACK],
    /// Offset of the first digit to fill in, for each line with a number.
    digit_offsets: Vec<u16>,
    /// Number of digits to fill in on such a line.
    filled: usize,
}

/// The first line after `n` that needs other templates.
pub(super) fn era_end(n: u64) -> u64 {
    const LAST_ERA: u64 = 10u64.pow(18);
    match n {
        LAST_ERA.. => (n / LAST_ERA + 1) * LAST_ERA,
        _ => 10u64.pow(n.ilog10() + 1),
    }
}

impl Template {
    /// The templates for the lines from `n` to [`era_end`]. The segment that begins at line
    /// `n` has the template with index `n / 100 % 3`.
    pub(super) fn triple(n: u64) -> [Template; 3] {
        [0, 1, 2].map(|third| Template::new(n, third))
    }

    fn new(n: u64, third: u64) -> Template {
        let digits = n.ilog10() as usize + 1;
        let filled = (digits - 2).min(MAX_FILLED);
        let mut template = Template {
            len: 0,
            code: [0; MAX_SEGMENT + SLACK],
            digit_offsets: Vec::new(),
            filled,
        };
        let first = n / 10u64.pow(18);
        for line in 0..LINES {
            // The hundreds matter only modulo 3, since 300 is a multiple of 15.
            match word(third * LINES + line) {
                Some(word) => template.push_literally(word),
                None => {
                    if digits - 2 > filled {
                        template.push_literally(&first.to_string());
                    }
                    template.digit_offsets.push(template.len as u16);
                    for digit in (0..filled).rev() {
                        template.push(digit as u8);
                    }
                    template.push_literally(&format!("{line:02}"));
                }
            }
            template.push_literally("\n");
        }
        template
    }

    fn push_literally(&mut self, text: &str) {
        text.bytes().for_each(|c| self.push(c.wrapping_neg()));
    }

    fn push(&mut self, code: u8) {
        self.code[self.len] = code;
        self.len += 1;
    }

    /// The length of a segment in bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn code(&self) -> &[u8; MAX_SEGMENT + SLACK] {
        &self.code
    }

    pub(super) fn digit_offsets(&self) -> &[u16] {
        &self.digit_offsets
    }

    pub(super) fn filled(&self) -> usize {
        self.filled
    }
}
