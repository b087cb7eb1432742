//! Live pipelines as the kernel shows them: which processes and pipes they are made of, what
//! each stage waits for, and what that means.
//!
//! No command line is parsed: the shell runs the pipeline, and processes and pipes are joined
//! by the pipes' inodes in /proc/PID/fd.
//!
//! | module | task |
//! |---|---|
//! | [`proc`] | reads /proc |
//! | [`others`] | which of its descendants this process had before it started a command |
//! | [`supervise`] | reads /proc in a thread that is left behind where a read blocks |
//! | [`processors`] | how busy the processors are, and who may use them |
//! | [`graph`] | processes, the links between them, and their order |
//! | [`wait`] | what a thread waits for |
//! | [`sample`] | what a process does, by its samples |
//! | [`observe`] | all that for some seconds |
//! | [`diagnosis`] | conclusions: pure functions of an observation |
//! | [`live`] | the same again and again |
//! | [`raise`] | which pipes may be made larger, and how |
//! | [`boost`] | a process beside a pipeline that does it |
//! | [`terminate`] | ends processes |
//!
//! Each uses only those above it.
#![forbid(unsafe_code)]

pub mod boost;
pub mod diagnosis;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
pub mod graph;
pub mod live;
pub mod observe;
pub mod others;
pub mod proc;
pub mod processors;
pub mod raise;
pub mod sample;
pub mod supervise;
pub mod terminate;
pub mod wait;
