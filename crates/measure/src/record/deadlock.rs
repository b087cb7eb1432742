//! A deadlock of the two processes of a session.

use serde::{Deserialize, Serialize};

/// A deadlock: both processes sleep in a write.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialDeadlock {
    /// Messages whose bytes had all come back.
    pub round_trips: u64,
    /// For how long no byte had been moved when the processes were ended.
    pub seconds: f64,
    /// The capacity of one direction, in words.
    pub capacity: String,
    /// The sender and the echo.
    pub processes: [ProcessState; 2],
}

/// What the kernel shows of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sleep {
    /// The letter of its state (proc_pid_stat(5)); `None` if it can't be read.
    #[serde(rename = "state")]
    pub letter: Option<char>,
    /// The kernel function in which it sleeps; `None` if it can't be read.
    pub wait_channel: Option<String>,
}

/// Reads what the kernel shows of a process.
pub type ReadSleep = fn(u32) -> Sleep;

/// The state of a process at one check. The process itself reports all but its sleep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessState {
    /// The process.
    pub pid: u32,
    /// What the kernel shows of it.
    #[serde(flatten)]
    pub sleep: Sleep,
    /// Bytes it has written so far. A call is counted when it returns.
    pub written: u64,
    /// Bytes it has read so far.
    pub read: u64,
    /// Whether it is in the middle of writing a message.
    pub is_writing: bool,
}

impl ProcessState {
    /// Bytes it has moved so far.
    pub(crate) fn moved(&self) -> u64 {
        self.written + self.read
    }

    /// Whether it sleeps while it writes.
    pub(crate) fn is_stuck(&self) -> bool {
        matches!(self.sleep.letter, Some('S' | 'D')) && self.is_writing
    }

    /// Where it sleeps, in words.
    pub(crate) fn place(&self) -> String {
        match &self.sleep.wait_channel {
            Some(name) => format!("in {name}"),
            None => "in its write (/proc/PID/wchan is not readable here)".to_owned(),
        }
    }
}
