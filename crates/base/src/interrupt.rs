//! Signals that ask a run to end, and one that is not to end it.
//!
//! They are noted, not obeyed at once: what was measured is saved and shown
//! first, and no process is left behind. A second one ends the process as it
//! would have without us, unless it comes with the first: timeout(1) sends its
//! signal to the process and to its group, and a terminal that is closed may
//! send SIGHUP beside a shell's. Where there is no thread to keep that time, as in
//! `costs`, any second one ends the process.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use rustix::event::{PollFd, PollFlags, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ};

/// Those that ask a run to end: Ctrl-C and Ctrl-\ at a terminal, kill(1), and a
/// terminal that is gone.
pub const ENDING: [i32; 4] = [SIGINT, SIGQUIT, SIGTERM, SIGHUP];

/// A signal that comes so soon after the first does not stand for impatience.
const TOGETHER: Duration = Duration::from_millis(200);

/// How often [`Noted`] is looked at for a first signal.
const LOOK: Duration = Duration::from_millis(50);

/// A signal that came, for who looks now and then. Takes no descriptor.
#[derive(Debug, Clone, Default)]
pub struct Noted {
    signal: Arc<AtomicUsize>,
    second: Arc<AtomicBool>,
}

impl Noted {
    /// Takes over [`ENDING`].
    ///
    /// # Errors
    /// Those of sigaction(2).
    pub fn install() -> io::Result<Self> {
        let noted = Noted::default();
        not_ignored().try_for_each(|number| noted.note(number))?;
        unblock();
        let signal = Arc::clone(&noted.signal);
        noted.heed_a_second_after(move || {
            while signal.load(Ordering::Relaxed) == 0 {
                thread::sleep(LOOK);
            }
        })?;
        Ok(noted)
    }

    fn note(&self, number: i32) -> io::Result<()> {
        use signal_hook::flag::{register_conditional_default, register_usize};
        register_conditional_default(number, Arc::clone(&self.second))?;
        register_usize(number, Arc::clone(&self.signal), number as usize)?;
        Ok(())
    }

    /// Has a second signal end the process from some time after the first on.
    /// The time is kept by a thread, which sleeps in `first` until the first one
    /// has come: a signal handler can do no more than set flags.
    fn heed_a_second_after(&self, first: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let second = Arc::clone(&self.second);
        let keeping_time = thread::Builder::new().spawn(move || {
            first();
            thread::sleep(TOGETHER);
            second.store(true, Ordering::Relaxed);
        });
        match keeping_time {
            Ok(_) => Ok(()),
            // There is no thread to be had.
            Err(_) => self.heed_any_second(),
        }
    }

    /// Has any second signal end the process, also one that comes with the
    /// first.
    fn heed_any_second(&self) -> io::Result<()> {
        not_ignored().try_for_each(|number| {
            signal_hook::flag::register(number, Arc::clone(&self.second)).map(drop)
        })
    }

    /// The signal that came, if one did.
    pub fn signal(&self) -> Option<i32> {
        match self.signal.load(Ordering::Relaxed) {
            0 => None,
            number => Some(number as i32),
        }
    }
}

/// Those that end a run; nohup(1), and shells for what they start in the
/// background, have them ignored.
fn not_ignored() -> impl Iterator<Item = i32> {
    ENDING.into_iter().filter(|number| !is_ignored(*number))
}

/// Lets them through to this thread, and to those it starts: a parent that had
/// them blocked has passed that on (execve(2)).
fn unblock() {
    let ours = ENDING
        .into_iter()
        .filter_map(|number| Signal::try_from(number).ok());
    let ours = SigSet::from_iter(ours);
    // It can't fail: the call is given nothing but a set (sigprocmask(2)).
    let _ = ours.thread_unblock();
}

/// What has been asked for so far.
#[derive(Debug, Clone)]
pub struct Interrupt {
    noted: Noted,
    /// Readable once a signal has come: wakes a poll that waits for children.
    wake: Arc<UnixStream>,
    /// The other end of `wake`. Where no signal handler holds it, `wake` would
    /// be readable at once without it.
    _wakes: Arc<UnixStream>,
}

impl Interrupt {
    /// Takes over [`ENDING`].
    ///
    /// # Errors
    /// Those of sigaction(2) and socketpair(2).
    pub fn install() -> io::Result<Self> {
        let taken = Interrupt::take_over()?;
        let first = Arc::clone(&taken.wake);
        taken.noted.heed_a_second_after(move || {
            let mut fds = [PollFd::new(&first, PollFlags::IN)];
            // It fails for want of memory at most (poll(2)).
            let _ = rustix::io::retry_on_intr(|| poll(&mut fds, None));
        })?;
        Ok(taken)
    }

    /// The same without a thread that keeps the time: any second signal ends the
    /// process. For who measures in this very process, where system calls take
    /// longer if threads share the table of descriptors (fdget() in fs/file.c).
    ///
    /// # Errors
    /// Those of [`install`](Self::install).
    pub fn install_without_thread() -> io::Result<Self> {
        let taken = Interrupt::take_over()?;
        taken.noted.heed_any_second()?;
        Ok(taken)
    }

    fn take_over() -> io::Result<Self> {
        let (wake, wakes) = UnixStream::pair()?;
        let noted = Noted::default();
        for number in not_ignored() {
            noted.note(number)?;
            signal_hook::low_level::pipe::register(number, wakes.try_clone()?)?;
        }
        unblock();
        Ok(Interrupt {
            noted,
            wake: Arc::new(wake),
            _wakes: Arc::new(wakes),
        })
    }

    /// One that never comes: for runs that nobody can interrupt.
    ///
    /// # Errors
    /// Those of socketpair(2).
    pub fn never() -> io::Result<Self> {
        let (wake, wakes) = UnixStream::pair()?;
        Ok(Interrupt {
            noted: Noted::default(),
            wake: Arc::new(wake),
            _wakes: Arc::new(wakes),
        })
    }

    /// The signal that came, if one did.
    pub fn signal(&self) -> Option<i32> {
        self.noted.signal()
    }
}

/// From now on a file that would grow beyond RLIMIT_FSIZE (`ulimit -f`) does not
/// end this process by SIGXFSZ: the call that would make it grow fails with EFBIG
/// (setrlimit(2)), which can be told.
///
/// By a handler: programs that are started get the signal as ever, which would
/// not be so if it were ignored (execve(2)).
///
/// # Errors
/// Those of sigaction(2).
pub fn outlive_file_limit() -> io::Result<()> {
    if is_ignored(SIGXFSZ) {
        return Ok(());
    }
    let nobody_looks = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGXFSZ, nobody_looks).map(drop)
}

/// Whether this process was started with the signal ignored: the mask SigIgn
/// of proc_pid_status(5).
pub fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

impl AsFd for Interrupt {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
