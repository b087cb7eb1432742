//! A generator: 10 GB of numbers, made in memory lent by the writer.
//!
//! `cargo run --release --example generator | wc -c`

use std::io::{self, ErrorKind};

use fastpipe::Writer;

fn main() -> io::Result<()> {
    match generate() {
        // The reader has closed the pipe.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

fn generate() -> io::Result<()> {
    let mut out = Writer::stdout()?;
    let mut number = 0u64;
    while number < 1_250_000_000 {
        let mut page = out.lend(0)?;
        for word in page.as_chunks_mut::<8>().0 {
            *word = number.to_le_bytes();
            number += 1;
        }
        let n = page.len();
        page.commit(n)?;
    }
    out.finish()?;
    Ok(())
}
