//! A storm of signals, none of which restarts a system call.

mod common;
#[path = "common/ends.rs"]
mod ends;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::state::until;
use common::{WAITS, assert_same, pattern, pipe_of};
use ends::{tcp, unix};
use fastpipe::relay::{End, Flow, Options, Technique, relay};

const CAPACITY: usize = 4 * 4096;
const BYTES: usize = 12 * CAPACITY;

/// Signals handled.
static HANDLED: AtomicU64 = AtomicU64::new(0);

extern "C" fn count(_: libc::c_int) {
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

/// SIGALRM for the calling thread every 100 us, until dropped. A timer of the
/// thread's own, since setitimer(2)'s signals go to the process, which is to
/// say to the harness' main thread.
struct Storm(libc::timer_t);

impl Storm {
    fn begin() -> Self {
        // SAFETY: all of its fields may be zero.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // No SA_RESTART: every sleeping call returns EINTR.
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
        Storm(timer)
    }
}

impl Drop for Storm {
    fn drop(&mut self) {
        // SAFETY: ours, and not deleted before.
        unsafe { libc::timer_delete(self.0) };
    }
}

/// Waits until signals have come.
fn until_interrupted() {
    let before = HANDLED.load(Ordering::Relaxed);
    until("two signals more", || {
        HANDLED.load(Ordering::Relaxed) >= before + 2
    });
}

/// Relays in a storm, between a slow writer and a slow reader, so that signals
/// come while it waits for either.
fn relayed(input: (OwnedFd, OwnedFd), output: (OwnedFd, OwnedFd), options: &Options) {
    let writing = std::thread::spawn(move || {
        let mut file = File::from(input.1);
        for piece in pattern(BYTES).chunks(CAPACITY / 2 + 1) {
            until_interrupted();
            file.write_all(piece).unwrap();
        }
    });
    let reading = std::thread::spawn(move || {
        let mut file = File::from(output.0);
        let mut got = Vec::new();
        let mut chunk = [0; CAPACITY / 2 + 1];
        loop {
            if got.len() + CAPACITY < BYTES {
                until_interrupted();
            }
            match file.read(&mut chunk).unwrap() {
                0 => return got,
                n => got.extend_from_slice(&chunk[..n]),
            }
        }
    });
    let storm = Storm::begin();
    let done = relay(&input.0, &output.1, options, |_| Flow::Continue).unwrap();
    drop(output.1);
    // The reader may wait for signals yet.
    let got = reading.join().unwrap();
    drop(storm);
    writing.join().unwrap();
    assert_eq!((done.end, done.given), (End::EndOfData, BYTES as u64));
    assert_same(&got, &pattern(BYTES));
}

#[test]
fn a_storm_of_signals_costs_a_relay_no_byte() {
    let nonblocking = || {
        let (reader, writer) = unix();
        rustix::io::ioctl_fionbio(&writer, true).unwrap();
        (reader, writer)
    };
    for wait in WAITS {
        let options = Options::new().wait(wait).interval(Duration::MAX);
        let options = options.raise_capacity(false);
        let splice = options.technique(Technique::Splice);
        relayed(pipe_of(CAPACITY), pipe_of(CAPACITY), &splice);
        relayed(pipe_of(CAPACITY), pipe_of(CAPACITY), &options.copy());
        relayed(unix(), unix(), &options.copy());
        let through = options.technique(Technique::SpliceThroughPipe);
        relayed(tcp(), nonblocking(), &through);
    }
}
