//! What is measured, as plain data: channels, ends, memory, cases, and the names of the suites.

mod case;
mod channel;
mod ends;
mod pages;
mod subject;
mod suite;
mod trial;

pub use self::case::{Case, pilot_bytes};
pub use self::channel::{Channel, ChannelSizes, PipeReader, PipeWriter};
pub use self::ends::{ProcessRole, SinkSpec, SourceSpec, Waiting};
pub use self::pages::{PageKind, PageReuse};
pub use self::subject::{Act, MemorySpec, Subject};
pub use self::suite::Suite;
pub use self::trial::{DataUse, Durations, EndSpec};
