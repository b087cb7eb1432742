//! Writers.

use std::ffi::c_int;
use std::io::{self, ErrorKind, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use fastpipe::Method;
use fastpipe::wait::Wait;
use fastpipe_handles::message;
use pyo3::exceptions::{PyBlockingIOError, PyBrokenPipeError, PyBufferError, PyException};
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
    rest: Rest,
}

/// What becomes of unsent bytes when the writer is not used any more.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// They are sent.
    Sent,
    /// The output has failed, or a handler has ended finish(): other bytes may have been written in their place since.
    GivenUp,
}

impl State {
    fn new(writer: fastpipe_handles::Writer) -> io::Result<Self> {
        let mut gathered = Vec::new();
        gathered.try_reserve_exact(GATHERED)?;
        Ok(State {
            writer,
            gathered,
            rest: Rest::Sent,
        })
    }

    /// Runs `body`, which sends, and notes what becomes of the rest: `if_interrupted` if a handler of a signal raises now.
    fn send<R>(
        &mut self,
        if_interrupted: Rest,
        body: impl FnOnce(&mut Self) -> io::Result<R>,
    ) -> io::Result<R> {
        let sent = body(self);
        self.rest = match &sent {
            Ok(_) => Rest::Sent,
            Err(error) => match error.kind() {
                ErrorKind::Interrupted => if_interrupted,
                // No failure of the output.
                ErrorKind::WouldBlock | ErrorKind::OutOfMemory => Rest::Sent,
                // Of what the caller passed, unless it has a number, which is the output's.
                ErrorKind::InvalidInput if error.raw_os_error().is_none() => self.rest,
                _ => Rest::GivenUp,
            },
        };
        sent
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
/// program ends. Not after a failure of the output, unless a later call accepts or sends bytes; nor after a with
/// statement that could not send it; nor if a signal's handler has raised in finish(). Of other calls a
/// handler that raises ends only the wait: the end of a with statement, or a deletion, sends the rest, until a handler
/// raises again.
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
    never_waits: bool,
}

/// Whether the interpreter ends: what is written now, as by handlers of atexit that were registered before, may have no
/// later time to be sent.
static ENDS: AtomicBool = AtomicBool::new(false);

/// Sends what all writers have. To be called before the interpreter ends.
#[pyfunction]
pub(crate) fn _flush_all(py: Python<'_>) {
    ENDS.store(true, Ordering::Relaxed);
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
        let wait = options::wait(wait)?;
        let mut settings = fastpipe::Writer::builder()
            .method(options::method(method)?)
            .wait(wait)
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
            never_waits: wait == Wait::Never,
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
        let lent = this.open.send(py, Rest::Sent, |state| {
            state.pass_on()?;
            state.writer.lend(at_least)
        })?;
        this.lending.lend(slf.as_any(), lent, false)
    }

    /// Sends the first n bytes of the memory lent.
    fn commit(&self, py: Python<'_>, n: usize) -> PyResult<()> {
        let _call = self.lending.begin(py)?;
        self.open.file.check_open(py)?;
        let commit = |state: &mut State| state.send(Rest::Sent, |state| state.writer.commit(n));
        match self.open.shared.once(py, commit)? {
            // All bytes are queued by now.
            Err(error) if error.kind() == ErrorKind::Interrupted => {
                py.check_signals()?;
                self.open.send(py, Rest::Sent, |state| state.writer.flush())
            }
            done => done.map_err(exception),
        }?;
        self.flush_at_end(py)
    }

    /// Buffers data, and sends full buffers. Returns how many bytes were accepted: all, unless with
    /// wait="never". After any other exception it is not known how many: Python may raise
    /// that of a signal's handler after the call.
    fn write(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.lending.end(py)?;
        let data = Data::new(data)?;
        let all = data.as_slice();
        let written = if all.len() <= SMALL && self.gather(py, all)? {
            all.len()
        } else {
            self.write_long(py, all)?
        };
        self.flush_at_end(py)?;
        Ok(written)
    }

    /// Sends what is buffered. Does not wait until it was read.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let _call = self.lending.begin(py)?;
        self.check_open(py)?;
        self.open.send(py, Rest::Sent, |state| {
            state.pass_on()?;
            state.writer.flush()
        })
    }

    /// Sends what is buffered, and lets go of the file: the reader sees the end once that is
    /// closed.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        let _call = self.lending.begin(py)?;
        self.check_open(py)?;
        self.open.send(py, Rest::GivenUp, |state| {
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
        if !is_first && self.open.rest() == Rest::GivenUp {
            // It may be this exception: nobody would see that it occurs again.
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
    fn write_long(&self, py: Python<'_>, all: &[u8]) -> PyResult<usize> {
        let _call = self.lending.begin(py)?;
        self.open.file.check_open(py)?;
        let mut written = 0;
        while written < all.len() {
            let rest = &all[written..];
            let more = self.open.send(py, Rest::Sent, |state| {
                state.pass_on()?;
                state.writer.write(rest)
            });
            match more {
                Ok(n) => {
                    written += n;
                    py.check_signals()?;
                }
                // The caller goes on with the rest. Any other error would be missed, and so would a handler's.
                Err(error)
                    if written > 0
                        && self.open.never_waits
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

    /// Sends what is buffered if the interpreter ends.
    fn flush_at_end(&self, py: Python<'_>) -> PyResult<()> {
        if !ENDS.load(Ordering::Relaxed) || self.open.never_waits {
            return Ok(());
        }
        self.open.send(py, Rest::Sent, |state| {
            state.pass_on()?;
            state.writer.flush()
        })
    }

    /// Adds a short write to those that were gathered, the whole of it or nothing: a handler that raises while these are
    /// passed on tears none. Returns whether it could, as not in a forked child: there the writer's call fails.
    fn gather(&self, py: Python<'_>, data: &[u8]) -> PyResult<bool> {
        loop {
            {
                let mut state = self.open.shared.lock().ok_or_else(in_use)?;
                if state.writer.is_finished() || !state.writer.is_ours() {
                    return Ok(false);
                }
                if state.gathered.len() + data.len() <= GATHERED {
                    state.gathered.extend_from_slice(data);
                    if !data.is_empty() {
                        // What comes after a failure is not given up with what was there.
                        state.rest = Rest::Sent;
                    }
                    return Ok(true);
                }
            }
            let _call = self.lending.begin(py)?;
            self.open.file.check_open(py)?;
            self.open.send(py, Rest::Sent, State::pass_on)?;
            // Of a signal that came meanwhile: nothing is accepted yet.
            py.check_signals()?;
        }
    }

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

    /// What becomes of unsent bytes.
    fn rest(&self) -> Rest {
        self.shared.lock().map_or(Rest::Sent, |state| state.rest)
    }

    /// Runs `body`, which sends, without the interpreter's lock. See [`State::send`].
    fn send<R: Send>(
        &self,
        py: Python<'_>,
        if_interrupted: Rest,
        body: impl Fn(&mut State) -> io::Result<R> + Send + Sync,
    ) -> PyResult<R> {
        self.shared
            .run(py, |state| state.send(if_interrupted, &body))
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
        if self.rest() != Rest::Sent {
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
        if self.rest() != Rest::Sent {
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
