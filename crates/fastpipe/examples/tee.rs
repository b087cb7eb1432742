//! As tee(1): passes standard input on, and writes a copy into a file.
//!
//! `seq 1000000 | cargo run --release --example tee copy | wc -l`

use std::fs::File;
use std::io::{self, Write};

use fastpipe::relay::{Flow, Options, relay_inspecting};

fn main() -> io::Result<()> {
    let Some(path) = std::env::args_os().nth(1) else {
        return Err(io::Error::other("usage: tee FILE"));
    };
    let mut file = File::create(path)?;
    let mut failed = None;
    let save = |bytes: &[u8]| match file.write_all(bytes) {
        Ok(()) => Flow::Continue,
        Err(error) => {
            failed = Some(error);
            Flow::Stop
        }
    };
    // Each byte is seen once, after it was given to the output.
    let options = Options::new();
    let done = relay_inspecting(io::stdin(), io::stdout(), &options, save, |_| {
        Flow::Continue
    });
    match (done, failed) {
        (_, Some(error)) => Err(error),
        (Err(error), _) => Err(error.into()),
        (Ok(_), None) => Ok(()),
    }
}
