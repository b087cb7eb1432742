//! What a process waits for, by the kernel functions in which its threads sleep.

use pipespeed_pipeline::wait::{Asleep, asleep};

/// What a process waits for if its threads sleep in these kernel functions. If there
/// are several reasons, a pipe comes first and a child process or a signal last.
pub fn reason_of_sleep(sleeping: &[String]) -> Option<String> {
    let rank = |function: &str| match reason_of_function(function) {
        Some(INPUT) => 0,
        Some(OUTPUT) => 1,
        Some(CHILD | SIGNAL) => 3,
        _ => 2,
    };
    let function = sleeping.iter().min_by_key(|function| rank(function))?;
    let plain = function.split('.').next().unwrap_or(function);
    Some(reason_of_function(function).unwrap_or(plain).to_owned())
}

/// The reason of waiting for the stage before.
pub const INPUT: &str = "input (pipe empty)";
/// The reason of waiting for the stage after.
pub const OUTPUT: &str = "room for output (pipe full)";
/// The reason of waiting for a child.
pub const CHILD: &str = "a child process";
/// The reason of waiting for a signal: often for that of a child.
pub const SIGNAL: &str = "a signal";

/// The reason for sleeping in a kernel function.
fn reason_of_function(function: &str) -> Option<&'static str> {
    Some(match asleep(function)? {
        Asleep::Input => INPUT,
        Asleep::Room => OUTPUT,
        Asleep::FifoPeer => "the other end of a FIFO",
        Asleep::Child => CHILD,
        Asleep::Poll => "poll or select",
        Asleep::Timer => "a timer (sleep)",
        Asleep::Signal => SIGNAL,
        Asleep::Futex => "another thread (futex)",
        Asleep::Disk => "a file's data (disk)",
        Asleep::TerminalOrSocket => "the terminal or a socket",
        Asleep::Stopped => "SIGCONT (it is stopped)",
        Asleep::Traced => "a debugger",
        Asleep::Frozen => "its frozen control group",
        Asleep::KernelLock => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipe_comes_before_a_shell_that_waits_for_its_child() {
        for (functions, reason) in [
            ("do_wait anon_pipe_read", Some(INPUT)),
            ("futex_wait_queue pipe_write", Some(OUTPUT)),
            ("do_wait unheard_of.isra.0", Some("unheard_of")),
            ("do_wait", Some(CHILD)),
            ("sigsuspend hrtimer_nanosleep", Some("a timer (sleep)")),
            ("", None),
        ] {
            let functions = functions.split_ascii_whitespace().map(str::to_owned);
            let functions: Vec<String> = functions.collect();
            assert_eq!(
                reason_of_sleep(&functions).as_deref(),
                reason,
                "{functions:?}"
            );
        }
    }
}
