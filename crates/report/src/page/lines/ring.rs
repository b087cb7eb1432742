use fastpipe::ring::{self, Consumer, Peer, Producer};
use std::io;
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};

/// In the reader, which starts the writer. A Consumer is an io::Read; peek and release
/// copy nothing.
fn start(writer: &str) -> io::Result<(Child, Consumer)> {
    // Twice the largest message, or more.
    let (producer, mut consumer) = ring::pair(2 << 20)?;
    let mut command = Command::new(writer);
    command.stdout(Stdio::from(producer.into_fd()?));
    let child = command.spawn()?;
    consumer.watch(Peer::child(&child)?);
    Ok((child, consumer))
}

/// In the writer. A Producer is an io::Write; lend and commit copy nothing.
fn output() -> io::Result<Producer> {
    Producer::from_fd(io::stdout().as_fd().try_clone_to_owned()?)
}
