//! Live pipelines as the kernel shows them: which processes and pipes they are made of, what
//! each stage waits for, and what that means.
//!
//! No command line is parsed: the shell runs the pipeline, and processes and pipes are joined
//! by the pipes' inodes in /proc/PID/fd.
//!
//! | module | task |
//! |---|---|
//! | [`proc`] | reads /proc |
//! | `files` | the files of one process, some of them kept open |
//! | [`find`] | the processes and their pipes at one moment |
//! | [`flow`] | the pipes by which a process belongs to a pipeline |
//! | [`wait`] | what a thread waits for |
//! | [`look`] | capacity and fill of a pipe |
//! | [`processors`] | how busy the processors are, and who may use them |
//! | [`observe`] | all that for some seconds |
//! | [`diagnosis`] | conclusions: pure functions of an observation |
//! | [`act`] | ends processes |
//! | [`raise`] | which pipes may be made larger, and how |
//! | [`boost`] | a process beside a pipeline that does it |
//! | [`proof`] | what that gains: runs with and without it |
#![forbid(unsafe_code)]

pub mod act;
pub mod boost;
pub mod diagnosis;
mod files;
pub mod find;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
pub mod flow;
pub mod look;
pub mod observe;
pub mod proc;
pub mod processors;
pub mod proof;
pub mod raise;
pub mod wait;
