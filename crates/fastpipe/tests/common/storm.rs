//! Frequent signals.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::state::until;

/// Signals handled.
static HANDLED: AtomicU64 = AtomicU64::new(0);

/// Held by the active storm: there is only one, since there is one count of signals.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

extern "C" fn count(_: libc::c_int) {
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

/// Sends SIGALRM to the calling thread every 100 us, until dropped. Uses a timer for the
/// thread, since signals of setitimer(2) go to the process, that is, to the harness's
/// main thread. There is at most one storm at a time.
pub struct Storm {
    timer: libc::timer_t,
    _turn: MutexGuard<'static, ()>,
}

impl Storm {
    /// Starts a storm that makes every sleeping call return EINTR.
    pub fn begin() -> Self {
        Self::with_flags(0)
    }

    /// Starts a storm with SA_RESTART: sleeping calls continue after a signal, except
    /// those that never do, such as poll(2).
    pub fn restarting() -> Self {
        Self::with_flags(libc::SA_RESTART)
    }

    fn with_flags(flags: libc::c_int) -> Self {
        // A failed test poisons the mutex, but must not make this test fail.
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
        // SAFETY: both pointers refer to live values of the right types.
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
        // SAFETY: the timer exists; `when` is valid for reading.
        let begun = unsafe { libc::timer_settime(timer, 0, &when, std::ptr::null_mut()) };
        assert_eq!(begun, 0);
        Storm { timer, _turn: turn }
    }
}

impl Drop for Storm {
    fn drop(&mut self) {
        // SAFETY: this timer was created above and not deleted before.
        unsafe { libc::timer_delete(self.timer) };
    }
}

/// Waits for two more signals.
pub fn until_interrupted() {
    let before = handled();
    until("two signals more", || handled() >= before + 2);
}

/// Returns the number of signals handled in this process.
pub fn handled() -> u64 {
    HANDLED.load(Ordering::Relaxed)
}
