//! A check that errs, panics or hangs takes nothing else with it.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use fastpipe::pipe::CapacityError;
use rustix::io::Errno;
use rustix::process::Resource;

use super::pipes::NoPipe;
use super::refusal::{NoThread, out_of_processes, to_be_raised};
use super::{Group, Outcome};

/// The parts that patience is counted in.
const PARTS: u32 = 30;

/// Runs a check in a thread of its own, and waits for it no longer than
/// `patience`. A thread that hangs is left behind and ends with the process.
pub(super) fn run(
    check: fn() -> anyhow::Result<Outcome>,
    group: Group,
    patience: Duration,
) -> Outcome {
    let (send, receive) = mpsc::channel();
    let thread = thread::Builder::new().name("check".to_owned());
    let spawned = thread.spawn(move || {
        // If nobody waits any more there is nobody to tell.
        let _ = send.send(caught(check, group));
    });
    match spawned {
        Ok(thread) => match answer(&receive, patience) {
            Some(outcome) => {
                // Nothing is left of it when the next one begins.
                let _ = thread.join();
                outcome
            }
            None => Outcome::error(format_args!(
                "no answer within {} s: it hangs",
                patience.as_secs_f64()
            )),
        },
        // No thread to be had: unguarded is better than not at all.
        Err(_) => caught(check, group),
    }
}

/// Waits in parts: however long the whole process stands still (SIGSTOP), that
/// costs one of them only, since the check stands still with it.
fn answer(receive: &mpsc::Receiver<Outcome>, patience: Duration) -> Option<Outcome> {
    (0..PARTS).find_map(|_| receive.recv_timeout(patience / PARTS).ok())
}

fn caught(check: fn() -> anyhow::Result<Outcome>, group: Group) -> Outcome {
    match catch_unwind(AssertUnwindSafe(check)) {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(error)) => of_error(&error, group),
        Err(payload) => Outcome::error(format_args!("a bug in the check: {}", words(&*payload))),
    }
}

fn words(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("it panicked")
}

/// What the system does not let us do is a refusal; anything else a check did
/// not expect is an error.
fn of_error(error: &anyhow::Error, group: Group) -> Outcome {
    let refused = || Outcome::refused(format!("{error:#}"));
    match errno(error) {
        // It names the limit itself.
        Some(Errno::PERM) if error.is::<CapacityError>() => Outcome::refused(format!("{error}")),
        Some(Errno::MFILE) => lacking(
            error,
            group,
            format!(
                "no descriptor is left: {}",
                to_be_raised("ulimit -n", Resource::Nofile)
            ),
        ),
        Some(Errno::NFILE) => lacking(
            error,
            group,
            "the system's files are used up (fs.file-max), or this user's pipes hold as many \
             pages as fs.pipe-user-pages-hard allows",
        ),
        Some(Errno::PERM | Errno::ACCESS | Errno::NOSYS) if error.is::<NoPipe>() => lacking(
            error,
            group,
            "no pipe can be made, as pipe2(2) is refused: look for a seccomp filter or a security \
             module",
        ),
        Some(Errno::PERM | Errno::ACCESS | Errno::NOSYS) => refused().noting(
            "a system call that an ordinary process may make is refused: look for a seccomp \
             filter or a security module",
        ),
        Some(Errno::AGAIN) if error.is::<NoThread>() => refused().noting(out_of_processes()),
        _ => Outcome::error(format_args!("{error:#}")),
    }
}

/// What comes of a check for which there are no pipes. Where pipes are what it
/// is about, it has not said what it was to say; where permissions are, it has.
fn lacking(error: &anyhow::Error, group: Group, note: impl Into<String>) -> Outcome {
    let outcome = match group {
        Group::Limits | Group::Semantics => Outcome::error(format_args!("{error:#}")),
        Group::ZeroCopy | Group::Permissions => Outcome::refused(format!("{error:#}")),
    };
    outcome.noting(note)
}

/// The system's error among the causes.
fn errno(error: &anyhow::Error) -> Option<Errno> {
    error.chain().find_map(|cause| {
        let own = cause.downcast_ref::<Errno>().copied();
        let other = || Errno::from_io_error(cause.downcast_ref::<io::Error>()?);
        own.or_else(other)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Verdict;
    use anyhow::{Context, anyhow};

    #[test]
    fn an_error_says_that_it_could_not_be_found_out() {
        let outcome = run(
            || Err(anyhow!("odd").context("poll")),
            Group::Limits,
            Duration::from_secs(9),
        );
        assert_eq!(outcome.verdict, Verdict::Error);
        assert_eq!(outcome.seen, "could not be found out: poll: odd");
    }

    #[test]
    fn a_panic_is_an_error_with_its_words() {
        let outcome = run(
            || panic!("no {}", "way"),
            Group::Limits,
            Duration::from_secs(9),
        );
        assert_eq!(outcome.verdict, Verdict::Error);
        assert!(outcome.seen.ends_with("no way"), "{outcome:?}");
    }

    #[test]
    fn one_that_hangs_is_given_up() {
        let hangs = || loop {
            thread::park();
        };
        let outcome = run(hangs, Group::Limits, Duration::from_millis(20));
        assert_eq!(outcome.verdict, Verdict::Error);
        assert!(
            outcome.seen.ends_with("within 0.02 s: it hangs"),
            "{outcome:?}"
        );
    }

    #[test]
    fn what_the_system_does_not_allow_is_a_refusal_with_the_way_out() {
        for (errno, word) in [
            (Errno::MFILE, "ulimit -n"),
            (Errno::NFILE, "pipe-user-pages-hard"),
            (Errno::PERM, "seccomp"),
            (Errno::NOSYS, "seccomp"),
        ] {
            let direct = anyhow::Error::from(errno).context("pipe");
            let wrapped = Err::<(), _>(io::Error::from(errno)).context("pipe");
            for error in [direct, wrapped.unwrap_err()] {
                let outcome = of_error(&error, Group::ZeroCopy);
                assert_eq!(outcome.verdict, Verdict::Refused);
                assert!(outcome.seen.starts_with("pipe: "), "{outcome:?}");
                assert!(outcome.note.unwrap().contains(word));
            }
        }
        let other = of_error(&Errno::BADF.into(), Group::ZeroCopy);
        assert_eq!(other.verdict, Verdict::Error);
    }

    #[test]
    fn without_pipes_it_is_not_found_out_what_they_are_like() {
        for (errno, word) in [
            (Errno::MFILE, "ulimit -n"),
            (Errno::NFILE, "file-max"),
            (Errno::NOSYS, "seccomp"),
            (Errno::PERM, "seccomp"),
        ] {
            let error = anyhow::Error::from(errno).context(NoPipe);
            let verdict = |group| of_error(&error, group).verdict;
            assert_eq!(verdict(Group::Limits), Verdict::Error);
            assert_eq!(verdict(Group::Semantics), Verdict::Error);
            assert_eq!(verdict(Group::Permissions), Verdict::Refused);
            let note = of_error(&error, Group::Semantics).note.unwrap();
            assert!(note.contains(word), "{note}");
        }
        // It says nothing of pipes that another call is refused.
        let other = anyhow::Error::from(Errno::NOSYS).context("lseek");
        assert_eq!(of_error(&other, Group::Limits).verdict, Verdict::Refused);
    }

    #[test]
    fn a_thread_that_is_not_to_be_had_is_a_refusal_with_both_limits() {
        let none = anyhow::Error::from(Errno::AGAIN);
        assert_eq!(of_error(&none, Group::Semantics).verdict, Verdict::Error);
        let outcome = of_error(&none.context(NoThread), Group::Semantics);
        assert_eq!(outcome.verdict, Verdict::Refused);
        let note = outcome.note.unwrap();
        assert!(
            note.contains("ulimit -u") && note.contains("pids.max"),
            "{note}"
        );
    }
}
