//! Arguments.

use fastpipe::{AssertReaderCopies, Method, Wait};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

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
