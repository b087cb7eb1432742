//! Messages to a worker that gets its end of a ring over a socket, its standard input.
//!
//! `cargo run --release --example messages`

use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use fastpipe::ring::{Consumer, Producer};

fn main() -> io::Result<()> {
    if std::env::args().nth(1).is_some() {
        return work();
    }
    let (here, there) = UnixStream::pair()?;
    let mut worker = Command::new(std::env::current_exe()?)
        .arg("work")
        .stdin(Stdio::from(OwnedFd::from(there)))
        .stdout(Stdio::piped())
        .spawn()?;
    let mut jobs = Producer::offer(&here, 64 << 10)?;
    for number in 0..100_000 {
        jobs.send(format!("job {number}").as_bytes())?;
    }
    // The worker sees the end.
    drop(jobs);
    let mut answer = String::new();
    if let Some(mut out) = worker.stdout.take() {
        out.read_to_string(&mut answer)?;
    }
    print!("{answer}");
    worker.wait()?;
    Ok(())
}

fn work() -> io::Result<()> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut jobs = Consumer::accept(&socket)?;
    let (mut job, mut count) = (Vec::new(), 0);
    while jobs.recv(&mut job)?.is_some() {
        assert_eq!(job, format!("job {count}").as_bytes());
        count += 1;
    }
    println!("{count} jobs");
    Ok(())
}
