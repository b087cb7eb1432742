//! [`Reader`] on tokio.

use std::io::{self, BufRead, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncBufRead, AsyncRead, Interest, ReadBuf};

use crate::reader::{self, ReaderBuilder};
use crate::registered::{Registered, take_turn};
use crate::wait::Wait;

/// Buffered input with few, large reads: a [`Reader`](crate::Reader) that waits in the runtime.
///
/// ```
/// use std::io::Write;
/// use fastpipe::tokio::Reader;
/// use tokio::io::AsyncBufReadExt;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
/// # runtime.block_on(async {
/// let (reader, mut writer) = std::io::pipe()?;
/// writer.write_all(b"one\ntwo\n")?;
/// drop(writer);
/// let mut lines = Reader::new(reader)?.lines();
/// assert_eq!(lines.next_line().await?.as_deref(), Some("one"));
/// assert_eq!(lines.next_line().await?.as_deref(), Some("two"));
/// assert_eq!(lines.next_line().await?, None);
/// # std::io::Result::Ok(())
/// # })?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Reader<F: AsFd = OwnedFd> {
    inner: Registered<reader::Reader<F>>,
}

impl<F: AsFd> Reader<F> {
    /// Creates a reader from `fd` with the default settings.
    ///
    /// # Errors
    /// EBADF if `fd` is not open for reading; those of fstat(2), dup(2) and epoll_ctl(2).
    pub fn new(fd: F) -> io::Result<Self> {
        Self::with(crate::Reader::builder(), fd)
    }

    /// Creates a reader from `fd` with these settings, except for how to wait.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn with(settings: ReaderBuilder, fd: F) -> io::Result<Self> {
        let reader = settings.wait(Wait::Never).open(fd)?;
        let registered = Registered::new(reader.as_fd(), Interest::READABLE)?;
        Ok(Reader {
            inner: registered.with(reader),
        })
    }

    /// Returns the reader itself, for its counts and its buffer.
    pub fn get_ref(&self) -> &crate::Reader<F> {
        self.inner.get_ref()
    }

    /// Returns the reader itself, under [`Wait::Never`].
    pub fn into_inner(self) -> crate::Reader<F> {
        self.inner.into_inner()
    }

    fn is_empty(&self) -> bool {
        self.get_ref().buffer().is_empty()
    }
}

impl<F: AsFd + Unpin> AsyncRead for Reader<F> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let room = into.initialize_unfilled();
        let got = if this.is_empty() {
            ready!(this.inner.poll_read(context, |reader| reader.read(room)))?
        } else {
            ready!(take_turn(context));
            this.inner.get_mut().read(room)?
        };
        into.advance(got);
        Poll::Ready(Ok(()))
    }
}

impl<F: AsFd + Unpin> AsyncBufRead for Reader<F> {
    fn poll_fill_buf(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.get_mut();
        if this.is_empty() {
            ready!(
                this.inner
                    .poll_read(context, |reader| reader.fill_buf().map(drop))
            )?;
        } else {
            ready!(take_turn(context));
        }
        Poll::Ready(Ok(this.inner.get_ref().buffer()))
    }

    fn consume(self: Pin<&mut Self>, amount: usize) {
        self.get_mut().inner.get_mut().consume(amount);
    }
}

impl<F: AsFd> AsFd for Reader<F> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.get_ref().as_fd()
    }
}
