//! One thing to be measured: what each end does, and what it is compared with.

mod options;
mod volume;

pub use self::volume::pilot_bytes;
use crate::endpoint::memory::MemorySpec;
use crate::endpoint::spec::{
    ChannelKind, EndSpec, PageKind, Part, Policy, Reuse, SinkSpec, SinkTechnique, SourceSpec,
    SourceTechnique, Waiting,
};
use crate::record::{Configuration, DataUse};

/// The reader looks at the clock once in so many bytes at most: at the highest
/// rates that is every 15 us, and a look costs some tens of nanoseconds.
const LOOK_EVERY: u64 = 1 << 20;
/// Or once in so many messages, each of which takes a system call.
const LOOK_EVERY_MESSAGES: u64 = 256;

/// How many messages are between the reader's naming an offset and the
/// writer's seeing it: for the time this takes, small ones; large ones take
/// longer each.
const MARGIN_MESSAGES: usize = 64;
/// A ring takes one in some nanoseconds.
const MARGIN_RING_MESSAGES: usize = 1024;
const MARGIN_BYTES: usize = 64 << 10;
const MIN_MARGIN_MESSAGES: usize = 4;

/// The least that the reader of a stream of messages asks for at a time.
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
    /// The writer; none where the reader works alone.
    pub sink: Option<SinkSpec>,
    /// The reader; none where the writer works alone.
    pub source: Option<SourceSpec>,
    /// The block that a process without a channel goes over; then there is
    /// neither a writer nor a reader.
    pub memory: Option<MemorySpec>,
    /// What lies between the ends, where there are two.
    pub channel: ChannelKind,
    /// The pipe's size in bytes; none where there is no pipe.
    pub pipe_bytes: Option<usize>,
    /// The size of the messages, where the case is about messages: what one
    /// call of the writer carries.
    pub message_bytes: Option<usize>,
    /// The volume of the timed part, in bytes, where the case is about that;
    /// else it lasts by time.
    pub volume_bytes: Option<u64>,
    /// How long a trial of that volume takes by a pilot's pace, in seconds.
    pub expected_s: Option<f64>,
    /// The name of the case that differs in one factor, and that factor.
    pub compared_with: Option<(String, String)>,
    /// See [`EndSpec::slow_down`].
    pub slow_down: f64,
    /// The processors of the writer and of the reader, where the case has its
    /// own; else those of the run.
    pub cpus: Option<(usize, usize)>,
}

/// How long the parts of a trial last at least, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Durations {
    /// The warm-up.
    pub warm_up_s: f64,
    /// The timed part.
    pub timed_s: f64,
}

impl Durations {
    /// Both parts together.
    pub fn sum_s(self) -> f64 {
        self.warm_up_s + self.timed_s
    }
}

impl Case {
    /// A case of plain blocking write and read of buffers of base pages; the
    /// methods below change one thing each.
    pub fn new(name: &str, buffer_bytes: usize, pipe_bytes: usize) -> Self {
        Case {
            name: name.to_owned(),
            description: String::new(),
            data: DataUse::Read,
            work: 0,
            sink: Some(SinkSpec {
                technique: SinkTechnique::Write,
                wait: Waiting::Block,
                buffer_bytes,
                loan_bytes: buffer_bytes,
                same_buffer: false,
                pages: PageKind::Base,
                touched: true,
                locked: false,
                gift: false,
                rewritten: false,
                reuse: Reuse::Drained,
                offset: 0,
            }),
            source: Some(SourceSpec {
                technique: SourceTechnique::Read,
                wait: Waiting::Block,
                buffer_bytes,
                pages: PageKind::Base,
                touched: true,
                locked: false,
                offset: 0,
            }),
            memory: None,
            channel: ChannelKind::Pipe,
            pipe_bytes: Some(pipe_bytes),
            message_bytes: None,
            volume_bytes: None,
            expected_s: None,
            compared_with: None,
            slow_down: 0.0,
            cpus: None,
        }
    }

    /// Messages of one size through any channel, every byte of them produced
    /// and used. A reader of a stream asks for 64 KiB at a time at least.
    pub fn of_messages(
        name: &str,
        message_bytes: usize,
        channel: ChannelKind,
        sink: SinkTechnique,
        source: SourceTechnique,
    ) -> Self {
        let mut case = Case::new(name, message_bytes, 0);
        case.channel = channel;
        case.pipe_bytes = None;
        case.message_bytes = Some(message_bytes);
        if let Some(end) = &mut case.sink {
            end.technique = sink;
        }
        if let Some(end) = &mut case.source {
            end.technique = source;
            if !channel.keeps_messages() {
                end.buffer_bytes = message_bytes.max(MIN_READ);
            }
        }
        case
    }

    /// One process that goes over a block of memory, without a channel.
    pub fn of_memory(name: &str, memory: MemorySpec) -> Self {
        Case {
            sink: None,
            source: None,
            pipe_bytes: None,
            memory: Some(memory),
            ..Case::new(name, 0, 0)
        }
    }

    /// One line on what it does.
    pub fn described(mut self, description: &str) -> Self {
        self.description = description.to_owned();
        self
    }

    /// The case it is compared with, and the one factor in which they differ.
    pub fn against(mut self, case: &str, factor: &str) -> Self {
        self.compared_with = Some((case.to_owned(), factor.to_owned()));
        self
    }

    /// The writer uses vmsplice.
    pub fn vmsplice(mut self) -> Self {
        if let Some(sink) = &mut self.sink {
            sink.technique = SinkTechnique::Vmsplice;
        }
        self
    }

    /// The writer is a library's; `piece` and `loan` are bytes made at a time,
    /// and gathered at most.
    pub fn library(mut self, technique: SinkTechnique, piece: usize, loan: usize) -> Self {
        if let Some(sink) = &mut self.sink {
            sink.technique = technique;
            sink.buffer_bytes = piece;
            sink.loan_bytes = loan;
            sink.pages = match technique {
                SinkTechnique::BufWriter
                | SinkTechnique::PipeWriter(Policy::Copying)
                | SinkTechnique::PipeWriterIo(Policy::Copying) => PageKind::Base,
                _ => PageKind::Huge,
            };
        }
        self
    }

    /// The reader splices to /dev/null.
    pub fn splice(mut self) -> Self {
        if let Some(source) = &mut self.source {
            source.technique = SourceTechnique::Splice;
        }
        self.data = DataUse::Discard;
        self
    }

    /// The writer's buffers are huge pages; the reader's too, where it has one.
    pub fn huge(mut self) -> Self {
        if let Some(sink) = &mut self.sink {
            sink.pages = PageKind::Huge;
        }
        if let Some(source) = &mut self.source
            && source.technique == SourceTechnique::Read
        {
            source.pages = PageKind::Huge;
        }
        self
    }

    /// Both ends spin.
    pub fn spin(mut self) -> Self {
        if let Some(sink) = &mut self.sink {
            sink.wait = Waiting::Spin;
        }
        if let Some(source) = &mut self.source {
            source.wait = Waiting::Spin;
        }
        self
    }

    /// The ends run on these processors, whatever the run says.
    pub fn on(mut self, cpus: Option<(usize, usize)>) -> Self {
        self.cpus = cpus;
        self
    }

    /// Only the writer's work on the data, without a pipe.
    pub fn produce_alone(mut self) -> Self {
        self.source = None;
        self.pipe_bytes = None;
        self
    }

    /// Only the reader's work on the data, without a pipe.
    pub fn consume_alone(mut self) -> Self {
        self.sink = None;
        self.pipe_bytes = None;
        self
    }

    /// Sets what becomes of the data.
    ///
    /// A reader that splices sees no data, so to look at it all the same it
    /// splices through a second pipe and reads from that. Pages may then wait
    /// in the second pipe after they left the first, so a writer that produces
    /// must never write to a sent page again.
    pub fn with_data(mut self, data: DataUse) -> Self {
        let splices = |source: &SourceSpec| source.technique.splices();
        if data != DataUse::Discard
            && let Some(source) = &mut self.source
            && splices(source)
        {
            source.technique = SourceTechnique::SpliceThrough;
            self.description
                .push_str("; spliced on into a second pipe, to look at the data");
            if let Some((_, factor)) = &mut self.compared_with
                && factor == "splice"
            {
                factor.push_str(" and a second pipe");
                if data != DataUse::Read {
                    factor.push_str(", fresh pages");
                }
            }
            if let Some(sink) = &mut self.sink {
                sink.reuse = Reuse::Fresh;
            }
        }
        if let Some(sink) = &mut self.sink {
            sink.rewritten = matches!(data, DataUse::Touch | DataUse::Verify);
        }
        // A reader that reads has the data in its memory, asked for or not.
        let reads = self.source.as_ref().is_some_and(|source| !splices(source));
        self.data = match data {
            DataUse::Discard if reads => DataUse::Read,
            data => data,
        };
        self
    }

    /// The same thing under another name, to be compared with it.
    pub fn twin(&self) -> Case {
        let mut twin = self.clone();
        twin.name = format!("{}_again", self.name);
        twin.description = format!("{} once more: the null control", self.name);
        twin.compared_with = Some((self.name.clone(), "nothing".to_owned()));
        twin
    }

    /// Whether an end never sleeps.
    pub fn spins(&self) -> bool {
        let sink = self.sink.as_ref().map(|sink| sink.wait);
        let source = self.source.as_ref().map(|source| source.wait);
        sink == Some(Waiting::Spin) || source == Some(Waiting::Spin)
    }

    /// Whether both ends exist and spin, so that each needs a processor.
    pub fn spins_in_pairs(&self) -> bool {
        self.spins() && self.sink.is_some() && self.source.is_some()
    }

    /// What the writer's process, or one without a channel, is told.
    pub fn writer_spec(
        &self,
        cpu: Option<usize>,
        pipe_bytes: usize,
        durations: Durations,
    ) -> Option<EndSpec> {
        if let Some(memory) = self.memory.clone() {
            return Some(self.end_spec(Part::Memory(memory), cpu, pipe_bytes, durations));
        }
        let sink = self.sink.clone()?;
        let part = match self.source {
            Some(_) => Part::Writer(sink),
            None => Part::ProduceAlone(sink),
        };
        Some(self.end_spec(part, cpu, pipe_bytes, durations))
    }

    /// What the reader's process is told.
    pub fn reader_spec(
        &self,
        cpu: Option<usize>,
        pipe_bytes: usize,
        durations: Durations,
    ) -> Option<EndSpec> {
        let source = self.source.clone()?;
        let part = match self.sink {
            Some(_) => Part::Reader(source),
            None => Part::ConsumeAlone(source),
        };
        Some(self.end_spec(part, cpu, pipe_bytes, durations))
    }

    fn end_spec(
        &self,
        part: Part,
        cpu: Option<usize>,
        pipe_bytes: usize,
        durations: Durations,
    ) -> EndSpec {
        let loan = self.sink.as_ref().map_or(0, |sink| sink.loan_bytes);
        let (margin, look_every) = match self.message_bytes {
            // Each end may finish the piece it is at before it looks.
            None => (2 * (pipe_bytes + self.buffer_bytes().max(loan)), LOOK_EVERY),
            Some(bytes) => {
                let small = match self.channel {
                    ChannelKind::Ring => MARGIN_RING_MESSAGES,
                    _ => MARGIN_MESSAGES,
                };
                let messages = (MARGIN_BYTES / bytes).min(small);
                (
                    bytes * messages.max(MIN_MARGIN_MESSAGES),
                    LOOK_EVERY.min(LOOK_EVERY_MESSAGES * bytes as u64),
                )
            }
        };
        EndSpec {
            part,
            data: self.data,
            work: self.work,
            cpu,
            warm_up_s: durations.warm_up_s,
            timed_s: durations.timed_s,
            timed_bytes: self.volume_bytes,
            margin: margin as u64,
            look_every,
            slow_down: self.slow_down,
        }
    }

    /// Bytes in a buffer.
    pub fn buffer_bytes(&self) -> usize {
        let sink = self.sink.as_ref().map(|sink| sink.buffer_bytes);
        let source = self.source.as_ref().map(|source| source.buffer_bytes);
        let block = self.memory.as_ref().map(|memory| memory.block_bytes);
        sink.or(source).or(block).unwrap_or(0)
    }

    /// The configuration as asked for.
    pub fn configuration(&self) -> Configuration {
        let sink = self.sink.as_ref();
        let source = self.source.as_ref();
        let memory = self.memory.as_ref();
        let pages = sink.map(|s| s.pages).or(source.map(|s| s.pages));
        let pages = pages.or(memory.map(|memory| memory.pages));
        let alone = sink.is_none() || source.is_none();
        Configuration {
            writer: match sink {
                Some(sink) if !alone => Some(sink.technique.name().to_owned()),
                Some(_) => Some("memory".to_owned()),
                None => memory.map(|_| "memory".to_owned()),
            },
            reader: source.map(|source| {
                if alone {
                    "memory".to_owned()
                } else {
                    source.technique.name().to_owned()
                }
            }),
            wait: match sink.map(|s| s.wait).or(source.map(|s| s.wait)) {
                Some(wait) if !alone => wait.name().to_owned(),
                _ => "none".to_owned(),
            },
            channel: (!alone).then(|| self.channel.name().to_owned()),
            message_bytes: self.message_bytes,
            writer_cpu: self.cpus.map(|(writer, _)| writer),
            reader_cpu: self.cpus.map(|(_, reader)| reader),
            volume_bytes: self.volume_bytes,
            options: self.options(),
            buffer_bytes: self.buffer_bytes(),
            reader_buffer_bytes: source.map(|source| source.buffer_bytes),
            pages: pages.unwrap_or_default().name().to_owned(),
            pipe_bytes_asked: self.pipe_bytes,
            ..Configuration::default()
        }
    }
}
