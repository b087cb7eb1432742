//! Options of the suite channels.

use pipespeed_base::size;
use pipespeed_measure::suite::channels::{MAX_BYTES, Selection, Transport};

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
        value_parser = named_among(Transport::with_data()),
        hide_possible_values = true
    )]
    pub channel: Vec<Transport>,
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

impl ChannelsArgs {
    /// Returns the chosen channels and sizes.
    pub fn selection(&self) -> Selection {
        Selection {
            channels: self.channel.clone(),
            sizes: self.size.clone(),
            all: self.all,
        }
    }

    /// Returns the name of the first of these options that was given.
    pub fn given(&self) -> Option<&'static str> {
        match self {
            _ if !self.channel.is_empty() => Some("--channel"),
            _ if self.all => Some("--all"),
            _ if !self.size.is_empty() => Some("--size"),
            _ => None,
        }
    }

    /// Returns the first size that exceeds the largest message.
    pub fn oversized(&self) -> Option<usize> {
        self.size.iter().copied().find(|bytes| *bytes > MAX_BYTES)
    }
}

fn message_or_block(text: &str) -> Result<usize, String> {
    size::parse(text).map_err(|error| {
        format!(
            "{error}; a message must have from 1 byte to {}",
            size::format(MAX_BYTES as u64)
        )
    })
}
