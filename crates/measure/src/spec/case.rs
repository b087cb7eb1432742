//! One thing to be measured: what each end does, and what it is compared with.

mod options;
mod volume;

pub use self::volume::pilot_bytes;
use crate::spec::{
    ChannelKind, DataUse, Durations, EndSpec, MemorySpec, PageKind, Policy, Reuse, SinkSpec,
    SinkTechnique, SourceSpec, SourceTechnique, Subject, Waiting,
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
            channel: ChannelKind::Pipe,
            pipe_bytes: Some(pipe_bytes),
            message_bytes: None,
        };
        Case::of(name, subject)
    }

    /// Messages of one size through any channel, every byte of them produced
    /// and used. The reader of a stream asks for 64 KiB or more at a time.
    pub fn of_messages(
        name: &str,
        message_bytes: usize,
        channel: ChannelKind,
        writer: SinkTechnique,
        reader: SourceTechnique,
    ) -> Self {
        let read_bytes = if channel.keeps_messages() {
            message_bytes
        } else {
            message_bytes.max(MIN_READ)
        };
        let subject = Subject::Channel {
            writer: SinkSpec {
                technique: writer,
                ..SinkSpec::write(message_bytes)
            },
            reader: SourceSpec {
                technique: reader,
                ..SourceSpec::read(read_bytes)
            },
            channel,
            pipe_bytes: None,
            message_bytes: Some(message_bytes),
        };
        Case::of(name, subject)
    }

    /// One process that goes over a block of memory, without a channel.
    pub fn of_memory(name: &str, memory: MemorySpec) -> Self {
        Case::of(name, Subject::Memory(memory))
    }

    /// Only the writer's work on the data, without a channel.
    pub fn produce_alone(name: &str, buffer_bytes: usize) -> Self {
        Case::of(name, Subject::Produce(SinkSpec::write(buffer_bytes)))
    }

    /// Only the reader's work on the data, without a channel.
    pub fn consume_alone(name: &str, buffer_bytes: usize) -> Self {
        Case::of(name, Subject::Consume(SourceSpec::read(buffer_bytes)))
    }

    /// A case of `subject` with the defaults for everything else.
    pub fn of(name: &str, subject: Subject) -> Self {
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
        self.change_writer(|writer| writer.technique = SinkTechnique::Vmsplice)
    }

    /// The writer is a library's. It makes `piece` bytes at a time, and the library
    /// gathers up to `loan` bytes.
    pub fn library(self, technique: SinkTechnique, piece: usize, loan: usize) -> Self {
        self.change_writer(|writer| {
            writer.technique = technique;
            writer.buffer_bytes = piece;
            writer.loan_bytes = loan;
            writer.pages = match technique {
                SinkTechnique::BufWriter => PageKind::Base,
                _ => PageKind::Huge,
            };
        })
    }

    /// The reader splices to /dev/null.
    pub fn splice(mut self) -> Self {
        self.data = DataUse::Discard;
        self.change_reader(|reader| reader.technique = SourceTechnique::Splice)
    }

    /// The writer's buffers are huge pages; the reader's too, where it has one.
    pub fn huge(self) -> Self {
        self.change_writer(|writer| writer.pages = PageKind::Huge)
            .change_reader(|reader| {
                if reader.technique == SourceTechnique::Read {
                    reader.pages = PageKind::Huge;
                }
            })
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
        let splices = |source: &SourceSpec| source.technique.splices();
        if data != DataUse::Discard
            && let Some(reader) = self.subject.reader_mut()
            && splices(reader)
        {
            reader.technique = SourceTechnique::SpliceThrough;
            self.description
                .push_str("; spliced on into a second pipe, to look at the data");
            if let Some(writer) = self.subject.writer_mut() {
                writer.reuse = Reuse::Fresh;
            }
        }
        if let Some(writer) = self.subject.writer_mut() {
            writer.rewritten = matches!(data, DataUse::Touch | DataUse::Verify);
        }
        // A reader that reads always has the data in its memory.
        let reads = self.subject.reader().is_some_and(|reader| !splices(reader));
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
        let technique = self.subject.writer().map(|writer| writer.technique);
        matches!(
            technique,
            Some(SinkTechnique::Fastpipe(Policy::Auto) | SinkTechnique::FastpipeIo)
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
                let small = match self.subject.channel() {
                    Some(ChannelKind::Ring) => MARGIN_RING_MESSAGES,
                    _ => MARGIN_MESSAGES,
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
            warm_up_s: durations.warm_up_s,
            timed_s: durations.timed_s,
            timed_bytes: self.volume_bytes,
            margin: margin as u64,
            look_every,
            slow_down: self.slow_down,
        }
    }
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
}
