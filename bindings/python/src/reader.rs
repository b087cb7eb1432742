//! Readers.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::io::{self, ErrorKind, Read};

use fastpipe::Wait;
use fastpipe_handles::Descriptor;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3::{PyTraverseError, PyVisit};

use crate::errors::{exception, in_use};
use crate::lent::Bytes;
use crate::open_file::OpenFile;
use crate::shared::Shared;
use crate::{options, read_ahead};

/// The longest read(2), in bytes.
const MAX_READ: usize = 1 << 20;

/// A reader, and what comes before its bytes.
struct State {
    reader: fastpipe::Reader<Descriptor>,
    /// Bytes that were read and not returned yet: by the file itself, or by a `read()` that an error or a
    /// signal ended.
    kept: VecDeque<u8>,
}

impl State {
    /// Reads once, and keeps that. Returns whether there may be more: not at the end, and not if only
    /// waiting would bring more while there is something to return.
    fn keep_more(&mut self) -> io::Result<bool> {
        // Before it is read: what finds no room would be lost.
        self.kept.try_reserve(MAX_READ)?;
        let mut more = zeroes(MAX_READ)?;
        match self.reader.read(&mut more) {
            Ok(n) => {
                self.kept.extend(&more[..n]);
                Ok(n > 0)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock && !self.kept.is_empty() => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

/// A copy for Python.
///
/// # Errors
/// MemoryError.
pub(crate) fn bytes<'py>(py: Python<'py>, of: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, of.len(), |into| {
        into.copy_from_slice(of);
        Ok(())
    })
}

fn zeroes(size: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(size)?;
    bytes.resize(size, 0);
    Ok(bytes)
}

impl Read for State {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.kept.is_empty() {
            self.reader.read(into)
        } else {
            self.kept.read(into)
        }
    }
}

/// Buffered input with few, large reads. Don't set capacity if the writer uses vmsplice(2) and
/// relies on the pipe's size. What file has buffered, as after readline(), is read first; with
/// wait="never" not before its descriptor has more, or is at its end.
#[pyclass(frozen, weakref, module = "fastpipes")]
pub(crate) struct Reader {
    shared: Shared<State>,
    /// The buffered file until its read-ahead was taken: by the first call that reads, since it may wait.
    buffered: Shared<Option<Py<PyAny>>>,
    never_waits: bool,
    file: OpenFile,
}

#[pymethods]
impl Reader {
    #[new]
    #[pyo3(signature = (file, *, wait="block", buffer=None, capacity=None))]
    fn new(
        py: Python<'_>,
        file: &Bound<'_, PyAny>,
        wait: &str,
        buffer: Option<usize>,
        capacity: Option<usize>,
    ) -> PyResult<Self> {
        let wait = options::wait(wait)?;
        let mut settings = fastpipe::Reader::builder().wait(wait).interruptible(true);
        if let Some(bytes) = buffer {
            settings = settings.buffer(bytes);
        }
        if let Some(bytes) = capacity {
            settings = settings.capacity(bytes);
        }
        let file = OpenFile::new(file)?;
        Ok(Reader {
            shared: Shared::new(State {
                reader: settings.open(file.descriptor()).map_err(exception)?,
                kept: VecDeque::new(),
            }),
            buffered: Shared::new(read_ahead::buffered(file.bind(py))?.map(Bound::unbind)),
            never_waits: wait == Wait::Never,
            file,
        })
    }

    /// Reads at least one byte into the buffer. Returns how many; 0 at the end.
    fn readinto(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        let mut bytes = Bytes::writable(buffer)?;
        self.take_read_ahead(py)?;
        let into = std::sync::Mutex::new(bytes.as_mut_slice());
        let read = self.shared.run(py, |state| {
            let mut into = into
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            state.read(&mut into)
        })?;
        let raised = py.check_signals();
        self.keep_if_err(raised, &bytes.as_mut_slice()[..read])?;
        Ok(read)
    }

    /// Reads at least one byte and at most size bytes; everything if size is negative, or with
    /// wait="never" what is there. b"" at the end. What a call had read before it raised is returned by
    /// the next, unless Python raises the exception of a signal's handler right after the call.
    #[pyo3(signature = (size=-1))]
    fn read<'py>(&self, py: Python<'py>, size: isize) -> PyResult<Bound<'py, PyBytes>> {
        self.take_read_ahead(py)?;
        let Ok(size) = usize::try_from(size) else {
            return self.read_all(py);
        };
        let read = self.shared.run(py, |state| {
            let mut bytes = zeroes(size.min(MAX_READ))?;
            let n = state.read(&mut bytes)?;
            bytes.truncate(n);
            Ok(bytes)
        })?;
        let bytes = py.check_signals().and_then(|()| bytes(py, &read));
        self.keep_if_err(bytes, &read)
    }

    /// The number of the descriptor.
    fn fileno(&self) -> c_int {
        self.file.number()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let Some(buffered) = self.buffered.lock() {
            visit.call(&*buffered)?;
        }
        self.file.traverse(&visit)
    }
}

impl Reader {
    /// Keeps what the file has read ahead, once. Fails if it was closed.
    fn take_read_ahead(&self, py: Python<'_>) -> PyResult<()> {
        self.file.check_open(py)?;
        let mut unasked = self.buffered.lock().ok_or_else(in_use)?;
        let Some(buffered) = unasked.as_ref().map(|file| file.bind(py)) else {
            return Ok(());
        };
        let fd = self.file.descriptor();
        if self.never_waits && read_ahead::could_wait(buffered, fd)? {
            // Later bytes must not come before those that may be in the file.
            return Err(exception(ErrorKind::WouldBlock.into()));
        }
        let ahead = read_ahead::peek(buffered, fd)?;
        let mut state = self.shared.lock().ok_or_else(in_use)?;
        read_ahead::take(buffered, ahead.as_bytes().len())?;
        state.kept.extend(ahead.as_bytes());
        *unasked = None;
        Ok(())
    }

    /// Keeps what a call has read for the next one if it raises.
    fn keep_if_err<T>(&self, outcome: PyResult<T>, read: &[u8]) -> PyResult<T> {
        if outcome.is_err()
            && let Some(mut state) = self.shared.lock()
        {
            read.iter()
                .rev()
                .for_each(|byte| state.kept.push_front(*byte));
        }
        outcome
    }

    /// Reads everything. Until that is returned it is kept, so that no exception loses it.
    fn read_all<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        while self.shared.run(py, State::keep_more)? {
            py.check_signals()?;
        }
        let mut state = self.shared.lock().ok_or_else(in_use)?;
        let all = bytes(py, state.kept.make_contiguous())?;
        // With its memory.
        state.kept = VecDeque::new();
        Ok(all)
    }
}
