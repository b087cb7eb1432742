//! [`Writer`] on tokio.

use std::future::poll_fn;
use std::io::{self, IoSlice, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::fs::fstat;
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};
use tokio::io::{AsyncWrite, Interest};

use crate::registered::{Registered, take_turn};
use crate::wait::Wait;
use crate::writer::{self, FinishError, Loan, Report, WriterBuilder};

/// Output by the fastest safe method: a [`Writer`](crate::Writer) that waits in the runtime.
///
/// Bytes are produced in memory [lent](Self::lend) by the writer, or written as to any
/// [`AsyncWrite`], which buffers them: flush or [`finish`](Self::finish) the writer in the end. Dropping it sends what is possible without
/// waiting.
///
/// [`Method::Auto`](crate::Method::Auto) copies here, in well-sized pieces, since it does not compare
/// methods on a stream that never blocks. [`Method::Fresh`](crate::Method::Fresh) and the others can
/// be [set](Self::with).
///
/// ```
/// use std::io::Read;
/// use fastpipe::tokio::Writer;
/// use tokio::io::AsyncWriteExt;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
/// # runtime.block_on(async {
/// let (mut reader, writer) = std::io::pipe()?;
/// let mut out = Writer::new(writer)?;
/// out.write_all(b"hello").await?;
/// out.finish().await?;
/// let mut got = String::new();
/// reader.read_to_string(&mut got)?;
/// assert_eq!(got, "hello");
/// # std::io::Result::Ok(())
/// # })?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Writer<F: AsFd = OwnedFd> {
    inner: Registered<writer::Writer<F>>,
}

impl<F: AsFd> Writer<F> {
    /// Creates a writer to `fd` with the default settings.
    ///
    /// # Errors
    /// EBADF if `fd` is not open for writing; those of mmap(2), fstat(2), dup(2) and epoll_ctl(2).
    pub fn new(fd: F) -> io::Result<Self> {
        Self::with(crate::Writer::builder(), fd)
    }

    /// Creates a writer to `fd` with these settings, except for how to wait.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn with(settings: WriterBuilder, fd: F) -> io::Result<Self> {
        let writer = settings.wait(Wait::Never).open(fd)?;
        let registered = Registered::new(writer.as_fd(), Interest::WRITABLE)?;
        Ok(Writer {
            inner: registered.with(writer),
        })
    }

    /// Lends memory for the next bytes of the stream, as [`Writer::lend`](crate::Writer::lend), once
    /// all bytes before them are sent.
    ///
    /// # Errors
    /// Those of sending them; `OutOfMemory`.
    pub async fn lend(&mut self, at_least: usize) -> io::Result<Loan<'_, F>> {
        self.flush_queue().await?;
        self.inner.get_mut().lend(at_least)
    }

    /// Sends all queued bytes, drops the output (which closes a descriptor that the writer owns), and
    /// returns a report.
    ///
    /// If the future is dropped, so is the writer: it sends what is possible without waiting.
    ///
    /// # Errors
    /// Those of sending, with the writer and what was not sent.
    pub async fn finish(mut self) -> Result<Report, FinishError<F>> {
        match self.flush_queue().await {
            Ok(()) => self.inner.into_inner().finish(),
            Err(error) => Err(FinishError::new(error, self.inner.into_inner())),
        }
    }

    /// Returns the writer itself, for its counts and its report.
    pub fn get_ref(&self) -> &crate::Writer<F> {
        self.inner.get_ref()
    }

    async fn flush_queue(&mut self) -> io::Result<()> {
        poll_fn(|context| self.poll_flush_queue(context)).await
    }

    fn poll_flush_queue(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.inner.get_ref().queued() == 0 {
            return take_turn(context).map(Ok);
        }
        self.inner.poll_write(context, Write::flush)
    }
}

impl<F: AsFd + Unpin> AsyncWrite for Writer<F> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let inner = &mut self.get_mut().inner;
        inner.poll_write(context, |writer| writer.write(data))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let inner = &mut self.get_mut().inner;
        inner.poll_write(context, |writer| writer.write_vectored(data))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_flush_queue(context)
    }

    /// Flushes, and then shuts down writing if the output is a connected socket (SHUT_WR), as tokio's `TcpStream` and
    /// `UnixStream` do: the peer reads the end, and can still answer. Not if it is a standard stream of this process, too,
    /// which others may share. The reader of anything else sees the end when the writer is finished or dropped, which
    /// closes a descriptor that the writer owns.
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_flush_queue(context))?;
        // The connection is the parent's, or that of standard output.
        if !this.inner.get_ref().is_ours() || is_standard_stream(this.as_fd()) {
            return Poll::Ready(Ok(()));
        }
        Poll::Ready(match shutdown(this.as_fd(), Shutdown::Write) {
            // Not a socket; or the peer has gone.
            Err(Errno::NOTSOCK | Errno::NOTCONN) => Ok(()),
            done => done.map_err(io::Error::from),
        })
    }
}

/// Whether a descriptor refers to the same file as one of the standard streams.
fn is_standard_stream(fd: BorrowedFd<'_>) -> bool {
    let file = |fd: BorrowedFd<'_>| fstat(fd).map(|stat| (stat.st_dev, stat.st_ino)).ok();
    let (input, output, errors) = (io::stdin(), io::stdout(), io::stderr());
    let all = [input.as_fd(), output.as_fd(), errors.as_fd()];
    all.into_iter().any(|stream| file(stream) == file(fd))
}

impl<F: AsFd> AsFd for Writer<F> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.get_ref().as_fd()
    }
}
