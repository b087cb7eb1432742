//! Signals: those that interrupt a run, and SIGXFSZ.
//!
//! The first signal only sets a flag, so that the process can save its results and
//! end its children before it exits. A second signal has its default effect, unless
//! it arrives within 200 ms of the first: timeout(1) signals both the process and its
//! group, and closing a terminal may cause two SIGHUPs, one from the shell.
//!
//! | handler | use it if the process | a second signal ends the process |
//! |---|---|---|
//! | [`Interrupt::install`] | waits in poll(2): a signal wakes it | if 200 ms have passed |
//! | [`SignalFlag::install`] | checks the flag between short steps, and must work with few descriptors | if 200 ms have passed |
//! | [`PassedOn::block`] | only waits for a child that decides what signals do | never |
//!
//! None of them starts a thread: there may be none left (RLIMIT_NPROC), and a process with
//! threads can't fork, and takes longer for system calls on descriptors (fdget() in fs/file.c).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::libc::{self, siginfo_t};
use nix::sys::signal::{
    SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, raise, sigaction,
};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::net::{SendFlags, send};
use rustix::process::{Pid, WaitId, WaitIdOptions, kill_process, waitid};
use signal_hook::consts::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGXFSZ};

use crate::standard::is_ignored;

/// Signals that a terminal, a shell or timeout(1) sends to all processes of a group at once:
/// Ctrl-C, Ctrl-\, kill(1), a closed terminal.
pub const INTERRUPTING: [i32; 4] = [SIGINT, SIGQUIT, SIGTERM, SIGHUP];

/// Other signals that end a process by default (signal(7)), and that no fault causes. Not
/// SIGSYS: a seccomp filter may send it in place of a system call, after which nothing can go on.
const OTHERS: [i32; 11] = [
    libc::SIGABRT,
    libc::SIGALRM,
    libc::SIGIO,
    libc::SIGPROF,
    libc::SIGPWR,
    libc::SIGSTKFLT,
    libc::SIGTRAP,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGVTALRM,
    libc::SIGXCPU,
];

/// A second signal within this time of the first is ignored.
const GRACE: Duration = Duration::from_millis(200);

/// The first signal of this process with a handler that sets a flag; 0 before.
static FIRST: AtomicI32 = AtomicI32::new(0);

/// Whether a [`SignalFlag`] has shown the signal, so that the program deals with it.
static IS_NOTICED: AtomicBool = AtomicBool::new(false);

/// The child that a signal kills: see [`KilledBySignal`]. 0 if there is none.
static AWAITED: AtomicI32 = AtomicI32::new(0);

/// Whether the program deals with the first signal already.
pub(crate) fn is_noticed() -> bool {
    IS_NOTICED.load(Ordering::Relaxed)
}

/// The first signal that this process has received, of those that it handles by [`Interrupt`]
/// or [`SignalFlag`].
pub fn first_signal() -> Option<i32> {
    Some(FIRST.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
}

/// A signal ended the work: exit status 128 plus its number, as in shells.
#[derive(Debug, thiserror::Error)]
#[error("interrupted by {}", signal_name(*.0))]
pub struct Interrupted(pub i32);

/// The first signal received. Opens no descriptor, so it can't wake a poll(2): call
/// [`signal`](Self::signal) regularly. See the [module](self) for the choice of handler.
#[derive(Debug, Clone)]
pub struct SignalFlag {
    installed: Instant,
    received: Arc<Received>,
}

#[derive(Debug, Default)]
struct Received {
    signal: AtomicUsize,
    /// Milliseconds from the installation to the first signal, and 1; 0 before it.
    at: AtomicU64,
    /// Whether the kernel sent it, as a terminal does.
    is_from_kernel: AtomicBool,
}

impl SignalFlag {
    /// Handles the signals that end a process. For processes that check the flag between short
    /// steps, and must work with few descriptors, as `check`.
    ///
    /// # Errors
    /// Those of sigaction(2).
    pub fn install() -> io::Result<Self> {
        let flag = SignalFlag::never();
        for number in not_ignored() {
            let flag = flag.clone();
            register(number, move |info| flag.handle(number, info))?;
        }
        unblock();
        Ok(flag)
    }

    fn never() -> Self {
        SignalFlag {
            installed: Instant::now(),
            received: Arc::default(),
        }
    }

    fn handle(&self, number: i32, info: &siginfo_t) {
        let now = self.installed.elapsed().as_millis() as u64 + 1;
        let (before, after) = (Ordering::SeqCst, Ordering::SeqCst);
        match self.received.at.compare_exchange(0, now, before, after) {
            Ok(_) => {
                self.received
                    .signal
                    .store(number as usize, Ordering::SeqCst);
                FIRST.store(number, Ordering::SeqCst);
                if let Some(child) = Pid::from_raw(AWAITED.load(Ordering::SeqCst)) {
                    let _ = kill_process(child, rustix::process::Signal::KILL);
                }
                let is_from_kernel = info.si_code == libc::SI_KERNEL;
                self.received
                    .is_from_kernel
                    .store(is_from_kernel, Ordering::SeqCst);
            }
            Err(first) if now.saturating_sub(first) >= GRACE.as_millis() as u64 => {
                let _ = signal_hook::low_level::emulate_default_handler(number);
            }
            Err(_) => {}
        }
    }

    /// The signal received, if any.
    pub fn signal(&self) -> Option<i32> {
        match self.received.signal.load(Ordering::Relaxed) {
            0 => None,
            number => {
                IS_NOTICED.store(true, Ordering::Relaxed);
                Some(number as i32)
            }
        }
    }
}

/// The signals that end a process by default and that no fault causes, without those that this
/// process was started to ignore: by nohup(1), or by a shell that runs it in the background.
fn not_ignored() -> impl Iterator<Item = i32> {
    let named = INTERRUPTING.into_iter().chain(OTHERS);
    let all = named.chain(libc::SIGRTMIN()..=libc::SIGRTMAX());
    all.filter(|number| !is_ignored(*number))
}

fn register(number: i32, handle: impl Fn(&siginfo_t) + Sync + Send + 'static) -> io::Result<()> {
    // SAFETY: the handlers of this module read the clock, store to atomics, send a byte, or look at or
    // kill a child by a system call that leaves errno alone, and let signal-hook emulate the default handler: all
    // that is allowed in a signal handler (signal-safety(7)).
    unsafe { signal_hook_registry::register_sigaction(number, handle) }.map(drop)
}

/// Unblocks [`INTERRUPTING`] in this thread and those it starts: a signal mask is
/// inherited from the parent process (execve(2)).
fn unblock() {
    // With a valid set this can't fail (sigprocmask(2)).
    let _ = set(INTERRUPTING.into_iter()).thread_unblock();
}

fn set(numbers: impl Iterator<Item = i32>) -> SigSet {
    let mut set = *SigSet::empty().as_ref();
    for number in numbers {
        // SAFETY: changes the set. `Signal` has no real-time signals.
        unsafe { libc::sigaddset(&mut set, number) };
    }
    // SAFETY: the set is initialized.
    unsafe { SigSet::from_sigset_t_unchecked(set) }
}

/// A child for whose answers this process waits in calls that a signal doesn't end: the first one that is handled
/// kills the child, which may be stopped, so that the wait ends. One at a time.
#[derive(Debug)]
pub struct KilledBySignal(());

impl KilledBySignal {
    /// Names the child, which must not be reaped before this is dropped.
    ///
    /// # Errors
    /// There was a signal before.
    pub fn watch(child: &Child) -> Result<Self, Interrupted> {
        AWAITED.store(child.id() as i32, Ordering::SeqCst);
        let watched = KilledBySignal(());
        first_signal().map_or(Ok(watched), |signal| Err(Interrupted(signal)))
    }
}

impl Drop for KilledBySignal {
    fn drop(&mut self) {
        AWAITED.store(0, Ordering::SeqCst);
    }
}

/// The first signal received, with a descriptor that becomes readable. See the
/// [module](self) for the choice of handler.
#[derive(Debug, Clone)]
pub struct Interrupt {
    flag: SignalFlag,
    /// Readable after a signal: wakes a poll(2) that waits for children.
    wake: Arc<UnixStream>,
    /// The other end of `wake`, kept open: `wake` is readable once all handles to
    /// its other end are closed.
    wake_sender: Arc<UnixStream>,
}

impl Interrupt {
    /// Handles the signals that end a process. Not those of a fault, after which nothing can go
    /// on.
    ///
    /// # Errors
    /// Those of sigaction(2) and socketpair(2).
    pub fn install() -> io::Result<Self> {
        let interrupt = Interrupt::never()?;
        for number in not_ignored() {
            let (flag, wake) = (interrupt.flag.clone(), Arc::clone(&interrupt.wake_sender));
            register(number, move |info| {
                flag.handle(number, info);
                // Where there is no room for a byte, there is one already.
                let _ = send(&*wake, b"!", SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
            })?;
        }
        unblock();
        Ok(interrupt)
    }

    /// Handles no signal: for runs that can't be interrupted.
    ///
    /// # Errors
    /// Those of socketpair(2).
    pub fn never() -> io::Result<Self> {
        let (wake, wake_sender) = UnixStream::pair()?;
        Ok(Interrupt {
            flag: SignalFlag::never(),
            wake: Arc::new(wake),
            wake_sender: Arc::new(wake_sender),
        })
    }

    /// The signal received, if any.
    pub fn signal(&self) -> Option<i32> {
        self.flag.signal()
    }

    /// Whether it was Ctrl-C or Ctrl-\\ at a terminal, which go to all processes of the foreground group.
    pub fn is_from_terminal(&self) -> bool {
        let is_typed = self
            .signal()
            .is_some_and(|signal| matches!(signal, SIGINT | SIGQUIT));
        is_typed && self.flag.received.is_from_kernel.load(Ordering::SeqCst)
    }

    /// Checks that no signal was received.
    ///
    /// # Errors
    /// One was.
    pub fn check(&self) -> Result<(), Interrupted> {
        self.signal()
            .map_or(Ok(()), |signal| Err(Interrupted(signal)))
    }
}

/// The signals that [`Interrupt`] handles, to be passed on to a child for whose end this process
/// waits. They are blocked, so none of them ends this process. A child that is started later
/// inherits that, but for [`start_as_by_exec`](crate::standard::start_as_by_exec).
#[derive(Debug)]
pub struct PassedOn {
    descriptor: SignalFd,
    /// The signals that were blocked before.
    before: SigSet,
}

impl PassedOn {
    /// Blocks the signals in this thread, which must be the only one.
    ///
    /// # Errors
    /// Those of sigprocmask(2) and signalfd(2).
    pub fn block() -> io::Result<Self> {
        let signals = set(not_ignored());
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let descriptor = SignalFd::with_flags(&signals, flags)?;
        let before = signals.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        Ok(PassedOn { descriptor, before })
    }

    /// Passes the next signal on to a child that has not been reaped, and so still has its
    /// number. Not Ctrl-C and Ctrl-\ on a terminal, which go to the child, too.
    pub fn pass_on(&self, child: &Child) {
        let Ok(Some(info)) = self.descriptor.read_signal() else {
            return;
        };
        let number = info.ssi_signo as i32;
        let is_from_terminal = info.ssi_code == libc::SI_KERNEL;
        if is_from_terminal && matches!(number, SIGINT | SIGQUIT) {
            return continue_stopped(child);
        }
        if INTERRUPTING.contains(&number) {
            FIRST.store(number, Ordering::SeqCst);
            IS_NOTICED.store(true, Ordering::SeqCst);
        }
        // A child that has stopped itself does not handle signals.
        for number in [number, SIGCONT] {
            // SAFETY: touches no memory. `Signal` has no real-time signals.
            unsafe { libc::kill(child.id() as i32, number) };
        }
    }
}

/// Lets a child go on that has stopped itself, if it is stopped: a signal that it has got waits until then.
pub fn continue_stopped(child: &Child) {
    let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let pid = Pid::from_child(child);
    if let Ok(Some(_)) = waitid(WaitId::Pid(pid), options) {
        let _ = kill_process(pid, rustix::process::Signal::CONT);
    }
}

/// From now on they have their default effect: nothing is passed on any more.
impl Drop for PassedOn {
    fn drop(&mut self) {
        // Those that were meant for the child.
        while let Ok(Some(_)) = self.descriptor.read_signal() {}
        // As in `unblock`.
        let _ = self.before.thread_set_mask();
    }
}

impl AsFd for PassedOn {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// When a child ended, by SIGCHLD: however late this process looks for its end.
#[derive(Debug, Clone)]
pub struct EndTime {
    installed: Instant,
    child: Arc<AtomicI32>,
    /// Microseconds from the installation to the child's end, and 1; 0 before it.
    at: Arc<AtomicU64>,
}

impl EndTime {
    /// Handles SIGCHLD, before the child is started.
    ///
    /// # Errors
    /// Those of sigaction(2).
    pub fn install() -> io::Result<Self> {
        let time = EndTime {
            installed: Instant::now(),
            child: Arc::default(),
            at: Arc::default(),
        };
        let noted = time.clone();
        register(SIGCHLD, move |_| noted.look())?;
        Ok(time)
    }

    /// Names the child, which must be one of this process until [`at`](Self::at) has been asked for.
    pub fn watch(&self, child: &Child) {
        self.child.store(child.id() as i32, Ordering::SeqCst);
        self.look();
    }

    /// Notes that the child has ended, if it has. Leaves it to be waited for.
    fn look(&self) {
        let child = Pid::from_raw(self.child.load(Ordering::SeqCst));
        let (Some(child), 0) = (child, self.at.load(Ordering::SeqCst)) else {
            return;
        };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if matches!(waitid(WaitId::Pid(child), options), Ok(Some(_))) {
            let now = self.installed.elapsed().as_micros() as u64 + 1;
            self.at.store(now, Ordering::SeqCst);
        }
    }

    /// When the child ended; `None` if it is not known.
    pub fn at(&self) -> Option<Instant> {
        let micros = self.at.load(Ordering::SeqCst).checked_sub(1)?;
        Some(self.installed + Duration::from_micros(micros))
    }
}

/// SIGTSTP (Ctrl-Z) and SIGCONT, handled by a process that has changed its terminal.
#[derive(Debug, Default)]
pub struct StopRequest {
    requested: Arc<AtomicBool>,
    continued: Arc<AtomicBool>,
}

impl StopRequest {
    /// Handles SIGCONT, and SIGTSTP unless this process was started to ignore it.
    ///
    /// # Errors
    /// Those of sigaction(2).
    pub fn install() -> io::Result<Self> {
        let request = StopRequest::default();
        if !is_ignored(SIGTSTP) {
            signal_hook::flag::register(SIGTSTP, Arc::clone(&request.requested))?;
        }
        signal_hook::flag::register(SIGCONT, Arc::clone(&request.continued))?;
        Ok(request)
    }

    /// Whether SIGTSTP has arrived since this was called last.
    pub fn is_requested(&self) -> bool {
        self.requested.swap(false, Ordering::Relaxed)
    }

    /// Whether SIGCONT has arrived since this was called last: after a stop, also one by SIGSTOP,
    /// which can't be handled.
    pub fn is_continued(&self) -> bool {
        self.continued.swap(false, Ordering::Relaxed)
    }

    /// Stops this process until SIGCONT arrives. Not if nobody could continue it, as in an orphaned process
    /// group: what SIGTSTP does there by default is up to the kernel.
    ///
    /// # Errors
    /// Those of sigaction(2) and raise(3).
    pub fn stop(&self) -> io::Result<()> {
        let before = reset_to_default(Signal::SIGTSTP)?;
        let raised = raise(Signal::SIGTSTP);
        // SAFETY: the action was that of this signal.
        unsafe { sigaction(Signal::SIGTSTP, &before) }?;
        Ok(raised?)
    }

    /// Handles SIGTSTP no longer: it stops this process as any other.
    ///
    /// # Errors
    /// Those of sigaction(2).
    pub fn end(&self) -> io::Result<()> {
        if is_ignored(SIGTSTP) {
            return Ok(());
        }
        reset_to_default(Signal::SIGTSTP).map(drop)
    }
}

/// Gives a signal its default action, and returns the one before.
fn reset_to_default(signal: Signal) -> io::Result<SigAction> {
    let action = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: the default action runs no code of this process.
    Ok(unsafe { sigaction(signal, &action) }?)
}

/// The usual name of a signal: `SIGTERM`.
pub fn signal_name(number: i32) -> String {
    match Signal::try_from(number) {
        Ok(signal) => signal.as_str().to_owned(),
        Err(_) => format!("signal {number}"),
    }
}

/// Keeps SIGXFSZ from ending this process when a file reaches RLIMIT_FSIZE
/// (`ulimit -f`): the write then fails with EFBIG (setrlimit(2)), which can be
/// reported.
///
/// The signal is handled, not ignored: child processes would inherit the latter
/// (execve(2)).
///
/// # Errors
/// Those of sigaction(2).
pub fn survive_sigxfsz() -> io::Result<()> {
    if is_ignored(SIGXFSZ) {
        return Ok(());
    }
    let unused = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGXFSZ, unused).map(drop)
}

/// Does something that no signal may end in the middle: those that arrive meanwhile wait. That of a file's size
/// limit does not: the write that it interrupts fails.
///
/// # Errors
/// Those of pthread_sigmask(3).
pub fn without_signals<T>(task: impl FnOnce() -> T) -> io::Result<T> {
    let mut signals = SigSet::all();
    signals.remove(Signal::SIGXFSZ);
    let before = signals.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let done = task();
    before.thread_set_mask()?;
    Ok(done)
}

impl AsFd for Interrupt {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn end_of_a_child_is_noted_before_it_is_looked_for() {
        let time = EndTime::install().unwrap();
        let start = Instant::now();
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        time.watch(&child);
        assert_eq!(time.at(), None);
        drop(child.stdin.take());
        // Without reaping it.
        let pid = WaitId::Pid(Pid::from_child(&child));
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        rustix::io::retry_on_intr(|| waitid(pid.clone(), options)).unwrap();
        let looked = Instant::now();
        // The signal was sent before the wait returned, but another thread may handle it.
        while time.at().is_none() {
            std::thread::yield_now();
        }
        let at = time.at().unwrap();
        assert!(start <= at);
        child.wait().unwrap();
        assert!(at.saturating_duration_since(looked) < Duration::from_secs(5));
    }
}
