//! [`Shared`]: what an object wraps, and what calls that may block have in common.

use std::io::{self, ErrorKind};
use std::sync::{Mutex, MutexGuard, TryLockError};

use pyo3::prelude::*;

use crate::errors::{exception, in_use};

/// What an object wraps, for one thread at a time.
#[derive(Debug)]
pub(crate) struct Shared<T>(Mutex<T>);

impl<T: Send> Shared<T> {
    pub(crate) fn new(value: T) -> Self {
        Shared(Mutex::new(value))
    }

    /// `None` if another thread has it.
    pub(crate) fn lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            // A panic, which was reported.
            Err(TryLockError::Poisoned(broken)) => Some(broken.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Runs `body` without the interpreter's lock.
    pub(crate) fn once<R: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&mut T) -> io::Result<R> + Send,
    ) -> PyResult<io::Result<R>> {
        let done = py.detach(|| self.lock().map(|mut value| body(&mut value)));
        done.ok_or_else(in_use)
    }

    /// Runs `body` without the interpreter's lock, and again after each signal whose handler raises
    /// nothing.
    pub(crate) fn run<R: Send>(
        &self,
        py: Python<'_>,
        body: impl Fn(&mut T) -> io::Result<R> + Send + Sync,
    ) -> PyResult<R> {
        loop {
            match self.once(py, &body)? {
                Err(error) if error.kind() == ErrorKind::Interrupted => py.check_signals()?,
                done => return done.map_err(exception),
            }
        }
    }
}
