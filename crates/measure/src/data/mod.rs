//! Produces and consumes the bytes of a stream.

pub mod pattern;

use std::hint::black_box;

use self::pattern::WrongByte;
use crate::spec::DataUse;

/// Produces the bytes that a writer sends.
#[derive(Debug)]
pub struct DataProducer {
    produces: bool,
    work: u32,
    offset: u64,
}

impl DataProducer {
    /// A producer of fresh bytes if `data` is touched or verified; else the
    /// buffers are sent as they are.
    pub fn new(data: DataUse, work: u32) -> Self {
        DataProducer {
            produces: matches!(data, DataUse::Touch | DataUse::Verify),
            work,
            offset: 0,
        }
    }

    /// Whether it does nothing: the buffers are sent as they are.
    pub fn is_idle(&self) -> bool {
        !self.produces && self.work == 0
    }

    /// Produces the next bytes of the stream.
    pub fn produce(&mut self, buffer: &mut [u8]) {
        if self.produces {
            pattern::fill(buffer, self.offset);
        }
        self.offset += buffer.len() as u64;
        compute(buffer, self.work);
    }
}

/// Consumes the bytes that a reader receives.
#[derive(Debug)]
pub struct DataConsumer {
    data: DataUse,
    work: u32,
    offset: u64,
}

impl DataConsumer {
    /// A consumer that reads, touches or verifies the bytes, as `data` specifies.
    pub fn new(data: DataUse, work: u32) -> Self {
        DataConsumer {
            data,
            work,
            offset: 0,
        }
    }

    /// Goes back to the beginning of the stream.
    pub fn rewind(&mut self) {
        self.offset = 0;
    }

    /// Consumes the next bytes of the stream.
    ///
    /// # Errors
    /// The first wrong byte, if the data is to be verified.
    pub fn consume(&mut self, bytes: &[u8]) -> Result<(), WrongByte> {
        match self.data {
            DataUse::Discard | DataUse::Read => {}
            DataUse::Touch => {
                black_box(pattern::sum(bytes));
            }
            DataUse::Verify => pattern::check(bytes, self.offset)?,
        }
        self.offset += bytes.len() as u64;
        compute(bytes, self.work);
        Ok(())
    }
}

fn compute(bytes: &[u8], passes: u32) {
    for pass in 0..passes {
        black_box(pattern::compute(bytes, u64::from(pass)));
    }
}
