//! The ring of a pipe, stepped through write(2), read(2), vmsplice(2) and splice(2) on a
//! real pipe.
//!
//! User space can't see the ring. After each step these are observed: the unread bytes,
//! and the number, lengths and data of the slots. For that, tee(2) duplicates the pipe,
//! and splice(2) into a pipe of one slot takes the duplicate apart, a slot a call. Head,
//! tail, offsets and pages are derived by the rules of fs/pipe.c and fs/splice.c, and
//! whether they lead to the observed slots is checked.

use std::io;
use std::os::fd::OwnedFd;

use fastpipe::buffer::Buffer;
use fastpipe::pipe::{self, page_size};
use fastpipe::transfer::{Incomplete, Input, Output, SpliceOptions, VmspliceOptions};
use fastpipe::wait::Wait;
use itertools::Itertools as _;
use pipespeed_base::standard::open_null;
use pipespeed_measure::record::RecordHeader;
use serde::Serialize;

use crate::costs::parts::pipe_of;

/// The number of slots of the pipe: few enough to be drawn in a line.
const SLOTS: usize = 8;

/// The saved record of `pipespeed pages --pipe`.
#[derive(Debug, Clone, Serialize)]
pub struct RingRecord {
    /// The header of every record.
    #[serde(flatten)]
    pub header: RecordHeader,
    /// The size of a base page.
    pub page_bytes: usize,
    /// The steps, in order.
    pub steps: Vec<RingStep>,
}

/// A system call on the pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "call")]
pub enum PipeCall {
    /// write(2).
    Write {
        /// Bytes to be written.
        bytes: usize,
    },
    /// vmsplice(2) of memory of this process.
    Vmsplice {
        /// The offset of the memory from the start of a page.
        offset: usize,
        /// Bytes to be sent.
        bytes: usize,
    },
    /// read(2).
    Read {
        /// The maximum number of bytes.
        bytes: usize,
    },
    /// splice(2) to /dev/null.
    Splice {
        /// The maximum number of bytes.
        bytes: usize,
    },
}

/// A page that a slot refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SlotPage {
    /// Allocated by the kernel, for write(2).
    Kernel,
    /// The caller's page of this number, sent by vmsplice(2).
    Caller(usize),
}

/// Bytes in a row that came from the same call: its letter and their number.
type Part = (char, usize);

/// A slot in use, as derived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UsedSlot {
    /// Its page.
    pub page: SlotPage,
    /// The offset of its data in the page.
    pub offset: usize,
    /// Its data.
    pub parts: Vec<Part>,
}

impl UsedSlot {
    fn len(&self) -> usize {
        self.parts.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Removes bytes from the front.
    fn consume(&mut self, bytes: usize) {
        self.offset += bytes;
        let mut left = bytes;
        for (_, part) in &mut self.parts {
            let taken = left.min(*part);
            *part -= taken;
            left -= taken;
        }
        self.parts.retain(|(_, bytes)| *bytes > 0);
    }
}

/// The ring as derived. Head and tail count slots from the start of the pipe on; the
/// remainder by the number of slots is the place in the ring.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PipeRing {
    /// The next slot to be filled.
    pub head: usize,
    /// The first slot to be read.
    pub tail: usize,
    /// The slots by their place in the ring.
    pub slots: Vec<Option<UsedSlot>>,
}

impl PipeRing {
    fn new() -> Self {
        PipeRing {
            head: 0,
            tail: 0,
            slots: vec![None; SLOTS],
        }
    }

    /// The slots in use, from tail to head.
    fn used(&self) -> impl Iterator<Item = &UsedSlot> {
        (self.tail..self.head).filter_map(|at| self.slots[at % SLOTS].as_ref())
    }

    /// Fills the next slot, if it is free.
    fn push(&mut self, slot: UsedSlot) -> bool {
        let has_room = self.head - self.tail < SLOTS;
        if has_room {
            self.slots[self.head % SLOTS] = Some(slot);
            self.head += 1;
        }
        has_room
    }

    /// Applies a call. Returns the number of bytes moved.
    fn apply(&mut self, call: PipeCall, letter: char, page: usize) -> usize {
        match call {
            PipeCall::Write { bytes } => self.write(bytes, letter, page),
            PipeCall::Vmsplice { offset, bytes } => self.vmsplice(offset, bytes, letter, page),
            PipeCall::Read { bytes } | PipeCall::Splice { bytes } => self.consume(bytes),
        }
    }

    fn write(&mut self, bytes: usize, letter: char, page: usize) -> usize {
        let mut moved = 0;
        // What exceeds whole pages goes into the last page, if all of it fits.
        let rest = bytes % page;
        if rest > 0 && self.head > self.tail {
            let last = self.slots[(self.head - 1) % SLOTS].as_mut();
            let last = last.filter(|slot| slot.page == SlotPage::Kernel);
            if let Some(slot) = last.filter(|slot| slot.offset + slot.len() + rest <= page) {
                slot.parts.push((letter, rest));
                moved = rest;
            }
        }
        let data = (letter, bytes);
        self.fill(data, moved, page, |_| (SlotPage::Kernel, 0))
    }

    fn vmsplice(&mut self, offset: usize, bytes: usize, letter: char, page: usize) -> usize {
        self.fill((letter, bytes), 0, page, |moved| {
            let at = offset + moved;
            (SlotPage::Caller(at / page), at % page)
        })
    }

    /// Fills free slots with the data after its first `moved` bytes, from `place` in pages on.
    /// Returns the number of bytes moved in all.
    fn fill(
        &mut self,
        (letter, bytes): Part,
        mut moved: usize,
        page_bytes: usize,
        place: impl Fn(usize) -> (SlotPage, usize),
    ) -> usize {
        while moved < bytes {
            let (page, offset) = place(moved);
            let len = (page_bytes - offset).min(bytes - moved);
            let slot = UsedSlot {
                page,
                offset,
                parts: vec![(letter, len)],
            };
            if !self.push(slot) {
                break;
            }
            moved += len;
        }
        moved
    }

    fn consume(&mut self, bytes: usize) -> usize {
        let mut moved = 0;
        while moved < bytes && self.tail < self.head {
            let place = &mut self.slots[self.tail % SLOTS];
            let Some(slot) = place else { break };
            let len = slot.len().min(bytes - moved);
            slot.consume(len);
            moved += len;
            if slot.parts.is_empty() {
                *place = None;
                self.tail += 1;
            }
        }
        moved
    }
}

/// A step, with the state after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RingStep {
    /// The system call.
    #[serde(flatten)]
    pub call: PipeCall,
    /// The letter that its data consists of.
    pub letter: Option<char>,
    /// What it shows.
    pub shows: &'static str,
    /// Observed: the number of bytes that it moved.
    pub moved: usize,
    /// Observed: the unread bytes (FIONREAD).
    pub unread: usize,
    /// Observed: the data of each slot, from tail to head.
    pub observed: Vec<Vec<Part>>,
    /// Derived: the ring.
    pub derived: PipeRing,
    /// Whether the ring leads to what was observed.
    pub agrees: bool,
}

/// The calls, each with what it shows.
fn script(page: usize) -> [(PipeCall, &'static str); 10] {
    [
        (
            PipeCall::Write { bytes: 100 },
            "the kernel allocates a page and copies the data to its start",
        ),
        (
            PipeCall::Write { bytes: 50 },
            "there is room in the last page, so it is topped up",
        ),
        (
            PipeCall::Write { bytes: page + 904 },
            "what exceeds whole pages tops up the last page; the rest takes a new one",
        ),
        (
            PipeCall::Read { bytes: 1000 },
            "the offset of the tail's slot advances; its page stays",
        ),
        (
            PipeCall::Vmsplice {
                offset: 100,
                bytes: 2 * page + 1808,
            },
            "slots refer to the caller's pages: three, since the data begins within one",
        ),
        (
            PipeCall::Write { bytes: 10 },
            "a page of the caller is never topped up, so this takes a slot",
        ),
        (
            PipeCall::Splice { bytes: page + 1904 },
            "slots that are used up are free again: the tail advances",
        ),
        (
            PipeCall::Vmsplice {
                offset: 0,
                bytes: 5 * page,
            },
            "the ring wraps around; only four slots are free, so four pages are sent",
        ),
        (
            PipeCall::Write { bytes: 20 },
            "refused (EAGAIN; else it would sleep): all slots are in use, full or not",
        ),
        (
            PipeCall::Read { bytes: 8 * page },
            "the pipe is empty: the tail has reached the head",
        ),
    ]
}

/// A pipe, and two others to take a duplicate of it apart.
struct ProbedPipe {
    read: OwnedFd,
    write: OwnedFd,
    copy: (OwnedFd, OwnedFd),
    one: (OwnedFd, OwnedFd),
}

impl ProbedPipe {
    fn new() -> io::Result<Self> {
        let of_slots = |slots: usize| pipe_of(slots * page_size());
        let (read, write) = of_slots(SLOTS)?;
        Ok(ProbedPipe {
            read,
            write,
            copy: of_slots(SLOTS)?,
            one: of_slots(1)?,
        })
    }

    /// Makes a call. Returns the number of bytes moved.
    fn call(&self, call: PipeCall, letter: char) -> io::Result<usize> {
        let mut output = Output::new(&self.write, Wait::Never);
        let mut input = Input::new(&self.read, Wait::Never);
        let sent = |outcome: Result<(), Incomplete>, bytes| moved(outcome.map(|()| bytes));
        match call {
            PipeCall::Write { bytes } => sent(output.write(&vec![letter as u8; bytes]), bytes),
            PipeCall::Vmsplice { offset, bytes } => {
                let mut buffer = Buffer::builder().len(offset + bytes).map()?;
                buffer.fill(letter as u8);
                let piece = buffer.slice(offset..offset + bytes);
                // The pipe keeps the pages when the buffer is gone.
                let outcome = output.vmsplice(&[piece], VmspliceOptions::default());
                sent(outcome, bytes)
            }
            PipeCall::Read { bytes } => moved(input.read(&mut vec![0; bytes])),
            PipeCall::Splice { bytes } => {
                let null = open_null()?;
                let spliced = input.splice(&null, bytes as u64, SpliceOptions::default());
                moved(spliced.map(|bytes| bytes as usize))
            }
        }
    }

    /// Returns the data of each slot, without taking it from the pipe.
    fn slots(&self) -> io::Result<Vec<Vec<Part>>> {
        let all = SLOTS * page_size();
        let mut input = Input::new(&self.read, Wait::Never);
        let mut left = moved(input.tee(&self.copy.1, all))?;
        let mut slots = Vec::new();
        let mut from = Input::new(&self.copy.0, Wait::Never);
        while left > 0 {
            let taken = from.splice_some(&self.one.1, all, SpliceOptions::default())?;
            let mut bytes = vec![0; taken];
            let mut last = Input::new(&self.one.0, Wait::Never);
            last.read(&mut bytes)?;
            let parts = bytes.iter().dedup_with_count();
            slots.push(
                parts
                    .map(|(count, byte)| (char::from(*byte), count))
                    .collect(),
            );
            left -= taken;
        }
        Ok(slots)
    }
}

/// The number of bytes moved by a call that may have been refused halfway.
fn moved(outcome: Result<usize, Incomplete>) -> io::Result<usize> {
    match outcome {
        Ok(bytes) => Ok(bytes),
        Err(incomplete) if incomplete.kind() == io::ErrorKind::WouldBlock => {
            Ok(incomplete.moved as usize)
        }
        Err(incomplete) => Err(incomplete.into()),
    }
}

/// Steps a new pipe through the calls.
///
/// # Errors
/// Those of the system calls, except EAGAIN.
pub fn ring_steps() -> io::Result<Vec<RingStep>> {
    let page = page_size();
    let pipe = ProbedPipe::new()?;
    let mut ring = PipeRing::new();
    let mut steps = Vec::new();
    let mut letters = 'A'..;
    for (call, shows) in script(page) {
        let is_sent = matches!(call, PipeCall::Write { .. } | PipeCall::Vmsplice { .. });
        let letter = is_sent.then(|| letters.next()).flatten();
        let moved = pipe.call(call, letter.unwrap_or_default())?;
        let unread = pipe::unread(&pipe.read)?;
        let observed = pipe.slots()?;
        let derived = ring.apply(call, letter.unwrap_or_default(), page);
        steps.push(RingStep {
            call,
            letter,
            shows,
            moved,
            unread,
            agrees: derived == moved && ring.used().map(|slot| &slot.parts).eq(&observed),
            observed,
            derived: ring.clone(),
        });
    }
    Ok(steps)
}

/// Draws the ring after each step, in at most 80 columns.
pub fn ring_drawing(steps: &[RingStep]) -> String {
    let drawn = steps.iter().enumerate();
    drawn.map(|(at, step)| draw(at + 1, step)).join("\n")
}

fn draw(number: usize, step: &RingStep) -> String {
    let data = step.letter.map(|letter| format!(" of {letter}"));
    let data = data.unwrap_or_default();
    let call = match step.call {
        PipeCall::Write { bytes } => format!("write(2), {bytes} bytes{data}"),
        PipeCall::Vmsplice { offset: 0, bytes } => format!("vmsplice(2), {bytes} bytes{data}"),
        PipeCall::Vmsplice { offset, bytes } => {
            format!("vmsplice(2), {bytes} bytes{data}, from byte {offset} of a page on")
        }
        PipeCall::Read { bytes } => format!("read(2), up to {bytes} bytes"),
        PipeCall::Splice { bytes } => format!("splice(2) to /dev/null, up to {bytes} bytes"),
    };
    let ring = &step.derived;
    let mut text = format!("{number}. {call}: {} moved\n", step.moved);
    text += &format!("   {}\n\n", step.shows);
    if !step.agrees {
        let slots = step.observed.iter().map(|parts| {
            let parts = parts
                .iter()
                .map(|(letter, bytes)| format!("{bytes} of {letter}"));
            format!("   - {}\n", parts.format(", "))
        });
        text += "   This kernel did something else. Its slots, as observed:\n";
        text += &slots.collect::<String>();
        return text;
    }
    let row = |name: &str, cell: &dyn Fn(usize, Option<&UsedSlot>) -> String| {
        let cells = ring.slots.iter().enumerate();
        let cells = cells.map(|(at, slot)| format!("{:>8}", cell(at, slot.as_ref())));
        let line = format!("   {name:<7}{}", cells.format(""));
        format!("{}\n", line.trim_end())
    };
    text += &row("slot", &|at, _| at.to_string());
    text += &row(
        "data",
        &of_slot(|slot| slot.parts.iter().map(|part| part.0).collect()),
    );
    text += &row("length", &of_slot(|slot| slot.len().to_string()));
    text += &row("offset", &of_slot(|slot| slot.offset.to_string()));
    text += &row(
        "page",
        &of_slot(|slot| match slot.page {
            SlotPage::Kernel => "kernel".to_owned(),
            SlotPage::Caller(number) => format!("own {number}"),
        }),
    );
    text += &row(
        "",
        &|at, _| match (at == ring.tail % SLOTS, at == ring.head % SLOTS) {
            (true, true) => "both".to_owned(),
            (true, false) => "tail".to_owned(),
            (false, true) => "head".to_owned(),
            (false, false) => String::new(),
        },
    );
    text += &format!(
        "   head {}, tail {}: {} of {SLOTS} slots used; {} bytes unread\n",
        ring.head,
        ring.tail,
        ring.head - ring.tail,
        step.unread
    );
    text
}

/// A cell that shows a slot in use, and a dot for a free one.
fn of_slot(show: impl Fn(&UsedSlot) -> String) -> impl Fn(usize, Option<&UsedSlot>) -> String {
    move |_, slot| slot.map_or_else(|| ".".to_owned(), &show)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipespeed_testing::says;

    #[test]
    fn kernel_that_does_something_else_is_not_drawn_as_derived() {
        let mut steps = ring_steps().unwrap();
        steps[1].observed = vec![vec![('A', 100)], vec![('B', 50)]];
        steps[1].agrees = false;
        let text = draw(2, &steps[1]);
        says(
            &text,
            &[
                "This kernel did something else",
                "   - 100 of A\n   - 50 of B\n",
            ],
        );
        assert!(!text.contains("head"), "{text}");
    }

    #[test]
    fn drawings_fit_into_80_columns() {
        let text = ring_drawing(&ring_steps().unwrap());
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }
}
