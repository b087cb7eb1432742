//! [`Producer`] and [`Consumer`]: ends of a ring that keep what they lend.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU8;

use fastpipe::ring::{self, Slot, View};

use crate::Lent;
use crate::lending::Lending;
use crate::writer::{no_loan, too_short};

/// A [`ring::Producer`] that keeps the room it lends.
#[derive(Debug)]
pub struct Producer(Lending<ring::Producer, Slot<'static>>);

impl From<ring::Producer> for Producer {
    fn from(end: ring::Producer) -> Self {
        Producer(Lending::new(end))
    }
}

impl Producer {
    /// Lends room for the next bytes: see [`ring::Producer::lend`].
    ///
    /// # Errors
    /// Those of [`ring::Producer::lend`].
    pub fn lend(&mut self, at_least: usize) -> io::Result<Lent> {
        let slot = self.0.lend(|end| end.lend(at_least))?;
        Ok(shared(slot.atomics()))
    }

    /// Makes the first `n` bytes of the room lent available to the consumer.
    ///
    /// # Errors
    /// `InvalidInput` if nothing is lent, or less.
    pub fn commit(&mut self, n: usize) -> io::Result<()> {
        let slot = self.0.take_loan().ok_or_else(no_loan)?;
        if n > slot.len() {
            return Err(too_short(n, slot.len()));
        }
        slot.commit(n);
        Ok(())
    }

    /// The end itself. What was lent is no more.
    pub fn end(&mut self) -> &mut ring::Producer {
        self.0.owner()
    }

    /// The end itself.
    pub fn into_end(self) -> ring::Producer {
        self.0.take()
    }
}

/// A [`ring::Consumer`] that keeps the bytes it lends.
#[derive(Debug)]
pub struct Consumer(Lending<ring::Consumer, View<'static>>);

impl From<ring::Consumer> for Consumer {
    fn from(end: ring::Consumer) -> Self {
        Consumer(Lending::new(end))
    }
}

impl Consumer {
    /// Lends the next bytes: see [`ring::Consumer::peek`].
    ///
    /// # Errors
    /// Those of [`ring::Consumer::peek`].
    pub fn peek(&mut self, at_least: usize) -> io::Result<Lent> {
        let view = self.0.lend(|end| end.peek(at_least))?;
        Ok(shared(view.atomics()))
    }

    /// Takes the first `n` bytes of those lent out of the ring.
    ///
    /// # Errors
    /// `InvalidInput` if nothing is lent, or less.
    pub fn release(&mut self, n: usize) -> io::Result<()> {
        let view = self.0.take_loan().ok_or_else(no_loan)?;
        if n > view.len() {
            return Err(too_short(n, view.len()));
        }
        view.release(n);
        Ok(())
    }

    /// The end itself. What was lent is no more.
    pub fn end(&mut self) -> &mut ring::Consumer {
        self.0.owner()
    }

    /// The end itself.
    pub fn into_end(self) -> ring::Consumer {
        self.0.take()
    }
}

fn shared(bytes: &[AtomicU8]) -> Lent {
    Lent {
        start: NonNull::from(bytes).cast(),
        len: bytes.len(),
    }
}
