//! Options of the suite volumes.

use pipespeed_base::size;

/// Smallest volume; a smaller one could fit into the pipe before timing starts.
const MIN: usize = 16 << 20;

/// Largest volume: about a day at 1 GiB/s. The record has one rate for each
/// 0.25 GiB of a trial.
const MAX: usize = 64 << 40;

/// The volumes to measure.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Suite volumes")]
pub struct VolumesArgs {
    /// Volumes to transfer, from 16M to 64T [default: 0.25G,2.5G,25G].
    ///
    /// The default with --quick is 64M,0.25G,1G.
    #[arg(
        long,
        value_name = "SIZE",
        value_delimiter = ',',
        value_parser = volume,
        allow_hyphen_values = true
    )]
    pub volume: Vec<usize>,
}

fn volume(text: &str) -> Result<usize, String> {
    match size::parse(text)? {
        bytes if bytes < MIN => Err(format!(
            "a volume must be at least {}",
            size::format(MIN as u64)
        )),
        bytes if bytes > MAX => Err(format!(
            "a volume must be at most {}",
            size::format(MAX as u64)
        )),
        bytes => Ok(bytes),
    }
}
