//! Formatting of numbers and paragraphs.

/// Formats with three significant digits, without an exponent: `0.652`, `4.21`,
/// `64.2`, `1230`. No measurement here is more precise than that.
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
    let decimals = usize::try_from(2 - exponent).unwrap_or(0);
    format!("{number:.decimals$}")
}

/// `1 round`, `30 rounds`.
pub fn pluralize(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
}
