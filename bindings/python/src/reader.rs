//! Readers.

use std::ffi::c_int;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd};

use fastpipe_handles::Descriptor;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::exception;
use crate::lent::Bytes;
use crate::options;
use crate::shared::Shared;

/// Buffered input with few, large reads. Don't set capacity if the writer uses vmsplice(2) and
/// relies on the pipe's size.
#[pyclass(frozen, weakref, module = "fastpipes")]
pub(crate) struct Reader {
    shared: Shared<fastpipe::Reader<Descriptor>>,
    fd: c_int,
    /// Kept open.
    _file: Py<PyAny>,
}

#[pymethods]
impl Reader {
    #[new]
    #[pyo3(signature = (file, *, wait="block", buffer=None, capacity=None))]
    fn new(
        file: &Bound<'_, PyAny>,
        wait: &str,
        buffer: Option<usize>,
        capacity: Option<usize>,
    ) -> PyResult<Self> {
        let mut settings = fastpipe::Reader::builder()
            .wait(options::wait(wait)?)
            .interruptible(true);
        if let Some(bytes) = buffer {
            settings = settings.buffer(bytes);
        }
        if let Some(bytes) = capacity {
            settings = settings.capacity(bytes);
        }
        let fd = options::descriptor(file)?;
        Ok(Reader {
            shared: Shared::new(settings.open(fd).map_err(exception)?),
            fd: fd.as_fd().as_raw_fd(),
            _file: file.clone().unbind(),
        })
    }

    /// Reads at least one byte into the buffer. Returns how many; 0 at the end.
    fn readinto(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        let mut bytes = Bytes::writable(buffer)?;
        let into = std::sync::Mutex::new(bytes.as_mut_slice());
        self.shared.run(py, |reader| {
            let mut into = into
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            reader.read(&mut into)
        })
    }

    /// Reads at least one byte and at most size bytes; everything if size is negative. b"" at the
    /// end.
    #[pyo3(signature = (size=-1))]
    fn read<'py>(&self, py: Python<'py>, size: isize) -> PyResult<Bound<'py, PyBytes>> {
        let limit = usize::try_from(size).unwrap_or(usize::MAX);
        let mut all = Vec::new();
        while all.len() < limit {
            let wanted = (limit - all.len()).min(1 << 20);
            let mut more = self.shared.run(py, |reader| {
                let mut more = vec![0; wanted];
                let n = reader.read(&mut more)?;
                more.truncate(n);
                Ok(more)
            })?;
            if more.is_empty() {
                break;
            }
            all.append(&mut more);
            if size >= 0 {
                break;
            }
        }
        Ok(PyBytes::new(py, &all))
    }

    /// The number of the descriptor.
    fn fileno(&self) -> c_int {
        self.fd
    }
}
