//! The options of `pipespeed costs --pinning`.

use super::number::whole;
use clap::{Args, ValueEnum};
use pipespeed_base::size;

/// The kinds of pages to pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum PinnedPages {
    /// Base and huge pages, alternating.
    #[default]
    Both,
    /// Base pages.
    Base,
    /// Transparent huge pages.
    Huge,
}

/// `pipespeed costs --pinning`.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Pinning pages")]
pub struct PinningArgs {
    /// Measure only the cost of pinning pages, as vmsplice does.
    ///
    /// Uses the kernel's own benchmark (gup_test: needs root and a kernel built
    /// with it) and an estimate that works everywhere.
    #[arg(long)]
    pub pinning: bool,
    /// Pages per call in the kernel's benchmark; vmsplice pins 16.
    #[arg(long, value_name = "N", default_value_t = pipespeed_explain::costs::pinning::PIPE_PAGES_PER_CALL, value_parser = whole::<u32>(1..=1 << 20), allow_negative_numbers = true, requires = "pinning")]
    pub pages_per_call: u32,
    /// Memory that the kernel's benchmark pins [default: 256M].
    ///
    /// The minimum is 1M. The default is smaller if memory is short.
    #[arg(long, value_name = "SIZE", value_parser = size::parse, allow_hyphen_values = true, requires = "pinning")]
    pub size: Option<usize>,
    /// Kind of pages to pin.
    #[arg(long, value_enum, default_value_t, requires = "pinning")]
    pub pages: PinnedPages,
    /// Pin pages that were never written (the kernel's zero page).
    #[arg(long, requires = "pinning")]
    pub untouched: bool,
}
