from collections.abc import Callable
from types import TracebackType
from typing import Literal, Protocol, Self, final

from typing_extensions import Buffer

__all__ = ["Consumer", "Producer", "Reader", "Report", "Writer", "_flush_all", "copy", "ring", "set_pipe_size"]

class _HasFileno(Protocol):
    def fileno(self) -> int: ...

_File = int | _HasFileno
_Wait = Literal["block", "poll", "spin", "adaptive", "never"]
_Method = Literal["auto", "copy", "fresh", "cow_checked", "drained"]

@final
class Report:
    """What a writer has done."""

    @property
    def method(self) -> Literal["copy", "fresh", "cow_checked", "drained"]:
        """The method in use."""
    @property
    def zero_copy(self) -> bool:
        """Whether pages are handed over rather than copied."""
    @property
    def bytes(self) -> int:
        """Bytes sent."""
    @property
    def zero_copy_bytes(self) -> int:
        """Of these, bytes that were handed over."""
    @property
    def syscalls(self) -> int:
        """System calls."""
    @property
    def would_blocks(self) -> int:
        """Attempts that found the pipe full."""
    @property
    def text(self) -> str:
        """How it sends, and why it copies, if it does."""

@final
class Writer:
    """Output by the fastest way that is correct for whatever reads it.

    file is a descriptor, or an object with fileno() whose bytes are those of its descriptor: not one of gzip.open(),
    urlopen() or ssl, which raise TypeError. It stays open, and the caller closes it afterwards: a call after that
    raises ValueError. One thread at a time may use a writer, and a handler of a signal not during another call
    (RuntimeError). A writer that is not finished sends what it has when it is deleted, and when the program ends; what
    can't be sent is reported as an ignored exception. Not after a failure of the output, unless a later call accepts or
    sends bytes; nor after a with statement that could not send it; nor if a signal's handler has raised in finish().
    Of other calls a handler that raises, as that of Ctrl-C does, ends only the wait: the end of a with statement, or
    a deletion, sends the rest, until a handler raises again.

    A forked child can't use its parent's: calls raise OSError, and what was written before the fork is sent by the
    parent only. Until the child ends or runs another program the reader sees no end of the data, and memory lent before
    the fork may read as zeroes there.

    method="drained" asserts that every reader copies by read(2), and passes nothing on by splice(2) or
    tee(2), as some versions of cat and pv do: otherwise they read wrong bytes. "cow_checked", and "auto" with
    allow_clone, call clone(2) very often: only for small processes that do little else.
    """

    def __new__(
        cls,
        file: _File,
        *,
        method: _Method = "auto",
        wait: _Wait = "block",
        capacity: int | None = None,
        keep_capacity: bool = False,
        loan: int | None = None,
        region: int | None = None,
        max_held: int | None = None,
        at_once: bool = False,
        allow_clone: bool = False,
    ) -> Self: ...
    def lend(self, at_least: int = 0) -> memoryview:
        """Lends memory for the next bytes: at least that many; 0 means as many as suit.

        It holds zeroes or old bytes. Any other call takes it back, after which its use raises ValueError;
        while an array or another view still has it, that call raises BufferError and does nothing."""
    def commit(self, n: int) -> None:
        """Sends the first n bytes of the memory lent."""
    def write(self, data: Buffer) -> int:
        """Buffers data, and sends full buffers. Returns how many bytes were accepted: all, unless with
        wait="never". After any other exception it is not known how many: Python may raise that of a signal's handler
        after the call."""
    def flush(self) -> None:
        """Sends what is buffered. Does not wait until it was read."""
    def finish(self) -> None:
        """Sends what is buffered, and lets go of the file: the reader sees the end once that is closed."""
    def report(self) -> Report:
        """What it has done so far."""
    def fileno(self) -> int:
        """The descriptor of the file."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

@final
class Reader:
    """Buffered input with few, large reads. Don't set capacity if the writer uses vmsplice(2) and relies
    on the pipe's size.

    What file has buffered, as after readline(), is read first; with wait="never" not before its descriptor has
    more, or is at its end. Of a text file that is what its `buffer` has, not what it has decoded."""

    def __new__(
        cls,
        file: _File,
        *,
        wait: _Wait = "block",
        buffer: int | None = None,
        capacity: int | None = None,
    ) -> Self: ...
    def readinto(self, buffer: Buffer) -> int:
        """Reads at least one byte into the buffer. Returns how many; 0 at the end."""
    def read(self, size: int = ...) -> bytes:
        """Reads at least one byte and at most size bytes; everything if size is negative, or with wait="never"
        what is there. b"" at the end. What a call had read before it raised is returned by the next, unless
        Python raises the exception of a signal's handler right after the call."""
    def fileno(self) -> int:
        """The descriptor of the file."""

def copy(
    src: _File,
    dst: _File,
    *,
    progress: Callable[[int], object] | None = None,
    interval: float = 0.1,
    limit: int | None = None,
    copy_bytes: bool = False,
    keep_capacity: bool = False,
) -> int:
    """Moves bytes from src to dst until it ends, by splice(2), sendfile(2), copy_file_range(2), or reads and
    writes. Returns how many.

    progress is called with the number of bytes so far, at the start, every interval seconds, and at the end;
    False ends the copy. copy_bytes only reads and writes, for files that are being modified. If bytes
    were taken and not delivered, the exception has them as `undelivered`; so of a pipe that has to be read beyond
    the limit, where splice(2) is refused or no descriptor is left.

    Both are as a Writer's file. What src has buffered, as after readline(), comes first; of a text file that is what its `buffer` has, not
    what it has decoded. To ask for it, Python may read a pipe or socket once, and waits for data before progress
    is called: pass fileno() if nothing is buffered and that matters. With a limit, read on from src rather than from
    its descriptor."""

def set_pipe_size(file: _File, size: int) -> int:
    """Makes a pipe as large as size, or as close to that as this user may, and never smaller. Returns its
    size."""

def ring(capacity: int) -> tuple[Producer, Consumer]:
    """Creates a ring buffer of capacity bytes, rounded up to whole pages."""

class _End:
    @classmethod
    def offer(cls, socket: _File, capacity: int) -> Self:
        """Creates a ring, and passes its other end over a Unix stream socket to a process that calls
        accept(). Waits until it has, or for the socket's receive timeout (SO_RCVTIMEO). Each notices
        the other's death."""
    @classmethod
    def accept(cls, socket: _File, limit: int = ...) -> Self:
        """Takes the end that is offered, of a ring of at most limit bytes (64 MiB by default)."""
    @classmethod
    def from_fd(cls, fd: _File) -> Self:
        """Takes the end in a descriptor that was inherited or received."""
    def detach(self) -> int:
        """Turns the end into a descriptor, for a child to inherit; the caller closes it."""
    def watch(self, pid: int) -> None:
        """Watches the process that has the other end, so that its death ends a wait with
        ConnectionResetError: a child, or with 0 the parent. Not needed after offer() and accept()."""
    def set_wait(self, wait: _Wait = "block", timeout: float | None = None) -> None:
        """Sets how to wait, and for how many seconds at most (TimeoutError)."""
    @property
    def capacity(self) -> int:
        """Capacity in bytes. At most half of it can be lent or shown at once."""
    @property
    def peer(self) -> Literal["running", "stopped", "closed", "died"]:
        """The state of the other process."""
    def fileno(self) -> int:
        """A descriptor that becomes readable once after each BlockingIOError (wait="never"), when there is room
        or data again: for asyncio's add_reader() and selectors. Only after offer() or accept()."""
    def close(self) -> None:
        """Closes the end. The producer's thereby marks the end of the data."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

@final
class Producer(_End):
    """The end of a ring that puts bytes in."""

    def lend(self, at_least: int = 0) -> memoryview:
        """Waits for room for that many bytes, and lends all that is known to be free. See Writer.lend()."""
    def commit(self, n: int) -> None:
        """Makes the first n bytes of it available to the consumer."""
    def send(self, message: Buffer) -> None:
        """Sends a message, which receive() returns as a whole. Not to be mixed with commit()."""
    def wait_drained(self) -> None:
        """Waits until the consumer has released everything."""

@final
class Consumer(_End):
    """The end of a ring that takes bytes out. The other process can change them at any time: copy those of a
    process that is not trusted before they are checked."""

    def peek(self, at_least: int = 0) -> memoryview:
        """Waits for that many bytes, and shows all that are known to be there, read-only: fewer only at the end
        of the data, and none after it. See Writer.lend()."""
    def release(self, n: int) -> None:
        """Takes the first n of them out of the ring."""
    def receive(self) -> bytes | None:
        """Waits for the next message; None at the end."""

def _flush_all() -> None: ...
