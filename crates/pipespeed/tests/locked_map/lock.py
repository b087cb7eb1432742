"""Locks the memory map of this process until a frozen file system is thawed: a page fault holds it,
and mprotect(2) waits for it, so that others can't read it either. The main thread is in select(2),
or in epoll_wait(2) for an instance whose lock is held, too."""

import ctypes
import mmap
import os
import select
import sys
import threading

KIND, PATH = sys.argv[1:]
PAGE = mmap.PAGESIZE
libc = ctypes.CDLL(None)
memory = mmap.mmap(os.open(PATH, os.O_RDWR | os.O_CLOEXEC), 64 * PAGE)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
reader, writer = os.pipe()
epoll = select.epoll()
epoll.register(reader, select.EPOLLIN)
os.dup2(epoll.fileno(), 100)
main = os.getpid()


def until(tid, file, word):
    while word not in open(f"/proc/self/task/{tid}/{file}").read():
        pass


def touch():
    if KIND == "epoll":
        # The last one to wait is the first to be woken. It copies the event with the lock held.
        libc.epoll_wait(epoll.fileno(), ctypes.c_void_p(address + 2 * PAGE), 1, -1)
    else:
        ctypes.memset(address + 2 * PAGE, 1, 1)


def lock():
    until(main, "wchan", "poll")
    toucher = threading.Thread(target=touch, daemon=True)
    toucher.start()
    if KIND == "epoll":
        until(toucher.native_id, "wchan", "poll")
        os.write(writer, b"x")
    until(toucher.native_id, "stat", ") D ")
    libc.mprotect(ctypes.c_void_p(address + 16 * PAGE), PAGE, mmap.PROT_READ)


threading.Thread(target=lock, daemon=True).start()
if KIND == "epoll":
    epoll.poll()
else:
    select.select([reader], [], [])
