//! Where the time of a case goes: both ends sampled by the kernel
//! (perf_event_open(2)), each sample attributed by its call chain to a cost, and
//! the whole made to add up to the wall time by the scheduler's account.
//!
//! [`perf`] takes the samples or says why there are none,
//! [`symbols`] names the kernel's functions, [`groups`] is the table of costs
//! and how a call chain finds its place in it, [`account`] splits an end's wall
//! time, [`record`] is what is kept, [`tree`] and [`flame`] show the call
//! chains. [`collect`] samples cases, [`pipeline`] anybody's commands. Where
//! sampling is refused [`counted`] accounts for a case by counts and costs.

pub mod account;
pub mod collect;
pub mod counted;
pub mod flame;
pub mod gathered;
pub mod group;
pub mod groups;
pub mod notes;
pub mod perf;
pub mod pipeline;
pub mod record;
pub mod symbols;
pub mod tree;

#[cfg(test)]
mod chains;
#[cfg(any(test, feature = "sample"))]
pub mod sample;
