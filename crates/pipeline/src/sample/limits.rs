//! What may keep a process from running.

use pipespeed_host::CpuList;

use crate::processors::Quota;

/// A quota that was used up in this share of its periods is what keeps threads from running.
const MIN_THROTTLED: f64 = 0.5;

/// What may keep a process from running.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ProcessorLimits {
    /// At most this share of the time all its processors were used by others.
    pub(crate) contention: f64,
    /// The processors that it may use, if that was looked up.
    pub(crate) allowed: Option<CpuList>,
    /// The number of processors that it may use; 0 if not known.
    pub(crate) processors: usize,
    /// A quota that stopped it.
    pub(crate) quota: Option<Quota>,
}

impl ProcessorLimits {
    /// Whether a quota often stops the process.
    pub(super) fn is_throttled(&self) -> bool {
        self.quota
            .is_some_and(|quota| quota.throttled >= MIN_THROTTLED)
    }
}
