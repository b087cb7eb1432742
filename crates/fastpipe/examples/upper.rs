//! A filter: `cargo run --release --example upper < file | less`

use std::io::{self, ErrorKind, Read};

use fastpipe::reader::Reader;
use fastpipe::writer::{FinishError, Writer};

fn main() -> io::Result<()> {
    match filter() {
        // The reader has had enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

fn filter() -> io::Result<()> {
    let mut input = Reader::builder().stdin()?;
    let mut out = Writer::builder().stdout()?;
    loop {
        let mut page = out.lend(256 << 10)?;
        let n = input.read(&mut page)?;
        if n == 0 {
            break;
        }
        page[..n].make_ascii_uppercase();
        page.commit(n)?;
    }
    out.finish().map(drop).map_err(FinishError::abandon)
}
