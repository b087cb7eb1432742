//! A storm of signals.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::state::until;

/// Signals handled.
static HANDLED: AtomicU64 = AtomicU64::new(0);

/// Held by the storm that there is: the signals of all are counted together.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

extern "C" fn count(_: libc::c_int) {
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

/// SIGALRM for the calling thread every 100 us, until dropped. A timer of the
/// thread's own, since setitimer(2)'s signals go to the process, which is to
/// say to the harness' main thread. There is one at a time in a process, and
/// whoever is to wait until it has interrupted begins after it.
pub struct Storm {
    timer: libc::timer_t,
    _turn: MutexGuard<'static, ()>,
}

impl Storm {
    /// One that makes every sleeping call return EINTR.
    pub fn begin() -> Self {
        Self::with_flags(0)
    }

    /// One after whose signals sleeping calls go on, but for those that never do,
    /// poll(2) among them.
    pub fn restarting() -> Self {
        Self::with_flags(libc::SA_RESTART)
    }

    fn with_flags(flags: libc::c_int) -> Self {
        // Another test that failed is no reason for this one to.
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: all of its fields may be zero.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_flags = flags;
        action.sa_sigaction = count as *const () as usize;
        // SAFETY: valid for reading; the handler only adds to an atomic.
        let set = unsafe { libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut()) };
        assert_eq!(set, 0);

        // SAFETY: all of its fields may be zero.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGALRM;
        event.sigev_notify_thread_id = rustix::thread::gettid().as_raw_nonzero().get();
        let mut timer = std::ptr::null_mut();
        // SAFETY: both pointers are to live values of the right types.
        let made = unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer) };
        assert_eq!(made, 0);
        let often = libc::timespec {
            tv_sec: 0,
            tv_nsec: 100_000,
        };
        let when = libc::itimerspec {
            it_interval: often,
            it_value: often,
        };
        // SAFETY: the timer was just made; `when` is valid for reading.
        let begun = unsafe { libc::timer_settime(timer, 0, &when, std::ptr::null_mut()) };
        assert_eq!(begun, 0);
        Storm { timer, _turn: turn }
    }
}

impl Drop for Storm {
    fn drop(&mut self) {
        // SAFETY: ours, and not deleted before.
        unsafe { libc::timer_delete(self.timer) };
    }
}

/// Waits until signals have come.
pub fn until_interrupted() {
    let before = handled();
    until("two signals more", || handled() >= before + 2);
}

/// How many signals were handled in this process.
pub fn handled() -> u64 {
    HANDLED.load(Ordering::Relaxed)
}
