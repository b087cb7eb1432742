"""Fast pipes on Linux, whose data is always correct.

Writer, Reader and copy() move data through pipes and any other descriptors; ring() and its ends pass it in
memory that two processes share; Popen starts a process whose pipes are well sized.

    >>> import os, fastpipes
    >>> reader, writer = os.pipe()
    >>> with fastpipes.Writer(writer) as out:
    ...     memory = out.lend(4096)
    ...     memory[:6] = b"hello "
    ...     out.commit(6)
    ...     out.write(b"world")
    5
    >>> os.close(writer)
    >>> fastpipes.Reader(reader).read()
    b'hello world'
    >>> os.close(reader)
"""

from __future__ import annotations

import atexit as _atexit
import os
from multiprocessing import context as _context
from multiprocessing import reduction as _reduction
from typing import Any

from ._native import Consumer, Producer, Reader, Report, Writer, _flush_all, copy, ring, set_pipe_size
from ._popen import Popen

__all__ = [
    "Consumer",
    "Popen",
    "Producer",
    "Reader",
    "Report",
    "Writer",
    "copy",
    "ring",
    "set_pipe_size",
]

# Writers that were not finished, before files are closed.
_atexit.register(_flush_all)


def _check_spawning() -> None:
    """An end can't be copied, only passed to a process that is being started."""
    if _context.get_spawning_popen() is None:
        raise TypeError(
            "an end of a ring can't be pickled: pass it to a multiprocessing Process that is spawned, or "
            "pass the descriptor that detach() returns"
        )


def _pass_on(kind: type[Any], fd: int) -> tuple[Any, ...]:
    return _take, (kind, _reduction.DupFd(fd), os.getpid())


def _take(kind: type[Any], passed: Any, peer: int) -> Any:
    fd = passed.detach()
    try:
        end = kind.from_fd(fd)
    finally:
        os.close(fd)
    end.watch(peer)
    return end
