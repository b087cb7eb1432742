//! What 100 lines look like that begin at a multiple of 100.

use super::naive::word;

/// Lines of a segment.
pub(super) const LINES: u64 = 100;

/// No segment is longer, in bytes: 54 numbers of 19 digits and their line
/// ends, and 46 words.
pub(super) const LONGEST: usize = 54 * 20 + 46 * 9;

/// So many bytes beyond a segment's end may be written, which the next one
/// overwrites, and read beyond a template's.
pub(super) const SLACK: usize = 128;

/// The digits that may be filled in. Lines of 2^63 have 19 digits, two of
/// which are the template's; the first then is, too.
pub(super) const FILLED: usize = 16;

/// The segments of one digit count (and first digit, where it has 19 digits),
/// and a third of all multiples of 100.
pub(super) struct Template {
    len: usize,
    /// What stands at each place: the digit with that number (0 is the
    /// hundreds', 1 the thousands' ...), or 256 less a character.
    ///
    /// So it is what `shuffle` takes, which gives 0 for numbers above 127: the
    /// place's byte is `shuffle(digits, code) - code`, if each digit has
    /// had its number added to it.
    code: [u8; LONGEST + SLACK],
    /// Where the digits to be filled in begin, for each line that has them.
    places: Vec<u16>,
    /// How many digits are to be filled in.
    filled: usize,
}

/// The first line that needs other templates than `n` does.
pub(super) fn era_end(n: u64) -> u64 {
    const LAST_ERA: u64 = 10u64.pow(18);
    match n {
        LAST_ERA.. => (n / LAST_ERA + 1) * LAST_ERA,
        _ => 10u64.pow(n.ilog10() + 1),
    }
}

impl Template {
    /// The templates for `n` and the lines after it; that of the segment which
    /// begins at `n` is the one with the number `n / 100 % 3`.
    pub(super) fn three(n: u64) -> [Template; 3] {
        [0, 1, 2].map(|third| Template::new(n, third))
    }

    fn new(n: u64, third: u64) -> Template {
        let digits = n.ilog10() as usize + 1;
        let filled = (digits - 2).min(FILLED);
        let mut template = Template {
            len: 0,
            code: [0; LONGEST + SLACK],
            places: Vec::new(),
            filled,
        };
        let first = n / 10u64.pow(18);
        for line in 0..LINES {
            // Hundreds count modulo 3, since 300 is a multiple of 15.
            match word(third * LINES + line) {
                Some(word) => template.push_literally(word),
                None => {
                    if digits - 2 > filled {
                        template.push_literally(&first.to_string());
                    }
                    template.places.push(template.len as u16);
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

    /// How long a segment is, in bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn code(&self) -> &[u8; LONGEST + SLACK] {
        &self.code
    }

    pub(super) fn places(&self) -> &[u16] {
        &self.places
    }

    pub(super) fn filled(&self) -> usize {
        self.filled
    }
}
