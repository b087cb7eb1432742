//! Saves standard input to a file on its way to standard output, as tee(1) does.
//!
//! `seq 1000000 | cargo run --release --example save copy.txt | tail -n 1`

use std::fs::File;
use std::io::{self, Read, Write};

use fastpipe::{Reader, Writer};

fn main() -> io::Result<()> {
    let path = std::env::args().nth(1);
    let path = path.ok_or_else(|| io::Error::other("usage: save FILE"))?;
    let mut file = File::create(path)?;
    let mut input = Reader::stdin();
    let mut out = Writer::stdout()?;
    loop {
        let mut loan = out.lend(256 << 10)?;
        let n = input.read(&mut loan)?;
        if n == 0 {
            break;
        }
        file.write_all(&loan[..n])?;
        loan.commit(n)?;
    }
    out.finish()?;
    Ok(())
}
