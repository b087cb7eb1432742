//! What only the suite volumes takes.

use pipespeed_base::size;

/// The least volume: a smaller one may be in the pipe before it is timed.
const MIN: usize = 16 << 20;

/// The largest volume: a day's work at a GiB/s. Each 0.25 GiB of a trial is a
/// rate in the record.
const MAX: usize = 64 << 40;

/// Which volumes.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Suite volumes")]
pub struct VolumesArgs {
    /// Volumes, from 16M to 64T [default: 0.25G,2.5G,25G].
    ///
    /// With --quick 64M,0.25G,1G.
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
            "a volume has at least {}",
            size::format(MIN as u64)
        )),
        bytes if bytes > MAX => Err(format!("a volume has at most {}", size::format(MAX as u64))),
        bytes => Ok(bytes),
    }
}
