//! A filter that turns ASCII letters into upper case.
//!
//! `cargo run --release --example upper < file | less`

use std::io::{self, ErrorKind, Read};

use fastpipe::{Reader, Writer};

fn main() -> io::Result<()> {
    match filter() {
        // The reader has closed the pipe.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

fn filter() -> io::Result<()> {
    let mut input = Reader::builder().stdin()?;
    let mut out = Writer::stdout()?;
    loop {
        let mut page = out.lend(256 << 10)?;
        let n = input.read(&mut page)?;
        if n == 0 {
            break;
        }
        page[..n].make_ascii_uppercase();
        page.commit(n)?;
    }
    out.finish()?;
    Ok(())
}
