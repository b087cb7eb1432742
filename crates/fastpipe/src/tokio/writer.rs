//! [`Writer`] on tokio.

use std::future::poll_fn;
use std::io::{self, IoSlice, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll};

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

    /// Flushes. The descriptor is closed when the writer is finished or dropped.
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }
}

impl<F: AsFd> AsFd for Writer<F> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.get_ref().as_fd()
    }
}
