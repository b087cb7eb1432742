//! The files that a caller passes, and keeps open.

use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use fastpipe_handles::Descriptor;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyInt;
use pyo3::{PyTraverseError, PyVisit};
use rustix::fs::fstat;

use crate::errors::exception;

/// A file that belongs to the caller: its number may belong to another file once the caller has closed it.
pub(crate) struct OpenFile {
    file: Py<PyAny>,
    /// What wraps it closes it when nobody has that any more.
    passed: Py<PyAny>,
    fd: Descriptor,
    /// Device and inode number.
    identity: Option<(u64, u64)>,
    /// Whether the caller has passed a number.
    is_number: bool,
}

impl OpenFile {
    /// The file of a number, or of an object with `fileno()` whose bytes are those of its descriptor. What it has
    /// buffered is flushed.
    pub(crate) fn new(file: &Bound<'_, PyAny>) -> PyResult<Self> {
        let passed = file.clone().unbind();
        let file = unwrapped(file)?;
        let (number, is_number): (c_int, _) = match file.extract() {
            Ok(number) => (number, true),
            Err(error) if file.is_instance_of::<PyInt>() => return Err(error),
            Err(_) => {
                check_bytes(&file)?;
                if file.hasattr("flush")? {
                    file.call_method0("flush")?;
                }
                (file.call_method0("fileno")?.extract()?, false)
            }
        };
        let negative = || PyValueError::new_err(format!("{number} is no file descriptor"));
        Ok(OpenFile {
            fd: Descriptor::new(number).ok_or_else(negative)?,
            file: file.unbind(),
            passed,
            identity: identity(number),
            is_number,
        })
    }

    pub(crate) fn descriptor(&self) -> Descriptor {
        self.fd
    }

    pub(crate) fn number(&self) -> c_int {
        self.fd.as_fd().as_raw_fd()
    }

    pub(crate) fn bind<'py>(&self, py: Python<'py>) -> &Bound<'py, PyAny> {
        self.file.bind(py)
    }

    /// Shows the collector what it refers to.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.file)?;
        visit.call(&self.passed)
    }

    /// Whether its number still refers to the same file, as far as is known.
    pub(crate) fn is_same(&self) -> bool {
        self.identity.is_some() && identity(self.number()) == self.identity
    }

    /// A duplicate of its descriptor.
    pub(crate) fn duplicate(&self) -> PyResult<OwnedFd> {
        self.fd.as_fd().try_clone_to_owned().map_err(exception)
    }

    /// Fails if the caller has closed it, as calls of Python's own files do.
    pub(crate) fn check_open(&self, py: Python<'_>) -> PyResult<()> {
        let is_open = if self.is_number {
            self.identity.is_none() || self.is_same()
        } else {
            let number = self.file.bind(py).call_method0("fileno");
            let number = number.and_then(|number| number.extract::<c_int>());
            number.is_ok_and(|number| number == self.number())
        };
        if is_open {
            Ok(())
        } else {
            Err(PyValueError::new_err("the file was closed"))
        }
    }
}

fn identity(number: c_int) -> Option<(u64, u64)> {
    let file = fstat(Descriptor::new(number)?).ok()?;
    Some((file.st_dev, file.st_ino))
}

/// What tempfile.NamedTemporaryFile() wraps, or the file itself.
fn unwrapped<'py>(file: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match class(file.py(), "tempfile", "_TemporaryFileWrapper")? {
        Some(wrapper) if file.is_instance(&wrapper)? => file.getattr("file"),
        _ => Ok(file.clone()),
    }
}

/// A class of a module; `None` unless that was imported: nothing can be an instance of it. An import takes a lock, which
/// a child that is forked meanwhile would find held for ever.
fn class<'py>(py: Python<'py>, module: &str, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    let modules = py.import("sys")?.getattr("modules")?;
    match modules.get_item(module) {
        Ok(module) => module.getattr(name).map(Some),
        Err(_) => Ok(None),
    }
}

/// Refuses objects whose bytes are not those of their descriptor, as of gzip.open() and urllib's responses, which
/// keep some of them where they can't be seen.
fn check_bytes(file: &Bound<'_, PyAny>) -> PyResult<()> {
    let kind = file.get_type().name()?;
    if !file.hasattr("fileno")? {
        return Err(PyTypeError::new_err(format!(
            "expected a file descriptor, or an object with fileno(), not {kind}"
        )));
    }
    if passes_bytes_on(file)? {
        return Ok(());
    }
    Err(PyTypeError::new_err(format!(
        "what {kind} reads or writes may not be the bytes of its descriptor: pass a file of open(), a pipe or a \
         socket, or use shutil.copyfileobj()"
    )))
}

/// Whether an object reads and writes the bytes of its descriptor, and nothing between knows of others.
fn passes_bytes_on(file: &Bound<'_, PyAny>) -> PyResult<bool> {
    let io = file.py().import("io")?;
    let is = |kind: &str| file.is_instance(&io.getattr(kind)?);
    if is("FileIO")? {
        return Ok(true);
    }
    if is("TextIOWrapper")? {
        return passes_bytes_on(&file.getattr("buffer")?);
    }
    if is("BufferedReader")? || is("BufferedWriter")? || is("BufferedRandom")? {
        return passes_bytes_on(&file.getattr("raw")?);
    }
    if let Some(socket) = class(file.py(), "socket", "SocketIO")?
        && file.is_instance(&socket)?
    {
        return passes_bytes_on(&file.getattr("_sock")?);
    }
    // Sockets have neither, but for those of ssl.
    Ok(!file.hasattr("read")? && !file.hasattr("write")?)
}
