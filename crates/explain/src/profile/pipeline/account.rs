//! Resource usage of a process and its descendants.

use std::time::Duration;

/// Resources used by a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    /// Bytes read by read(2) and similar calls; `None` if the kernel does not count
    /// them.
    pub taken: Option<u64>,
    /// Bytes written by write(2) and similar calls.
    pub given: Option<u64>,
    /// Running time of all threads.
    pub ran: Duration,
    /// Time in which threads waited for a processor.
    pub delayed: Duration,
    /// Wall time.
    pub wall: Duration,
}

impl Account {
    /// Bytes read (0) or written (1).
    pub fn bytes(&self, side: usize) -> Option<u64> {
        [self.taken, self.given][side]
    }

    /// The usage since `earlier`.
    pub fn since(&self, earlier: &Account) -> Account {
        self.combined(earlier, u64::saturating_sub, Duration::saturating_sub)
    }

    /// The sum of this usage and `other`.
    pub fn and(&self, other: &Account) -> Account {
        self.combined(other, u64::saturating_add, Duration::saturating_add)
    }

    fn combined(
        &self,
        other: &Account,
        bytes: fn(u64, u64) -> u64,
        time: fn(Duration, Duration) -> Duration,
    ) -> Account {
        let counts = |own: Option<u64>, other: Option<u64>| Some(bytes(own?, other?));
        Account {
            taken: counts(self.taken, other.taken),
            given: counts(self.given, other.given),
            ran: time(self.ran, other.ran),
            delayed: time(self.delayed, other.delayed),
            wall: time(self.wall, other.wall),
        }
    }
}

/// No usage, with known byte counts.
impl Default for Account {
    fn default() -> Self {
        Account {
            taken: Some(0),
            given: Some(0),
            ran: Duration::ZERO,
            delayed: Duration::ZERO,
            wall: Duration::ZERO,
        }
    }
}
