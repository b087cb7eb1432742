//! Methods shared by [`Producer`](super::Producer) and
//! [`Consumer`](super::Consumer): creation, passing on, waiting, watching the peer.

/// Implements the shared methods for `$End`, a struct around a
/// [`RingSide`](super::side::RingSide). `$mine` and `$other` name the ends, `$awaited` what
/// this one waits for.
macro_rules! both_ends {
    ($End:ident, $mine:literal, $Other:literal, $other:literal, $awaited:literal) => {
        impl $End {
            /// Creates a ring of `capacity` bytes, rounded up to whole pages, and
            #[doc = concat!("passes the ", $other, "'s end to the process at the other end of `stream`,")]
            #[doc = concat!("which calls [`", $Other, "::accept`](super::", $Other, "::accept).")]
            /// Waits until it has, or for the stream's read timeout, even if the stream is
            /// non-blocking.
            ///
            /// Both processes keep a duplicate of the stream, which must not be shut down; the
            /// stream itself can be used further, or dropped.
            ///
            /// # Errors
            /// `InvalidInput` if the capacity is 0 or above
            /// [`MAX_CAPACITY`](super::MAX_CAPACITY); `ConnectionRefused` if the other process
            /// did not accept it; `UnexpectedEof` if it closed the socket; `TimedOut` if it did not
            /// answer in time; those of [`pair`](super::pair), sendmsg(2) and recvmsg(2). As with
            /// `pair`, exceeding RLIMIT_FSIZE raises SIGXFSZ.
            ///
            /// After `TimedOut` the stream can't be used for another offer, since the answer to
            /// this one may still arrive. A process that accepts it then finds an abandoned ring.
            pub fn offer(stream: &UnixStream, capacity: usize) -> io::Result<Self> {
                let side = handover::offer(stream, Role::$End, capacity)?;
                Ok($End { side })
            }

            #[doc = concat!("Takes the ", $mine, "'s end that the process at the other end of `stream`")]
            #[doc = concat!("offers with [`", $Other, "::offer`](super::", $Other, "::offer).")]
            /// Waits for the offer, or for the stream's read timeout, even if the stream is
            /// non-blocking. Refuses a ring of more than [`MAX_ACCEPTED`](super::MAX_ACCEPTED)
            /// bytes: see [`accept_up_to`](Self::accept_up_to).
            ///
            /// # Errors
            /// `InvalidData` with [`RingError::TooLarge`](super::RingError::TooLarge) if the ring
            /// is too large; `InvalidData` unless the offer is the memory of a ring that is safe to use: sealed
            /// against resizing, of ordinary pages, of the right size, with a valid header;
            /// `ResourceBusy` if that end is in use; `UnexpectedEof` if the other process closed
            /// the socket; `TimedOut` if no offer came in time (a later one can still be
            /// accepted); EMFILE if this process has too many descriptors; those of sendmsg(2),
            /// recvmsg(2) and mmap(2).
            pub fn accept(stream: &UnixStream) -> io::Result<Self> {
                Self::accept_up_to(stream, super::MAX_ACCEPTED)
            }

            /// As [`accept`](Self::accept), of a ring of at most `limit` bytes. The ring takes
            /// twice as much of this process's address space, and its pages may be charged to
            /// this process.
            ///
            /// # Errors
            /// Those of [`accept`](Self::accept).
            pub fn accept_up_to(stream: &UnixStream, limit: usize) -> io::Result<Self> {
                let side = handover::accept(stream, Role::$End, limit)?;
                Ok($End { side })
            }

            pub(super) fn from_memory(memory: Memory) -> io::Result<Self> {
                let side = RingSide::attach(memory, Role::$End)?;
                Ok($End { side })
            }

            #[doc = concat!("Takes the ", $mine, "'s end of the ring in `file`, which was inherited or")]
            /// received. [`watch`](Self::watch) the other process, so that its death is noticed.
            ///
            /// # Errors
            /// Those of [`accept`](Self::accept), except for the socket.
            pub fn from_fd(file: OwnedFd) -> io::Result<Self> {
                Self::from_memory(Memory::open(file)?)
            }

            /// Passes this end on, with all bytes in the ring, to whoever takes it by
            /// [`from_fd`](Self::from_fd), in this process or another one. The descriptor is
            /// close-on-exec, but [`Stdio`](std::process::Stdio) passes it to a child.
            ///
            #[doc = concat!("Afterwards the death of this process does not affect the ", $other, ", which notices the")]
            #[doc = concat!("death of the new owner if it [watches](super::", $Other, "::watch) that process.")]
            ///
            /// # Errors
            #[doc = concat!("Those of duplicating a descriptor. The ", $other, " then finds that this end has died.")]
            pub fn into_fd(self) -> io::Result<OwnedFd> {
                self.side.into_fd()
            }

            /// Closes the end, but what was lent stays mapped for ever: for bindings whose callers may still have it.
            #[doc(hidden)]
            pub fn close_and_leak(self) {
                self.side.close_and_leak();
            }

            /// Closes the end as a panic would.
            #[cfg(feature = "tokio")]
            pub(crate) fn abandon(self) {
                self.side.abandon();
            }

            /// Returns the counts since this end was attached: the bytes that passed through it;
            #[doc = concat!("the system calls to sleep, to wake the ", $other, " and to check whether it lives; and,")]
            #[doc = concat!("as would-blocks, how often there was too little ", $awaited, ".")]
            /// No system call moves bytes.
            pub fn counts(&self) -> Counts {
                self.side.counts()
            }

            /// Returns the capacity of the ring, in bytes.
            pub fn capacity(&self) -> usize {
                self.side.capacity()
            }

            #[doc = concat!("Sets how to wait for ", $awaited, "; default [`Wait::Block`].")]
            /// [`Wait::Poll`] is the same here, since there is no descriptor to poll.
            ///
            /// Call this in the thread that will wait, after binding it to a processor, if that is
            /// intended: an end does not spin if both are bound to the same one.
            pub fn set_wait(&mut self, wait: Wait) {
                self.side.set_wait(wait);
            }

            #[doc = concat!("Returns a descriptor that becomes readable when there is ", $awaited, ", or the")]
            #[doc = concat!($other, " is gone: for poll(2), epoll(7), and what is built on them.")]
            ///
            /// It does so once for each call that failed with `WouldBlock`, under
            #[doc = concat!("[`Wait::Never`]. While none has failed, the ", $other, " makes no system call for it. It may")]
            /// also become readable when there is nothing, as once before the first such call. Don't read
            /// from it: this end does.
            ///
            /// If the peer has forked children that don't exec, its death is not seen here while
            /// one of them lives.
            ///
            /// # Errors
            /// `Unsupported` if this end was not [offered](Self::offer) or
            /// [accepted](Self::accept), or was taken by [`from_fd`](Self::from_fd) since: the
            /// descriptor is not passed on. If the peer's end was passed on, the call that waits
            /// fails with that.
            pub fn ready_fd(&mut self) -> io::Result<BorrowedFd<'_>> {
                self.side.ready_fd()
            }

            /// Limits each wait, which then fails with `TimedOut`. `None`, the default, means no
            /// limit. Nothing waits under [`Wait::Never`], and so not in tokio's runtime.
            pub fn set_timeout(&mut self, timeout: Option<Duration>) {
                self.side.set_timeout(timeout);
            }

            #[doc = concat!("Sets how the ", $other, "'s death is noticed. Not needed for ends that were offered")]
            /// and accepted; otherwise it is not noticed without this.
            ///
            #[doc = concat!("`peer` is the process that has the ", $other, "'s end now, or takes it next. Once that process")]
            #[doc = concat!("passes the end on by [`into_fd`](super::", $Other, "::into_fd), its death no longer")]
            /// counts.
            pub fn watch(&mut self, peer: Peer) {
                self.side.watch(peer);
            }

            #[doc = concat!("Returns the state of the ", $other, "'s process.")]
            /// Bytes already in the ring remain available in every state.
            ///
            /// # Errors
            /// `InvalidData` if the shared header is corrupt.
            pub fn peer_state(&self) -> io::Result<PeerState> {
                self.side.peer_state()
            }
        }

        /// The shared memory. Whoever has it can read and write the ring's bytes.
        impl AsFd for $End {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.side.memory().as_fd()
            }
        }
    };
}

pub(super) use both_ends;
