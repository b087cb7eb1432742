//! Relays standard input to standard output, without copying where possible, and
//! prints the progress every second.
//!
//! `yes | cargo run --release --example relay | head -c 20G > /dev/null`

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use fastpipe::relay::{Flow, Options, relay};

fn main() -> ExitCode {
    let options = Options::new().interval(Duration::from_secs(1));
    let outcome = relay(io::stdin(), io::stdout(), &options, |now| {
        // Without the bytes that are still in the output pipe.
        let read = now.given - now.unread.unwrap_or(0) as u64;
        // Where that can't be written, bytes are relayed all the same.
        let _ = writeln!(io::stderr(), "{:8} MiB by {}", read >> 20, now.technique);
        Flow::Continue
    });
    match outcome {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) if error.reader_is_gone() => ExitCode::SUCCESS,
        Err(error) => {
            // The error itself reports the progress, its source the reason.
            let reason = error.source().map(ToString::to_string);
            eprintln!("{error}: {}", reason.unwrap_or_default());
            ExitCode::FAILURE
        }
    }
}
