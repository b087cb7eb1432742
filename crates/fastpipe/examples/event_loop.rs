//! One thread writes to two programs at their own speeds.
//!
//! `cargo run --release --example event_loop`
//!
//! Under [`Wait::Never`] a writer queues what does not fit into the pipe and
//! returns `WouldBlock` when asked to lend more. mio reports when there is room
//! again. No descriptor is made non-blocking, since the flag would apply to the
//! programs, too.

use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::process::{ChildStdin, Command, Stdio};

use fastpipe::{Wait, Writer};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

const TOTAL: u64 = 1 << 30;

struct Feed {
    out: Option<Writer<ChildStdin>>,
    made: u64,
}

impl Feed {
    /// Sends until the pipe is full (returns false) or everything is sent (true).
    fn advance(&mut self) -> io::Result<bool> {
        let Some(out) = &mut self.out else {
            return Ok(true);
        };
        let outcome = loop {
            if self.made == TOTAL {
                break out.flush();
            }
            match out.lend(0) {
                Ok(mut loan) => {
                    let n = (loan.len() as u64).min(TOTAL - self.made) as usize;
                    loan[..n].fill(b'x');
                    loan.commit(n)?;
                    self.made += n as u64;
                }
                Err(error) => break Err(error),
            }
        };
        match outcome {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            outcome => {
                outcome?;
                // Dropping it closes the pipe: the program sees the end of file.
                self.out = None;
                Ok(true)
            }
        }
    }
}

fn main() -> io::Result<()> {
    let mut poll = Poll::new()?;
    let mut children = Vec::new();
    let mut feeds = Vec::new();
    for (at, program) in ["wc -c", "cksum"].into_iter().enumerate() {
        let mut words = program.split(' ');
        let mut child = Command::new(words.next().unwrap_or_default())
            .args(words)
            .stdin(Stdio::piped())
            .spawn()?;
        let Some(pipe) = child.stdin.take() else {
            continue;
        };
        let fd = pipe.as_raw_fd();
        poll.registry()
            .register(&mut SourceFd(&fd), Token(at), Interest::WRITABLE)?;
        children.push(child);
        feeds.push(Feed {
            out: Some(Writer::builder().wait(Wait::Never).open(pipe)?),
            made: 0,
        });
    }
    let mut events = Events::with_capacity(16);
    while feeds.iter().any(|feed| feed.out.is_some()) {
        poll.poll(&mut events, None)?;
        for event in &events {
            feeds[event.token().0].advance()?;
        }
    }
    for mut child in children {
        child.wait()?;
    }
    Ok(())
}
