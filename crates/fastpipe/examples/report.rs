//! Sends numbers by one method, and prints the rate and the writer's report on standard
//! error.
//!
//! `cargo run --release --example report auto 1024 | wc -c`
//!
//! The arguments are a method (`auto`, `fresh`, `cow-checked`, `copy`, or the length of the
//! pieces in which to copy) and a number of MiB.

use std::error::Error;
use std::io::Write;
use std::time::Instant;

use fastpipe::{Method, Writer};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let method = match args.next().ok_or("a method is missing")?.as_str() {
        "auto" => Method::Auto,
        "fresh" => Method::Fresh,
        "cow-checked" => Method::CowChecked,
        "copy" => Method::Copy {
            piece: fastpipe::probe::copy_piece(),
        },
        piece => Method::Copy {
            piece: piece.parse()?,
        },
    };
    let mib: u64 = args.next().ok_or("the number of MiB is missing")?.parse()?;
    let total = mib << 20;

    let started = Instant::now();
    let mut out = Writer::builder().method(method).stdout()?;
    let (mut sent, mut number) = (0, 0u64);
    while sent < total {
        let mut page = out.lend(0)?;
        let n = (page.len() as u64).min(total - sent) as usize;
        for word in page[..n].as_chunks_mut::<8>().0 {
            *word = number.to_le_bytes();
            number += 1;
        }
        page.commit(n)?;
        sent += n as u64;
    }
    out.flush()?;
    let report = out.report();
    out.finish()?;
    let rate = mib as f64 / 1024.0 / started.elapsed().as_secs_f64();
    eprintln!("{rate:.3} GiB/s\n{report:#?}");
    Ok(())
}
