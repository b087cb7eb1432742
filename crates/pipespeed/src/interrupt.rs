//! Signals that ask a run to end, and one that is not to end it.
//!
//! They are noted, not obeyed at once: what was measured is saved and shown
//! first, and no process is left behind. A second one ends the process as it
//! would have without us.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ};

/// Those that ask a run to end: Ctrl-C and Ctrl-\ at a terminal, kill(1), and a
/// terminal that is gone.
pub const ENDING: [i32; 4] = [SIGINT, SIGQUIT, SIGTERM, SIGHUP];

/// The first signal that came, for who looks now and then. Takes no descriptor.
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
        Ok(noted)
    }

    fn note(&self, number: i32) -> io::Result<()> {
        use signal_hook::flag::{register, register_conditional_default, register_usize};
        // In this order: the first time `second` is still false.
        register_conditional_default(number, Arc::clone(&self.second))?;
        register(number, Arc::clone(&self.second))?;
        register_usize(number, Arc::clone(&self.signal), number as usize)?;
        Ok(())
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

/// What has been asked for so far.
#[derive(Debug, Clone)]
pub struct Interrupt {
    noted: Noted,
    /// Readable once a signal has come: wakes a poll that waits for children.
    wake: Arc<UnixStream>,
    /// The other end of `wake` where no signal handler holds it: without it
    /// `wake` would be readable at once.
    _quiet: Option<Arc<UnixStream>>,
}

impl Interrupt {
    /// Takes over [`ENDING`].
    ///
    /// # Errors
    /// Those of sigaction(2) and socketpair(2).
    pub fn install() -> io::Result<Self> {
        let (wake, wakes) = UnixStream::pair()?;
        let noted = Noted::default();
        for number in not_ignored() {
            noted.note(number)?;
            signal_hook::low_level::pipe::register(number, wakes.try_clone()?)?;
        }
        Ok(Interrupt {
            noted,
            wake: Arc::new(wake),
            _quiet: None,
        })
    }

    /// One that never comes: for runs that nobody can interrupt.
    ///
    /// # Errors
    /// Those of socketpair(2).
    pub fn never() -> io::Result<Self> {
        let (wake, other) = UnixStream::pair()?;
        Ok(Interrupt {
            noted: Noted::default(),
            wake: Arc::new(wake),
            _quiet: Some(Arc::new(other)),
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
pub(crate) fn is_ignored(signal: i32) -> bool {
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
