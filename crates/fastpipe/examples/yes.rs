//! `yes`: constant data, repeated until the reader closes the pipe.
//!
//! `cargo run --release --example yes | head -c 10G > /dev/null`

use std::io::{self, Write};

use fastpipe::{Frozen, Writer};

fn main() -> io::Result<()> {
    let line = Frozen::new(b"y\n")?;
    let mut out = Writer::stdout()?;
    out.repeat(&line, u64::MAX)?;
    match out.flush() {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome,
    }
}
