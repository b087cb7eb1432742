//! Repeated data: `yes`, for as long as somebody reads.
//!
//! `cargo run --release --example yes | head -c 10G > /dev/null`

use std::io;

use fastpipe::writer::{Frozen, PipeWriter};

fn main() -> io::Result<()> {
    let line = Frozen::new(b"y\n")?;
    let mut out = PipeWriter::builder().stdout()?;
    match out.repeat(&line, u64::MAX) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome,
    }
}
