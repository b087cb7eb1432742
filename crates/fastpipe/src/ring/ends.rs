//! What [`Producer`](super::Producer) and [`Consumer`](super::Consumer) both
//! have: getting an end, giving it away, how it waits and whom it watches.

/// Gives `$End`, a struct around a [`Side`](super::side::Side), what both ends have. `$mine` and
/// `$other` are the words for the ends, and `$awaited` for what this one waits for.
macro_rules! both_ends {
    ($End:ident, $mine:literal, $Other:literal, $other:literal, $awaited:literal) => {
        impl $End {
            /// Makes a ring of `capacity` bytes, rounded up to a power of two of whole pages, and
            #[doc = concat!("hands the ", $other, "'s end to the process at the other end of `stream`,")]
            #[doc = concat!("which calls [`", $Other, "::accept`](super::", $Other, "::accept).")]
            /// Waits until it did, or for as long as the stream's read timeout says, also where
            /// the stream is non-blocking.
            ///
            /// Each of them keeps a duplicate of the stream, which is not to be shut down; the
            /// stream itself may be used on, or dropped.
            ///
            /// # Errors
            /// `InvalidInput` for no capacity and for more than
            /// [`MAX_CAPACITY`](super::MAX_CAPACITY); `ConnectionRefused` if the other process
            /// would not have it; `UnexpectedEof` if it hung up; `TimedOut` if it did not answer in
            /// time; those of [`pair`](super::pair), sendmsg(2) and recvmsg(2). Beyond RLIMIT_FSIZE
            /// also the signal SIGXFSZ, as with `pair`.
            ///
            /// After `TimedOut` the stream can't be used for another offer: the answer to this one
            /// may still come. Whoever takes it then finds that the other end was abandoned.
            pub fn offer(stream: &UnixStream, capacity: usize) -> io::Result<Self> {
                let side = handover::offer(stream, Role::$End, capacity)?;
                Ok($End { side })
            }

            #[doc = concat!("Takes the ", $mine, "'s end that the process at the other end of `stream`")]
            #[doc = concat!("offers by [`", $Other, "::offer`](super::", $Other, "::offer).")]
            /// Waits for the offer, or for as long as the stream's read timeout says, also where
            /// the stream is non-blocking.
            ///
            /// # Errors
            /// `InvalidData` for anything but the memory of a ring that is safe to use: sealed
            /// against resizing, of ordinary pages, of the right size, with a sane header;
            /// `ResourceBusy` if that end is in use; `UnexpectedEof` if the other process hung up;
            /// `TimedOut` if no offer came in time, after which one may still be accepted; EMFILE
            /// where this process may not have another descriptor; those of sendmsg(2), recvmsg(2)
            /// and mmap(2).
            pub fn accept(stream: &UnixStream) -> io::Result<Self> {
                let side = handover::accept(stream, Role::$End)?;
                Ok($End { side })
            }

            pub(super) fn of(memory: Memory) -> io::Result<Self> {
                let side = Side::attach(memory, Role::$End)?;
                Ok($End { side })
            }

            #[doc = concat!("Takes the ", $mine, "'s end of the ring in `file`, which was inherited")]
            /// or came in some other way. [`watch`](Self::watch) the other process, so that its
            /// death is noticed.
            ///
            /// # Errors
            /// As [`accept`](Self::accept), but for the socket.
            pub fn from_fd(file: OwnedFd) -> io::Result<Self> {
                Self::of(Memory::open(file)?)
            }

            /// Gives this end up, with all that is in the ring, to whoever takes it by
            /// [`from_fd`](Self::from_fd), in this process or another one. The descriptor is
            /// close-on-exec; [`Stdio`](std::process::Stdio) hands it to a child all the same.
            ///
            #[doc = concat!("From then on this process's death is nothing to the ", $other, ", which notices the")]
            #[doc = concat!("death of whoever takes the end if it [watches](super::", $Other, "::watch) that one.")]
            ///
            /// # Errors
            /// Those of duplicating a descriptor. The end is closed then.
            pub fn into_fd(self) -> io::Result<OwnedFd> {
                self.side.into_fd()
            }

            /// What this end did since it was attached: the bytes that went through it; the system
            #[doc = concat!("calls made to sleep, to wake the ", $other, " and to look whether it lives;")]
            #[doc = concat!("and, as would-blocks, the times that there was too little ", $awaited, " at")]
            /// first. No system call moves bytes.
            pub fn counts(&self) -> Counts {
                self.side.counts()
            }

            /// The most bytes that the ring holds.
            pub fn capacity(&self) -> usize {
                self.side.capacity()
            }

            #[doc = concat!("How to wait for ", $awaited, "; [`Wait::Block`] at first.")]
            /// [`Wait::Poll`] is the same here: there is no descriptor to poll.
            ///
            /// To be called by the thread that will wait, once it is bound to a processor if it is to
            /// be: neither end spins for the other where both are bound to the same one.
            pub fn set_wait(&mut self, wait: Wait) {
                self.side.set_wait(wait);
            }

            /// The longest to wait at a time, then the error is `TimedOut`. `None`, at first: as
            /// long as it takes.
            pub fn set_timeout(&mut self, timeout: Option<Duration>) {
                self.side.set_timeout(timeout);
            }

            #[doc = concat!("By what the ", $other, "'s death is noticed. An end that was offered and")]
            /// accepted knows it already; without any, it is not noticed.
            ///
            #[doc = concat!("`peer` stands for the process that has the ", $other, "'s end now, or else takes it")]
            #[doc = concat!("next. Once that one gives it on by [`into_fd`](super::", $Other, "::into_fd), its death")]
            /// no longer counts.
            pub fn watch(&mut self, peer: Peer) {
                self.side.watch(peer);
            }

            #[doc = concat!("How the ", $other, "'s process is.")]
            /// What it left in the ring is there whatever it is.
            ///
            /// # Errors
            /// `InvalidData` if the shared header is corrupted.
            pub fn peer_state(&self) -> io::Result<PeerState> {
                self.side.peer_state()
            }
        }

        /// The shared memory: whoever has it can read and write what is in the ring.
        impl AsFd for $End {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.side.memory().as_fd()
            }
        }
    };
}

pub(super) use both_ends;
