//! Arguments.

use std::os::fd::{AsFd, OwnedFd};

use fastpipe::{AssertReaderCopies, Method, Wait};
use fastpipe_handles::Descriptor;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::errors::exception;

/// The descriptor of a number, or of anything with `fileno()`. What it has buffered is flushed.
pub(crate) fn descriptor(file: &Bound<'_, PyAny>) -> PyResult<Descriptor> {
    let fd: i32 = match file.extract() {
        Ok(fd) => fd,
        Err(error) if file.is_instance_of::<PyInt>() => return Err(error),
        Err(_) => {
            if !file.hasattr("fileno")? {
                let kind = file.get_type().name()?;
                return Err(PyTypeError::new_err(format!(
                    "expected a file descriptor, or an object with fileno(), not {kind}"
                )));
            }
            if file.hasattr("flush")? {
                file.call_method0("flush")?;
            }
            file.call_method0("fileno")?.extract()?
        }
    };
    let negative = || PyValueError::new_err(format!("{fd} is no file descriptor"));
    Descriptor::new(fd).ok_or_else(negative)
}

/// A duplicate of that.
pub(crate) fn duplicate(file: &Bound<'_, PyAny>) -> PyResult<OwnedFd> {
    let fd = descriptor(file)?;
    fd.as_fd().try_clone_to_owned().map_err(exception)
}

pub(crate) fn wait(name: &str) -> PyResult<Wait> {
    Ok(match name {
        "block" => Wait::Block,
        "poll" => Wait::Poll,
        "spin" => Wait::Spin,
        "adaptive" => Wait::Adaptive,
        "never" => Wait::Never,
        _ => {
            return Err(PyValueError::new_err(format!(
                "wait={name:?}: must be block, poll, spin, adaptive or never"
            )));
        }
    })
}

pub(crate) fn method(name: &str) -> PyResult<Method> {
    Ok(match name {
        "auto" => Method::Auto,
        "copy" => Method::copy(),
        "fresh" => Method::Fresh,
        "cow_checked" => Method::CowChecked,
        "drained" => Method::Drained(AssertReaderCopies),
        _ => {
            return Err(PyValueError::new_err(format!(
                "method={name:?}: must be auto, copy, fresh, cow_checked or drained"
            )));
        }
    })
}
