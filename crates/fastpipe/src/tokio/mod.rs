//! Writers, readers, copies and rings for programs that run on
//! [tokio](https://docs.rs/tokio): they wait in the runtime, and do not block its thread but for
//! [few exceptions](#what-may-block). Feature `tokio`.
//!
//! ```no_run
//! use std::os::fd::AsFd;
//! use fastpipe::tokio::Writer;
//!
//! # async fn produce() -> std::io::Result<()> {
//! let mut out = Writer::new(std::io::stdout().as_fd().try_clone_to_owned()?)?;
//! let mut numbers = 0..1_000_000_u64;
//! while !numbers.is_empty() {
//!     // As much memory as suits the method in use.
//!     let mut loan = out.lend(0).await?;
//!     let mut filled = 0;
//!     for (word, number) in loan.as_chunks_mut::<8>().0.iter_mut().zip(&mut numbers) {
//!         *word = number.to_le_bytes();
//!         filled += 8;
//!     }
//!     loan.commit(filled)?;
//! }
//! let report = out.finish().await?;
//! # Ok(())
//! # }
//! ```
//!
//! A server passes connections on by [`copy_bidirectional`]:
//!
//! ```no_run
//! use std::time::Duration;
//! use tokio::net::{TcpListener, TcpStream};
//!
//! # async fn serve() -> std::io::Result<()> {
//! let listener = TcpListener::bind("127.0.0.1:8080").await?;
//! loop {
//!     let Ok((client, _)) = listener.accept().await else {
//!         // Too many descriptors, for example.
//!         tokio::time::sleep(Duration::from_millis(100)).await;
//!         continue;
//!     };
//!     tokio::spawn(async move {
//!         let server = TcpStream::connect("127.0.0.1:80").await?;
//!         fastpipe::tokio::copy_bidirectional(&client, &server).await
//!     });
//! }
//! # }
//! ```
//!
//! # Cancellation
//! A future can be dropped at any await point. Of writers, readers and rings no byte is lost or sent
//! twice then: what was accepted remains queued, and what was not returned remains there to be read.
//! But [`Writer::finish`] owns its writer, which is dropped with the future: queued bytes that can't be sent
//! without waiting are lost. Call `flush` before it where that can happen.
//! A copy that is dropped may have taken bytes from its input that its output did not get. tokio's own
//! `write_all`, `read_exact` and `read_line` do not show how far they came.
//!
//! An aborted task drops its [`Producer`], and so does one that returns early: the consumer finds a proper
//! end. Send a last message, or a length before the data, where it must be able to tell.
//!
//! # Descriptors
//! O_NONBLOCK need not be set, and is not changed: it belongs to the open file, which other processes
//! may share.
//!
//! A duplicate of each descriptor but a file's is registered with the runtime, so those of tokio's own types
//! can be used, too. A connection passed on by [`copy_bidirectional`] thus has four descriptors, up to eight
//! while bytes are under way; a timer more while it waits for the answer of an end that refuses bytes, and two if
//! both ends have messages in their error queues. A [`Writer`] to a socket with such messages has one more. Where
//! there are none for pipes, bytes are copied. Up to eight empty pipes stay open for later copies. Closing a
//! duplicate releases the record locks (fcntl_locking(2)) that this process has on a FIFO, a device, /proc/kmsg or
//! trace_pipe.
//!
//! # What may block
//! - Files, and other descriptors for which epoll(7) is not possible (EPERM), are always ready: a call takes as
//!   long as the disk takes. Files of the kernel that wait for data block a thread, except for two that the
//!   runtime can wait for: /proc/kmsg, and trace_pipe as [`Wait`](crate::Wait) says. The end of a trace
//!   that was turned off is not noticed. Both need /proc. Where O_NONBLOCK is set on the trace_pipe of one
//!   processor, a [`Reader`] fails with `WouldBlock`.
//! - Where a socket's O_NONBLOCK is set, a copy expects that it stays so. If another process clears it, a call
//!   may block.
//! - A terminal is opened again, and so used without blocking. That is not possible after su(1) or
//!   `sudo -u` (another user's terminal), without a free descriptor (EMFILE) or /proc, under TIOCEXCL, where TIOCGDEV
//!   is refused, and by /dev/tty in another session. Calls on it then block while nobody reads from its other side.
//! - A write to the master of a pseudo-terminal may block if there is room for less than 512 bytes, and one to
//!   another device if there is room for less than 4096 bytes.
//!
//! [`offer`](crate::ring::Producer::offer) and [`accept`](crate::ring::Producer::accept) of a ring block the
//! thread: call them by [`tokio::task::spawn_blocking`].
//!
//! # Signals
//! Copies, and writers to pipes, raise SIGPIPE, as [`relay`](crate::relay::relay) says, unless it is ignored,
//! as in Rust programs.
//!
//! # Panics
//! All constructors and copies panic outside of a runtime, and in one without I/O
//! ([`tokio::runtime::Builder::enable_io`]).

mod reader;
mod ring;
mod writer;

pub use self::reader::Reader;
pub use self::ring::{Consumer, Producer};
pub use self::writer::Writer;
pub use crate::relay::polled::{copy, copy_bidirectional};
