//! Formatting of amounts and times.

use std::time::Duration;

use pipespeed_base::size;

/// The unit of counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unit {
    /// Bytes; shown in powers of 1024.
    #[default]
    Bytes,
    /// Lines; shown in powers of 1000.
    Lines {
        /// The byte that ends a line: a newline or NUL.
        end: u8,
    },
}

/// Formats an amount with three or four digits: `3.00MiB`, `1023KiB`, `12B`; lines
/// as `12`, `43.8k`.
pub fn amount(value: f64, unit: Unit) -> String {
    let (base, names): (f64, [&str; 7]) = match unit {
        Unit::Bytes => (1024.0, size::UNITS),
        Unit::Lines { .. } => (1000.0, ["", "k", "M", "G", "T", "P", "E"]),
    };
    let finite = Some(value).filter(|value| value.is_finite());
    let mut value = finite.unwrap_or(0.0).max(0.0);
    let mut power = 0;
    // Values that would round up to the next unit are shown in it.
    while value >= base - 0.5 && power + 1 < names.len() {
        value /= base;
        power += 1;
    }
    let decimals = match value {
        _ if power == 0 => 0,
        small if small < 9.995 => 2,
        medium if medium < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}{}", names[power])
}

/// Formats hours, minutes and seconds, after days if any: `0:00:05`, `2:03:04:05`.
pub fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, hours) = (seconds / 86_400, seconds / 3600 % 24);
    let hours = if days > 0 {
        format!("{days}:{hours:02}")
    } else {
        hours.to_string()
    };
    format!("{hours}:{:02}:{:02}", seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: Unit = Unit::Lines { end: b'\n' };

    #[test]
    fn amounts_have_three_or_four_digits() {
        let bytes = |value| amount(value, Unit::Bytes);
        assert_eq!(bytes(0.0), "0B");
        assert_eq!(bytes(1023.0), "1023B");
        assert_eq!(bytes(1024.0), "1.00KiB");
        assert_eq!(bytes(3.0 * 1_048_576.0), "3.00MiB");
        assert_eq!(bytes(9.996 * 1024.0), "10.0KiB");
        assert_eq!(bytes(1023.6 * 1024.0), "1.00MiB");
        assert_eq!(bytes(1023.4 * 1024.0), "1023KiB");
        assert_eq!(bytes(u64::MAX as f64), "16.0EiB");
        assert_eq!(bytes(f64::NAN), "0B");
        assert_eq!(bytes(-1.0), "0B");
        assert_eq!(amount(999.0, LINES), "999");
        assert_eq!(amount(43_800.0, LINES), "43.8k");
        assert_eq!(amount(999_999.0, LINES), "1.00M");
    }

    #[test]
    fn long_times_begin_with_days() {
        let shown = |seconds| time(Duration::from_secs(seconds));
        assert_eq!(shown(0), "0:00:00");
        assert_eq!(shown(5), "0:00:05");
        assert_eq!(shown(3600 * 23 + 59 * 60 + 59), "23:59:59");
        assert_eq!(shown(2 * 86_400 + 3 * 3600 + 4 * 60 + 5), "2:03:04:05");
        assert_eq!(shown(u64::MAX / 2).matches(':').count(), 3);
    }
}
