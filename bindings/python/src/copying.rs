//! Copies between descriptors, and the sizes of pipes.

use std::io::{self, PipeReader};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use fastpipe::relay::{Activity, End, Flow, Options, Progress, RelayError, Relayed, relay};
use fastpipe_handles::Descriptor;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rustix::pipe::{PipeFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with};

use crate::errors::exception;
use crate::open_file::OpenFile;
use crate::read_ahead;

/// Time between two looks at signals.
const INTERVAL: Duration = Duration::from_millis(100);

/// Moves bytes from src to dst until it ends, by splice(2), sendfile(2), copy_file_range(2), or
/// reads and writes. Returns how many. progress is called with the number of bytes so far, at the
/// start, every interval seconds, and at the end; False ends the copy. copy_bytes only reads and
/// writes, for files that are being modified. If bytes were taken and not delivered, the exception
/// has them as `undelivered`. What src has buffered, as after readline(), comes first. To ask for that
/// Python may read src once: with a limit, read on from src rather than from its descriptor.
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
    let (src, dst) = (OpenFile::new(src)?, OpenFile::new(dst)?);
    let (input, output) = (src.descriptor(), dst.descriptor());
    let interval = Duration::try_from_secs_f64(interval)
        .map_err(|_| pyo3::exceptions::PyValueError::new_err("interval must be a positive time"))?;
    let mut settings = Options::new().interval(interval.clamp(Duration::from_millis(1), INTERVAL));
    if copy_bytes {
        settings = settings.copy();
    }
    settings = settings.raise_capacity(!keep_capacity);
    let mut watch = Watch {
        progress,
        interval,
        before: 0,
        is_last: false,
        called: None,
        raised: None,
    };
    if limit != Some(0)
        && let Some(buffered) = read_ahead::buffered(src.bind(py))?
    {
        let goes_on = watch.copy_read_ahead(py, &buffered, input, output, settings, limit)?;
        if !goes_on {
            return Ok(watch.before);
        }
    }
    if let Some(limit) = limit {
        settings = settings.limit(limit - watch.before);
    }
    watch.is_last = true;
    let (given, undelivered, error) = match watch.relay(py, input, output, &settings) {
        Ok(done) => (done.given, done.undelivered, None),
        Err(error) => (error.given, error.undelivered, Some(error.source)),
    };
    let error = watch.raised.or_else(|| error.map(exception));
    match error {
        None if undelivered.is_empty() => Ok(watch.before + given),
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

/// Calls `progress`, and looks at signals, while bytes are relayed: first those that the source has read ahead,
/// then the others.
struct Watch {
    progress: Option<Py<PyAny>>,
    interval: Duration,
    /// Bytes given by the relay before this one.
    before: u64,
    /// Whether the end of this relay is that of the copy.
    is_last: bool,
    called: Option<Instant>,
    raised: Option<PyErr>,
}

impl Watch {
    /// Gives what `buffered` has read ahead, up to `limit`, and takes from it exactly what was given. Returns
    /// whether the copy goes on.
    fn copy_read_ahead(
        &mut self,
        py: Python<'_>,
        buffered: &Bound<'_, PyAny>,
        input: Descriptor,
        output: Descriptor,
        settings: Options,
        limit: Option<u64>,
    ) -> PyResult<bool> {
        let ahead = read_ahead::peek(buffered, input)?;
        let limit = usize::try_from(limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
        let bytes = &ahead.as_bytes()[..ahead.as_bytes().len().min(limit)];
        if bytes.is_empty() {
            return Ok(true);
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let (pipe, held) = pipe_of(rest).map_err(exception)?;
            rest = &rest[held..];
            let done = self.relay(py, &pipe, output, &settings);
            // What was not delivered is still in the file's buffer.
            let given = match &done {
                Ok(done) => done.given,
                Err(error) => error.given,
            };
            read_ahead::take(buffered, given as usize)?;
            self.before += given;
            if let Some(raised) = self.raised.take() {
                return Err(raised);
            }
            let done = done.map_err(|error| exception(error.source))?;
            if done.end == End::Stopped {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn relay(
        &mut self,
        py: Python<'_>,
        input: impl AsFd + Send,
        output: Descriptor,
        settings: &Options,
    ) -> Result<Relayed, RelayError> {
        py.detach(|| relay(input, output, settings, |now: &Progress<'_>| self.look(now)))
    }

    fn look(&mut self, now: &Progress<'_>) -> Flow {
        let is_end = self.is_last && now.activity == Activity::Ended;
        let is_due = is_end
            || self
                .called
                .is_none_or(|before| before.elapsed() >= self.interval);
        let went_on = Python::attach(|py| {
            py.check_signals()?;
            let Some(function) = self.progress.as_ref().filter(|_| is_due) else {
                return Ok(true);
            };
            self.called = Some(Instant::now());
            // Only False ends the copy: most functions return nothing.
            let result = function.call1(py, (self.before + now.given,))?;
            Ok(result.extract::<bool>(py).unwrap_or(true))
        });
        match went_on {
            Ok(true) => Flow::Continue,
            Ok(false) => Flow::Stop,
            Err(error) => {
                self.raised.get_or_insert(error);
                Flow::Stop
            }
        }
    }
}

/// A pipe with the first of the bytes, and how many it holds. RLIMIT_FSIZE limits files, also those in memory.
fn pipe_of(bytes: &[u8]) -> io::Result<(PipeReader, usize)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let held = rustix::io::write(&writer, bytes)?;
    Ok((PipeReader::from(reader), held))
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
    let file = OpenFile::new(file)?;
    let fd = file.descriptor();
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
