"""Popen: a subprocess whose pipes are well sized, and whose standard error never blocks it."""

from __future__ import annotations

import array
import fcntl
import os
import select
import subprocess
import termios
import threading
from collections import deque
from typing import IO, Any, Literal

from ._native import set_pipe_size

# As large as an ordinary user may make a pipe (/proc/sys/fs/pipe-max-size).
_SIZE = 1 << 20


def _unread(file: IO[bytes]) -> int:
    """The number of bytes in a pipe."""
    unread = array.array("i", [0])
    fcntl.ioctl(file, termios.FIONREAD, unread)
    return unread[0]


class Popen(subprocess.Popen[bytes]):
    """As subprocess.Popen, for bytes, but its pipes hold pipe_size bytes ("auto": 1 MiB, or as much as this
    user may have; None: as they are). If stderr is PIPE, a thread reads it, so that the process never waits
    for that; the last bytes are in stderr_tail, and stderr is None.

    >>> with Popen(["sh", "-c", "echo out; echo err >&2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
    ...     out = p.stdout.read()
    >>> out, p.stderr_tail
    (b'out\\n', b'err\\n')
    """

    def __init__(
        self,
        args: Any,
        *,
        pipe_size: int | Literal["auto"] | None = "auto",
        stderr_tail_size: int = 64 << 10,
        **kwargs: Any,
    ) -> None:
        if kwargs.get("text") or kwargs.get("universal_newlines") or kwargs.get("encoding"):
            raise ValueError("fastpipes.Popen is for bytes: wrap its pipes in io.TextIOWrapper")
        if pipe_size not in ("auto", None) and not (isinstance(pipe_size, int) and 0 < pipe_size < 1 << 31):
            raise ValueError('pipe_size must be a number of bytes below 2 GiB, "auto" or None')
        if stderr_tail_size < 1:
            raise ValueError("stderr_tail_size must be at least 1")
        self._tail: deque[bytes] = deque()
        self._tail_size = stderr_tail_size
        self._taking = threading.Lock()
        self._drain: tuple[threading.Thread, IO[bytes]] | None = None
        super().__init__(args, **kwargs)
        if pipe_size is not None:
            size = _SIZE if pipe_size == "auto" else pipe_size
            for pipe in (self.stdin, self.stdout, self.stderr):
                if pipe is not None:
                    set_pipe_size(pipe.fileno(), size)
        if self.stderr is not None:
            stderr, self.stderr = self.stderr, None
            thread = threading.Thread(target=self._read_stderr, args=(stderr,), daemon=True)
            try:
                thread.start()
            except RuntimeError:
                # No more threads: a child that nobody knows must not go on.
                stderr.close()
                self.kill()
                super().wait()
                raise
            self._drain = thread, stderr

    def _read_stderr(self, stderr: IO[bytes]) -> None:
        poll = select.poll()
        poll.register(stderr, select.POLLIN)
        while poll.poll() and self._take(stderr) != 0:
            pass
        with self._taking:
            stderr.close()

    def _take(self, stderr: IO[bytes]) -> int | None:
        """Keeps what is there, up to 64 KiB. Returns how many bytes; 0 at the end; None if there is nothing."""
        with self._taking:
            if stderr.closed:
                return 0
            poll = select.poll()
            poll.register(stderr, select.POLLIN)
            if not poll.poll(0):
                return None
            chunk = os.read(stderr.fileno(), 65536)
            self._tail.append(chunk)
            while sum(map(len, self._tail)) - len(self._tail[0]) >= self._tail_size:
                self._tail.popleft()
            return len(chunk)

    def wait(self, timeout: float | None = None) -> int:
        """As Popen.wait(). What the process wrote to standard error is in stderr_tail then."""
        status = super().wait(timeout)
        self._finish_drain()
        return status

    def poll(self) -> int | None:
        """As Popen.poll(). Once the process has ended, stderr_tail is as after wait()."""
        status = super().poll()
        if status is not None:
            self._finish_drain()
        return status

    def _finish_drain(self) -> None:
        """Takes what the process has left. Another process may still have its standard error."""
        if self._drain is None:
            return
        thread, stderr = self._drain
        with self._taking:
            left = 0 if stderr.closed else _unread(stderr)
        # Another process may write more all the time.
        while left > 0 and (taken := self._take(stderr)):
            left -= taken
        if self._take(stderr) == 0:
            thread.join()
            self._drain = None

    @property
    def stderr_tail(self) -> bytes:
        """The last bytes of standard error so far: at most stderr_tail_size of them."""
        return b"".join(list(self._tail))[-self._tail_size :]
