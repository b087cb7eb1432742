//! One process's end of the way there and back: whole messages, waited for.

use std::hint;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fastpipe::buffer::Buffer;
use fastpipe::shared::SharedWords;
use rustix::event::PollFlags;
use rustix::io::Errno;

use super::channels::Kind;
use super::link::{Link, Needs, allowed, link};
use super::memory::{Messages, turns};
use super::spec::{Mode, Spec, Wait};
use crate::channel::ZerocopyCounts;
use crate::record::NotRun;
use crate::session::{Gone, Role};

/// How long [`Wait::Adaptive`] tries before it sleeps.
const SPINNING: Duration = Duration::from_micros(50);

// The first two words that the processes share are the sender's, the others the
// echo's: the bytes it has moved, and what it does.

/// It does not move anything.
pub(super) const IDLE: u64 = 0;
/// It writes.
pub(super) const WRITING: u64 = 1;
/// It reads.
pub(super) const READING: u64 = 2;

/// What trying to move a message came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moved {
    /// Nothing: the call would have slept.
    Nothing,
    /// A part of it.
    Part,
    /// The rest of it.
    Whole,
}

/// The end, with its messages and its way of waiting.
pub(super) struct Port {
    kind: Kind,
    link: Box<dyn Link>,
    /// What is sent.
    messages: Messages,
    /// What is received; in `messages` where it is sent back.
    back: Option<Buffer>,
    /// The number of the message being sent and how far it is; of the one being
    /// received likewise.
    outgoing: (u64, usize),
    incoming: (u64, usize),
    size: usize,
    wait: Wait,
    apart: bool,
    words: SharedWords,
    /// Where this process's words begin.
    at: usize,
    moved: u64,
}

impl Port {
    /// The end that `role` needs.
    ///
    /// # Errors
    /// When memory can't be had; [`NotRun`] where the machine does not allow
    /// what it takes.
    pub(super) fn new(
        role: Role,
        spec: &Spec,
        (input, output): (OwnedFd, Option<OwnedFd>),
        words: SharedWords,
    ) -> anyhow::Result<Self> {
        let turns = turns(spec.kind, spec.size, spec.mode);
        let answers = role == Role::Echo && spec.mode != Mode::Naive;
        let needs = Needs {
            kind: spec.kind,
            size: spec.size,
            turns,
            wait: spec.wait,
            answers,
        };
        Ok(Port {
            kind: spec.kind,
            link: link(needs, input, output)?,
            messages: Messages::new(spec.kind, spec.size, turns)?,
            back: if answers {
                None
            } else {
                Some(Buffer::builder().len(spec.size).map()?)
            },
            outgoing: (0, 0),
            incoming: (0, 0),
            size: spec.size,
            wait: needs.wait,
            apart: spec.apart,
            words,
            at: role.index() * 2,
            moved: 0,
        })
    }

    /// From now on nothing sleeps but [`sleep`](Self::sleep).
    ///
    /// # Errors
    /// Those of fcntl(2).
    pub(super) fn never_sleep(&mut self) -> std::io::Result<()> {
        self.link.never_sleep()
    }

    /// Whether all bytes of what is received will be looked at, or only the
    /// first and last ones.
    pub(super) fn look_at_all(&mut self, all: bool) {
        self.link.look_at_all(all);
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        &self.words.words()[self.at + offset]
    }

    fn note(&mut self, moved: usize) {
        self.moved += moved as u64;
        self.word(0).store(self.moved, Ordering::Relaxed);
    }

    /// How many messages may be under way, as far as their memory goes; none:
    /// as many as the channel holds.
    pub(super) fn most_under_way(&self) -> Option<u64> {
        self.kind
            .refers_to_memory()
            .then_some(self.messages.turns() as u64)
    }

    /// Makes the next message to be sent, which has this number.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub(super) fn make(&mut self, number: u64) -> anyhow::Result<()> {
        self.reclaim(number)?;
        self.messages.make(number);
        self.outgoing.0 = number;
        Ok(())
    }

    /// The same, unless its place is not free yet and to wait means to sleep.
    /// Returns whether it was made.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub(super) fn try_make(&mut self, number: u64) -> anyhow::Result<bool> {
        match self.link.reclaim(self.messages.turn(number)) {
            Ok(()) => {}
            Err(Errno::AGAIN | Errno::INTR) => return Ok(false),
            Err(errno) => return Err(self.complaint(errno)),
        }
        self.messages.make(number);
        self.outgoing.0 = number;
        Ok(true)
    }

    fn reclaim(&mut self, number: u64) -> anyhow::Result<()> {
        let turn = self.messages.turn(number);
        self.waited(PollFlags::empty(), |port| port.link.reclaim(turn))
    }

    /// Sends the whole message.
    ///
    /// # Errors
    /// [`Gone`] where the other process is gone, [`NotRun`] where the machine
    /// does not allow the call, and other errors of it.
    pub(super) fn send(&mut self) -> anyhow::Result<()> {
        self.word(1).store(WRITING, Ordering::Relaxed);
        while self.waited(PollFlags::OUT, Self::send_some)? != Moved::Whole {}
        self.word(1).store(IDLE, Ordering::Relaxed);
        Ok(())
    }

    /// Receives a whole message.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub(super) fn receive(&mut self) -> anyhow::Result<()> {
        if self.back.is_none() {
            // Into what is sent back.
            self.reclaim(self.incoming.0)?;
            self.outgoing.0 = self.incoming.0;
        }
        self.word(1).store(READING, Ordering::Relaxed);
        while self.waited(PollFlags::IN, Self::receive_some)? != Moved::Whole {}
        self.word(1).store(IDLE, Ordering::Relaxed);
        Ok(())
    }

    /// One call that sends.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub(super) fn try_send(&mut self) -> anyhow::Result<Moved> {
        let moved = self.send_some();
        self.or_nothing(moved)
    }

    /// One call that receives.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub(super) fn try_receive(&mut self) -> anyhow::Result<Moved> {
        let moved = self.receive_some();
        self.or_nothing(moved)
    }

    fn or_nothing(&self, moved: Result<Moved, Errno>) -> anyhow::Result<Moved> {
        match moved {
            Err(Errno::AGAIN | Errno::INTR) => Ok(Moved::Nothing),
            moved => moved.map_err(|errno| self.complaint(errno)),
        }
    }

    fn send_some(&mut self) -> Result<Moved, Errno> {
        let turn = self.messages.turn(self.outgoing.0);
        let moved = self.link.send(&self.messages, turn, self.outgoing.1)?;
        self.note(moved);
        Ok(advance(&mut self.outgoing, moved, self.size))
    }

    fn receive_some(&mut self) -> Result<Moved, Errno> {
        let (number, at) = self.incoming;
        let message = match &mut self.back {
            Some(back) => &mut back[..self.size],
            None => {
                let turn = self.messages.turn(number);
                self.messages.bytes_mut(turn)
            }
        };
        let moved = self.link.receive(message, at)?;
        self.note(moved);
        Ok(advance(&mut self.incoming, moved, self.size))
    }

    /// Whether the message received last is the one sent with this number: as
    /// far as its first and last bytes tell.
    pub(super) fn came_back(&self, number: u64) -> bool {
        let back = self
            .back
            .as_ref()
            .map_or(&[][..], |back| &back[..self.size]);
        self.messages.came_back(number, back)
    }

    /// The same of all bytes, for the last time: they are forgotten.
    pub(super) fn came_back_whole(&mut self, number: u64) -> bool {
        let back = self.back.as_mut();
        let back = back.map_or(&mut [][..], |back| &mut back[..self.size]);
        let whole = self.messages.came_back_whole(number, back);
        back.fill(0);
        whole
    }

    /// Calls until something else comes than that it would sleep.
    fn waited<T>(
        &mut self,
        event: PollFlags,
        mut call: impl FnMut(&mut Self) -> Result<T, Errno>,
    ) -> anyhow::Result<T> {
        let mut since = None;
        loop {
            let slept = match call(self) {
                Err(Errno::INTR) => Ok(()),
                Err(Errno::AGAIN) if self.goes_on(&mut since) => {
                    hint::spin_loop();
                    Ok(())
                }
                Err(Errno::AGAIN) => self.link.sleep(event, None),
                outcome => return outcome.map_err(|errno| self.complaint(errno)),
            };
            slept.map_err(complaint)?;
        }
    }

    /// Whether to try again rather than sleep.
    fn goes_on(&self, since: &mut Option<Instant>) -> bool {
        match self.wait {
            Wait::Spin => true,
            Wait::Adaptive => since.get_or_insert_with(Instant::now).elapsed() < SPINNING,
            Wait::Block => false,
        }
    }

    /// Sleeps until there is something to read, room to write where `events`
    /// says so, or the nanoseconds are over. May wake up early.
    ///
    /// # Errors
    /// Those of poll(2).
    pub(super) fn sleep(&mut self, events: PollFlags, ns: u64) -> anyhow::Result<()> {
        self.link.sleep(events, Some(ns)).map_err(complaint)
    }

    /// Whether the other process has a processor of its own.
    pub(super) fn apart(&self) -> bool {
        self.apart
    }

    /// What the completions of MSG_ZEROCOPY say; none where it is not used.
    pub(super) fn zerocopy(&self) -> Option<ZerocopyCounts> {
        self.link.zerocopy()
    }

    /// What to say of an error. Before anything has moved it may be that the
    /// machine does not allow the call, as a seccomp filter does not.
    fn complaint(&self, errno: Errno) -> anyhow::Error {
        let error = complaint(errno);
        if error.is::<std::io::Error>() && self.moved == 0 {
            allowed(self.link.call(), errno.into())
        } else {
            error
        }
    }
}

/// Goes on by so many bytes, to the next message after the last one.
fn advance((number, at): &mut (u64, usize), moved: usize, size: usize) -> Moved {
    *at += moved;
    if *at < size {
        return Moved::Part;
    }
    *at = 0;
    *number += 1;
    Moved::Whole
}

/// What to say of an error: nothing but that the other process is gone, or
/// what is not allowed.
pub(super) fn complaint(errno: Errno) -> anyhow::Error {
    match errno {
        Errno::PIPE => Gone("the other process has left".to_owned()).into(),
        Errno::MSGSIZE => NotRun::limit("the message is longer than may be here").into(),
        other => std::io::Error::from(other).into(),
    }
}
