//! Rings between a test and its child process, and a stream through them.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::thread::JoinHandle;
use std::time::Instant;

use fastpipe::ring::{self, Consumer, Peer, Producer, RingError};
use rustix::process::Signal;

use super::process::spawn;
use super::state::{until_asleep, watch};
use super::writers::{KIB, MIB, check, fill, stream};

pub const CAPACITY: usize = 64 * KIB;
pub const LEN: usize = 4 * MIB + 17;

/// How the ring is passed to the child: in each case by its standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Inherited,
    Socket,
}

pub const WAYS: [Way; 2] = [Way::Inherited, Way::Socket];

pub fn name(role: &str, way: Way) -> String {
    format!("{role} {way:?}")
}

pub fn stdin() -> OwnedFd {
    std::io::stdin().as_fd().try_clone_to_owned().unwrap()
}

pub fn child_producer(way: Way) -> Producer {
    match way {
        Way::Inherited => Producer::from_fd(stdin()).unwrap(),
        Way::Socket => Producer::accept(&UnixStream::from(stdin())).unwrap(),
    }
}

pub fn child_consumer(way: Way) -> Consumer {
    match way {
        Way::Inherited => Consumer::from_fd(stdin()).unwrap(),
        Way::Socket => Consumer::accept(&UnixStream::from(stdin())).unwrap(),
    }
}

/// A consumer in this process, and a child in `role` with the producer.
pub fn with_child_producer(test: &str, role: &str, way: Way) -> (Consumer, Child) {
    watch();
    let spawn = |fd| spawn(test, &name(role, way), fd, Stdio::inherit());
    match way {
        Way::Inherited => {
            let (producer, mut consumer) = ring::pair(CAPACITY).unwrap();
            let child = spawn(producer.into_fd().unwrap());
            consumer.watch(Peer::child(&child).unwrap());
            (consumer, child)
        }
        Way::Socket => {
            let (here, there) = UnixStream::pair().unwrap();
            let child = spawn(there.into());
            (Consumer::offer(&here, CAPACITY).unwrap(), child)
        }
    }
}

/// A producer in this process, and a child in `role` with the consumer.
pub fn with_child_consumer(test: &str, role: &str, way: Way) -> (Producer, Child) {
    watch();
    let spawn = |fd| spawn(test, &name(role, way), fd, Stdio::inherit());
    match way {
        Way::Inherited => {
            let (mut producer, consumer) = ring::pair(CAPACITY).unwrap();
            let child = spawn(consumer.into_fd().unwrap());
            producer.watch(Peer::child(&child).unwrap());
            (producer, child)
        }
        Way::Socket => {
            let (here, there) = UnixStream::pair().unwrap();
            let child = spawn(there.into());
            (Producer::offer(&here, CAPACITY).unwrap(), child)
        }
    }
}

/// Produces the stream, in place and by copying, in pieces of many sizes.
pub fn produce(producer: &mut Producer, len: usize) -> std::io::Result<()> {
    let sizes = [1, 4096, 777, 20_000, 32 * KIB, 3];
    let mut at = 0;
    for (n, size) in sizes.iter().cycle().enumerate() {
        let size = (*size).min(len - at);
        if size == 0 {
            break;
        }
        match n % 3 {
            0 => producer.write_all(&stream(at as u64, size))?,
            1 => {
                let mut slot = producer.lend(size)?;
                // SAFETY: the other process belongs to this test, and does not access
                // these bytes.
                let bytes = unsafe { slot.bytes_mut() };
                fill(&mut bytes[..size], at as u64);
                slot.commit(size);
            }
            _ => {
                let mut slot = producer.lend(size)?;
                slot.write_at(0, &stream(at as u64, size));
                slot.commit(size);
            }
        }
        at += size;
    }
    Ok(())
}

/// Consumes the stream from its beginning to its end. Returns the offset of the end, and
/// the result.
pub fn consume(consumer: &mut Consumer) -> (usize, std::io::Result<()>) {
    consume_from(0, consumer)
}

pub fn consume_from(mut at: usize, consumer: &mut Consumer) -> (usize, std::io::Result<()>) {
    let sizes = [3, 1, 9000, 32 * KIB, 100];
    let mut copy = vec![0; CAPACITY];
    for (n, size) in sizes.iter().cycle().enumerate() {
        let got = match n % 2 {
            0 => consumer.read(&mut copy[..*size]).inspect(|n| {
                check(&copy[..*n], at as u64).unwrap();
            }),
            _ => consumer.peek(*size).map(|view| {
                // SAFETY: the other process belongs to this test, and does not access
                // these bytes.
                check(unsafe { view.bytes() }, at as u64).unwrap();
                let n = view.len().min(size * 2);
                view.release(n);
                n
            }),
        };
        match got {
            Ok(0) => break,
            Ok(n) => at += n,
            Err(error) => return (at, Err(error)),
        }
    }
    (at, Ok(()))
}

pub fn error_of(error: &std::io::Error) -> Option<RingError> {
    error.get_ref()?.downcast_ref().copied()
}

/// Waits until this process is killed or its parent has ended.
pub fn park() -> ! {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    loop {
        std::thread::park();
    }
}

/// The times when a child was sent SIGKILL, and when it was dead.
pub struct Death {
    pub killed: Instant,
    pub dead: Instant,
}

/// Kills the child at once or, if `when_asleep`, as soon as the calling thread sleeps.
pub fn kill(mut child: Child, when_asleep: bool) -> JoinHandle<Death> {
    let caller = rustix::thread::gettid();
    std::thread::spawn(move || {
        if when_asleep {
            until_asleep(caller);
        }
        let killed = Instant::now();
        child.kill().unwrap();
        child.wait().unwrap();
        let dead = Instant::now();
        Death { killed, dead }
    })
}
