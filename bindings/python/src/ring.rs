//! Rings.

use std::ffi::c_int;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use fastpipe::Wait;
use fastpipe::ring::{self as rings, Peer, PeerState};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PyType};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::errors::exception;
use crate::lent::{Data, Lending};
use crate::open_file::OpenFile;
use crate::options;
use crate::reader::bytes;
use crate::shared::Shared;

/// Time between two looks at signals.
const SLICE: Duration = Duration::from_millis(100);

/// One end, and how long it may wait.
struct Side<E> {
    /// `None` once it was closed or passed on.
    end: Option<E>,
    timeout: Option<Duration>,
    /// The only process that may use it.
    owner: u32,
    /// A message that was received, and for which Python had no memory.
    kept: Option<Vec<u8>>,
}

impl<E> Side<E> {
    fn end(&mut self) -> io::Result<&mut E> {
        if self.owner != std::process::id() {
            return Err(io::Error::other(
                "this end belongs to the parent process: pass the child a descriptor, by detach() and from_fd()",
            ));
        }
        let closed = || io::Error::new(ErrorKind::InvalidInput, "this end was closed or passed on");
        self.end.as_mut().ok_or_else(closed)
    }
}

/// Runs a call that may wait, in slices, between which signals are handled.
fn wait<E: Ring + Send, T: Send>(
    shared: &Shared<Side<E>>,
    py: Python<'_>,
    body: impl Fn(&mut E) -> io::Result<T> + Send + Sync,
) -> PyResult<T> {
    let began = Instant::now();
    loop {
        let done = shared.once(py, |side| {
            let left = side.timeout.map(|all| all.saturating_sub(began.elapsed()));
            let slice = left.unwrap_or(SLICE).min(SLICE);
            let end = side.end()?;
            end.set_timeout(Some(slice));
            Ok((body(end), left.is_none_or(|left| left > slice)))
        })?;
        match done.map_err(exception)? {
            (Err(error), true) if error.kind() == ErrorKind::TimedOut => py.check_signals()?,
            (done, _) => return done.map_err(exception),
        }
    }
}

/// What both ends do.
trait Ring {
    fn set_timeout(&mut self, timeout: Option<Duration>);
}

impl Ring for fastpipe_handles::Producer {
    fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.end().set_timeout(timeout);
    }
}

impl Ring for fastpipe_handles::Consumer {
    fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.end().set_timeout(timeout);
    }
}

fn peer_of(pid: i32) -> io::Result<Peer> {
    match Pid::from_raw(pid) {
        None => Peer::parent(),
        Some(pid) => Peer::process(pidfd_open(pid, PidfdFlags::empty())?),
    }
}

/// Creates a ring buffer of capacity bytes, rounded up to whole pages.
#[pyfunction]
pub(crate) fn ring(capacity: usize) -> PyResult<(Producer, Consumer)> {
    let (producer, consumer) = rings::pair(capacity).map_err(exception)?;
    Ok((Producer::new(producer), Consumer::new(consumer)))
}

/// The methods that both ends have. One block of methods is allowed for each class. Those of the buffer
/// protocol, which are unsafe, can't come out of this macro: pyo3's own unsafe block would not cover them.
macro_rules! end {
    ($End:ident, { $($own:tt)* }) => {
        impl $End {
            fn new(end: rings::$End) -> Self {
                $End {
                    shared: Shared::new(Side {
                        end: Some(end.into()),
                        timeout: None,
                        owner: std::process::id(),
                        kept: None,
                    }),
                    lending: Lending::default(),
                    passed_on: Mutex::new(None),
                }
            }

            /// Runs a call that does not wait.
            fn now<T: Send>(
                &self,
                py: Python<'_>,
                body: impl Fn(&mut rings::$End) -> io::Result<T> + Send + Sync,
            ) -> PyResult<T> {
                let _call = self.lending.begin(py)?;
                self.shared.run(py, |side| body(side.end()?.end()))
            }

            /// Takes the end out.
            fn take(&self, py: Python<'_>) -> PyResult<Option<rings::$End>> {
                let _call = self.lending.begin(py)?;
                self.shared.run(py, |side| Ok(side.end.take().map(|end| end.into_end())))
            }
        }

        #[pymethods]
        impl $End {
            /// Creates a ring, and passes its other end over a Unix stream socket to a process that
            /// calls accept(). Waits until it has, or for the socket's receive timeout
            /// (SO_RCVTIMEO). Each notices the other's death.
            #[classmethod]
            fn offer(
                _class: &Bound<'_, PyType>,
                socket: &Bound<'_, PyAny>,
                capacity: usize,
            ) -> PyResult<Self> {
                let stream = UnixStream::from(OpenFile::new(socket)?.duplicate()?);
                let end = socket.py().detach(|| rings::$End::offer(&stream, capacity));
                Ok(Self::new(end.map_err(exception)?))
            }

            /// Takes the end that is offered, of a ring of at most limit bytes (64 MiB by default).
            #[classmethod]
            #[pyo3(signature = (socket, limit=rings::MAX_ACCEPTED))]
            fn accept(
                _class: &Bound<'_, PyType>,
                socket: &Bound<'_, PyAny>,
                limit: usize,
            ) -> PyResult<Self> {
                let stream = UnixStream::from(OpenFile::new(socket)?.duplicate()?);
                let end = socket.py().detach(|| rings::$End::accept_up_to(&stream, limit));
                Ok(Self::new(end.map_err(exception)?))
            }

            /// Takes the end in a descriptor that was inherited or received.
            #[classmethod]
            fn from_fd(_class: &Bound<'_, PyType>, fd: &Bound<'_, PyAny>) -> PyResult<Self> {
                let end = rings::$End::from_fd(OpenFile::new(fd)?.duplicate()?);
                Ok(Self::new(end.map_err(exception)?))
            }

            /// Turns the end into a descriptor, for a child to inherit; the caller closes it.
            fn detach(&self, py: Python<'_>) -> PyResult<c_int> {
                match self.take(py)? {
                    Some(end) => Ok(end.into_fd().map_err(exception)?.into_raw_fd()),
                    None => Err(PyValueError::new_err("this end was closed or passed on")),
                }
            }

            /// As an argument of multiprocessing's Process, unless it forks.
            fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
                let py = slf.py();
                let module = py.import("fastpipes")?;
                // Before the end is gone.
                module.call_method0("_check_spawning")?;
                let Some(end) = slf.get().take(py)? else {
                    return Err(PyValueError::new_err("this end was closed or passed on"));
                };
                let file = end.into_fd().map_err(exception)?;
                let passed = module.call_method1("_pass_on", (slf.get_type(), file.as_raw_fd()))?;
                // The child has it once it was started.
                if let Ok(mut kept) = slf.get().passed_on.lock() {
                    *kept = Some(file);
                }
                Ok(passed)
            }

            /// Watches the process that has the other end, so that its death ends a wait with
            /// ConnectionResetError: a child, or with 0 the parent. Not needed after offer() and
            /// accept().
            fn watch(&self, py: Python<'_>, pid: i32) -> PyResult<()> {
                if pid < 0 {
                    return Err(PyValueError::new_err(format!("{pid} is no process id")));
                }
                self.now(py, |end| {
                    end.watch(peer_of(pid)?);
                    Ok(())
                })
            }

            /// Sets how to wait, and for how many seconds at most (TimeoutError).
            #[pyo3(signature = (wait="block", timeout=None))]
            fn set_wait(&self, py: Python<'_>, wait: &str, timeout: Option<f64>) -> PyResult<()> {
                let wait: Wait = options::wait(wait)?;
                let timeout = timeout.map(Duration::try_from_secs_f64).transpose();
                let timeout = timeout
                    .map_err(|_| PyValueError::new_err("timeout must be a positive time"))?;
                let _call = self.lending.begin(py)?;
                self.shared.run(py, |side| {
                    side.timeout = timeout;
                    side.end()?.end().set_wait(wait);
                    Ok(())
                })
            }

            /// Capacity in bytes.
            #[getter]
            fn capacity(&self, py: Python<'_>) -> PyResult<usize> {
                self.now(py, |end| Ok(end.capacity()))
            }

            /// The state of the other process.
            #[getter]
            fn peer(&self, py: Python<'_>) -> PyResult<&'static str> {
                Ok(match self.now(py, |end| end.peer_state())? {
                    PeerState::Stopped => "stopped",
                    PeerState::Closed => "closed",
                    PeerState::Died => "died",
                    _ => "running",
                })
            }

            /// A descriptor that becomes readable once after each BlockingIOError (wait="never"),
            /// when there is room or data again: for asyncio's add_reader() and selectors. Only
            /// after offer() or accept().
            fn fileno(&self, py: Python<'_>) -> PyResult<c_int> {
                self.now(py, |end| end.ready_fd().map(|fd| fd.as_raw_fd()))
            }

            /// Closes the end. The producer's thereby marks the end of the data.
            fn close(&self, py: Python<'_>) -> PyResult<()> {
                drop(self.take(py)?);
                Ok(())
            }

            fn __enter__(slf: Py<Self>) -> Py<Self> {
                slf
            }

            fn __exit__(
                &self,
                py: Python<'_>,
                kind: &Bound<'_, PyAny>,
                _value: &Bound<'_, PyAny>,
                _traceback: &Bound<'_, PyAny>,
            ) -> PyResult<()> {
                match self.close(py) {
                    // The other process would wait for ever: what the frame of the exception still has stays mapped.
                    Err(lent) if !kind.is_none() && lent.is_instance_of::<PyBufferError>(py) => {
                        let end = self.shared.run(py, |side| Ok(side.end.take()))?;
                        end.into_iter().for_each(|end| end.into_end().close_and_leak());
                        Ok(())
                    }
                    // The first exception is the one to see.
                    closed if kind.is_none() => closed,
                    _ => Ok(()),
                }
            }

            $($own)*
        }
    };
}

/// The end of a ring that puts bytes in.
#[pyclass(frozen, weakref, module = "fastpipes")]
pub(crate) struct Producer {
    shared: Shared<Side<fastpipe_handles::Producer>>,
    lending: Lending,
    /// The end, on its way to a child.
    passed_on: Mutex<Option<std::os::fd::OwnedFd>>,
}

end!(Producer, {
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        // SAFETY: the interpreter's.
        unsafe { slf.get().lending.export(slf.as_any(), view, flags) }
    }

    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.lending.released();
    }

    /// Waits for room for that many bytes, and lends all that is known to be free. See
    /// Writer.lend().
    #[pyo3(signature = (at_least=0))]
    fn lend<'py>(slf: &Bound<'py, Self>, at_least: usize) -> PyResult<Bound<'py, PyMemoryView>> {
        let (this, py) = (slf.get(), slf.py());
        let _call = this.lending.begin(py)?;
        let lent = wait(&this.shared, py, |end| end.lend(at_least))?;
        this.lending.lend(slf.as_any(), lent, false)
    }

    /// Makes the first n bytes of it available to the consumer.
    fn commit(&self, py: Python<'_>, n: usize) -> PyResult<()> {
        let _call = self.lending.begin(py)?;
        self.shared.run(py, |side| side.end()?.commit(n))
    }

    /// Sends a message, which receive() returns as a whole. Not to be mixed with commit().
    fn send(&self, py: Python<'_>, message: &Bound<'_, PyAny>) -> PyResult<()> {
        let _call = self.lending.begin(py)?;
        let message = Data::new(message)?;
        let all = message.as_slice();
        wait(&self.shared, py, |end| end.end().send(all))
    }

    /// Waits until the consumer has released everything.
    fn wait_drained(&self, py: Python<'_>) -> PyResult<()> {
        let _call = self.lending.begin(py)?;
        wait(&self.shared, py, |end| end.end().wait_drained())
    }
});

/// The end of a ring that takes bytes out. The other process can change them at any time: copy
/// those of a process that is not trusted before they are checked.
#[pyclass(frozen, weakref, module = "fastpipes")]
pub(crate) struct Consumer {
    shared: Shared<Side<fastpipe_handles::Consumer>>,
    lending: Lending,
    /// The end, on its way to a child.
    passed_on: Mutex<Option<std::os::fd::OwnedFd>>,
}

end!(Consumer, {
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        // SAFETY: the interpreter's.
        unsafe { slf.get().lending.export(slf.as_any(), view, flags) }
    }

    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.lending.released();
    }

    /// Waits for that many bytes, and shows all that are known to be there, read-only: fewer only
    /// at the end of the data, and none after it. See Writer.lend().
    #[pyo3(signature = (at_least=0))]
    fn peek<'py>(slf: &Bound<'py, Self>, at_least: usize) -> PyResult<Bound<'py, PyMemoryView>> {
        let (this, py) = (slf.get(), slf.py());
        let _call = this.lending.begin(py)?;
        let lent = wait(&this.shared, py, |end| end.peek(at_least))?;
        this.lending.lend(slf.as_any(), lent, true)
    }

    /// Takes the first n of them out of the ring.
    fn release(&self, py: Python<'_>, n: usize) -> PyResult<()> {
        let _call = self.lending.begin(py)?;
        self.shared.run(py, |side| side.end()?.release(n))
    }

    /// Waits for the next message; None at the end.
    fn receive<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let _call = self.lending.begin(py)?;
        let kept = self.shared.run(py, |side| {
            side.end()?;
            Ok(side.kept.take())
        })?;
        let message = match kept {
            Some(message) => Some(message),
            None => {
                // The message stays in the ring if a handler raises that came before it.
                wait(&self.shared, py, |end| end.end().peek(1).map(drop))?;
                py.check_signals()?;
                wait(&self.shared, py, |end| {
                    let mut message = Vec::new();
                    Ok(end.end().recv(&mut message)?.map(|_| message))
                })?
            }
        };
        let Some(message) = message else {
            return Ok(None);
        };
        let copy = bytes(py, &message);
        if copy.is_err()
            && let Some(mut side) = self.shared.lock()
        {
            side.kept = Some(message);
        }
        copy.map(Some)
    }
});
