//! One thing to be measured: what each end does, and what it is compared with.

use std::time::Duration;

use crate::spec::{
    Channel, DataUse, Durations, EndSpec, PageKind, PageReuse, PipeReader, PipeWriter, SinkSpec,
    SourceSpec, Subject, Waiting,
};

/// The reader reads the clock at most once per this many bytes: every 15 us at
/// the highest rates. Reading it costs some tens of nanoseconds.
const LOOK_EVERY: u64 = 1 << 20;
/// For small messages and pieces, most of which take a system call: once per this many.
const LOOK_EVERY_CALLS: u64 = 256;

/// The distance, in messages, from the writer's position to the offset that the
/// reader announces. Large messages take longer each, so fewer are enough.
const MARGIN_MESSAGES: usize = 64;
/// For a ring, which takes only nanoseconds per message.
const MARGIN_RING_MESSAGES: usize = 1024;
const MARGIN_BYTES: usize = 64 << 10;
const MIN_MARGIN_MESSAGES: usize = 4;

/// The minimum size of a read from a stream of messages, in bytes.
const MIN_READ: usize = 64 << 10;

const MIB: f64 = 1024.0 * 1024.0;

/// A trial of a volume below this rate, in bytes per second, counts as hung.
const MIN_RATE: f64 = 32.0 * MIB;
/// One pass of computing over the data below this rate, in bytes per second, counts
/// as hung.
const MIN_COMPUTING: f64 = 256.0 * MIB;
/// A trial that takes this many times the expected duration counts as hung.
const LATE: f64 = 10.0;

/// The pilot moves at most this much of a volume, in bytes.
const PILOT_BYTES: u64 = 256 << 20;

/// A case of a suite.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// Its name in data.
    pub name: String,
    /// One line on what it does.
    pub description: String,
    /// What becomes of the data.
    pub data: DataUse,
    /// Passes of computing over the data at each end.
    pub work: u32,
    /// What runs.
    pub subject: Subject,
    /// The volume of the timed part, in bytes, where the case is about that;
    /// else it lasts by time.
    pub volume_bytes: Option<u64>,
    /// The duration of a trial of that volume, estimated from the pilot, in seconds.
    pub expected_s: Option<f64>,
    /// The name of the case it is compared with, and the factor in which they differ.
    pub compared_with: Option<(String, String)>,
    /// See [`EndSpec::slow_down`].
    pub slow_down: f64,
    /// The processors of the writer and of the reader, where the case has its
    /// own; else those of the run.
    pub cpus: Option<(usize, usize)>,
}

impl Case {
    /// A case of plain blocking write and read of buffers of base pages through
    /// a pipe; the methods below change one thing each.
    pub fn new(name: &str, buffer_bytes: usize, pipe_bytes: usize) -> Self {
        let subject = Subject::Channel {
            writer: SinkSpec::write(buffer_bytes),
            reader: SourceSpec::read(buffer_bytes),
            channel: Channel::PIPE,
            pipe_bytes: Some(pipe_bytes),
            message_bytes: None,
        };
        Case::with_subject(name, subject)
    }

    /// Messages of one size through any channel, every byte of them produced
    /// and used. The reader of a stream asks for 64 KiB or more at a time.
    pub fn of_messages(name: &str, message_bytes: usize, channel: Channel) -> Self {
        let read_bytes = if channel.keeps_messages() {
            message_bytes
        } else {
            message_bytes.max(MIN_READ)
        };
        let subject = Subject::Channel {
            writer: SinkSpec::write(message_bytes),
            reader: SourceSpec::read(read_bytes),
            channel,
            pipe_bytes: None,
            message_bytes: Some(message_bytes),
        };
        Case::with_subject(name, subject)
    }

    /// A case of `subject` with the defaults for everything else.
    pub fn with_subject(name: &str, subject: Subject) -> Self {
        Case {
            name: name.to_owned(),
            description: String::new(),
            data: DataUse::Read,
            work: 0,
            subject,
            volume_bytes: None,
            expected_s: None,
            compared_with: None,
            slow_down: 0.0,
            cpus: None,
        }
    }

    /// Sets the description: one line on what the case does.
    pub fn described(mut self, description: &str) -> Self {
        self.description = description.to_owned();
        self
    }

    /// Sets the case it is compared with, and the factor in which they differ.
    pub fn against(mut self, case: &str, factor: &str) -> Self {
        self.compared_with = Some((case.to_owned(), factor.to_owned()));
        self
    }

    /// Sets the capacity of the pipe, in bytes.
    pub fn with_pipe(mut self, bytes: usize) -> Self {
        if let Subject::Channel { pipe_bytes, .. } = &mut self.subject {
            *pipe_bytes = Some(bytes);
        }
        self
    }

    /// Sets the size of the buffers of both ends, in bytes.
    pub fn with_buffers(self, bytes: usize) -> Self {
        self.with_pieces(bytes)
            .change_reader(|reader| reader.buffer_bytes = bytes)
    }

    /// Sets the size of the writer's buffers, in bytes: what it writes at a time.
    pub fn with_pieces(self, bytes: usize) -> Self {
        self.change_writer(|writer| {
            writer.buffer_bytes = bytes;
            writer.loan_bytes = bytes;
        })
    }

    /// The writer uses vmsplice.
    pub fn vmsplice(self) -> Self {
        self.change_pipe(|writer, _| *writer = PipeWriter::Vmsplice(PageReuse::Drained))
    }

    /// The writer is a library's. It makes `piece` bytes at a time, and the library
    /// gathers up to `loan` bytes.
    pub fn library(self, library: PipeWriter, piece: usize, loan: usize) -> Self {
        let case = self.change_pipe(|writer, _| *writer = library);
        case.change_writer(|writer| {
            writer.buffer_bytes = piece;
            writer.loan_bytes = loan;
            writer.pages = if library == PipeWriter::BufWriter {
                PageKind::Base
            } else {
                PageKind::Huge
            };
        })
    }

    /// The reader splices to /dev/null.
    pub fn splice(mut self) -> Self {
        self.data = DataUse::Discard;
        self.change_pipe(|_, reader| *reader = PipeReader::Splice)
    }

    /// The writer's buffers are huge pages; the reader's too, where it has one.
    pub fn huge(self) -> Self {
        let reads = self.pipe_reader() == Some(PipeReader::Read);
        self.change_writer(|writer| writer.pages = PageKind::Huge)
            .change_reader(|reader| {
                if reads {
                    reader.pages = PageKind::Huge;
                }
            })
    }

    /// Changes what the ends do with a pipe, if there is one.
    fn change_pipe(mut self, change: impl FnOnce(&mut PipeWriter, &mut PipeReader)) -> Self {
        if let Subject::Channel {
            channel: Channel::Pipe(writer, reader),
            ..
        } = &mut self.subject
        {
            change(writer, reader);
        }
        self
    }

    /// What the writer does with a pipe, if there is one.
    pub fn pipe_writer(&self) -> Option<PipeWriter> {
        self.subject.channel().and_then(Channel::pipe_writer)
    }

    /// What the reader does with a pipe, if there is one.
    pub fn pipe_reader(&self) -> Option<PipeReader> {
        self.subject.channel().and_then(Channel::pipe_reader)
    }

    /// Both ends spin.
    pub fn spin(self) -> Self {
        self.waiting(Waiting::Spin)
    }

    /// Sets how both ends wait.
    pub fn waiting(self, wait: Waiting) -> Self {
        self.change_writer(|writer| writer.wait = wait)
            .change_reader(|reader| reader.wait = wait)
    }

    /// Places the ends on these processors, overriding those of the run.
    pub fn on(mut self, cpus: Option<(usize, usize)>) -> Self {
        self.cpus = cpus;
        self
    }

    /// Sets what becomes of the data.
    ///
    /// A reader that splices sees no data, so to examine it, it
    /// splices through a second pipe and reads from that. Pages may then wait
    /// in the second pipe after they left the first, so a writer that produces
    /// must never write to a sent page again.
    pub fn with_data(mut self, data: DataUse) -> Self {
        let splices = self.pipe_reader().is_some_and(PipeReader::splices);
        if data != DataUse::Discard && splices {
            self.description
                .push_str("; spliced on into a second pipe, to look at the data");
            self = self.change_pipe(|writer, reader| {
                *reader = PipeReader::SpliceThrough;
                if writer.vmsplices() {
                    *writer = PipeWriter::Vmsplice(PageReuse::Fresh);
                }
            });
        }
        if let Some(writer) = self.subject.writer_mut() {
            writer.rewritten = matches!(data, DataUse::Touch | DataUse::Verify);
        }
        // A reader that reads always has the data in its memory.
        let reads = self.subject.reader().is_some() && !splices;
        self.data = match data {
            DataUse::Discard if reads => DataUse::Read,
            data => data,
        };
        self
    }

    /// The null control: the same case under another name, compared with it.
    pub fn twin(&self) -> Case {
        let mut twin = self.clone();
        twin.name = format!("{}_again", self.name);
        twin.description = format!("{} once more: the null control", self.name);
        twin.compared_with = Some((self.name.clone(), "nothing".to_owned()));
        twin
    }

    /// Whether either end spins.
    pub fn spins(&self) -> bool {
        let writer = self.subject.writer().map(|writer| writer.wait);
        let reader = self.subject.reader().map(|reader| reader.wait);
        [writer, reader].into_iter().flatten().any(Waiting::spins)
    }

    /// Whether the writer finds its method while sending, so that its rate changes by itself.
    pub fn adapts(&self) -> bool {
        matches!(
            self.pipe_writer(),
            Some(
                PipeWriter::Fastpipe(PageReuse::Auto | PageReuse::AutoClone)
                    | PipeWriter::FastpipeIo
            )
        )
    }

    /// Whether an end of a channel spins, so that each end needs a processor of its own.
    pub fn needs_two_processors(&self) -> bool {
        self.spins() && self.subject.channel().is_some()
    }

    /// The specification of both processes.
    pub fn end_spec(&self, pipe_bytes: usize, durations: Durations) -> EndSpec {
        let loan = self.subject.writer().map_or(0, |writer| writer.loan_bytes);
        let piece = self.subject.message_bytes();
        let margin = match piece {
            // Each end may finish the piece it is at before it looks.
            None => 2 * (pipe_bytes + self.subject.buffer_bytes().max(loan)),
            Some(bytes) => {
                let small = if self.subject.channel().is_some_and(Channel::is_ring) {
                    MARGIN_RING_MESSAGES
                } else {
                    MARGIN_MESSAGES
                };
                let messages = (MARGIN_BYTES / bytes).min(small);
                bytes * messages.max(MIN_MARGIN_MESSAGES)
            }
        };
        let piece = piece.unwrap_or_else(|| self.subject.buffer_bytes());
        let look_every = LOOK_EVERY.min(LOOK_EVERY_CALLS * piece as u64);
        EndSpec {
            subject: self.subject.clone(),
            data: self.data,
            work: self.work,
            durations,
            timed_bytes: self.volume_bytes,
            margin: margin as u64,
            look_every,
            slow_down: self.slow_down,
        }
    }

    /// Sets the pages of the writer's buffers.
    pub fn pages(self, pages: PageKind) -> Self {
        self.change_writer(|writer| writer.pages = pages)
    }

    /// All buffers begin `offset` bytes after the start of a page.
    pub fn unaligned_by(self, offset: usize) -> Self {
        self.change_writer(|writer| writer.offset = offset)
            .change_reader(|reader| reader.offset = offset)
    }

    /// Changes the writer, if there is one.
    pub fn change_writer(mut self, change: impl FnOnce(&mut SinkSpec)) -> Self {
        if let Some(writer) = self.subject.writer_mut() {
            change(writer);
        }
        self
    }

    /// Changes the reader, if there is one.
    pub fn change_reader(mut self, change: impl FnOnce(&mut SourceSpec)) -> Self {
        if let Some(reader) = self.subject.reader_mut() {
            change(reader);
        }
        self
    }

    /// How the writer's memory differs from the default, in words.
    pub(crate) fn options(&self) -> Vec<String> {
        let Some(writer) = self.subject.writer() else {
            return Vec::new();
        };
        let off = format!("{} bytes off", writer.offset);
        [
            (!writer.touched, "untouched"),
            (writer.locked, "locked"),
            (writer.gift, "gift"),
            (writer.same_buffer, "same buffer"),
            (writer.offset > 0, &off),
        ]
        .into_iter()
        .filter(|(is_so, _)| *is_so)
        .map(|(_, name)| name.to_owned())
        .collect()
    }

    /// Why the data that was asked for contradicts the case, if it does.
    pub fn contradiction(&self) -> Option<String> {
        let writer = self.subject.writer().filter(|writer| writer.rewritten)?;
        let why = match (writer.touched, writer.pages) {
            (false, _) => "the buffers are written again and again, so they are not untouched",
            (_, PageKind::HugeTlb) => {
                "every piece would take new pages of a pool that is soon used up"
            }
            _ => return None,
        };
        Some(format!("with --data {} {why}", self.data.name()))
    }

    /// Ends the timed part after a volume instead of a time.
    pub fn of_volume(mut self, bytes: u64) -> Self {
        self.volume_bytes = Some(bytes);
        self
    }

    /// The case as the pilot runs it: of a large volume only a part.
    pub fn for_pilot(&self) -> Self {
        let mut case = self.clone();
        case.volume_bytes = self.volume_bytes.map(pilot_bytes);
        case
    }

    /// The time after which a trial counts as hung.
    pub fn longest(&self, durations: Durations) -> Duration {
        let timed_s = match (self.volume_bytes, self.expected_s) {
            (Some(_), Some(seconds)) => LATE * seconds,
            (Some(bytes), None) => {
                let computing = f64::from(self.work) / MIN_COMPUTING;
                bytes as f64 * (1.0 / MIN_RATE + computing)
            }
            (None, _) => durations.timed_s,
        };
        Duration::from_secs_f64(durations.warm_up_s + timed_s)
    }
}

/// The number of bytes that the pilot moves of a volume.
pub fn pilot_bytes(volume: u64) -> u64 {
    volume.min(PILOT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_pieces_look_at_the_clock_by_calls() {
        let durations = Durations {
            warm_up_s: 0.1,
            timed_s: 0.1,
        };
        let look_every = |buffer: usize| {
            let case = Case::new("plain", buffer, 64 << 10);
            case.end_spec(64 << 10, durations).look_every
        };
        assert_eq!(look_every(1), LOOK_EVERY_CALLS);
        assert_eq!(look_every(16), 16 * LOOK_EVERY_CALLS);
        assert_eq!(look_every(256 << 10), LOOK_EVERY);
    }

    const NONE: Durations = Durations {
        warm_up_s: 0.0,
        timed_s: 0.0,
    };

    #[test]
    fn trial_of_a_volume_may_take_what_its_computing_takes() {
        let seconds = |case: &Case| case.longest(NONE).as_secs_f64();
        let plain = Case::new("x", 65_536, 65_536).of_volume(1 << 30);
        assert!((seconds(&plain) - 32.0).abs() < 1e-9);
        let mut computing = plain.clone();
        computing.work = 1000;
        // 1000 passes at 0.25 GiB/s.
        assert!((seconds(&computing) - 4032.0).abs() < 1e-9);
    }

    #[test]
    fn an_expected_duration_sets_the_limit() {
        let mut case = Case::new("x", 65_536, 65_536).of_volume(1 << 30);
        case.expected_s = Some(130.0);
        assert_eq!(case.longest(NONE), Duration::from_secs(1300));
    }
}
