"""Compares fastpipes with the best that Python does without it: compare.py [ROUNDS [SECTION...]]

Each round runs all ways of a section in random order; ratios are paired by round, with 95 % intervals of the
median by bootstrap. Nothing else should run meanwhile.
"""

import multiprocessing
import os
import platform
import random
import statistics
import subprocess
import sys
import time
from multiprocessing import shared_memory

import numpy

import fastpipes

SLOTS = 4
MIB = 1 << 20
context = multiprocessing.get_context("spawn")


# Frames of `size` bytes, every byte written and summed.


def make(memory, size, number):
    frame = numpy.frombuffer(memory, numpy.uint8, size)
    frame[:] = number % 251


def use(memory, size, number):
    frame = numpy.frombuffer(memory, numpy.uint8, size)
    # Most of the time of a sum of bytes is their conversion: as words it is that of memory.
    total = int(numpy.add.reduce(frame.view(numpy.uint64) & numpy.uint64(0xFF)))
    assert total == (number % 251) * (size // 8), number


def ring_child(producer, size, count):
    for number in range(count):
        make(producer.lend(size), size, number)
        producer.commit(size)
    producer.close()


def by_ring(size, count):
    producer, consumer = fastpipes.ring(SLOTS * size)
    child = context.Process(target=ring_child, args=(producer, size, count))
    child.start()
    consumer.watch(child.pid)
    for number in range(count):
        memory = consumer.peek(size)
        if number == 0:
            began = time.perf_counter()
        use(memory, size, number)
        del memory
        consumer.release(size)
    spent = time.perf_counter() - began
    child.join()
    return (count - 1) * size / spent


def shared_child(name, free, full, size, count):
    memory = shared_memory.SharedMemory(name)
    for number in range(count):
        free.acquire()
        at = number % SLOTS * size
        make(memory.buf[at : at + size], size, number)
        full.release()
    memory.close()


def by_shared_memory(size, count):
    memory = shared_memory.SharedMemory(create=True, size=SLOTS * size)
    free, full = context.Semaphore(SLOTS), context.Semaphore(0)
    child = context.Process(target=shared_child, args=(memory.name, free, full, size, count))
    child.start()
    for number in range(count):
        full.acquire()
        if number == 0:
            began = time.perf_counter()
        at = number % SLOTS * size
        use(memory.buf[at : at + size], size, number)
        free.release()
    spent = time.perf_counter() - began
    child.join()
    memory.close()
    memory.unlink()
    return (count - 1) * size / spent


def queue_child(queue, size, count):
    for number in range(count):
        frame = numpy.empty(size, numpy.uint8)
        make(frame, size, number)
        queue.put(frame)


def by_queue(size, count):
    queue = context.Queue(SLOTS)
    child = context.Process(target=queue_child, args=(queue, size, count))
    child.start()
    for number in range(count):
        frame = queue.get()
        if number == 0:
            began = time.perf_counter()
        use(frame, size, number)
    spent = time.perf_counter() - began
    child.join()
    return (count - 1) * size / spent


# Bytes into another process's standard input.

SUM = "import os, sys\nbuffer = bytearray(1 << 18)\nwhile n := os.readv(0, [buffer]): pass"


def frames_into(child, write, finish, size, count):
    """Frames, every byte made anew."""
    frame = numpy.empty(size, numpy.uint8)
    began = time.perf_counter()
    for number in range(count):
        frame[:] = number % 251
        write(frame)
    finish()
    child.stdin.close()
    child.wait()
    return size * count / (time.perf_counter() - began)


def by_writes(size, count, piece):
    child = subprocess.Popen([sys.executable, "-c", SUM], stdin=subprocess.PIPE, pipesize=MIB, bufsize=0)
    fd = child.stdin.fileno()

    def write(frame):
        view = memoryview(frame)
        for at in range(0, len(view), piece):
            part = view[at : at + piece]
            while part:
                part = part[os.write(fd, part) :]

    return frames_into(child, write, lambda: None, size, count)


def by_writer(size, count):
    child = fastpipes.Popen([sys.executable, "-c", SUM], stdin=subprocess.PIPE, bufsize=0)
    out = fastpipes.Writer(child.stdin)
    return frames_into(child, out.write, out.finish, size, count)


def by_loans(size, count):
    child = fastpipes.Popen([sys.executable, "-c", SUM], stdin=subprocess.PIPE, bufsize=0)
    out = fastpipes.Writer(child.stdin)
    began = time.perf_counter()
    total, number = size * count, 0
    while total > 0:
        memory = out.lend(min(total, MIB))
        n = min(len(memory), total)
        frame = numpy.frombuffer(memory, numpy.uint8, n)
        frame[:] = number % 251
        del frame
        out.commit(n)
        total -= n
        number += 1
    out.finish()
    child.stdin.close()
    child.wait()
    return size * count / (time.perf_counter() - began)


def text_into(open_writer, count):
    """Lines of a generator into wc -c."""
    child = subprocess.Popen(["wc", "-c"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, pipesize=MIB)
    write, finish = open_writer(child.stdin)
    began = time.perf_counter()
    for number in range(count):
        write(b"%0100d" % number)
    finish()
    child.stdin.close()
    assert int(child.stdout.read()) == 100 * count
    child.stdout.close()
    child.wait()
    return 100 * count / (time.perf_counter() - began)


def buffered(size):
    def open_writer(stdin):
        out = open(stdin.fileno(), "wb", buffering=size, closefd=False)
        return out.write, out.flush

    return open_writer


def fast(stdin):
    out = fastpipes.Writer(stdin)
    return out.write, out.finish


def sections():
    for name, (width, height) in {"1920x1080x3": (1920, 1080), "3840x2160x3": (3840, 2160)}.items():
        size = width * height * 3
        count = 3 * 1024 * MIB // size
        yield f"frames {name}", "ring", {
            "ring": lambda size=size, count=count: by_ring(size, count),
            "SharedMemory": lambda size=size, count=count: by_shared_memory(size, count),
            "Queue": lambda size=size, count=count: by_queue(size, count // 8),
        }
    size = 1920 * 1080 * 3
    writes = {
        f"os.write {piece >> 10} KiB": lambda piece=piece: by_writes(size, 300, piece)
        for piece in (4096, 8192, 65536, 262144, MIB, 8 * MIB)
    }
    yield "frames into stdin", "Writer.write", {"Writer.write": lambda: by_writer(size, 300), **writes}
    yield "generated into stdin", "Writer.lend", {"Writer.lend": lambda: by_loans(size, 300), **writes}
    files = {f"open, {size >> 10} KiB": lambda size=size: text_into(buffered(size), 2_000_000) for size in (8192, 65536, MIB)}
    yield "100 bytes into wc -c", "Writer.write", {"Writer.write": lambda: text_into(fast, 2_000_000), **files}


def interval(ratios):
    rng = random.Random(1)
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(2000))
    return statistics.median(ratios), medians[50], medians[1949]


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    wanted = sys.argv[2:]
    print(f"Python {platform.python_version()}, Linux {platform.release()}, {os.cpu_count()} processors, {rounds} rounds")
    for name, own, ways in sections():
        if wanted and not any(part in name for part in wanted):
            continue
        rates = {way: [] for way in ways}
        for _ in range(rounds):
            order = list(ways)
            random.shuffle(order)
            for way in order:
                rates[way].append(ways[way]())
        print(f"\n{name}\n{'':22}  GiB/s  {own} is x")
        for way, values in rates.items():
            text = f"{way:22} {statistics.median(values) / 2**30:6.3f}"
            if way != own:
                middle, low, high = interval([a / b for a, b in zip(rates[own], values, strict=True)])
                text += f"  {middle:.2f} [{low:.2f}, {high:.2f}]"
            print(text, flush=True)


if __name__ == "__main__":
    main()
