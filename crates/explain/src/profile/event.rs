//! What is sampled, and how often.

use serde::{Deserialize, Serialize};

pipespeed_base::named! {
    /// The event that triggers samples.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Event {
        /// The processor's cycle counter, which also samples code with interrupts disabled.
        Cycles = "cycles",
        /// A timer of the process's running time. A sample due while interrupts are disabled is
        /// taken when they are enabled again.
        CpuClock = "cpu-clock",
    }
}

/// What an event is bound to.
///
/// An event of a task is stopped and started at each of its context switches. The kernel
/// spends that time in the scheduler, so such samples overstate scheduling where a task
/// sleeps often. An event of a processor goes on whatever runs there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventScope {
    /// Processors. Samples of other processes are discarded.
    Processors,
    /// Tasks.
    Tasks,
}

/// Samples per second of running time. Twice as many slow down spinning ends in a guest by
/// a fifth. It is no multiple of the kernel's tick rate, to avoid sampling in step with it.
pub const FREQUENCY: u64 = 1999;

/// Minimum number of samples that divide a running time. The standard error of a share is at
/// most 5 points with as many.
pub const MIN_SAMPLES: u64 = 100;
