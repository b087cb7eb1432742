//! What runs in a trial.

use serde::{Deserialize, Serialize};

use crate::spec::{Channel, PageKind, PipeWriter, ProcessRole, SinkSpec, SourceSpec, Waiting};
use pipespeed_base::named;

/// The processes of a trial and what connects them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// Two processes with a channel between them.
    Channel {
        /// What the writing process does.
        writer: SinkSpec,
        /// What the reading process does.
        reader: SourceSpec,
        /// What connects them.
        channel: Channel,
        /// The pipe's size in bytes; the kernel's default if none is set, and
        /// none for channels other than pipes and FIFOs.
        pipe_bytes: Option<usize>,
        /// The size of the messages, if the case is about messages: what one
        /// call of the writer carries.
        message_bytes: Option<usize>,
    },
    /// One process that goes over a block of memory.
    Memory(MemorySpec),
    /// The writer's work on the data, without a channel.
    Produce(SinkSpec),
    /// The reader's work on the data, without a channel.
    Consume(SourceSpec),
}

impl Subject {
    /// The writer, or the end that produces without a channel.
    pub fn writer(&self) -> Option<&SinkSpec> {
        match self {
            Subject::Channel { writer, .. } | Subject::Produce(writer) => Some(writer),
            _ => None,
        }
    }

    /// [`Subject::writer`], to be changed.
    pub fn writer_mut(&mut self) -> Option<&mut SinkSpec> {
        match self {
            Subject::Channel { writer, .. } | Subject::Produce(writer) => Some(writer),
            _ => None,
        }
    }

    /// The reader, or the end that consumes without a channel.
    pub fn reader(&self) -> Option<&SourceSpec> {
        match self {
            Subject::Channel { reader, .. } | Subject::Consume(reader) => Some(reader),
            _ => None,
        }
    }

    /// [`Subject::reader`], to be changed.
    pub fn reader_mut(&mut self) -> Option<&mut SourceSpec> {
        match self {
            Subject::Channel { reader, .. } | Subject::Consume(reader) => Some(reader),
            _ => None,
        }
    }

    /// What connects the two processes.
    pub fn channel(&self) -> Option<Channel> {
        match self {
            Subject::Channel { channel, .. } => Some(*channel),
            _ => None,
        }
    }

    /// The block of memory that one process goes over.
    pub fn memory(&self) -> Option<&MemorySpec> {
        match self {
            Subject::Memory(memory) => Some(memory),
            _ => None,
        }
    }

    /// The pipe's size in bytes, if it is set.
    pub fn pipe_bytes(&self) -> Option<usize> {
        match self {
            Subject::Channel { pipe_bytes, .. } => *pipe_bytes,
            _ => None,
        }
    }

    /// The size of the messages, if the case is about messages.
    pub fn message_bytes(&self) -> Option<usize> {
        match self {
            Subject::Channel { message_bytes, .. } => *message_bytes,
            _ => None,
        }
    }

    /// Bytes in a buffer of the writer, else of the only process.
    pub fn buffer_bytes(&self) -> usize {
        match self {
            Subject::Channel { writer, .. } | Subject::Produce(writer) => writer.buffer_bytes,
            Subject::Consume(reader) => reader.buffer_bytes,
            Subject::Memory(memory) => memory.block_bytes,
        }
    }

    /// The memory of large buffers of both ends, and of the pipe, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        match self {
            Subject::Channel {
                channel,
                writer,
                reader,
                pipe_bytes,
                ..
            } => {
                // One buffer for write(2), two for what sends memory by reference.
                let copies = channel.pipe_writer() == Some(PipeWriter::Write);
                let buffers = if copies || writer.same_buffer { 1 } else { 2 };
                let bytes = writer.buffer_bytes.max(writer.loan_bytes);
                let others = reader.buffer_bytes.saturating_add(pipe_bytes.unwrap_or(0));
                bytes.saturating_mul(buffers).saturating_add(others) as u64
            }
            Subject::Memory(memory) => memory.memory_bytes(),
            Subject::Produce(_) | Subject::Consume(_) => self.buffer_bytes() as u64,
        }
    }

    /// How the writer waits for the reader; the reader may do otherwise.
    pub fn wait(&self) -> Option<Waiting> {
        self.channel().and(self.writer()).map(|writer| writer.wait)
    }

    /// The pages of the writer, else of the only process.
    pub(crate) fn pages(&self) -> PageKind {
        match self {
            Subject::Channel { writer, .. } | Subject::Produce(writer) => writer.pages,
            Subject::Consume(reader) => reader.pages,
            Subject::Memory(memory) => memory.pages,
        }
    }

    /// Whether a process of this role takes part. A block of memory is a writer's.
    pub(crate) fn has(&self, role: ProcessRole) -> bool {
        match self {
            Subject::Channel { .. } => true,
            Subject::Memory(_) | Subject::Produce(_) => role == ProcessRole::Writer,
            Subject::Consume(_) => role == ProcessRole::Reader,
        }
    }
}

named! {
    /// An operation on a block of memory.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Act {
        /// every byte read by wide loads, searching for one that does not occur
        Read = "read",
        /// filled by memset
        Write = "write",
        /// copied to another block by memcpy; bytes copied, not moved
        Copy = "copy",
        /// read 8 bytes at a time, one load after the other
        ReadScalar = "read_scalar",
        /// written 8 bytes at a time, one store after the other
        WriteScalar = "write_scalar",
    }
}

impl Act {
    /// The name in tables.
    pub fn title(self) -> &'static str {
        match self {
            Act::ReadScalar => "scalar read",
            Act::WriteScalar => "scalar write",
            _ => self.name(),
        }
    }

    /// The number of blocks that it uses.
    pub fn blocks(self) -> usize {
        1 + usize::from(self == Act::Copy)
    }
}

/// The specification of a process without a channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemorySpec {
    /// The operation.
    pub act: Act,
    /// Bytes in the block.
    pub block_bytes: usize,
    /// The kind of pages.
    pub pages: PageKind,
}

impl MemorySpec {
    /// The number of blocks.
    pub fn blocks(&self) -> usize {
        self.act.blocks()
    }

    /// The memory of all blocks in bytes.
    pub fn memory_bytes(&self) -> u64 {
        (self.blocks() as u64).saturating_mul(self.block_bytes as u64)
    }
}
