//! Options of the suite memory, besides --size.

use super::named::named_among;
use pipespeed_measure::spec::PageKind;

/// The memory blocks to measure.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Suite memory")]
pub struct MemoryArgs {
    /// Page kind of the blocks [default: base].
    #[arg(long, value_parser = named_among(vec![PageKind::Base, PageKind::Huge, PageKind::HugeTlb]))]
    pub pages: Option<PageKind>,
}
