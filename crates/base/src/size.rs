//! Sizes in bytes, as people write them.

use parse_size::Config;

/// Parses a size above 0: a number with or without K, M, G (powers of 1024; also
/// KB, KiB).
///
/// # Errors
/// A message without the option's name, which clap adds.
pub fn parse(text: &str) -> Result<usize, String> {
    let bytes = parse_or_zero(text)?;
    if bytes == 0 {
        return Err("a size must be above 0".to_owned());
    }
    usize::try_from(bytes).map_err(|_| format!("'{text}' is more than this machine can address"))
}

/// As [`parse`], but accepts 0.
///
/// # Errors
/// As [`parse`].
pub fn parse_or_zero(text: &str) -> Result<u64, String> {
    const HINT: &str = "write bytes, or 64K, 1M, 10G (powers of 1024)";
    if text.trim().is_empty() {
        return Err(format!("the size is empty; {HINT}"));
    }
    let negative = text.trim_start().strip_prefix('-');
    if negative.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
        return Err(format!("a size can't be negative; {HINT}"));
    }
    // The parser panics on some numbers of more digits (parse-size 1.1.0).
    if text.chars().filter(char::is_ascii_digit).count() > 19 {
        let problem = if text.contains('.') {
            "has too many digits"
        } else {
            "is too large"
        };
        return Err(format!("'{text}' {problem}; {HINT}"));
    }
    let bytes = Config::new().with_binary().parse_size(text);
    let bytes = bytes.map_err(|error| match error {
        parse_size::Error::PosOverflow => format!("'{text}' is too large; {HINT}"),
        _ => format!("'{text}' is not a size; {HINT}"),
    })?;
    // Not a number if it has a unit above the byte: its fractions are rounded to bytes.
    let number: String = text.chars().filter(|c| !matches!(c, ' ' | '_')).collect();
    let number = number.trim_end_matches(['b', 'B', 'i', 'I']).parse::<f64>();
    if number.is_ok_and(|bytes| bytes.fract() != 0.0) {
        return Err(format!("'{text}' has a fraction of a byte; {HINT}"));
    }
    let digits = text.split(['e', 'E']).next().unwrap_or_default();
    if bytes == 0 && digits.contains(|c: char| matches!(c, '1'..='9')) {
        return Err(format!("'{text}' is less than one byte; {HINT}"));
    }
    Ok(bytes)
}

/// Names of the powers of 1024.
pub const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// Formats a size in its largest unit up to TiB, with two decimals unless it is a
/// whole number: `256KiB`, `10GiB`, `1.50MiB`.
pub fn format(bytes: u64) -> String {
    let power = (bytes.max(1).ilog2() / 10).min(4);
    let (unit, name) = (1 << (10 * power), UNITS[power as usize]);
    if bytes.is_multiple_of(unit) {
        format!("{}{name}", bytes / unit)
    } else {
        format!("{:.2}{name}", bytes as f64 / unit as f64)
    }
}

/// Formats a size in the largest unit up to GiB that divides it, else in bytes:
/// `1536KiB`, `65537B`. The published programs print sizes by this rule, 0 as `0GiB`.
pub fn exact(bytes: u64) -> String {
    let divides = |power: &usize| bytes.is_multiple_of(1 << (10 * power));
    let power = (1..=3).rev().find(divides).unwrap_or(0);
    format!("{}{}", bytes >> (10 * power), UNITS[power])
}

/// Formats a size as used in names of cases: `128k`.
pub fn short(bytes: usize) -> String {
    match bytes {
        _ if bytes >= 1 << 30 && bytes.is_multiple_of(1 << 30) => format!("{}g", bytes >> 30),
        _ if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{}m", bytes >> 20),
        _ if bytes.is_multiple_of(1024) => format!("{}k", bytes >> 10),
        _ => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exact_size_is_not_rounded() {
        let sizes = [0, 7, 1024, 1536, 65_537, 3 << 19, 3 << 20, 5 << 30, 1 << 40].map(exact);
        let expected = [
            "0GiB", "7B", "1KiB", "1536B", "65537B", "1536KiB", "3MiB", "5GiB", "1024GiB",
        ];
        assert_eq!(sizes, expected);
    }

    #[test]
    fn letters_are_powers_of_1024() {
        assert_eq!(parse("64K"), Ok(65_536));
        assert_eq!(parse("64k"), Ok(65_536));
        assert_eq!(parse("64KiB"), Ok(65_536));
        assert_eq!(parse("1M"), Ok(1 << 20));
        assert_eq!(parse("10G"), Ok(10 << 30));
        assert_eq!(parse("4096"), Ok(4096));
        assert_eq!(parse("1.5K"), Ok(1536));
    }

    #[test]
    fn bytes_have_no_fractions() {
        for text in ["1.5", "1.5B", "0.5", "1_0.5 b", "15e-1", "1.0000001"] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("fraction of a byte"), "{text}: {error}");
        }
        let whole = ["1.5e1", "7.0", "7.B", "1.5 K", "0.1K"].map(parse);
        assert_eq!(whole, [15, 7, 7, 1536, 102].map(Ok));
    }

    #[test]
    fn errors_explain_how_to_write_a_size() {
        for text in [
            "",
            "  ",
            "-1",
            "-64K",
            "abc",
            "12Q",
            "0x10",
            "K",
            "99999999999999999999G",
            "18446744073709551616",
            "184467440737095516159",
            "1.84467440737095516159K",
            "0.4",
            "1e-9",
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("64K"), "{text:?}: {error}");
        }
        assert_eq!(parse("0"), Err("a size must be above 0".to_owned()));
        assert_eq!(parse("0K"), Err("a size must be above 0".to_owned()));
        assert_eq!(parse_or_zero("0.0"), Ok(0));
        // It would otherwise mean no limit.
        assert!(parse_or_zero("1e-9").is_err());
    }

    #[test]
    fn sizes_are_written_in_the_largest_unit() {
        assert_eq!(format(256 << 10), "256KiB");
        assert_eq!(format(10 << 30), "10GiB");
        assert_eq!(format(100), "100B");
        assert_eq!(format(3 << 19), "1.50MiB");
        assert_eq!(format(65_537), "64.00KiB");
    }
}
