//! One process's end of a connection: sends and receives complete messages.

use std::hint;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastpipe::buffer::Buffer;
use fastpipe::wait::Backoff;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::memory::{Messages, slots};
use super::spec::{ExchangeMode, Naive, Spec};
use crate::channel::{self, Receiver, Transmitter, moved};
use crate::failure::{PeerGone, refusal_or_failure};
use crate::record::NotRun;
use crate::spec::{Channel, ChannelSizes, ProcessRole, Waiting};
use crate::sys::SharedWords;

// Each process has some of the shared words, the sender the first ones: the bytes it
// has written, the bytes it has read, and whether it is writing.

/// The number of words of a process.
pub(super) const WORDS: usize = 3;

/// The process is writing a message.
pub(super) const WRITING: u64 = 1;
/// The process is not writing.
const IDLE: u64 = 0;

/// The outcome of one attempt to move a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttemptOutcome {
    /// Part of the message was moved.
    Part,
    /// The rest of the message was moved.
    All,
}

/// One end of a connection, with its messages and its way of waiting.
pub(super) struct Port {
    channel: Channel,
    transmitter: Box<dyn Transmitter>,
    receiver: Box<dyn Receiver>,
    /// The messages that are sent.
    messages: Messages,
    /// The buffer of received messages; `None` if they are received into `messages` to
    /// be sent back.
    received: Option<Buffer>,
    /// The number of the message being sent, and the bytes of it that have been sent.
    outgoing: (u64, usize),
    /// The same of the message being received.
    incoming: (u64, usize),
    /// The number of bytes of the outgoing message that are sent.
    outgoing_bytes: usize,
    size: usize,
    backoff: Backoff,
    /// Whether the peer has a processor of its own.
    pub(super) apart: bool,
    words: SharedWords,
    /// The index of this process's first word.
    first_word: usize,
}

impl Port {
    /// Creates the end of a process with this role.
    ///
    /// # Errors
    /// If memory can't be mapped; [`NotRun`] if this machine does not allow a call that
    /// is needed.
    pub(super) fn new(
        role: ProcessRole,
        spec: &Spec,
        (input, output): (OwnedFd, Option<OwnedFd>),
        words: SharedWords,
    ) -> anyhow::Result<Self> {
        let slots = slots(spec.channel, spec.size, spec.mode);
        let answers = match spec.mode {
            ExchangeMode::Closed
            | ExchangeMode::Open(_)
            | ExchangeMode::Naive(Naive::ShortReads) => role == ProcessRole::Echo,
            ExchangeMode::Naive(Naive::WriteFirst) => false,
        };
        // A channel in both directions has one descriptor.
        let output = output.map_or_else(|| input.try_clone(), Ok)?;
        let sizes = ChannelSizes::for_round_trips(spec.size, spec.pipe_bytes);
        // Any other way of waiting is the port's.
        let wait = if spec.wait == Waiting::Spin {
            Waiting::Spin
        } else {
            Waiting::Block
        };
        let transmitter = || channel::transmitter(spec.channel, output, sizes, wait);
        let receiver = || channel::receiver(spec.channel, input, sizes, wait);
        // The reader of a ring receives it from the writer, who waits until it has.
        let (transmitter, receiver) = if role == ProcessRole::Sender {
            (transmitter()?, receiver()?)
        } else {
            let receiver = receiver()?;
            (transmitter()?, receiver)
        };
        let mut port = Port {
            channel: spec.channel,
            transmitter,
            receiver,
            messages: Messages::new(spec.channel, spec.size, slots)?,
            received: if answers {
                None
            } else {
                Some(Buffer::builder().len(spec.size).map()?)
            },
            outgoing: (0, 0),
            outgoing_bytes: spec.size,
            incoming: (0, 0),
            size: spec.size,
            backoff: Backoff::with_peer(spec.wait.into(), spec.apart),
            apart: spec.apart,
            words,
            first_word: role.index() * WORDS,
        };
        port.copy_all(answers);
        // These poll memory, and make no system call while nothing is available.
        let in_memory = spec.channel == Channel::Uring || spec.channel.is_ring();
        if spec.wait != Waiting::Block && !(in_memory && spec.wait == Waiting::Spin) {
            port.never_sleep()?;
        }
        Ok(port)
    }

    /// Makes all later calls but [`sleep`](Self::sleep) fail instead of blocking.
    ///
    /// # Errors
    /// Those of fcntl(2).
    pub(super) fn never_sleep(&mut self) -> std::io::Result<()> {
        self.transmitter.never_sleep()?;
        self.receiver.never_sleep()
    }

    /// Sets whether all received bytes are copied or only the first and last ones.
    pub(super) fn copy_all(&mut self, all: bool) {
        self.receiver.copy_all(all);
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        &self.words.words()[self.first_word + offset]
    }

    /// Adds moved bytes to a word, which only this process writes to.
    fn count(&self, offset: usize, moved: usize) {
        let moved = self.word(offset).load(Ordering::Relaxed) + moved as u64;
        self.word(offset).store(moved, Ordering::Relaxed);
    }

    /// The maximum number of messages in flight, if their memory limits it; otherwise
    /// the channel does.
    pub(super) fn max_in_flight(&self) -> Option<u64> {
        self.channel
            .refers_to_memory()
            .then_some(self.messages.slots() as u64)
    }

    /// Produces the next message to send, which has this number.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub(super) fn make(&mut self, number: u64) -> anyhow::Result<()> {
        self.wait_for_room()?;
        self.messages.make(number);
        self.outgoing.0 = number;
        Ok(())
    }

    /// As [`make`](Self::make), but does not wait if there is no room for the message.
    /// Returns whether it was produced.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub(super) fn try_make(&mut self, number: u64) -> anyhow::Result<bool> {
        let room = self.transmitter.check_room();
        let has_room = self.unless_blocked(room)?.is_some();
        if has_room {
            self.messages.make(number);
            self.outgoing.0 = number;
        }
        Ok(has_room)
    }

    fn wait_for_room(&mut self) -> anyhow::Result<()> {
        self.retry(PollFlags::empty(), |port| port.transmitter.check_room())
    }

    /// Sends all of the message.
    ///
    /// # Errors
    /// [`PeerGone`] if the peer is gone, [`NotRun`] if this machine does not allow the
    /// call, and other errors of it.
    pub(super) fn send(&mut self) -> anyhow::Result<()> {
        self.word(2).store(WRITING, Ordering::Relaxed);
        while self.retry(PollFlags::OUT, Self::send_part)? != AttemptOutcome::All {}
        self.word(2).store(IDLE, Ordering::Relaxed);
        Ok(())
    }

    /// Sends the first bytes of the message.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub(super) fn send_first(&mut self, bytes: usize) -> anyhow::Result<()> {
        self.outgoing_bytes = bytes;
        self.send()?;
        self.outgoing_bytes = self.size;
        Ok(())
    }

    /// Receives with one call, which may return only a part of a message. The next call
    /// counts as another message. Returns the number of bytes.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub(super) fn receive_once(&mut self) -> anyhow::Result<usize> {
        let number = self.incoming.0;
        let bytes = match self.retry(PollFlags::IN, Self::receive_part)? {
            AttemptOutcome::All => self.size,
            AttemptOutcome::Part => self.incoming.1,
        };
        self.incoming = (number + 1, 0);
        if self.received.is_none() {
            self.outgoing.0 = number;
        }
        Ok(bytes)
    }

    /// Receives a complete message.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub(super) fn receive(&mut self) -> anyhow::Result<()> {
        if self.received.is_none() {
            // Received into the slot from which it is sent back.
            self.wait_for_room()?;
            self.outgoing.0 = self.incoming.0;
        }
        while self.retry(PollFlags::IN, Self::receive_part)? != AttemptOutcome::All {}
        Ok(())
    }

    /// Makes one call that sends; `None` if it would have blocked.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub(super) fn try_send(&mut self) -> anyhow::Result<Option<AttemptOutcome>> {
        let moved = self.send_part();
        self.unless_blocked(moved)
    }

    /// Makes one call that receives; `None` if it would have blocked.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub(super) fn try_receive(&mut self) -> anyhow::Result<Option<AttemptOutcome>> {
        let moved = self.receive_part();
        self.unless_blocked(moved)
    }

    fn unless_blocked<T>(&self, outcome: Result<T, Errno>) -> anyhow::Result<Option<T>> {
        match outcome {
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            outcome => outcome.map(Some).map_err(|errno| self.error_of(errno)),
        }
    }

    fn send_part(&mut self) -> Result<AttemptOutcome, Errno> {
        let slot = self.messages.slot(self.outgoing.0);
        let (at, bytes) = (self.outgoing.1, self.outgoing_bytes);
        let message = self.messages.message(slot, at).first(bytes - at);
        let moved = moved(self.transmitter.send(message))?;
        self.count(0, moved);
        Ok(advance(&mut self.outgoing, moved, bytes))
    }

    fn receive_part(&mut self) -> Result<AttemptOutcome, Errno> {
        let (number, at) = self.incoming;
        let receiver = &mut self.receiver;
        let outcome = match &mut self.received {
            Some(received) => receiver.receive(&mut received[at..]),
            None => {
                let made = self
                    .transmitter
                    .make_in_place(&mut |message| receiver.receive(message));
                made.unwrap_or_else(|| {
                    let slot = self.messages.slot(number);
                    receiver.receive(&mut self.messages.bytes_mut(slot)[at..])
                })
            }
        };
        let moved = moved(outcome)?;
        self.count(1, moved);
        Ok(advance(&mut self.incoming, moved, self.size))
    }

    /// Whether the first and last bytes of the last message received are those of the
    /// message with this number.
    pub(super) fn has_same_ends(&self, number: u64) -> bool {
        let received = self.received.as_ref().map_or(&[][..], |bytes| &bytes[..]);
        self.messages.has_same_ends(number, received)
    }

    /// Whether all bytes of the last message received are those of the message with
    /// this number. Clears the buffer.
    pub(super) fn is_intact(&mut self, number: u64) -> bool {
        let received = self.received.as_mut();
        let received = received.map_or(&mut [][..], |bytes| &mut bytes[..]);
        let is_intact = self.messages.is_intact(number, received);
        received.fill(0);
        is_intact
    }

    /// Repeats a call that would block or is interrupted, and waits in between.
    fn retry<T>(
        &mut self,
        event: PollFlags,
        mut call: impl FnMut(&mut Self) -> Result<T, Errno>,
    ) -> anyhow::Result<T> {
        loop {
            let slept = match call(self) {
                Err(Errno::INTR) => Ok(()),
                Err(Errno::AGAIN) if self.backoff.should_retry() => {
                    hint::spin_loop();
                    Ok(())
                }
                Err(Errno::AGAIN) => self.sleep_for(event, None),
                outcome => {
                    self.backoff.record_success();
                    return outcome.map_err(|errno| self.error_of(errno));
                }
            };
            slept.map_err(error_of)?;
        }
    }

    /// Sleeps until one of `events` occurs, at most for `ns` nanoseconds. May return
    /// early.
    ///
    /// # Errors
    /// Those of poll(2).
    pub(super) fn sleep(&mut self, events: PollFlags, ns: u64) -> anyhow::Result<()> {
        let limit = Duration::from_nanos(ns);
        self.sleep_for(events, Some(limit)).map_err(error_of)
    }

    fn sleep_for(&mut self, events: PollFlags, limit: Option<Duration>) -> rustix::io::Result<()> {
        let (Some(input), Some(output)) = (self.receiver.fd(), self.transmitter.fd()) else {
            return if events.contains(PollFlags::IN) {
                self.receiver.sleep(limit)
            } else {
                self.transmitter.sleep(limit)
            };
        };
        let timeout = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let mut fds = [
            PollFd::from_borrowed_fd(input, events & PollFlags::IN),
            PollFd::from_borrowed_fd(output, events & PollFlags::OUT),
        ];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Converts an error of a call. If nothing has been moved yet, it may be a refusal,
    /// for example by a seccomp filter.
    fn error_of(&self, errno: Errno) -> anyhow::Error {
        let error = error_of(errno);
        let has_moved = [0, 1]
            .iter()
            .any(|at| self.word(*at).load(Ordering::Relaxed) > 0);
        if error.is::<std::io::Error>() && !has_moved {
            refusal_or_failure(self.transmitter.call(), errno)
        } else {
            error
        }
    }
}

/// Advances by `moved` bytes; at the end of a message, to the next one.
fn advance((number, at): &mut (u64, usize), moved: usize, size: usize) -> AttemptOutcome {
    *at += moved;
    if *at < size {
        return AttemptOutcome::Part;
    }
    *at = 0;
    *number += 1;
    AttemptOutcome::All
}

/// Converts an error of a call: [`PeerGone`] if the peer is gone, [`NotRun`] if the
/// message is too long.
pub(super) fn error_of(errno: Errno) -> anyhow::Error {
    match errno {
        Errno::PIPE => PeerGone("the other process is gone".to_owned()).into(),
        Errno::MSGSIZE => NotRun::limit("the message is too long for this channel").into(),
        other => std::io::Error::from(other).into(),
    }
}
