//! The options of `pipespeed pages`.

use super::named::named;
use super::number::whole;
use std::path::PathBuf;

use clap::{ArgGroup, Args};

use pipespeed_base::size;
use pipespeed_explain::pages::Architecture;

/// `pipespeed pages`.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("what").args(["address", "buffer", "pipe"]).required(true),
    after_help = include_str!("help/pages.txt").trim_ascii_end()
)]
pub struct PagesArgs {
    /// Virtual address in hexadecimal, such as 0x7f0012345678.
    #[arg(long, value_parser = address, allow_hyphen_values = true)]
    pub address: Option<u64>,
    /// Allocate a buffer of this size and show its pages.
    #[arg(long, value_name = "SIZE", value_parser = range, allow_hyphen_values = true)]
    pub buffer: Option<u64>,
    /// Step a pipe through write, read, vmsplice and splice, and draw its slots.
    #[arg(long)]
    pub pipe: bool,
    /// Process that the address belongs to.
    #[arg(long, value_parser = whole::<u32>(1..=i32::MAX.unsigned_abs()), requires = "address", conflicts_with_all = ["buffer", "pipe"], allow_negative_numbers = true)]
    pub pid: Option<u32>,
    /// Number of bytes to show from the address [default: one page].
    #[arg(long, value_name = "SIZE", value_parser = range, requires = "pid", conflicts_with_all = ["buffer", "pipe"], allow_hyphen_values = true)]
    pub length: Option<u64>,
    // clap drops a requirement when another given option conflicts with the
    // required one, so the conflict with --address is stated here as well.
    /// Use transparent huge pages for the buffer.
    #[arg(long, requires = "buffer", conflicts_with_all = ["address", "pipe"])]
    pub huge: bool,
    /// Use reserved huge pages for the buffer.
    #[arg(long, requires = "buffer", conflicts_with_all = ["huge", "address", "pipe"])]
    pub hugetlb: bool,
    /// Don't write to the buffer before examining it.
    #[arg(long, requires = "buffer", conflicts_with_all = ["address", "pipe"])]
    pub untouched: bool,
    /// Architecture of the page tables [default: this machine's].
    #[arg(long, value_parser = named::<Architecture>(), conflicts_with_all = ["buffer", "pid", "pipe"])]
    pub arch: Option<Architecture>,
    /// Number of page-table levels [default: this machine's].
    ///
    /// 4 or 5 on x86-64, 4 on aarch64 (pages of 4 KiB).
    #[arg(long, value_name = "N", value_parser = whole::<u32>(4..=5), conflicts_with_all = ["buffer", "pid", "pipe"], allow_negative_numbers = true)]
    pub levels: Option<u32>,
    /// Save the result as JSON ('-': standard output).
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Largest range to show; the list of a larger one would be long and take much memory.
const MAX_RANGE: usize = 1 << 30;

fn range(text: &str) -> Result<u64, String> {
    match size::parse(text)? {
        bytes @ ..=MAX_RANGE => Ok(bytes as u64),
        _ => Err("at most 1G can be examined at once".to_owned()),
    }
}

fn address(text: &str) -> Result<u64, String> {
    const HINT: &str = "write the address in hexadecimal, such as 0x7f0012345678";
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let Some(digits) = digits.filter(|digits| !digits.is_empty()) else {
        return Err(HINT.to_owned());
    };
    // from_str_radix would accept a sign.
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(HINT.to_owned());
    }
    u64::from_str_radix(digits, 16).map_err(|_| "an address has at most 64 bits".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_hexadecimal_and_errors_show_the_format() {
        assert_eq!(address("0x0000f2705af953c0"), Ok(0xf270_5af9_53c0));
        assert_eq!(address("0XFF"), Ok(255));
        assert_eq!(address("0xffffffffffffffff"), Ok(u64::MAX));
        for text in [
            "", "0x", "10000", "7f00", "0xg", "0x+1", "-0x1", "0x 1", "0x1_0",
        ] {
            assert!(address(text).unwrap_err().contains("0x7f"), "{text:?}");
        }
        assert!(
            address("0x10000000000000000")
                .unwrap_err()
                .contains("64 bits")
        );
    }
}
