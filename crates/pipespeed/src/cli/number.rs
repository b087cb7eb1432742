//! Options whose values are numbers.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Parses a whole number in this range.
pub(super) fn whole<N>(
    range: RangeInclusive<N>,
) -> impl Fn(&str) -> Result<N, String> + Clone + Send + Sync
where
    N: FromStr + PartialOrd + Display + Clone + Send + Sync,
{
    move |text| {
        let number = text.parse().ok();
        number.filter(|n| range.contains(n)).ok_or_else(|| {
            let (min, max) = (range.start(), range.end());
            format!("write a whole number from {min} to {max}")
        })
    }
}

/// Parses a number in this range; `wanted` is the error for any other text.
pub(super) fn decimal(text: &str, range: RangeInclusive<f64>, wanted: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| wanted.to_owned())
}

/// Parses a duration in seconds.
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    let wanted = "write a number of seconds from 0.001 to 86400 (a day)";
    decimal(text, 0.001..=86_400.0, wanted)
}

/// Parses a percentage, with or without the sign.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').trim_end();
    decimal(number, 0.0..=100.0, "write a percentage from 0 to 100")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_within_the_range() {
        let parse = whole(1..=100_000_u32);
        assert_eq!((parse("1"), parse("100000")), (Ok(1), Ok(100_000)));
        for text in ["", "0", "-1", "1.5", "x", "100001", "4294967296", "1e3"] {
            let expected = Err("write a whole number from 1 to 100000".to_owned());
            assert_eq!(parse(text), expected, "{text}");
        }
        assert_eq!(whole(0..=u64::MAX)("18446744073709551615"), Ok(u64::MAX));
    }

    #[test]
    fn numbers_that_are_none_are_refused() {
        for text in ["nan", "inf", "-1", "0", "1e-300", "soon", "", "86401"] {
            assert!(seconds(text).is_err(), "{text}");
        }
        assert_eq!((seconds("0.5"), percent("2 %")), (Ok(0.5), Ok(2.0)));
        for text in ["nan", "-1", "101", "x"] {
            assert!(percent(text).is_err(), "{text}");
        }
    }
}
