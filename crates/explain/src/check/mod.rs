//! Checks: statements about pipes, tested on this system.
//!
//! To add a check: a function and an entry of `checks!` in its subject's file. It is
//! then run, listed, explained, reported and saved.

/// Defines a list of checks, all of one group. The doc comment of an entry is the
/// check's explanation, which users read by `--explain`.
macro_rules! checks {
    ($checks:ident, $group:expr; $(
        $(#[doc = $line:literal])+
        $name:literal => $run:ident { statement: $statement:literal, reference: $reference:literal, }
    )+) => {
        pub(super) const $checks: &[super::Check] = &[$(super::Check {
            name: $name,
            group: $group,
            statement: $statement,
            explanation: concat!($($line),+).trim_ascii(),
            reference: $reference,
            run: $run,
        }),+];
    };
}

mod atomicity;
mod limits;
mod outcome;
mod permissions;
mod pipes;
mod semantics;
mod zero_copy;

pub use self::outcome::{CheckRecord, CheckResult, CheckVerdict, Checked, VerdictCounts};

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use self::pipes::CallError;
use pipespeed_host::refusals::RefusableCall;

/// The timeout of a check. The slowest takes less than a hundredth of it on an idle machine; at a
/// load of 20 one took longer than 3 s.
pub const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

pipespeed_base::named! {
    /// The subject of a check.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum CheckGroup {
        /// Capacity, slots and what may be set.
        Limits = "limits",
        /// Reading, writing, closing and waiting.
        Semantics = "semantics",
        /// Pages that are moved rather than copied.
        ZeroCopy = "zero-copy",
        /// What this process is allowed to do.
        Permissions = "permissions",
    }
}

/// A statement about pipes and its test.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// The name on the command line and in data: `default-capacity`.
    pub name: &'static str,
    /// Its subject.
    pub group: CheckGroup,
    /// The statement, in a few words.
    pub statement: &'static str,
    /// How it is tested and what follows from it, in a few sentences.
    pub explanation: &'static str,
    /// The source: a manual page, a file of the kernel.
    pub reference: &'static str,
    /// The test. It leaves nothing behind: no process, file or setting.
    ///
    /// # Errors
    /// Whatever prevents an outcome. A system call that was refused becomes
    /// [`CheckVerdict::Refused`], any other error [`CheckVerdict::Error`].
    pub run: fn() -> anyhow::Result<CheckResult>,
}

/// All checks, in the order of reports: by group.
pub fn all() -> impl Iterator<Item = &'static Check> {
    let parts: [&'static [Check]; 5] = [
        limits::CHECKS,
        atomicity::CHECKS,
        semantics::CHECKS,
        zero_copy::CHECKS,
        permissions::CHECKS,
    ];
    parts.into_iter().flatten()
}

/// Runs checks one after another; see [`run_one`].
pub fn run<'a>(checks: impl IntoIterator<Item = &'a Check>, patience: Duration) -> Vec<Checked> {
    let checks = checks.into_iter();
    checks.map(|check| run_one(check, patience)).collect()
}

/// Runs a check. If it fails, panics or takes longer than `patience`, that is
/// its outcome. When this returns, nothing made by the check is left, unless it hangs.
pub fn run_one(check: &Check, patience: Duration) -> Checked {
    let start = Instant::now();
    let outcome = guarded(check.run, patience);
    Checked::new(check, outcome, start.elapsed().as_secs_f64())
}

/// Runs a check in a thread of its own. A thread that hangs is left behind and
/// ends with the process.
fn guarded(run: fn() -> anyhow::Result<CheckResult>, patience: Duration) -> CheckResult {
    let (send, receive) = mpsc::channel();
    let thread = thread::Builder::new().name("check".to_owned());
    let spawned = thread.spawn(move || {
        // After a timeout the receiver is gone.
        let _ = send.send(caught(run));
    });
    let Ok(thread) = spawned else {
        // No thread is available: run it unguarded rather than not at all.
        return caught(run);
    };
    match receive_within(&receive, patience) {
        Some(outcome) => {
            // The next check begins without it.
            let _ = thread.join();
            outcome
        }
        None => {
            let seconds = patience.as_secs_f64();
            CheckResult::error(format!(
                "no answer within {seconds} s: it hangs, or the machine is busy"
            ))
        }
    }
}

/// Waits in parts. While the whole process is stopped (SIGSTOP) its checks are
/// stopped as well; that costs one part only.
fn receive_within(
    receive: &mpsc::Receiver<CheckResult>,
    patience: Duration,
) -> Option<CheckResult> {
    const PARTS: u32 = 30;
    (0..PARTS).find_map(|_| receive.recv_timeout(patience / PARTS).ok())
}

fn caught(run: fn() -> anyhow::Result<CheckResult>) -> CheckResult {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(error)) => of_error(&error),
        Err(payload) => CheckResult::error(format!("a bug in the check: {}", message(&*payload))),
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("it panicked")
}

/// The outcome of a check that failed. A call that the system refuses is a
/// refusal. Creating pipes is an exception: without pipes nothing can be checked.
fn of_error(error: &anyhow::Error) -> CheckResult {
    let refusal = error
        .downcast_ref::<CallError>()
        .and_then(CallError::refusal);
    match refusal {
        Some(refusal) if refusal.call == RefusableCall::Pipe2 => {
            CheckResult::error(format!("no pipe can be made: {refusal}"))
        }
        Some(refusal) => refusal.into(),
        None => CheckResult::error(format!("{error:#}")),
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::pipes::at;
    use super::*;
    use pipespeed_base::Named;
    use pipespeed_host::Machine;
    use pipespeed_measure::record::{Kind, RecordHeader};

    fn check(name: &'static str, run: fn() -> anyhow::Result<CheckResult>) -> Check {
        Check {
            name,
            group: CheckGroup::Limits,
            statement: "a statement",
            explanation: "An explanation.",
            reference: "pipe(7)",
            run,
        }
    }

    fn record(checks: &[Check]) -> CheckRecord {
        let checked = run(checks, CHECK_TIMEOUT);
        let header = RecordHeader::new(Kind::Check, Vec::new(), String::new(), Machine::default());
        CheckRecord::new(header, checked, 0.0)
    }

    #[test]
    fn names_are_unique_words() {
        let mut names: Vec<&str> = all().map(|check| check.name).collect();
        names.extend(CheckGroup::VALUES.iter().map(|group| group.name()));
        for name in &names {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(name.chars().all(plain) && name.len() <= 24, "{name}");
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn texts_of_checks_are_short_and_in_one_form() {
        for check in all() {
            let name = check.name;
            assert!(check.statement.len() <= 80, "{name}: {}", check.statement);
            assert!(!check.statement.ends_with('.'), "{name}");
            assert!(check.explanation.ends_with('.'), "{name}");
            assert!(check.explanation.len() <= 500, "{name}");
            assert!(check.reference.len() >= 6, "{name}");
            for text in [check.statement, check.explanation, check.reference] {
                let plain = !text.contains('\n') && !text.contains("  ");
                assert!(plain, "{name}: {text}");
            }
        }
        let groups: Vec<CheckGroup> = all().map(|check| check.group).collect();
        assert!(groups.is_sorted(), "{groups:?}");
    }

    #[test]
    fn errors_panics_and_hangs_are_outcomes() {
        let hangs = || loop {
            thread::park();
        };
        let hung = run_one(&check("hangs", hangs), Duration::from_millis(300));
        // The others have more time: a panic may print a backtrace.
        let others = [
            check("errs", || Err(anyhow::anyhow!("odd").context("poll"))),
            check("panics", || panic!("no {}", "way")),
            check("passes", || Ok(CheckResult::pass("fine"))),
        ];
        let mut checked = vec![hung];
        checked.extend(run(&others, Duration::from_secs(120)));
        let seen: Vec<&str> = checked.iter().map(|one| &*one.outcome.seen).collect();
        assert_eq!(
            seen,
            [
                "no answer within 0.3 s: it hangs, or the machine is busy",
                "poll: odd",
                "a bug in the check: no way",
                "fine"
            ]
        );
        let verdicts: Vec<CheckVerdict> = checked.iter().map(|one| one.outcome.verdict).collect();
        use CheckVerdict::{Error, Pass};
        assert_eq!(verdicts, [Error, Error, Error, Pass]);
    }

    #[test]
    fn refused_call_is_refusal_unless_no_pipe_can_be_made() {
        let of = |call: RefusableCall, errno: Errno| {
            of_error(&at::<()>(call, Err(errno)).unwrap_err().into())
        };
        for (call, errno, word) in [
            ("memfd_create(2)".into(), Errno::MFILE, "ulimit -n"),
            (RefusableCall::Clone, Errno::AGAIN, "ulimit -u"),
            ("tee(2)".into(), Errno::PERM, "container"),
        ] {
            let outcome = of(call.clone(), errno);
            assert_eq!(outcome.verdict, CheckVerdict::Refused, "{outcome:?}");
            assert!(outcome.seen.starts_with(&call.to_string()), "{outcome:?}");
            assert!(outcome.note.unwrap().contains(word));
        }
        for (errno, word) in [(Errno::MFILE, "ulimit -n"), (Errno::NOSYS, "pipe2(2)")] {
            let outcome = of(RefusableCall::Pipe2, errno);
            assert_eq!(outcome.verdict, CheckVerdict::Error);
            assert!(outcome.seen.contains(word), "{outcome:?}");
        }
        assert_eq!(
            of("tee(2)".into(), Errno::BADF).verdict,
            CheckVerdict::Error
        );
    }

    #[test]
    fn failures_and_errors_are_named_and_grouped_by_cause() {
        let lost = |name| check(name, || anyhow::bail!("lost"));
        let mut all = ["a", "b", "c", "d", "e", "f"].map(lost).to_vec();
        all.push(check("odd", || anyhow::bail!("gone")));
        all.push(check("good", || Ok(CheckResult::pass("7"))));
        assert_eq!(
            record(&all).failure().unwrap(),
            "not checked: a, b, c, d, e, f (lost), odd (gone)"
        );
        all.push(lost("g"));
        all.push(check("bad", || Ok(CheckResult::fail("8"))));
        let record = record(&all);
        let failure = record.failure().unwrap();
        let begins = "failed: bad; not checked: a, b, c, d, e, f and 1 more (";
        assert!(failure.starts_with(begins), "{failure}");
        let verdicts = [CheckVerdict::Pass, CheckVerdict::Fail, CheckVerdict::Error];
        assert_eq!(
            verdicts.map(|verdict| record.summary.count(verdict)),
            [1, 1, 8]
        );
    }
}
