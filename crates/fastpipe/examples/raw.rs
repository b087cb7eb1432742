//! The system calls themselves: pages by vmsplice(2) to one pipe, tee(2) to another, splice(2) to a file.
//!
//! `cargo run --release --features raw --example raw FILE | wc -c`

use std::fs::File;
use std::io;

use fastpipe::Wait;
use fastpipe::buffer::Buffer;
use fastpipe::pipe;
use fastpipe::transfer::{Input, Output, SpliceOptions, VmspliceOptions};

fn main() -> io::Result<()> {
    let Some(path) = std::env::args_os().nth(1) else {
        return Err(io::Error::other("usage: raw FILE"));
    };
    // A page that is never changed needs no rules about when it may be.
    let mut page = Buffer::builder().len(pipe::page_size()).map()?;
    page.fill(b'x');

    let (reader, writer) = io::pipe()?;
    pipe::set_capacity_up_to(&writer, 1 << 20)?;
    let len = pipe::capacity(&writer)? / page.len() * page.len();
    let pages = vec![page.slice(..); len / page.len()];
    Output::new(writer, Wait::Block).vmsplice(&pages, VmspliceOptions::default())?;

    let mut input = Input::new(reader, Wait::Block);
    // A second pipe refers to the same pages, so far as it has room.
    let copied = input.tee(io::stdout(), len)?;
    let file = File::create(path)?;
    let moved = input.splice(&file, len as u64, SpliceOptions::default())?;
    eprintln!("{copied} bytes to standard output, {moved} to the file");
    Ok(())
}
