//! What is measured, as plain data: channels, ends, memory, cases, and the names of the suites.

mod case;
mod channel;
mod data_use;
mod ends;
mod memory;
mod names;
mod pages;
mod role;
mod subject;
mod suite;
mod trial;

pub use self::case::{Case, pilot_bytes};
pub use self::channel::{ChannelKind, Policy, SinkTechnique, SourceTechnique, Transport};
pub use self::data_use::DataUse;
pub use self::ends::{SinkSpec, SourceSpec, Waiting};
pub use self::memory::{Act, MemorySpec};
pub use self::names::Access;
pub use self::pages::{PageKind, Reuse};
pub use self::role::Role;
pub use self::subject::Subject;
pub use self::suite::Suite;
pub use self::trial::{Durations, EndSpec};
