//! What memory is made of: where the page table's walk leads for an address,
//! and which pages lie behind it.
//!
//! | room | what is in it |
//! |---|---|
//! | `scheme`, `walk` | how page tables are built on several architectures; an address as indices into them: pure |
//! | `here` | which of them this machine uses |
//! | `look`, `huge` | the pages behind a range of a process's memory, from /proc |
//! | `record` | what is found, as JSON has it |
//! | `drawing`, `table` | the same as text: pure |

mod drawing;
mod here;
mod huge;
mod look;
mod record;
mod scheme;
mod table;
mod walk;

pub use self::drawing::drawing;
pub use self::here::{machine_scheme, own_architecture};
pub use self::look::{LookError, look};
pub use self::record::{Hidden, Huge, Mapping, Memory, Page, Record, Report, State};
pub use self::scheme::{Architecture, Scheme, SchemeError, Wanted};
pub use self::table::table;
pub use self::walk::{Half, Level, Walk};
