//! Writers.

use std::ffi::c_int;
use std::io::{self, ErrorKind, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use fastpipe::Method;
use fastpipe_handles::message;
use pyo3::exceptions::{
    PyBlockingIOError, PyBrokenPipeError, PyBufferError, PyException, PyValueError,
};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyMemoryView, PyType};
use pyo3::{PyTraverseError, PyVisit};

use crate::errors::{exception, in_use};
use crate::lent::{Data, Lending};
use crate::open_file::OpenFile;
use crate::options;
use crate::shared::Shared;

/// Shorter writes are gathered, without giving up the interpreter's lock.
const SMALL: usize = 4096;
/// As many bytes of them as are gathered.
const GATHERED: usize = 64 * 1024;

/// A writer, and the short writes that it has not got yet.
struct State {
    writer: fastpipe_handles::Writer,
    gathered: Vec<u8>,
}

impl State {
    fn new(writer: fastpipe_handles::Writer) -> io::Result<Self> {
        let mut gathered = Vec::new();
        gathered.try_reserve_exact(GATHERED)?;
        Ok(State { writer, gathered })
    }

    fn has_unsent(&mut self) -> bool {
        !self.gathered.is_empty() || self.writer.queued() > 0
    }

    /// Passes on what was gathered.
    fn pass_on(&mut self) -> io::Result<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let passed = self.writer.write(&self.gathered)?;
        self.gathered.drain(..passed);
        if self.gathered.is_empty() {
            Ok(())
        } else {
            // Perhaps by a signal: the next attempt comes after a look at those.
            Err(ErrorKind::Interrupted.into())
        }
    }
}

/// Output by the fastest way that is correct for whatever reads it.
/// file is a descriptor, or anything with fileno(); it stays open, and the caller closes it
/// afterwards. One thread at a time may use a writer, and a handler of a signal not during another call
/// (RuntimeError). A writer that is not finished sends what it has when it is deleted, and when the
/// program ends, unless a call of it, or its with statement, has raised.
/// A forked child can't use its parent's: calls raise OSError, and what was written before the fork is
/// sent by the parent only. Until the child ends or runs another program the reader sees no end of the
/// data, and memory lent before the fork may read as zeroes there.
/// method="drained" asserts that every reader copies by read(2), and passes nothing on by splice(2)
/// or tee(2), as some versions of cat and pv do: otherwise they read wrong bytes. "cow_checked",
/// and "auto" with allow_clone, call clone(2) very often: only for small processes that do little
/// else.
#[pyclass(frozen, weakref, module = "fastpipes")]
pub(crate) struct Writer {
    open: Arc<Open>,
    lending: Lending,
}

/// The writers that there are: what they have is sent before the interpreter ends, which closes files in any order.
static OPEN: Mutex<Vec<Weak<Open>>> = Mutex::new(Vec::new());

/// A writer, without what it lends.
struct Open {
    shared: Shared<State>,
    file: OpenFile,
    /// Whether the last call that sends has raised: what is left then is not sent by a deletion, which may come after
    /// other bytes have been written in its place.
    has_failed: AtomicBool,
}

/// Sends what all writers have. To be called before the interpreter ends.
#[pyfunction]
pub(crate) fn _flush_all(py: Python<'_>) {
    let all = OPEN.lock().map(|all| all.clone()).unwrap_or_default();
    let mut was_interrupted = false;
    for writer in all.iter().filter_map(Weak::upgrade) {
        // One signal ends all waits.
        was_interrupted |= writer.end(py, |state| {
            if was_interrupted {
                return Err(io::Error::other("given up, as another writer was"));
            }
            state.pass_on()?;
            state.writer.flush()
        });
    }
}

/// What a writer has done.
#[pyclass(frozen, get_all, module = "fastpipes")]
#[derive(Debug)]
pub(crate) struct Report {
    method: &'static str,
    zero_copy: bool,
    bytes: u64,
    zero_copy_bytes: u64,
    syscalls: u64,
    would_blocks: u64,
    text: String,
}

#[pymethods]
impl Report {
    fn __str__(&self) -> &str {
        &self.text
    }

    fn __repr__(&self) -> String {
        format!("<fastpipes.Report: {}, {} bytes>", self.text, self.bytes)
    }
}

#[pymethods]
impl Writer {
    #[new]
    #[pyo3(signature = (file, *, method="auto", wait="block", capacity=None, keep_capacity=false, loan=None,
        region=None, max_held=None, at_once=false, allow_clone=false))]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn new(
        file: &Bound<'_, PyAny>,
        method: &str,
        wait: &str,
        capacity: Option<usize>,
        keep_capacity: bool,
        loan: Option<usize>,
        region: Option<usize>,
        max_held: Option<u64>,
        at_once: bool,
        allow_clone: bool,
    ) -> PyResult<Self> {
        let mut settings = fastpipe::Writer::builder()
            .method(options::method(method)?)
            .wait(options::wait(wait)?)
            .allow_clone(allow_clone)
            .interruptible(true);
        if let Some(bytes) = capacity {
            settings = settings.capacity(bytes);
        }
        if keep_capacity {
            settings = settings.keep_capacity();
        }
        if let Some(bytes) = loan {
            settings = settings.loan(bytes);
        }
        if let Some(bytes) = region {
            settings = settings.region(bytes);
        }
        if let Some(bytes) = max_held {
            settings = settings.max_held(bytes);
        }
        if at_once {
            settings = settings.at_once();
        }
        let file = OpenFile::new(file)?;
        let opened = fastpipe_handles::Writer::open(settings, file.descriptor());
        let shared = Shared::new(opened.and_then(State::new).map_err(exception)?);
        let open = Arc::new(Open {
            shared,
            file,
            has_failed: AtomicBool::new(false),
        });
        if let Ok(mut all) = OPEN.lock() {
            if all.len() == all.capacity() {
                all.retain(|writer| writer.strong_count() > 0);
            }
            all.push(Arc::downgrade(&open));
        }
        Ok(Writer {
            open,
            lending: Lending::default(),
        })
    }

    /// Lends memory for the next bytes: at least that many; 0 means as many as suit. It holds
    /// zeroes or old bytes. Any other call takes it back, after which its use raises ValueError;
    /// while an array or another view still has it, that call raises BufferError and does nothing.
    #[pyo3(signature = (at_least=0))]
    fn lend<'py>(slf: &Bound<'py, Self>, at_least: usize) -> PyResult<Bound<'py, PyMemoryView>> {
        let (this, py) = (slf.get(), slf.py());
        let _call = this.lending.begin(py)?;
        this.open.file.check_open(py)?;
        let lent = this.open.send(py, |state| {
            state.pass_on()?;
            state.writer.lend(at_least)
        })?;
        this.lending.lend(slf.as_any(), lent, false)
    }

    /// Sends the first n bytes of the memory lent.
    fn commit(&self, py: Python<'_>, n: usize) -> PyResult<()> {
        let _call = self.lending.begin(py)?;
        self.open.file.check_open(py)?;
        match self.open.shared.once(py, |state| state.writer.commit(n))? {
            // All bytes are queued by now.
            Err(error) if error.kind() == ErrorKind::Interrupted => {
                let handled = py.check_signals();
                let sent =
                    handled.and_then(|()| self.open.shared.run(py, |state| state.writer.flush()));
                self.open.note(py, sent)
            }
            done => self.open.note(py, done.map_err(exception)),
        }
    }

    /// Buffers data, and sends full buffers. Returns how many bytes were accepted: all, unless with
    /// wait="never".
    fn write(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.lending.end(py)?;
        let data = Data::new(data)?;
        let all = data.as_slice();
        if all.len() <= SMALL {
            let mut state = self.open.shared.lock().ok_or_else(in_use)?;
            let has_room = state.gathered.len() + all.len() <= GATHERED;
            // What is gathered in a forked child would never be sent: there the writer's call fails.
            if has_room && !state.writer.is_finished() && state.writer.is_ours() {
                state.gathered.extend_from_slice(all);
                return Ok(all.len());
            }
        }
        let _call = self.lending.begin(py)?;
        self.open.file.check_open(py)?;
        let mut written = 0;
        while written < all.len() {
            let rest = &all[written..];
            let more = self.open.send(py, |state| {
                state.pass_on()?;
                state.writer.write(rest)
            });
            match more {
                Ok(n) => {
                    written += n;
                    let handled = py.check_signals();
                    self.open.note(py, handled)?;
                }
                // The caller goes on with the rest. Any other error would be missed.
                Err(error)
                    if written > 0
                        // Of OSError, the value has the class that its number gives it.
                        && error.value(py).is_instance_of::<PyBlockingIOError>() =>
                {
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(written)
    }

    /// Sends what is buffered. Does not wait until it was read.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let _call = self.lending.begin(py)?;
        self.check_open(py)?;
        self.open.send(py, |state| {
            state.pass_on()?;
            state.writer.flush()
        })
    }

    /// Sends what is buffered, and lets go of the file: the reader sees the end once that is
    /// closed.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        let _call = self.lending.begin(py)?;
        self.check_open(py)?;
        self.open.send(py, |state| {
            state.pass_on()?;
            state.writer.finish()
        })
    }

    /// What it has done so far.
    fn report(&self, py: Python<'_>) -> PyResult<Report> {
        let _call = self.lending.begin(py)?;
        let report = self.open.shared.run(py, |state| state.writer.report())?;
        Ok(Report {
            method: match report.method {
                Method::Fresh => "fresh",
                Method::CowChecked => "cow_checked",
                Method::Drained(_) => "drained",
                _ => "copy",
            },
            zero_copy: report.is_zero_copy(),
            bytes: report.counts.bytes,
            zero_copy_bytes: report.zero_copy_bytes,
            syscalls: report.counts.syscalls,
            would_blocks: report.counts.would_blocks,
            text: report.to_string(),
        })
    }

    /// The number of the descriptor.
    fn fileno(&self) -> c_int {
        self.open.file.number()
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
        let is_first = kind.is_none();
        if !is_first && self.open.has_failed.load(Ordering::Relaxed) {
            // It may be this exception, by which a wait ended: not to begin another one.
            self.open.discard();
            return Ok(());
        }
        let Err(error) = self.finish(py) else {
            return Ok(());
        };
        let is = |of: &Bound<'_, PyType>| error.value(py).is_instance(of.as_any()).unwrap_or(false);
        if is(&py.get_type::<PyBufferError>()) && !is_first {
            let _ = self.finish_lent(py);
            return Ok(());
        }
        // Nobody will try again, and a deletion is not to wait again.
        let may_retry =
            is(&py.get_type::<PyBlockingIOError>()) || is(&py.get_type::<PyBufferError>());
        let is_interrupt = !is(&py.get_type::<PyException>());
        if is_first || is_interrupt {
            if !may_retry {
                self.open.discard();
            }
            return Err(error);
        }
        // The first exception is the one to see.
        self.open.give_up(py, error);
        Ok(())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.open.file.traverse(&visit)
    }

    /// Called for a writer that only its own file refers to. That is no more to be used then.
    fn __clear__(&self, py: Python<'_>) {
        self.open.end(py, |state| {
            state.pass_on()?;
            state.writer.finish()
        });
    }

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
}

impl Writer {
    /// Fails if the file was closed, unless there is nothing more to send.
    fn check_open(&self, py: Python<'_>) -> PyResult<()> {
        let state = self.open.shared.lock();
        if state.is_some_and(|state| state.writer.is_finished()) {
            return Ok(());
        }
        self.open.file.check_open(py)
    }

    /// Finishes, though an array or another view still has memory that was lent, as the frame of an exception may:
    /// the reader would wait for an end. That memory stays mapped.
    fn finish_lent(&self, py: Python<'_>) -> PyResult<()> {
        self.check_open(py)?;
        self.open.shared.run(py, |state| {
            state.pass_on()?;
            state.writer.finish_and_leak()
        })
    }
}

impl Open {
    /// Gives up what was not sent.
    fn discard(&self) {
        if let Some(mut state) = self.shared.lock() {
            state.writer.discard();
        }
    }

    /// Whether this process has bytes of it to send.
    fn is_pending(&self) -> bool {
        let state = self.shared.lock();
        state.is_some_and(|mut state| !state.writer.is_finished() && state.writer.is_ours())
    }

    /// Runs `body`, which sends, without the interpreter's lock.
    fn send<R: Send>(
        &self,
        py: Python<'_>,
        body: impl Fn(&mut State) -> io::Result<R> + Send + Sync,
    ) -> PyResult<R> {
        let sent = self.shared.run(py, body);
        self.note(py, sent)
    }

    /// Notes whether a call that sends has raised, unless it only did not wait.
    fn note<R>(&self, py: Python<'_>, sent: PyResult<R>) -> PyResult<R> {
        let has_failed = sent.as_ref().is_err_and(|error| {
            let error = error.value(py);
            // Of what the caller passed.
            !error.is_instance_of::<PyBlockingIOError>() && !error.is_instance_of::<PyValueError>()
        });
        self.has_failed.store(has_failed, Ordering::Relaxed);
        sent
    }

    /// Gives up what was not sent because of an error that nobody will see, unless its reader has left.
    fn give_up(&self, py: Python<'_>, error: PyErr) {
        let has_left = error.value(py).is_instance_of::<PyBrokenPipeError>();
        let state = self.shared.lock();
        if !has_left && state.is_some_and(|mut state| state.has_unsent()) {
            error.write_unraisable(py, Some(py.get_type::<Writer>().as_any()));
        }
        self.discard();
    }

    /// Sends what is buffered by `send`, without the interpreter's lock: the reader may be a thread. A signal whose
    /// handler raises, as Ctrl-C does, gives that up; returns whether one did. If the file was closed, its number may
    /// be another file's.
    fn end(
        &self,
        py: Python<'_>,
        send: impl Fn(&mut State) -> io::Result<()> + Send + Sync,
    ) -> bool {
        if !self.is_pending() {
            return false;
        }
        if self.has_failed.load(Ordering::Relaxed) {
            self.discard();
            return false;
        }
        // It may be deleted as an exception passes.
        let passing = PyErr::take(py);
        let sent = self.file.check_open(py);
        let mut was_interrupted = false;
        if let Err(error) = sent.and_then(|()| self.shared.run(py, send)) {
            was_interrupted = !error.is_instance_of::<PyException>(py);
            // Errors are for those who finish, but what is lost is not passed over.
            self.give_up(py, error);
        }
        if let Some(exception) = passing {
            exception.restore(py);
        }
        was_interrupted
    }

    /// The same while the interpreter ends, and raises no exceptions any more.
    fn end_last(&self) {
        if !self.is_pending() {
            return;
        }
        if self.has_failed.load(Ordering::Relaxed) {
            return self.discard();
        }
        let Some(mut state) = self.shared.lock() else {
            return;
        };
        let sent = loop {
            let sent = if self.file.is_same() {
                state.pass_on().and_then(|()| state.writer.finish())
            } else {
                Err(io::Error::other("the file was closed"))
            };
            match sent {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                sent => break sent,
            }
        };
        if let Err(error) = sent {
            if error.kind() != ErrorKind::BrokenPipe && state.has_unsent() {
                let _ = writeln!(
                    io::stderr(),
                    "fastpipes: a writer's last bytes are lost: {}",
                    message(&error)
                );
            }
            state.writer.discard();
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // SAFETY: may be called at any time.
        if unsafe { ffi::Py_IsInitialized() } == 0 {
            return self.end_last();
        }
        Python::attach(|py| {
            self.end(py, |state| {
                state.pass_on()?;
                state.writer.finish()
            });
        });
    }
}
