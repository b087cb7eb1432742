//! Errors as Python's exceptions.

use std::io::{self, ErrorKind};

use fastpipe_handles::{errno, message};
use pyo3::PyErr;
use pyo3::exceptions::{PyMemoryError, PyOSError, PyRuntimeError, PyValueError};

/// OSError with the number of the error, which Python turns into BrokenPipeError and so on; ValueError
/// for what the caller passed.
pub(crate) fn exception(error: io::Error) -> PyErr {
    match error.kind() {
        ErrorKind::InvalidInput if error.raw_os_error().is_none() => {
            PyValueError::new_err(message(&error))
        }
        ErrorKind::OutOfMemory => PyMemoryError::new_err(message(&error)),
        _ => PyOSError::new_err((errno(&error), message(&error))),
    }
}

/// The exception of a call while another thread is in one.
pub(crate) fn in_use() -> PyErr {
    PyRuntimeError::new_err("in use by another thread")
}
