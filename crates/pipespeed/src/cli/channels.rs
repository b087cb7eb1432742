//! What only the suite channels takes.

use pipespeed_base::size;
use pipespeed_measure::suite::channels::{MAX_BYTES, Selection, Transport};

use super::named::named_among;

/// Which channels and messages.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Suite channels")]
pub struct ChannelsArgs {
    /// Measure only these channels.
    ///
    /// Each is compared with the pipe if that is among them, else with the first.
    /// `bench channels --all --list` lists them.
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        value_parser = named_among(Transport::with_data()),
        hide_possible_values = true
    )]
    pub channel: Vec<Transport>,
    /// Message sizes, up to 4M; in the suite memory, block sizes.
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
    /// What is chosen.
    pub fn selection(&self) -> Selection {
        Selection {
            channels: self.channel.clone(),
            sizes: self.size.clone(),
            all: self.all,
        }
    }

    /// The first option that was given.
    pub fn given(&self) -> Option<&'static str> {
        match self {
            _ if !self.channel.is_empty() => Some("--channel"),
            _ if self.all => Some("--all"),
            _ if !self.size.is_empty() => Some("--size"),
            _ => None,
        }
    }

    /// The first size that no message has.
    pub fn oversized(&self) -> Option<usize> {
        self.size.iter().copied().find(|bytes| *bytes > MAX_BYTES)
    }
}

fn message_or_block(text: &str) -> Result<usize, String> {
    size::parse(text).map_err(|error| {
        format!(
            "{error}; a message has from 1 byte to {}",
            size::format(MAX_BYTES as u64)
        )
    })
}
