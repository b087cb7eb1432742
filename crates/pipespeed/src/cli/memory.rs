//! What only the suite memory takes, besides sizes.

use super::named::named;
use pipespeed_measure::endpoint::spec::PageKind;

/// Which blocks.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Suite memory")]
pub struct MemoryArgs {
    /// Kind of pages of the blocks [default: base].
    #[arg(long, value_parser = named::<PageKind>())]
    pub pages: Option<PageKind>,
}
