//! A generator: `cargo run --release --example numbers | head`
//!
//! Ends quietly when the reader has had enough.

use std::io::{self, Write};

use fastpipe::writer::Writer;

fn main() -> io::Result<()> {
    let mut out = Writer::builder().stdout()?;
    let outcome = (1u64..=100_000_000).try_for_each(|n| writeln!(out, "{n}"));
    match outcome.and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome,
    }
}
