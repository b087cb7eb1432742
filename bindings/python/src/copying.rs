//! Copies between descriptors, and the sizes of pipes.

use std::time::Duration;

use fastpipe::relay::{Flow, Options, Progress, relay};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::exception;
use crate::options;

/// Time between two looks at signals.
const INTERVAL: Duration = Duration::from_millis(100);

/// Moves bytes from src to dst until it ends, by splice(2), sendfile(2), copy_file_range(2), or
/// reads and writes. Returns how many. progress is called with the number of bytes so far, at the
/// start, every interval seconds, and at the end; False ends the copy. copy_bytes only reads and
/// writes, for files that are being modified. If bytes were taken and not delivered, the exception
/// has them as `undelivered`.
#[pyfunction]
#[pyo3(signature = (src, dst, *, progress=None, interval=0.1, limit=None, copy_bytes=false, keep_capacity=false))]
#[expect(clippy::too_many_arguments, reason = "keywords in Python")]
pub(crate) fn copy(
    py: Python<'_>,
    src: &Bound<'_, PyAny>,
    dst: &Bound<'_, PyAny>,
    progress: Option<Py<PyAny>>,
    interval: f64,
    limit: Option<u64>,
    copy_bytes: bool,
    keep_capacity: bool,
) -> PyResult<u64> {
    let (input, output) = (options::descriptor(src)?, options::descriptor(dst)?);
    let interval = Duration::try_from_secs_f64(interval)
        .map_err(|_| pyo3::exceptions::PyValueError::new_err("interval must be a positive time"))?;
    let mut settings = Options::new().interval(interval.clamp(Duration::from_millis(1), INTERVAL));
    if let Some(limit) = limit {
        settings = settings.limit(limit);
    }
    if copy_bytes {
        settings = settings.copy();
    }
    settings = settings.raise_capacity(!keep_capacity);
    let mut raised = None;
    let mut called = None::<std::time::Instant>;
    let done = py.detach(|| {
        relay(input, output, &settings, |now: &Progress<'_>| {
            let is_due = called.is_none_or(|before| before.elapsed() >= interval)
                || now.activity == fastpipe::relay::Activity::Ended;
            let went_on = Python::attach(|py| {
                py.check_signals()?;
                let Some(function) = progress.as_ref().filter(|_| is_due) else {
                    return Ok(true);
                };
                called = Some(std::time::Instant::now());
                // Only False ends the copy: most functions return nothing.
                let result = function.call1(py, (now.given,))?;
                Ok(result.extract::<bool>(py).unwrap_or(true))
            });
            match went_on {
                Ok(true) => Flow::Continue,
                Ok(false) => Flow::Stop,
                Err(error) => {
                    raised.get_or_insert(error);
                    Flow::Stop
                }
            }
        })
    });
    let (given, undelivered, error) = match done {
        Ok(done) => (done.given, done.undelivered, None),
        Err(error) => (error.given, error.undelivered, Some(error.source)),
    };
    let error = raised.or_else(|| error.map(exception));
    match error {
        None if undelivered.is_empty() => Ok(given),
        None => Err(with_undelivered(
            py,
            exception(std::io::Error::other(
                "stopped, and some bytes were not delivered",
            )),
            &undelivered,
        )?),
        Some(error) => Err(with_undelivered(py, error, &undelivered)?),
    }
}

/// The exception with the bytes that were taken and not given.
fn with_undelivered(py: Python<'_>, error: PyErr, undelivered: &[u8]) -> PyResult<PyErr> {
    if !undelivered.is_empty() {
        let bytes = PyBytes::new(py, undelivered);
        error.value(py).setattr("undelivered", bytes)?;
    }
    Ok(error)
}

/// Makes a pipe as large as size, or as close to that as this user may, and never smaller. Returns
/// its size.
#[pyfunction]
pub(crate) fn set_pipe_size(file: &Bound<'_, PyAny>, size: usize) -> PyResult<usize> {
    use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};

    let fd = options::descriptor(file)?;
    let failed = |errno: rustix::io::Errno| exception(errno.into());
    let before = fcntl_getpipe_size(fd).map_err(failed)?;
    let mut wanted = size;
    // Never smaller, and as large as this user may.
    while wanted > before {
        if fcntl_setpipe_size(fd, wanted).is_ok() {
            break;
        }
        wanted /= 2;
    }
    fcntl_getpipe_size(fd).map_err(failed)
}
