//! A generator of lines, which ends quietly when the reader closes the pipe.
//!
//! `cargo run --release --example numbers | head`

use std::io::{self, Write};

use fastpipe::Writer;

fn main() -> io::Result<()> {
    let mut out = Writer::stdout()?;
    let outcome = (1u64..=100_000_000).try_for_each(|n| writeln!(out, "{n}"));
    match outcome.and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome,
    }
}
