//! A check that errs, panics or hangs takes nothing else with it.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use fastpipe::pipe::CapacityError;
use rustix::io::Errno;

use super::Outcome;
use crate::failure::out_of_descriptors;

/// Runs a check in a thread of its own, and waits for it no longer than
/// `patience`. A thread that hangs is left behind and ends with the process.
pub(super) fn run(check: fn() -> anyhow::Result<Outcome>, patience: Duration) -> Outcome {
    let (send, receive) = mpsc::channel();
    let thread = thread::Builder::new().name("check".to_owned());
    let spawned = thread.spawn(move || {
        // If nobody waits any more there is nobody to tell.
        let _ = send.send(caught(check));
    });
    match spawned {
        Ok(thread) => match receive.recv_timeout(patience) {
            Ok(outcome) => {
                // Nothing is left of it when the next one begins.
                let _ = thread.join();
                outcome
            }
            Err(_) => Outcome::error(format_args!(
                "no answer within {} s: it hangs",
                patience.as_secs_f64()
            )),
        },
        // No thread to be had: unguarded is better than not at all.
        Err(_) => caught(check),
    }
}

fn caught(check: fn() -> anyhow::Result<Outcome>) -> Outcome {
    match catch_unwind(AssertUnwindSafe(check)) {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(error)) => of_error(&error),
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
fn of_error(error: &anyhow::Error) -> Outcome {
    let capacity = error.downcast_ref::<CapacityError>();
    match errno(error) {
        // It names the limit itself.
        Some(Errno::PERM) if capacity.is_some() => Outcome::refused(format!("{error}")),
        Some(Errno::MFILE) => {
            let refused = Outcome::refused(format!("{error:#}"));
            match out_of_descriptors(&Errno::MFILE.into()) {
                Some(note) => refused.noting(note),
                None => refused,
            }
        }
        Some(Errno::NFILE) => Outcome::refused(format!("{error:#}")).noting(
            "the system's files are used up (fs.file-max), or this user's pipes hold as many \
             pages as fs.pipe-user-pages-hard allows",
        ),
        Some(Errno::PERM | Errno::ACCESS | Errno::NOSYS) => Outcome::refused(format!("{error:#}"))
            .noting(
                "a system call that an ordinary process may make is refused: look for a seccomp \
                 filter or a security module",
            ),
        _ => Outcome::error(format_args!("{error:#}")),
    }
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
            Duration::from_secs(9),
        );
        assert_eq!(outcome.verdict, Verdict::Error);
        assert_eq!(outcome.seen, "could not be found out: poll: odd");
    }

    #[test]
    fn a_panic_is_an_error_with_its_words() {
        let outcome = run(|| panic!("no {}", "way"), Duration::from_secs(9));
        assert_eq!(outcome.verdict, Verdict::Error);
        assert!(outcome.seen.ends_with("no way"), "{outcome:?}");
    }

    #[test]
    fn one_that_hangs_is_given_up() {
        let hangs = || loop {
            thread::park();
        };
        let outcome = run(hangs, Duration::from_millis(20));
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
                let outcome = of_error(&error);
                assert_eq!(outcome.verdict, Verdict::Refused);
                assert!(outcome.seen.starts_with("pipe: "), "{outcome:?}");
                assert!(outcome.note.unwrap().contains(word));
            }
        }
        let other = of_error(&Errno::BADF.into());
        assert_eq!(other.verdict, Verdict::Error);
    }
}
