//! FizzBuzz line by line: the reference for the fast paths, which also use it for lines
//! outside complete segments.

use std::io::Write;

/// The word for `n`; `None` if its line is a number.
pub fn word(n: u64) -> Option<&'static str> {
    match (n.is_multiple_of(3), n.is_multiple_of(5)) {
        (true, true) => Some("FizzBuzz"),
        (true, false) => Some("Fizz"),
        (false, true) => Some("Buzz"),
        (false, false) => None,
    }
}

/// Writes the line of `n` to `out`. Returns its length.
///
/// # Panics
/// If it does not fit.
pub fn push_line(n: u64, out: &mut [u8]) -> usize {
    let room = out.len();
    let mut rest = out;
    let written = match word(n) {
        Some(word) => writeln!(rest, "{word}"),
        None => writeln!(rest, "{n}"),
    };
    assert!(written.is_ok(), "no room for the line of {n}");
    room - rest.len()
}

/// The lines `from..=last`.
pub fn lines(from: u64, last: u64) -> Vec<u8> {
    let mut text = Vec::new();
    for n in from..=last {
        let mut line = [0; 24];
        let len = push_line(n, &mut line);
        text.extend_from_slice(&line[..len]);
    }
    text
}
