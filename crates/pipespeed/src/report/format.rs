//! Numbers and paragraphs as they are printed.

/// Three significant digits, without an exponent: `0.652`, `4.21`, `64.2`,
/// `1230`. More would claim a precision that no run of ours has.
pub fn significant(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    // The exponent is taken after rounding: 9.996 is 10.0, not 10.00.
    let rounded = format!("{value:.2e}");
    let exponent: i32 = rounded
        .split_once('e')
        .and_then(|(_, exponent)| exponent.parse().ok())
        .unwrap_or(0);
    let number: f64 = rounded.parse().unwrap_or(value);
    let decimals = usize::try_from(2 - exponent).unwrap_or(0);
    format!("{number:.decimals$}")
}

/// An interval: `[4.05, 4.40]`; empty where there were too few rounds for one.
pub fn interval(low: Option<f64>, high: Option<f64>) -> String {
    match (low, high) {
        (Some(low), Some(high)) => format!("[{}, {}]", significant(low), significant(high)),
        _ => String::new(),
    }
}

/// A ratio: `x1.93`.
pub fn times(ratio: f64) -> String {
    format!("x{}", hundredths(ratio))
}

/// A ratio's interval: `[0.97, 1.03]`; empty where there is none.
pub fn ratio_interval(low: Option<f64>, high: Option<f64>) -> String {
    match (low, high) {
        (Some(low), Some(high)) => format!("[{}, {}]", hundredths(low), hundredths(high)),
        _ => String::new(),
    }
}

/// Around 1 a ratio reads best with the same decimals above and below it.
fn hundredths(ratio: f64) -> String {
    if (0.1..9.995).contains(&ratio) {
        format!("{ratio:.2}")
    } else {
        significant(ratio)
    }
}

/// Breaks `text` at spaces into lines of at most `width` characters, the second
/// and later ones indented; the first keeps the blanks that it begins with. A
/// longer word gets a line to itself.
pub(crate) fn wrap(text: &str, width: usize, indent: &str) -> String {
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

/// The columns of a table, `count` of them, in as few tables one below the other
/// as make them fit into `width`; `table` draws those of a range.
pub(super) fn in_parts(
    count: usize,
    width: usize,
    table: impl Fn(std::ops::Range<usize>) -> String,
) -> String {
    let mut parts = Vec::new();
    for columns in (1..=count.max(1)).rev() {
        let starts = (0..count.max(1)).step_by(columns);
        parts = starts
            .map(|start| table(start..count.min(start + columns)))
            .collect();
        if parts
            .iter()
            .all(|part: &String| longest_line(part) <= width)
        {
            break;
        }
    }
    parts.join("\n\n")
}

/// The characters of the longest line.
pub(super) fn longest_line(text: &str) -> usize {
    let lines = text.lines().map(|line| line.chars().count());
    lines.max().unwrap_or(0)
}

/// `1 round`, `30 rounds`.
pub fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// A confidence level: `95 %`, `99.5 %`.
pub(super) fn percent(share: f64) -> String {
    // Rounded to a tenth first, so that 0.95 does not show as 95.00000000000001.
    format!("{} %", (share * 1000.0).round() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_have_three_significant_digits() {
        let shown = [0.0, 0.65249, 4.2, 9.996, 64.23, 999.6, 12345.0, 0.00123456].map(significant);
        assert_eq!(
            shown,
            [
                "0", "0.652", "4.20", "10.0", "64.2", "1000", "12300", "0.00123"
            ]
        );
        assert_eq!(significant(f64::NAN), "-");
    }

    #[test]
    fn an_interval_that_is_not_there_is_not_shown() {
        assert_eq!(interval(Some(4.05), Some(4.4)), "[4.05, 4.40]");
        assert_eq!(interval(None, Some(4.4)), "");
    }

    #[test]
    fn the_first_line_keeps_its_indentation() {
        assert_eq!(wrap("  a bc d", 6, "    "), "  a bc\n    d");
    }

    #[test]
    fn columns_that_do_not_fit_go_below() {
        let table = |columns: std::ops::Range<usize>| "ab ".repeat(columns.len());
        assert_eq!(in_parts(4, 12, table), "ab ab ab ab ");
        assert_eq!(in_parts(4, 11, table), "ab ab ab \n\nab ");
        assert_eq!(in_parts(3, 1, table), "ab \n\nab \n\nab ");
    }

    #[test]
    fn levels_are_shown_as_they_were_asked_for() {
        assert_eq!(percent(0.95), "95 %");
        assert_eq!(percent(0.995), "99.5 %");
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
