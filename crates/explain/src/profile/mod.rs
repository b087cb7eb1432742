//! Profiles: the wall time of each end of a case, or of each stage of a pipeline,
//! split into costs.
//!
//! The kernel samples the processes (perf_event_open(2)). The call chain of a sample
//! belongs to a cost. The scheduler's times make the costs add up to the wall time.
//!
//! | module | contents |
//! |---|---|
//! | [`event`] | what is sampled, and how often |
//! | [`perf`], [`symbols`] | samples, or why there are none; names of kernel functions |
//! | [`attribution`] | the process and the end or command that a sample belongs to |
//! | [`groups`] | the table of costs and the attribution of call chains |
//! | [`reason`] | what a process waits for, by the kernel functions in which it sleeps |
//! | [`account`], [`gathered`] | the wall time of an end, split |
//! | [`collect`], [`pipeline`] | profiles of cases and of users' commands |
//! | [`counted`] | accounts of cases by counts and costs, if sampling is refused |
//! | [`record`], [`notes`] | the saved record and its warnings |
//! | [`tree`], [`flame`] | call chains as text and as a flame graph |

pub mod account;
pub mod attribution;
pub mod collect;
pub mod counted;
pub mod event;
pub mod flame;
pub mod gathered;
pub mod group;
pub mod groups;
pub mod notes;
pub mod perf;
pub mod pipeline;
pub mod reason;
pub mod record;
pub mod symbols;
pub mod tree;

#[cfg(test)]
mod chains;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
