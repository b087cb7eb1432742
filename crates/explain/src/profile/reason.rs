//! What a process waits for, by the kernel functions in which its threads sleep.

use std::fmt;

use pipespeed_pipeline::wait::{Asleep, asleep};
use serde::{Deserialize, Serialize};

/// What a process waits for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum SleepReason {
    /// A known kind.
    Kind(Asleep),
    /// What this kernel function waits for.
    Function(String),
}

impl SleepReason {
    /// By the kernel function.
    fn by_function(function: &str) -> Self {
        match asleep(function) {
            Some(kind) => SleepReason::Kind(kind),
            None => {
                let plain = function.split('.').next().unwrap_or(function);
                SleepReason::Function(plain.to_owned())
            }
        }
    }

    /// Whether it is the end of a child, or a signal: often that of a child.
    pub(crate) fn may_be_child(&self) -> bool {
        matches!(self, SleepReason::Kind(Asleep::Child | Asleep::Signal))
    }

    /// If there are several reasons, the smallest counts: a pipe before all others, and a child
    /// process or a signal last.
    fn rank(&self) -> u8 {
        match self {
            SleepReason::Kind(Asleep::Input) => 0,
            SleepReason::Kind(Asleep::Room) => 1,
            reason if reason.may_be_child() => 3,
            _ => 2,
        }
    }
}

impl fmt::Display for SleepReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SleepReason::Kind(kind) => f.pad(kind.name()),
            SleepReason::Function(function) => f.pad(function),
        }
    }
}

impl From<SleepReason> for String {
    fn from(reason: SleepReason) -> Self {
        reason.to_string()
    }
}

impl From<String> for SleepReason {
    fn from(name: String) -> Self {
        match name.parse() {
            Ok(kind) => SleepReason::Kind(kind),
            Err(_) => SleepReason::Function(name),
        }
    }
}

/// What a process waits for if its threads sleep in these kernel functions.
pub fn reason_of_sleep(sleeping: &[String]) -> Option<SleepReason> {
    let reasons = sleeping
        .iter()
        .map(|function| SleepReason::by_function(function));
    reasons.min_by_key(SleepReason::rank)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipe_comes_before_a_shell_that_waits_for_its_child() {
        let function = |name: &str| Some(SleepReason::Function(name.to_owned()));
        for (functions, reason) in [
            (
                "do_wait anon_pipe_read",
                Some(SleepReason::Kind(Asleep::Input)),
            ),
            (
                "futex_wait_queue pipe_write",
                Some(SleepReason::Kind(Asleep::Room)),
            ),
            ("do_wait unheard_of.isra.0", function("unheard_of")),
            ("do_wait", Some(SleepReason::Kind(Asleep::Child))),
            (
                "sigsuspend hrtimer_nanosleep",
                Some(SleepReason::Kind(Asleep::Timer)),
            ),
            ("", None),
        ] {
            let functions = functions.split_ascii_whitespace().map(str::to_owned);
            let functions: Vec<String> = functions.collect();
            assert_eq!(reason_of_sleep(&functions), reason, "{functions:?}");
        }
    }

    #[test]
    fn a_record_holds_its_name() {
        for (reason, name) in [
            (SleepReason::Kind(Asleep::Timer), "\"a timer (sleep)\""),
            (
                SleepReason::Function("unheard_of".to_owned()),
                "\"unheard_of\"",
            ),
        ] {
            assert_eq!(serde_json::to_string(&reason).unwrap(), name);
            assert_eq!(serde_json::from_str::<SleepReason>(name).unwrap(), reason);
        }
    }
}
