//! Memory that passes the border: [`Lending`] to Python, [`Bytes`] from it.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::errors::in_use;
use fastpipe_handles::Lent;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PyWeakrefMethods, PyWeakrefReference};

/// What an object lends at the moment by the buffer protocol. The object outlives every view of it,
/// since each holds a reference to it.
#[derive(Debug, Default)]
pub(crate) struct Lending {
    state: Mutex<State>,
    /// Whether anything is lent.
    is_lent: AtomicBool,
    /// Whether a call goes on that may wait, in which a handler of a signal may make another one.
    is_in_call: AtomicBool,
}

/// A call that may wait.
pub(crate) struct Call<'a>(&'a Lending);

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.is_in_call.store(false, Ordering::Release);
    }
}

#[derive(Debug, Default)]
struct State {
    region: Option<Region>,
    /// Buffers that Python has of it.
    exports: usize,
    /// The view that was returned. Not a reference, of which there would be a cycle.
    view: Option<Py<PyWeakrefReference>>,
}

#[derive(Debug, Clone, Copy)]
struct Region {
    lent: Lent,
    is_readonly: bool,
}

impl Lending {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lends memory of `owner`, which stays valid until [`end`](Self::end) has succeeded.
    pub(crate) fn lend<'py>(
        &self,
        owner: &Bound<'py, PyAny>,
        lent: Lent,
        is_readonly: bool,
    ) -> PyResult<Bound<'py, PyMemoryView>> {
        self.state().region = Some(Region { lent, is_readonly });
        self.is_lent.store(true, Ordering::Release);
        let view = PyMemoryView::from(owner)?;
        let weak = PyWeakrefReference::new(view.as_any())?;
        self.state().view = Some(weak.unbind());
        Ok(view)
    }

    /// Begins a call that may wait, as [`end`](Self::end) does.
    ///
    /// # Errors
    /// Those of [`end`](Self::end).
    pub(crate) fn begin(&self, py: Python<'_>) -> PyResult<Call<'_>> {
        self.end(py)?;
        if self.is_in_call.swap(true, Ordering::AcqRel) {
            return Err(in_use());
        }
        Ok(Call(self))
    }

    /// Releases the view that was returned, so that its later use raises.
    ///
    /// # Errors
    /// RuntimeError during another call: of another thread, or of the one that a handler of a signal interrupts.
    /// BufferError, and everything stays, while an array or another view still has the memory.
    pub(crate) fn end(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_in_call.load(Ordering::Acquire) {
            return Err(in_use());
        }
        if !self.is_lent.load(Ordering::Acquire) {
            return Ok(());
        }
        let view = {
            let state = self.state();
            let view = state.view.as_ref();
            view.and_then(|view| view.bind(py).upgrade())
        };
        if let Some(view) = view {
            view.call_method0("release")?;
        }
        let mut state = self.state();
        if state.exports > 0 {
            return Err(PyBufferError::new_err(
                "the memory that was lent is still in use: delete the arrays and views of it first",
            ));
        }
        *state = State::default();
        self.is_lent.store(false, Ordering::Release);
        Ok(())
    }

    /// Fills a buffer of `owner`.
    ///
    /// # Safety
    /// `view` is one that the interpreter passed to `__getbuffer__` of `owner`.
    pub(crate) unsafe fn export(
        &self,
        owner: &Bound<'_, PyAny>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let mut state = self.state();
        let Some(Region { lent, is_readonly }) = state.region else {
            return Err(PyBufferError::new_err("nothing is lent"));
        };
        // SAFETY: as promised by the caller; the memory stays valid while it is exported.
        let filled = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                owner.as_ptr(),
                lent.start.as_ptr().cast(),
                lent.len as ffi::Py_ssize_t,
                is_readonly.into(),
                flags,
            )
        };
        if filled != 0 {
            return Err(PyErr::fetch(owner.py()));
        }
        state.exports += 1;
        Ok(())
    }

    /// Takes back a buffer.
    pub(crate) fn released(&self) {
        let mut state = self.state();
        state.exports = state.exports.saturating_sub(1);
    }
}

/// Bytes of anything with the buffer protocol, which stay where they are until this is dropped.
pub(crate) struct Bytes(Box<ffi::Py_buffer>);

/// What is to be written.
pub(crate) enum Data<'a, 'py> {
    /// Of `bytes`, which never change.
    Constant(&'a Bound<'py, PyBytes>),
    Buffer(Bytes),
}

impl<'a, 'py> Data<'a, 'py> {
    pub(crate) fn new(object: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        match object.cast::<PyBytes>() {
            Ok(bytes) => Ok(Data::Constant(bytes)),
            Err(_) => Bytes::readable(object).map(Data::Buffer),
        }
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Data::Constant(bytes) => bytes.as_bytes(),
            Data::Buffer(bytes) => bytes.as_slice(),
        }
    }
}

// SAFETY: the bytes are pinned by the buffer, which any thread may read or, if it is writable, write.
// Other Python threads may do so at the same time, as with any buffer of Python's.
unsafe impl Send for Bytes {}
// SAFETY: as above.
unsafe impl Sync for Bytes {}

impl Bytes {
    fn get(object: &Bound<'_, PyAny>, flags: c_int) -> PyResult<Self> {
        let mut buffer = Box::new(ffi::Py_buffer::new());
        // SAFETY: the object is alive, and the buffer has room.
        if unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &mut *buffer, flags) } != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        Ok(Bytes(buffer))
    }

    /// To be read. BufferError unless the bytes are contiguous.
    pub(crate) fn readable(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::get(object, ffi::PyBUF_SIMPLE)
    }

    /// To be written to.
    pub(crate) fn writable(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::get(object, ffi::PyBUF_WRITABLE)
    }

    fn len(&self) -> usize {
        self.0.len as usize
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        if self.len() == 0 {
            return &[];
        }
        // SAFETY: the buffer has as many bytes, and keeps them in place.
        unsafe { std::slice::from_raw_parts(self.0.buf.cast(), self.len()) }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        if self.len() == 0 {
            return &mut [];
        }
        // SAFETY: as above, and it was asked for as writable.
        unsafe { std::slice::from_raw_parts_mut(self.0.buf.cast(), self.len()) }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        Python::attach(|_| {
            // SAFETY: from PyObject_GetBuffer, released once.
            unsafe { ffi::PyBuffer_Release(&mut *self.0) };
        });
    }
}
