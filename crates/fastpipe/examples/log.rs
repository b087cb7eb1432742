//! Writes log lines to standard output: many at a time, and those so far when it matters.
//!
//! `cargo run --release --example log | cat`

use std::io::{self, ErrorKind, Write};

use fastpipe::Writer;

fn main() -> io::Result<()> {
    match log() {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

fn log() -> io::Result<()> {
    let mut out = Writer::stdout()?;
    for request in 0..100_000 {
        writeln!(out, "request {request}: served")?;
        if request % 10_000 == 0 {
            writeln!(out, "request {request}: checkpoint")?;
            // The reader gets all lines so far, this one included.
            out.flush()?;
        }
    }
    out.finish()?;
    Ok(())
}
