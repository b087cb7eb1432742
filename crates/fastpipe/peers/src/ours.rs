//! fastpipe's ring, in place.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use anyhow::Result;
use fastpipe::Wait;
use fastpipe::ring;

use crate::channel::{Consumer, Producer, Shape, sum};

pub struct Sender {
    producer: ring::Producer,
    size: usize,
}

fn wait(spins: bool) -> Wait {
    if spins { Wait::Spin } else { Wait::Block }
}

pub fn producer(shape: Shape, spins: bool) -> Result<(Sender, OwnedFd)> {
    let (mut producer, consumer) = ring::pair(shape.size * shape.messages)?;
    producer.set_wait(wait(spins));
    let size = shape.size;
    Ok((Sender { producer, size }, consumer.into_fd()?))
}

impl Producer for Sender {
    fn send(&mut self, value: u8) -> Result<()> {
        let mut slot = self.producer.lend(self.size)?;
        // SAFETY: the consumer is that of this program, and reads only what was committed.
        let bytes = unsafe { slot.bytes_mut() };
        bytes[..self.size].fill(value);
        slot.commit(self.size);
        Ok(())
    }

    fn end(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

pub struct Receiver {
    consumer: ring::Consumer,
    size: usize,
}

pub fn consumer(shape: Shape, spins: bool) -> Result<Receiver> {
    let mut consumer = ring::Consumer::from_fd(io::stdin().as_fd().try_clone_to_owned()?)?;
    consumer.set_wait(wait(spins));
    let size = shape.size;
    Ok(Receiver { consumer, size })
}

impl Consumer for Receiver {
    fn receive(&mut self) -> Result<Option<u64>> {
        let view = self.consumer.peek(self.size)?;
        if view.is_empty() {
            return Ok(None);
        }
        // SAFETY: the producer is that of this program, and writes only what was released.
        let sum = sum(&unsafe { view.bytes() }[..self.size]);
        view.release(self.size);
        Ok(Some(sum))
    }
}
