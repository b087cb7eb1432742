//! Formatting of numbers, command lines and paragraphs.

use std::borrow::Cow;

/// Numbers of this magnitude and above are formatted with an exponent.
const MAX_PLAIN: f64 = 1e10;
/// Numbers below this magnitude, but 0, are formatted with an exponent.
const MIN_PLAIN: f64 = 1e-6;

/// Formats with three significant digits: `0.652`, `4.21`, `64.2`, `1230`, `1.20e300`. No
/// measurement here is more precise than that.
pub fn significant(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    // Round before taking the exponent: 9.996 becomes 10.0, not 10.00.
    let rounded = format!("{value:.2e}");
    let exponent: i32 = rounded
        .split_once('e')
        .and_then(|(_, exponent)| exponent.parse().ok())
        .unwrap_or(0);
    let number: f64 = rounded.parse().unwrap_or(value);
    if !(MIN_PLAIN..MAX_PLAIN).contains(&number.abs()) {
        return rounded;
    }
    let decimals = usize::try_from(2 - exponent).unwrap_or(0);
    format!("{number:.decimals$}")
}

/// Formats with this number of decimals; as [`significant`] does if the number is too large for
/// that.
pub fn fixed(value: f64, decimals: usize) -> String {
    if value.abs() < MAX_PLAIN / 10_f64.powi(decimals as i32 + 1) {
        format!("{value:.decimals$}")
    } else {
        significant(value)
    }
}

/// Whether a character is safe to print: it neither controls a terminal nor changes the
/// direction of text.
pub fn is_printable(letter: char) -> bool {
    let is_directional = matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !letter.is_control() && !is_directional
}

/// Escapes the characters of names of others (files, commands, cases of a record) that are not
/// [printable](is_printable): `\u{1b}`. Keeps line breaks.
pub fn escape(text: &str) -> Cow<'_, str> {
    let is_kept = |letter: char| letter == '\n' || is_printable(letter);
    if text.chars().all(is_kept) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_kept(letter) {
            escaped.push(letter);
        } else {
            escaped.extend(letter.escape_default());
        }
    }
    Cow::Owned(escaped)
}

/// A text on one line of at most `max` characters, [escaped](escape).
pub fn in_short(text: &str, max: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = escape(&words.join(" ")).into_owned();
    match line.char_indices().nth(max) {
        None => line,
        Some(_) => {
            let kept: String = line.chars().take(max - 1).collect();
            format!("{}…", kept.trim_end())
        }
    }
}

/// `1 round`, `30 rounds`.
pub fn pluralize(count: usize, what: &str) -> String {
    let plural = match count {
        1 => "",
        _ if what.ends_with('s') => "es",
        _ => "s",
    };
    format!("{count} {what}{plural}")
}

/// Removes what the standard library adds to messages of the system: ` (os error 2)`.
pub fn without_error_numbers(text: &str) -> String {
    const PREFIX: &str = " (os error ";
    let mut parts = text.split(PREFIX);
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        match rest.strip_prefix(')') {
            Some(rest) => plain.push_str(rest),
            None => plain.extend([PREFIX, part]),
        }
    }
    plain
}

/// Breaks `text` at spaces into lines of at most `width` characters. The first
/// line keeps its leading spaces, later ones begin with `indent`. A word longer
/// than a line gets one of its own.
pub fn wrap(text: &str, width: usize, indent: &str) -> String {
    let words = text.trim_start_matches(' ');
    let mut lines: Vec<String> = Vec::new();
    let mut line = " ".repeat(text.len() - words.len());
    let mut filled = line.len();
    for (at, word) in words.split(' ').enumerate() {
        let length = word.chars().count();
        if at > 0 && filled + 1 + length > width {
            lines.push(std::mem::replace(&mut line, indent.to_owned()));
            line.push_str(word);
            filled = indent.chars().count() + length;
        } else {
            if at > 0 {
                line.push(' ');
                filled += 1;
            }
            line.push_str(word);
            filled += length;
        }
    }
    lines.push(line);
    lines.join("\n")
}

/// A word as sh(1) reads it.
fn quote(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./+-=:,@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// A command line as sh(1) reads it: a single word is one already.
pub fn command_line<W: AsRef<str>>(words: &[W]) -> String {
    match words {
        [line] => line.as_ref().to_owned(),
        words => {
            let words = words.iter().map(|word| quote(word.as_ref()));
            words.collect::<Vec<String>>().join(" ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_long_command_gets_short_and_stays_on_its_line() {
        assert_eq!(in_short(" a\n\tb\u{1b}[0m ", 40), r"a b\u{1b}[0m");
        assert_eq!(
            in_short(&"é".repeat(50), 40),
            format!("{}…", "é".repeat(39))
        );
        assert_eq!(in_short(&"x".repeat(40), 40), "x".repeat(40));
    }

    #[test]
    fn numbers_have_three_significant_digits() {
        let texts = [0.0, 0.65249, 4.2, 9.996, 64.23, 999.6, 12345.0, 0.00123456].map(significant);
        assert_eq!(
            texts,
            [
                "0", "0.652", "4.20", "10.0", "64.2", "1000", "12300", "0.00123"
            ]
        );
        assert_eq!(significant(f64::NAN), "-");
        let texts = [1e300, -9.996e9, 9.994e9, 1e-5, 9.99e-7].map(significant);
        let expected = ["1.00e300", "-1.00e10", "9990000000", "0.0000100", "9.99e-7"];
        assert_eq!(texts, expected);
    }

    #[test]
    fn large_numbers_lose_their_decimals() {
        let texts = [0.25, -12.34, 12_345.67, 1e300, f64::NAN].map(|value| fixed(value, 1));
        assert_eq!(texts, ["0.2", "-12.3", "12345.7", "1.00e300", "-"]);
    }

    #[test]
    fn characters_that_control_a_terminal_are_escaped() {
        assert_eq!(escape("é a\nb"), "é a\nb");
        assert_eq!(escape("\u{1b}[31m\t\r"), "\\u{1b}[31m\\t\\r");
        assert_eq!(escape("\u{9b}x\u{202e}"), "\\u{9b}x\\u{202e}");
    }

    #[test]
    fn error_numbers_are_removed_from_messages() {
        let error = std::io::Error::from_raw_os_error(2).to_string();
        let plain = "No such file or directory";
        assert_ne!(error, plain);
        assert_eq!(without_error_numbers(&error), plain);
        let text = format!("a: {error}; b: {error} here");
        assert_eq!(
            without_error_numbers(&text),
            format!("a: {plain}; b: {plain} here")
        );
        let other = "a (os error unknown) (b)";
        assert_eq!(without_error_numbers(other), other);
    }

    #[test]
    fn the_first_line_keeps_its_indentation() {
        assert_eq!(wrap("  a bc d", 6, "    "), "  a bc\n    d");
    }

    proptest! {
        #[test]
        fn three_digits_are_within_half_a_percent(value in 1e-6..1e9_f64) {
            let shown: f64 = significant(value).parse().unwrap();
            prop_assert!((shown / value - 1.0).abs() <= 0.005001, "{value} {shown}");
        }

        #[test]
        fn no_number_takes_more_than_12_characters(
            value in prop_oneof![prop::num::f64::ANY, -1e12..1e12_f64],
            decimals in 0..4_usize,
        ) {
            for text in [significant(value), fixed(value, decimals)] {
                prop_assert!(text.len() <= 12, "{text}");
            }
        }

        #[test]
        fn escaped_text_is_printable(text in any::<String>()) {
            let escaped = escape(&text);
            prop_assert!(escaped.chars().all(|c| c == '\n' || is_printable(c)), "{escaped}");
        }

        #[test]
        fn wrapping_keeps_the_words_and_the_width(
            words in prop::collection::vec("[a-z]{1,9}", 1..40),
            width in 12..60_usize,
        ) {
            let text = words.join(" ");
            let wrapped = wrap(&text, width, "  ");
            prop_assert!(wrapped.lines().all(|line| line.chars().count() <= width));
            prop_assert_eq!(wrapped.split_whitespace().collect::<Vec<_>>(), words);
        }
    }

    #[test]
    fn a_word_is_quoted_for_sh() {
        for (word, quoted) in [
            ("a=b", "a=b"),
            ("", "''"),
            ("a b", "'a b'"),
            ("$x|y", "'$x|y'"),
            ("it's", r"'it'\''s'"),
        ] {
            assert_eq!(quote(word), quoted);
        }
        assert_eq!(command_line(&["a b | c"]), "a b | c");
        assert_eq!(command_line(&["a", "b c", ""]), "a 'b c' ''");
    }
}
