"""Keeps a child in execve(2), with the lock that readers of its files in /proc need.

The child has a close-on-exec descriptor on a FUSE file system that never answers a flush. Runs in a user and
mount namespace of its own. Arguments: the device, and a directory to mount on. Prints the child's number once
it hangs. Its end lets the child go on.
"""

import ctypes
import os
import signal
import struct
import sys

LOOKUP, GETATTR, OPEN, FLUSH, INIT, OPENDIR = 1, 3, 14, 25, 26, 27
UNANSWERED = {2, 36, 42}  # FORGET, INTERRUPT, BATCH_FORGET


def attributes(node):
    mode = 0o40755 if node == 1 else 0o100777
    return struct.pack("<6Q10I", node, 4096, 8, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def answer(opcode, node):
    if opcode == INIT:
        return struct.pack("<4I2H2I2H8I", 7, 31, 0, 0, 0, 0, 4096, 1, 0, 0, *[0] * 8)
    if opcode == LOOKUP:
        return struct.pack("<4Q2I", 2, 0, 100, 100, 0, 0) + attributes(2)
    if opcode == GETATTR:
        return struct.pack("<Q2I", 100, 0, 0) + attributes(node)
    if opcode in (OPEN, OPENDIR):
        return struct.pack("<Q2I", 1, 0, 0)
    return None


def become_blocked(directory):
    """Its standard output is a pipe, as that of a stage."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.dup2(reader, 0)
        os.execlp("cat", "cat")
    os.dup2(writer, 1)
    os.open(directory + "/file", os.O_RDONLY)
    os.execlp("true", "true")


device = os.open(sys.argv[1], os.O_RDWR)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
if ctypes.CDLL(None).mount(b"none", sys.argv[2].encode(), b"fuse", 0, options) != 0:
    sys.exit("FUSE can't be mounted")
child = os.fork()
if child == 0:
    os.close(device)
    become_blocked(sys.argv[2])
signal.alarm(120)  # In case nobody ends it.
while True:
    request = os.read(device, 1 << 20)
    length, opcode, unique, node = struct.unpack_from("<2I2Q", request)
    if opcode == FLUSH:
        print(child, flush=True)
    elif opcode not in UNANSWERED:
        body = answer(opcode, node)
        error = -38 if body is None else 0  # ENOSYS
        body = body or b""
        os.write(device, struct.pack("<IiQ", 16 + len(body), error, unique) + body)
