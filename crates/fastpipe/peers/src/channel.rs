//! What all kinds have in common.

use std::fmt;
use std::os::fd::OwnedFd;
use std::str::FromStr;

use anyhow::{Result, bail};

use crate::{by_hand, ours, theirs};

/// Size and number of the messages that a channel holds.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub size: usize,
    pub messages: usize,
}

impl Shape {
    pub fn new(size: usize, messages: usize) -> Self {
        Shape { size, messages }
    }
}

/// A way to pass messages on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// fastpipe's ring, whose ends spin.
    Spinning,
    /// The same, whose ends sleep.
    Sleeping,
    /// iceoryx2, whose ends can only spin.
    Iceoryx2,
    /// Slots in a memfd, whose ends spin.
    SpinningByHand,
    /// The same, whose ends sleep by futex(2).
    SleepingByHand,
}

impl Kind {
    pub const ALL: [Kind; 5] = [
        Kind::Spinning,
        Kind::Sleeping,
        Kind::Iceoryx2,
        Kind::SpinningByHand,
        Kind::SleepingByHand,
    ];
    /// Those to compare.
    pub const PAIRS: [(Kind, Kind); 4] = [
        (Kind::Spinning, Kind::Iceoryx2),
        (Kind::Sleeping, Kind::Iceoryx2),
        (Kind::Spinning, Kind::SpinningByHand),
        (Kind::Sleeping, Kind::SleepingByHand),
    ];

    fn name(self) -> &'static str {
        match self {
            Kind::Spinning => "spin",
            Kind::Sleeping => "sleep",
            Kind::Iceoryx2 => "iceoryx2",
            Kind::SpinningByHand => "hand-spin",
            Kind::SleepingByHand => "hand-sleep",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self> {
        match Kind::ALL.iter().find(|kind| kind.name() == name) {
            Some(kind) => Ok(*kind),
            None => bail!("no channel is called {name}"),
        }
    }
}

/// Fills messages and sends them.
pub trait Producer {
    fn send(&mut self, value: u8) -> Result<()>;
    fn end(self: Box<Self>) -> Result<()>;
}

/// Receives messages.
pub trait Consumer {
    /// The sum of the words of the next message; `None` at the end.
    fn receive(&mut self) -> Result<Option<u64>>;
}

/// Makes a channel. Returns its end, and what the consumer inherits as standard input.
pub fn producer(
    kind: Kind,
    shape: Shape,
    name: &str,
) -> Result<(Box<dyn Producer>, Option<OwnedFd>)> {
    Ok(match kind {
        Kind::Spinning | Kind::Sleeping => {
            let (end, other) = ours::producer(shape, kind == Kind::Spinning)?;
            (Box::new(end), Some(other))
        }
        Kind::Iceoryx2 => (Box::new(theirs::Publisher::new(shape, name)?), None),
        Kind::SpinningByHand | Kind::SleepingByHand => {
            let (end, other) = by_hand::producer(shape, kind == Kind::SpinningByHand)?;
            (Box::new(end), Some(other))
        }
    })
}

/// Takes the other end.
pub fn consumer(kind: Kind, shape: Shape, name: &str) -> Result<Box<dyn Consumer>> {
    Ok(match kind {
        Kind::Spinning | Kind::Sleeping => {
            Box::new(ours::consumer(shape, kind == Kind::Spinning)?)
        }
        Kind::Iceoryx2 => Box::new(theirs::Subscriber::new(shape, name)?),
        Kind::SpinningByHand | Kind::SleepingByHand => {
            Box::new(by_hand::consumer(shape, kind == Kind::SpinningByHand)?)
        }
    })
}

/// The sum of the words of a message.
#[inline]
pub fn sum(message: &[u8]) -> u64 {
    let words = message.as_chunks::<8>().0.iter();
    words.fold(0, |sum, word| sum.wrapping_add(u64::from_ne_bytes(*word)))
}
