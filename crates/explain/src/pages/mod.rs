//! Memory: the page-table walk of an address, and the pages of a range.
//!
//! | module | contents |
//! |---|---|
//! | `scheme`, `walk` | page-table formats; an address as indices into the tables |
//! | `here` | the format of this machine |
//! | `look`, `huge` | the pages of a range of memory, from /proc |
//! | `ring` | the ring of a pipe, stepped through system calls |
//! | `record` | the saved record |
//! | `drawing`, `table` | the same as text |

mod drawing;
mod here;
mod hexadecimal;
mod huge;
mod look;
mod record;
mod ring;
mod scheme;
mod table;
mod walk;

pub use self::drawing::drawing;
pub use self::here::{UnknownTables, machine_scheme};
pub use self::look::{LookError, look};
pub use self::record::{
    Hidden, Huge, HugePageSource, MemoryMapping, MemoryRange, Page, PageState, PagesRecord,
    PagesReport,
};
pub use self::ring::{RingRecord, ring_drawing, ring_steps};
pub use self::scheme::{Architecture, Scheme, SchemeError};
pub use self::table::{findings, table};
pub use self::walk::{Half, Walk, WalkLevel};
