//! Options of the suite channels.

use pipespeed_base::size;
use pipespeed_measure::spec::Channel;
use pipespeed_measure::suite::channels::MAX_BYTES;

use super::named::named_among;

/// The channels and message sizes to measure.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Suite channels")]
pub struct ChannelsArgs {
    /// Measure only these channels.
    ///
    /// Each is compared with the pipe if it is measured, else with the first channel.
    /// `bench channels --all --list` lists them.
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        value_parser = named_among(Channel::with_data()),
        hide_possible_values = true
    )]
    pub channel: Vec<Channel>,
    /// Message sizes, up to 4M; block sizes in the suite memory.
    #[arg(
        long,
        value_name = "SIZE",
        value_delimiter = ',',
        value_parser = message_or_block,
        allow_hyphen_values = true
    )]
    pub size: Vec<usize>,
    /// Measure all channels, and sizes from 1 byte to 4 MiB.
    #[arg(long)]
    pub all: bool,
}

fn message_or_block(text: &str) -> Result<usize, String> {
    size::parse(text).map_err(|error| {
        format!(
            "{error}; a message must have from 1 byte to {}",
            size::format(MAX_BYTES as u64)
        )
    })
}
