//! Standard input to standard output, without a copy where the kernel can, and
//! a line about it every second.
//!
//! `yes | cargo run --release --example relay | head -c 20G > /dev/null`

use std::error::Error;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use fastpipe::relay::{Flow, Options, relay};

fn main() -> ExitCode {
    let options = Options::new().interval(Duration::from_secs(1));
    let outcome = relay(io::stdin(), io::stdout(), &options, |now| {
        // What waits in the output pipe has not left yet.
        let left = now.given - now.unread.unwrap_or(0) as u64;
        eprintln!("{:8} MiB by {}", left >> 20, now.technique);
        Flow::Continue
    });
    match outcome {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) if error.reader_is_gone() => ExitCode::SUCCESS,
        Err(error) => {
            // It says how far it got; its source, why.
            let why = error.source().map(ToString::to_string);
            eprintln!("{error}: {}", why.unwrap_or_default());
            ExitCode::FAILURE
        }
    }
}
