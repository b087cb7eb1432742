"""Ends either side of a ring or pipe by SIGKILL, in the middle of things: kills.py [ROUNDS]

Fails if the other side hangs, gets a wrong byte, or leaves a descriptor, a process or shared memory behind.
"""

import os
import random
import signal
import struct
import sys

import fastpipes


def produce(producer):
    number = 0
    while True:
        memory = producer.lend(8)
        n = min(len(memory) // 8, 512)
        struct.pack_into(f"{n}Q", memory, 0, *range(number, number + n))
        producer.commit(8 * n)
        number += n


def consume(consumer):
    number = 0
    while memory := consumer.peek(8):
        n = min(len(memory) // 8, 512)
        assert struct.unpack_from(f"{n}Q", memory) == tuple(range(number, number + n))
        consumer.release(8 * n)
        number += n


def write(fd):
    out = fastpipes.Writer(fd, at_once=True)
    number = 0
    while True:
        out.write(struct.pack("512Q", *range(number, number + 512)))
        number += 512


def read(fd):
    source, number, rest = fastpipes.Reader(fd), 0, b""
    while chunk := source.read(65536):
        rest += chunk
        n = len(rest) // 8
        assert struct.unpack_from(f"{n}Q", rest) == tuple(range(number, number + n))
        number, rest = number + n, rest[8 * n :]


def in_child(body, *others):
    pid = os.fork()
    if pid == 0:
        try:
            for fd in others:
                os.close(fd)
            body()
        finally:
            os._exit(0)
    return pid


def kill_soon(victim, *others):
    def kill():
        signal.sigtimedwait([], random.random() * 0.003)
        os.kill(victim, signal.SIGKILL)

    return in_child(kill, *others)


def ring_round(child_produces):
    producer, consumer = fastpipes.ring(65536)
    mine, theirs = (consumer, producer) if child_produces else (producer, consumer)
    kind = type(theirs)
    fd = theirs.detach()
    work = produce if child_produces else consume
    child = in_child(lambda: work(kind.from_fd(fd)))
    os.close(fd)
    mine.watch(child)
    killer = kill_soon(child)
    try:
        (consume if child_produces else produce)(mine)
        raise AssertionError("no end was noticed")
    except ConnectionResetError:
        pass
    mine.close()
    return child, killer


def pipe_round(child_writes):
    reader, writer = os.pipe()
    mine, theirs = (reader, writer) if child_writes else (writer, reader)
    child = in_child(lambda: (write if child_writes else read)(theirs), mine)
    os.close(theirs)
    killer = kill_soon(child, mine)
    try:
        (read if child_writes else write)(mine)
    except BrokenPipeError:
        pass
    os.close(mine)
    return child, killer


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    before = os.listdir("/proc/self/fd"), os.listdir("/dev/shm")
    for number in range(rounds):
        # A wait without end is ended by this, and fails.
        signal.alarm(30)
        children = (ring_round if number & 1 else pipe_round)(bool(number & 2))
        for pid in children:
            os.waitpid(pid, 0)
        signal.alarm(0)
    assert (os.listdir("/proc/self/fd"), os.listdir("/dev/shm")) == before
    print(f"{rounds} killed: no hang, no wrong byte, nothing left")


if __name__ == "__main__":
    main()
