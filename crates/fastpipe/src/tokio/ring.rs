//! The ends of a ring on tokio.

use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

use crate::registered::Registered;
use crate::ring::{self, Slot, View};
use crate::wait::Wait;

macro_rules! end {
    ($End:ident, $mine:literal) => {
        impl $End {
            #[doc = concat!("Lets the ", $mine, " wait in the runtime.")]
            ///
            /// Its [timeout](crate::ring::Producer::set_timeout) does not apply here: use
            /// `tokio::time::timeout`.
            ///
            /// If that fails, the peer finds that this end has died: its data is incomplete.
            ///
            /// # Errors
            /// `Unsupported` unless the ring was offered and accepted: see
            #[doc = concat!("[`ready_fd`](crate::ring::", stringify!($End), "::ready_fd); those of dup(2) and epoll_ctl(2).")]
            pub fn new(mut end: ring::$End) -> io::Result<Self> {
                end.set_wait(Wait::Never);
                let registered = end
                    .ready_fd()
                    .and_then(|fd| Registered::new(fd, Interest::READABLE));
                match registered {
                    Ok(registered) => Ok($End {
                        inner: registered.with(end),
                    }),
                    Err(error) => {
                        end.abandon();
                        Err(error)
                    }
                }
            }

            #[doc = concat!("Returns the ", $mine, " itself, for its counts and the state of the other process.")]
            pub fn get_ref(&self) -> &ring::$End {
                self.inner.get_ref()
            }

            #[doc = concat!("Returns the ", $mine, " itself, under [`Wait::Never`].")]
            pub fn into_inner(self) -> ring::$End {
                self.inner.into_inner()
            }

            fn poll<R>(
                &mut self,
                context: &mut Context<'_>,
                attempt: impl FnMut(&mut ring::$End) -> io::Result<R>,
            ) -> Poll<io::Result<R>> {
                self.inner.poll_armed(context, attempt)
            }
        }
    };
}

/// The end that puts bytes into a ring, and waits in the runtime for room: see
/// [`ring::Producer`](crate::ring::Producer). There is nothing to flush.
///
/// The two ends may wait differently: one in a runtime and the other asleep, or both in runtimes.
#[derive(Debug)]
pub struct Producer {
    inner: Registered<ring::Producer>,
}

end!(Producer, "producer");

impl Producer {
    /// Lends room, as [`lend`](crate::ring::Producer::lend).
    ///
    /// # Errors
    /// Those of [`ring::Producer`](crate::ring::Producer).
    pub async fn lend(&mut self, at_least: usize) -> io::Result<Slot<'_>> {
        poll_fn(|context| self.poll(context, |end| end.lend(at_least).map(drop))).await?;
        // It is there now.
        self.inner.get_mut().lend(at_least)
    }

    /// Sends a message, as [`send`](crate::ring::Producer::send). If the future is dropped, it was not
    /// sent.
    ///
    /// # Errors
    /// Those of [`send`](crate::ring::Producer::send).
    pub async fn send(&mut self, message: &[u8]) -> io::Result<()> {
        poll_fn(|context| self.poll(context, |end| end.send(message))).await
    }
}

impl AsyncWrite for Producer {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll(context, |end| end.write(data))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Does nothing: the data ends when the producer is dropped.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The end that takes bytes out of a ring, and waits in the runtime for them: see
/// [`ring::Consumer`](crate::ring::Consumer).
#[derive(Debug)]
pub struct Consumer {
    inner: Registered<ring::Consumer>,
}

end!(Consumer, "consumer");

impl Consumer {
    /// Returns bytes in place, as [`peek`](crate::ring::Consumer::peek).
    ///
    /// # Errors
    /// Those of [`ring::Consumer`](crate::ring::Consumer).
    pub async fn peek(&mut self, at_least: usize) -> io::Result<View<'_>> {
        poll_fn(|context| self.poll(context, |end| end.peek(at_least).map(drop))).await?;
        // They are there now, or there will be no more.
        self.inner.get_mut().peek(at_least)
    }

    /// Receives a message, as [`recv`](crate::ring::Consumer::recv). If the future is dropped, it was
    /// not taken.
    ///
    /// # Errors
    /// Those of [`recv`](crate::ring::Consumer::recv).
    pub async fn recv(&mut self, into: &mut Vec<u8>) -> io::Result<Option<usize>> {
        poll_fn(|context| self.poll(context, |end| end.recv(into))).await
    }
}

impl AsyncRead for Consumer {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let room = into.initialize_unfilled();
        let got = ready!(self.get_mut().poll(context, |end| end.read(room)))?;
        into.advance(got);
        Poll::Ready(Ok(()))
    }
}
