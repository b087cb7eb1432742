//! Frames from one process to another through a ring, which is the other one's standard input.
//!
//! `cargo run --release --example frames`

use std::io;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

use fastpipe::ring::{self, Consumer, Peer};

const FRAME: usize = 1920 * 1080 * 3;
const COUNT: u8 = 100;

fn main() -> io::Result<()> {
    if std::env::args().nth(1).is_some() {
        return take();
    }
    // Room for two frames while another one is being made.
    let (mut producer, consumer) = ring::pair(4 * FRAME)?;
    let mut child = Command::new(std::env::current_exe()?)
        .arg("take")
        .stdin(Stdio::from(consumer.into_fd()?))
        .spawn()?;
    producer.watch(Peer::child(&child)?);
    for number in 0..COUNT {
        let mut frame = producer.lend(FRAME)?;
        frame.fill(0..FRAME, number);
        frame.commit(FRAME);
    }
    // The consumer sees the end.
    drop(producer);
    child.wait()?;
    Ok(())
}

fn take() -> io::Result<()> {
    let mut consumer = Consumer::from_fd(io::stdin().as_fd().try_clone_to_owned()?)?;
    consumer.watch(Peer::parent()?);
    let mut frame = vec![0; FRAME];
    let mut count = 0;
    loop {
        let mut view = consumer.peek(FRAME)?;
        if view.is_empty() {
            break;
        }
        view.read_at(0, &mut frame);
        view.release(FRAME);
        assert!(frame.iter().all(|byte| *byte == count));
        count += 1;
    }
    println!("{count} frames");
    Ok(())
}
