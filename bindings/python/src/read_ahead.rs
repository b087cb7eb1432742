//! What a buffered file of Python's has read from its descriptor, and nobody from it.

use std::os::fd::AsFd;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, tell};

use crate::errors::exception;

/// The io.BufferedReader that reads `file`'s descriptor, if there is one. (io.BufferedRandom gives back what it
/// has read ahead when it is flushed.)
pub(crate) fn buffered<'py>(file: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let io = file.py().import("io")?;
    let file = if file.is_instance(&io.getattr("TextIOWrapper")?)? {
        file.getattr("buffer")?
    } else {
        file.clone()
    };
    let is_buffered = file.is_instance(&io.getattr("BufferedReader")?)?;
    Ok(is_buffered.then_some(file))
}

/// What `buffered` has read ahead from `fd`, and keeps until [`take`]. If that is nothing and the file can't
/// seek, Python reads once, and may wait: it has no way to ask.
pub(crate) fn peek<'py>(
    buffered: &Bound<'py, PyAny>,
    fd: impl AsFd,
) -> PyResult<Bound<'py, PyBytes>> {
    if is_seekable(buffered)? {
        let logical: u64 = buffered.call_method0("tell")?.extract()?;
        if tell(fd).map_err(|errno| exception(errno.into()))? == logical {
            return Ok(PyBytes::new(buffered.py(), b""));
        }
    }
    Ok(buffered.call_method1("peek", (0,))?.cast_into()?)
}

/// Whether [`peek`] could wait now.
pub(crate) fn could_wait(buffered: &Bound<'_, PyAny>, fd: impl AsFd) -> PyResult<bool> {
    if is_seekable(buffered)? {
        return Ok(false);
    }
    let failed = |errno: rustix::io::Errno| exception(errno.into());
    if fcntl_getfl(&fd).map_err(failed)?.contains(OFlags::NONBLOCK) {
        return Ok(false);
    }
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    Ok(poll(&mut fds, Some(&Timespec::default())).map_err(failed)? == 0)
}

/// Takes the first `n` of these bytes out of the file.
pub(crate) fn take(buffered: &Bound<'_, PyAny>, n: usize) -> PyResult<()> {
    buffered.call_method1("read", (n,))?;
    Ok(())
}

fn is_seekable(buffered: &Bound<'_, PyAny>) -> PyResult<bool> {
    buffered.call_method0("seekable")?.extract()
}
