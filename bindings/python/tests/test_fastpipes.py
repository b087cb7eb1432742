"""Tests of the Python interface, with real pipes and processes."""

import asyncio
import bz2
import contextlib
import doctest
import errno
import gc
import gzip
import hashlib
import http.client
import io
import lzma
import multiprocessing
import multiprocessing.forkserver
import multiprocessing.resource_tracker
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import tty
import weakref

import numpy
import pytest

import fastpipes

MIB = 1 << 20

# Has a descriptor of its own, from then on.
multiprocessing.resource_tracker.ensure_running()

# A shell starts what is in the background with SIGINT ignored, and the children would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def nothing_is_left():
    """No descriptor, and nothing in /dev/shm."""
    before = len(os.listdir("/proc/self/fd")), os.listdir("/dev/shm")
    yield
    assert (len(os.listdir("/proc/self/fd")), os.listdir("/dev/shm")) == before


def pattern(position, n):
    return (numpy.arange(position, position + n, dtype=numpy.uint64) * 2654435761 >> 16).astype(numpy.uint8)


class Pipe:
    """A pipe, whose bytes a thread reads."""

    def __init__(self):
        self.reader, self.writer = os.pipe()
        self.got = bytearray()
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        while chunk := os.read(self.reader, 65536):
            self.got += chunk
        os.close(self.reader)

    def all(self):
        os.close(self.writer)
        self.thread.join()
        return bytes(self.got)


@pytest.mark.parametrize("method", ["auto", "copy", "fresh", "cow_checked", "drained"])
def test_every_byte_arrives(method):
    pipe, expected, position = Pipe(), hashlib.sha256(), 0
    with fastpipes.Writer(pipe.writer, method=method, at_once=True) as out:
        while position < 40 * MIB:
            memory = out.lend(position % 3 * 10000)
            frame = numpy.frombuffer(memory, numpy.uint8)
            frame[:] = pattern(position, len(frame))
            expected.update(frame.tobytes())
            position += len(frame)
            n = len(frame)
            del frame
            out.commit(n)
            for size in (3, 5000, 100):
                data = pattern(position, size)
                assert out.write(data) == size
                expected.update(data.tobytes())
                position += size
    report = out.report()
    assert report.bytes == position and report.method != "auto" and str(report)
    got = pipe.all()
    assert len(got) == position and hashlib.sha256(got).digest() == expected.digest()


def test_memory_is_taken_back_before_it_is_sent():
    pipe = Pipe()
    out = fastpipes.Writer(pipe.writer)
    memory = out.lend(100)
    array = numpy.frombuffer(memory, numpy.uint8)
    part = memory[10:20]
    for call in (lambda: out.commit(10), out.flush, out.finish, lambda: out.write(b"x"), out.lend):
        with pytest.raises(BufferError):
            call()
    del array
    with pytest.raises(BufferError):
        out.commit(10)
    part.release()
    out.commit(10)
    with pytest.raises(ValueError):
        memory[0]
    with pytest.raises(ValueError, match="nothing is lent"):
        out.commit(1)
    with pytest.raises(BufferError):
        memoryview(out)
    memory = out.lend(100)
    with pytest.raises(ValueError, match="of .* that were lent"):
        out.commit(len(memory) + 1)
    # The view keeps the memory when its writer is forgotten.
    memory = out.lend(100)
    del out
    memory[0] = 1
    memory.release()
    del memory
    assert pipe.all() == bytes(10)


def test_anything_with_a_buffer_can_be_written():
    pipe = Pipe()
    with fastpipes.Writer(os.fdopen(os.dup(pipe.writer), "wb")) as out:
        for data in (b"bytes", bytearray(b"array"), memoryview(b"view"), numpy.arange(3, dtype=numpy.int32), b""):
            assert out.write(data) == memoryview(data).nbytes
        with pytest.raises((BufferError, ValueError), match="contiguous"):
            out.write(numpy.arange(10)[::2])
        with pytest.raises(TypeError):
            out.write("text")
    del out
    assert pipe.all() == b"bytesarrayview" + numpy.arange(3, dtype=numpy.int32).tobytes()


def test_arguments_that_are_not_valid_raise():
    with pytest.raises(ValueError, match="descriptor"):
        fastpipes.Writer(-1)
    for wrong in ({"method": "best"}, {"wait": "long"}):
        with pytest.raises(ValueError, match="must be"):
            fastpipes.Writer(1, **wrong)
    with pytest.raises(ValueError):
        fastpipes.ring(0)
    with pytest.raises(TypeError, match="not str"):
        fastpipes.Writer("file")


def test_a_pipe_without_reader_raises_and_without_room_too_if_asked():
    reader, writer = os.pipe()
    out = fastpipes.Writer(writer, wait="never")
    written = 0
    with pytest.raises(BlockingIOError):
        while True:
            written += out.write(bytes(100_000))
    with pytest.raises(BlockingIOError):
        out.flush()
    os.close(reader)
    with pytest.raises(BrokenPipeError):
        out.finish()
    del out
    os.close(writer)


def test_a_reader_reads_what_is_there():
    reader, writer = os.pipe()
    os.write(writer, b"0123456789")
    source = fastpipes.Reader(reader)
    buffer = bytearray(4)
    assert source.readinto(buffer) == 4 and buffer == b"0123"
    assert source.read(3) == b"456"
    os.close(writer)
    assert source.read() == b"789" and source.read() == b"" and source.readinto(buffer) == 0
    with pytest.raises((BufferError, TypeError)):
        source.readinto(b"constant")
    os.close(reader)


def test_a_reader_that_never_waits_returns_all_that_is_there():
    reader, writer = os.pipe()
    source = fastpipes.Reader(reader, wait="never")
    for part in (b"x" * 1000, b"y" * 50_000):
        with pytest.raises(BlockingIOError):
            source.read()
        os.write(writer, part)
        assert source.read() == part
    os.write(writer, b"last")
    os.close(writer)
    assert source.read() == b"last" and source.read() == b""
    os.close(reader)


def test_an_exception_of_a_signal_loses_nothing_that_was_read():
    class Alarm(Exception):
        pass

    def raise_alarm(*_):
        raise Alarm

    reader, writer = os.pipe()
    source = fastpipes.Reader(reader)
    before = signal.signal(signal.SIGALRM, raise_alarm)
    try:
        for part in (b"0123", b"4567"):
            os.write(writer, part)
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(Alarm):
                source.read()
    finally:
        signal.signal(signal.SIGALRM, before)
    buffer = bytearray(3)
    assert source.readinto(buffer) == 3 and buffer == b"012"
    assert source.read(2) == b"34"
    os.write(writer, b"89")
    os.close(writer)
    assert source.read() == b"56789" and source.read() == b""
    os.close(reader)


def test_a_signal_that_comes_with_the_bytes_loses_none():
    class Came(Exception):
        pass

    is_reading = False

    def raise_once(*_):
        nonlocal is_reading
        if is_reading:
            is_reading = False
            raise Came

    # Both are there once the reader runs again.
    write = "import os, sys; os.write(1, b'12345678'); os.kill(os.getppid(), int(sys.argv[1]))"
    command = [sys.executable, "-c", write, str(int(signal.SIGUSR1))]
    before = signal.signal(signal.SIGUSR1, raise_once)
    whole = 0
    try:
        for _ in range(5):
            reader, writer = os.pipe()
            source = fastpipes.Reader(reader)
            child = subprocess.Popen(command, stdout=writer)
            os.close(writer)
            got, has_ended = b"", False
            while not has_ended:
                with contextlib.suppress(Came):
                    is_reading = True
                    chunk = source.read(100)
                    is_reading = False
                    got += chunk
                    has_ended = not chunk
            assert child.wait() == 0
            whole += got == b"12345678"
            del source
            os.close(reader)
    finally:
        signal.signal(signal.SIGUSR1, before)
    # Python may still raise right after the call; os.read() loses nearly all.
    assert whole >= 3


def test_an_error_loses_nothing_that_was_read():
    # The other end of a terminal that was closed: EIO, after what it had written.
    master, slave = os.openpty()
    tty.setraw(slave)
    os.write(slave, b"written")
    os.close(slave)
    source = fastpipes.Reader(master)
    for _ in range(2):
        with pytest.raises(OSError) as raised:
            source.read()
        assert raised.value.errno == errno.EIO
    assert source.read(100) == b"written"
    os.close(master)


def test_ctrl_c_ends_a_read_without_end():
    script = """
import fastpipes, os, signal, threading
zero = open("/dev/zero", "rb", buffering=0)
threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    fastpipes.Reader(zero).read()
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    limited = lambda: resource.setrlimit(resource.RLIMIT_CPU, (20, 20))  # noqa: E731
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, preexec_fn=limited)
    assert done.stdout == b"interrupted\n"


def test_copies_report_progress_and_keep_what_was_not_delivered(tmp_path):
    data = os.urandom(3 * MIB)
    (tmp_path / "in").write_bytes(data)
    seen = []
    with open(tmp_path / "in", "rb") as src, open(tmp_path / "out", "wb") as dst:
        assert fastpipes.copy(src, dst, progress=seen.append, interval=0.001) == len(data)
    assert (tmp_path / "out").read_bytes() == data
    assert seen[-1] == len(data)

    def fail(given):
        raise KeyError(given)

    with open(tmp_path / "in", "rb") as src, open(os.devnull, "wb") as dst:
        with pytest.raises(KeyError):
            fastpipes.copy(src, dst, progress=fail)
        assert fastpipes.copy(src, dst, limit=10) == 10
    source, broken = os.pipe(), os.pipe()
    os.write(source[1], b"left")
    os.close(source[1])
    os.close(broken[0])
    with pytest.raises(BrokenPipeError) as raised:
        fastpipes.copy(source[0], broken[1], copy_bytes=True)
    rest = getattr(raised.value, "undelivered", b"") + os.read(source[0], 10)
    assert rest == b"left"
    os.close(source[0])
    os.close(broken[1])


LINES = b"".join(b"%d\n" % n for n in range(100_000))


@contextlib.contextmanager
def a_buffered_source(kind, tmp_path):
    """A file of LINES that can't seek, or can."""
    (tmp_path / "lines").write_bytes(LINES)
    if kind == "file":
        with open(tmp_path / "lines", "rb") as file:
            yield file
    else:
        with subprocess.Popen(["cat", tmp_path / "lines"], stdout=subprocess.PIPE) as child:
            yield child.stdout


@pytest.mark.parametrize("kind", ["file", "pipe"])
@pytest.mark.parametrize("limit", [None, 100, 20_000])
def test_a_copy_begins_with_what_was_read_ahead(kind, limit, tmp_path):
    seen = []
    with a_buffered_source(kind, tmp_path) as src, open(tmp_path / "out", "wb") as dst:
        assert [src.readline(), src.readline()] == [b"0\n", b"1\n"]
        rest = LINES[4:]
        n = fastpipes.copy(src, dst, limit=limit, progress=seen.append, interval=0)
        assert n == len(rest[:limit]) and seen[0] == 0 and seen[-1] == n and seen == sorted(seen)
        assert (tmp_path / "out").read_bytes() == rest[:limit]
        # Also from where it was stopped, and from its end.
        assert fastpipes.copy(src, dst) == len(rest) - n
        assert fastpipes.copy(src, dst) == 0
    assert (tmp_path / "out").read_bytes() == rest


@pytest.mark.parametrize("module", [gzip, bz2, lzma])
def test_files_whose_bytes_are_not_those_of_a_descriptor_are_refused(module, tmp_path):
    path = tmp_path / "compressed"
    with module.open(path, "wb") as file:
        file.write(LINES)
        with pytest.raises(TypeError, match="shutil.copyfileobj"):
            fastpipes.Writer(file)
    with module.open(path, "rb") as file, module.open(path, "rt") as text, open(os.devnull, "wb") as null:
        for refused in (file, text, io.BufferedReader(file)):
            with pytest.raises(TypeError, match="may not be the bytes of its descriptor"):
                fastpipes.copy(refused, null)
            with pytest.raises(TypeError):
                fastpipes.Reader(refused)
        assert file.read() == LINES


def test_a_response_is_refused_and_keeps_its_bytes():
    ours, theirs = socket.socketpair()
    response = http.client.HTTPResponse(ours)
    theirs.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody")
    response.begin()
    with open(os.devnull, "wb") as null, pytest.raises(TypeError, match="HTTPResponse"):
        fastpipes.copy(response, null)
    assert response.read() == b"body"
    for end in (response, ours, theirs):
        end.close()


def test_a_temporary_file_is_read_from_where_it_is(tmp_path):
    with tempfile.NamedTemporaryFile("w+b") as file, open(tmp_path / "out", "wb") as out:
        file.write(LINES)
        file.seek(0)
        assert file.readline() == b"0\n"
        fastpipes.copy(file, out)
    assert (tmp_path / "out").read_bytes() == LINES[2:]
    name = tmp_path / "kept"
    # Nobody else has the wrapper, which closes the file.
    out = fastpipes.Writer(tempfile._TemporaryFileWrapper(open(name, "wb"), str(name), delete=False))
    out.write(b"kept")
    del out
    assert name.read_bytes() == b"kept"
    with open(tmp_path / "out", "rb") as file:
        wrapper = tempfile._TemporaryFileWrapper(file, str(tmp_path / "out"), delete=False)
        assert wrapper.readline() == b"1\n"
        assert fastpipes.Reader(wrapper).read() == LINES[4:]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("by_number", [False, True])
def test_a_closed_file_gets_nothing_of_another_one(by_number, tmp_path):
    file = open(tmp_path / "first", "wb")
    out = fastpipes.Writer(file.fileno() if by_number else file)
    out.write(b"first")
    number = file.fileno()
    file.close()
    with open(tmp_path / "second", "wb") as other:
        assert other.fileno() == number
        for call in (out.flush, out.finish, out.lend, lambda: out.write(bytes(5000))):
            with pytest.raises(ValueError, match="closed"):
                call()
        del call, out
    assert (tmp_path / "second").read_bytes() == b""
    (tmp_path / "first").write_bytes(LINES)
    file = open(tmp_path / "first", "rb")
    source = fastpipes.Reader(file)
    file.close()
    with pytest.raises(ValueError, match="closed"):
        source.read()


def test_a_writer_that_never_waits_says_how_much_it_took():
    reader, writer = os.pipe()
    out = fastpipes.Writer(writer, wait="never")
    data = pattern(0, 4 * MIB).tobytes()
    taken, got = 0, b""
    while taken < len(data):
        try:
            taken += out.write(data[taken:])
        except BlockingIOError:
            got += os.read(reader, 1 << 20)
    while True:
        try:
            out.finish()
            break
        except BlockingIOError:
            got += os.read(reader, 1 << 20)
    os.close(writer)
    while more := os.read(reader, 1 << 20):
        got += more
    os.close(reader)
    assert got == data


def test_an_error_in_the_middle_of_a_write_is_raised():
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    file = os.memfd_create("limited")
    out = fastpipes.Writer(file)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2 * MIB, limits[1]))
        with pytest.raises(OSError) as raised:
            out.write(bytes(3 * MIB))
        assert raised.value.errno == errno.EFBIG
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
        del out
        os.close(file)


def test_what_was_read_ahead_is_copied_under_a_limit_of_files():
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    reader, writer = os.pipe()
    os.write(writer, b"a" * 30000)
    os.close(writer)
    pipe = Pipe()
    with os.fdopen(reader, "rb") as source:
        assert source.read(1) == b"a"
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
            assert fastpipes.copy(source, pipe.writer) == 29999
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert pipe.all() == b"a" * 29999


@pytest.mark.parametrize("kind", ["file", "pipe"])
def test_a_copy_that_ends_early_leaves_what_was_read_ahead(kind, tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    with a_buffered_source(kind, tmp_path) as src:
        assert src.readline() == b"0\n"
        with pytest.raises(BrokenPipeError) as raised:
            fastpipes.copy(src, writer)
        assert not hasattr(raised.value, "undelivered")
        with open(os.devnull, "wb") as null:
            assert fastpipes.copy(src, null, limit=0) == 0
            assert fastpipes.copy(src, null, progress=lambda n: False) == 0
            with pytest.raises(ZeroDivisionError):
                fastpipes.copy(src, null, progress=lambda n: 1 // 0)
        assert src.read() == LINES[2:]
    os.close(writer)


def test_a_copy_of_a_seekable_file_does_not_fill_its_buffer(tmp_path):
    (tmp_path / "lines").write_bytes(LINES)
    with open(tmp_path / "lines", "rb") as src, open(os.devnull, "wb") as null:
        assert fastpipes.copy(src, null, limit=10) == 10
        assert os.read(src.fileno(), 10) == LINES[10:20]
    with open(tmp_path / "lines", "r+b") as src, open(os.devnull, "wb") as null:
        assert src.readline() == b"0\n"
        assert fastpipes.copy(src, null) == len(LINES) - 2


@pytest.mark.parametrize("kind", ["file", "pipe"])
@pytest.mark.parametrize("wait", ["block", "never"])
def test_a_reader_begins_with_what_was_read_ahead(kind, wait, tmp_path):
    with a_buffered_source(kind, tmp_path) as file:
        assert file.readline() == b"0\n"
        source = fastpipes.Reader(file, wait=wait)
        buffer = bytearray(5)
        assert source.readinto(buffer) == 5
        got = bytes(buffer) + source.read(7)
        while len(got) < len(LINES) - 2:
            with contextlib.suppress(BlockingIOError):
                got += source.read()
        assert got == LINES[2:]
        assert source.read() == b""


def test_what_the_buffer_of_a_text_file_or_socket_has_comes_first(tmp_path):
    (tmp_path / "lines").write_bytes(LINES)
    with open(tmp_path / "lines") as text, open(tmp_path / "out", "wb") as dst:
        text.buffer.readline()
        assert fastpipes.copy(text, dst) == len(LINES) - 2
    here, there = socket.socketpair()
    there.sendall(b"header\nbody")
    there.close()
    with here, here.makefile("rb") as file, open(tmp_path / "out", "ab") as dst:
        assert file.readline() == b"header\n"
        assert fastpipes.copy(file, dst) == 4
    assert (tmp_path / "out").read_bytes() == LINES[2:] + b"body"


def test_a_reader_that_never_waits_keeps_the_order_of_what_was_read_ahead():
    reader, writer = os.pipe()
    os.write(writer, b"first\nsecond\n")
    with open(reader, "rb") as file:
        assert file.readline() == b"first\n"
        source = fastpipes.Reader(file, wait="never")
        with pytest.raises(BlockingIOError):
            source.read()
        os.write(writer, b"third\n")
        assert source.read() == b"second\nthird\n"
        os.close(writer)
        assert source.read() == b""


def test_a_reader_of_a_pipe_without_data_is_made_at_once():
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        source = fastpipes.Reader(child.stdout)
        child.stdin.write(b"echo")
        child.stdin.close()
        assert source.read() == b"echo"


FRAME = 640 * 480 * 3


def produce_frames(producer, count):
    for number in range(count):
        memory = producer.lend(FRAME)
        frame = numpy.frombuffer(memory, numpy.uint8, FRAME)
        frame[:] = number
        del frame
        producer.commit(FRAME)
    producer.close()


@pytest.mark.parametrize("start", ["spawn", "forkserver"])
def test_frames_in_place_between_processes(start):
    producer, consumer = fastpipes.ring(4 * FRAME)
    context = multiprocessing.get_context(start)
    child = context.Process(target=produce_frames, args=(producer, 20))
    child.start()
    consumer.watch(child.pid)
    count = 0
    while memory := consumer.peek(FRAME):
        frame = numpy.frombuffer(memory, numpy.uint8, FRAME)
        assert int(frame.sum()) == count * FRAME
        with pytest.raises(BufferError):
            consumer.release(FRAME)
        with pytest.raises(ValueError):
            frame[0] = 1
        del frame
        consumer.release(FRAME)
        count += 1
    assert count == 20
    child.join()
    child.close()
    with pytest.raises(ValueError, match="passed on"):
        producer.lend(1)
    if start == "forkserver":
        multiprocessing.forkserver._forkserver._stop()


def test_an_end_is_not_pickled_by_accident():
    import pickle

    producer, consumer = fastpipes.ring(4096)
    with pytest.raises(TypeError, match="detach"):
        pickle.dumps(producer)
    producer.send(b"still here")
    assert consumer.receive() == b"still here"
    producer.close()
    assert consumer.receive() is None


CHILD = """
import fastpipes, sys
consumer = fastpipes.Consumer.from_fd(0)
consumer.watch(0)
while (message := consumer.receive()) is not None:
    print(len(message), message[:1])
"""


def test_messages_to_a_subprocess():
    producer, consumer = fastpipes.ring(65536)
    end = consumer.detach()
    child = subprocess.Popen([sys.executable, "-c", CHILD], stdin=end, stdout=subprocess.PIPE)
    os.close(end)
    producer.watch(child.pid)
    for n in range(100):
        producer.send(b"x" * n)
    with pytest.raises(ValueError, match="at most"):
        producer.send(bytes(65536))
    producer.close()
    out = child.communicate()[0].split(b"\n")
    assert out[:3] == [b"0 b''", b"1 b'x'", b"2 b'x'"] and len(out) == 101


@pytest.mark.parametrize("side", ["producer", "consumer"])
def test_a_dead_peer_raises(side):
    producer, consumer = fastpipes.ring(65536)
    mine, theirs = (consumer, producer) if side == "producer" else (producer, consumer)
    kind = side.capitalize()
    end = theirs.detach()
    wait = f"import fastpipes, time; end = fastpipes.{kind}.from_fd(0); print(flush=True); time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", wait], stdin=end, stdout=subprocess.PIPE)
    os.close(end)
    child.stdout.readline()
    mine.watch(child.pid)
    assert mine.peer == "running"
    child.kill()
    began = time.monotonic()
    with pytest.raises(ConnectionResetError):
        while True:
            if side == "producer":
                mine.peek(1)
            else:
                mine.commit(len(mine.lend(1)))
    assert time.monotonic() - began < 5
    assert mine.peer == "died"
    child.wait()
    child.stdout.close()
    mine.close()


def test_a_wait_has_a_timeout():
    producer, consumer = fastpipes.ring(4096)
    consumer.set_wait("block", 0.25)
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        consumer.peek(1)
    assert 0.2 < time.monotonic() - began < 5
    consumer.set_wait("never")
    with pytest.raises(BlockingIOError):
        consumer.peek(1)
    with pytest.raises(OSError):
        consumer.fileno()


def test_asyncio_waits_by_the_descriptor():
    here, there = socket.socketpair()
    made = []
    thread = threading.Thread(target=lambda: made.append(fastpipes.Producer.offer(there, 65536)))
    thread.start()
    consumer = fastpipes.Consumer.accept(here)
    thread.join()
    (producer,) = made
    consumer.set_wait("never")

    async def receive():
        loop, got = asyncio.get_running_loop(), []
        ready = asyncio.Event()
        loop.add_reader(consumer.fileno(), ready.set)
        while True:
            try:
                message = consumer.receive()
            except BlockingIOError:
                await ready.wait()
                ready.clear()
                continue
            if message is None:
                break
            got.append(message)
        loop.remove_reader(consumer.fileno())
        return got

    def send():
        for n in range(1000):
            producer.send(b"%d" % n)
        producer.close()

    sender = threading.Thread(target=send)
    sender.start()
    got = asyncio.run(receive())
    sender.join()
    assert got == [b"%d" % n for n in range(1000)]
    consumer.close()
    here.close(), there.close()


INTERRUPTED = """
import fastpipes, os, sys, signal
reader, writer = os.pipe()
producer, consumer = fastpipes.ring(4096)
out = fastpipes.Writer(writer)
calls = {
    "write": lambda: out.write(bytes(8 << 20)),
    "commit": lambda: out.commit(len(out.lend(8 << 20))),
    "read": lambda: fastpipes.Reader(os.pipe()[0]).read(),
    "copy": lambda: fastpipes.copy(os.pipe()[0], os.devnull_fd),
    "read of a buffered file": lambda: fastpipes.Reader(open(os.pipe()[0], "rb")).read(),
    "copy of a buffered file": lambda: fastpipes.copy(open(os.pipe()[0], "rb"), os.devnull_fd),
    "peek": lambda: consumer.peek(1),
    "lend": lambda: [producer.commit(len(producer.lend(1))) for _ in range(9)],
}
os.devnull_fd = os.open("/dev/null", os.O_WRONLY)
try:
    print("ready", flush=True)
    calls[sys.argv[1]]()
except KeyboardInterrupt:
    print("interrupted", flush=True)
    os._exit(0)
"""


BUFFERED = ["read of a buffered file", "copy of a buffered file"]


@pytest.mark.parametrize("call", ["write", "commit", "read", "copy", "peek", "lend", *BUFFERED])
def test_ctrl_c_ends_every_wait(call):
    child = subprocess.Popen([sys.executable, "-c", INTERRUPTED, call], stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"ready\n"
    # Until it sleeps in the call; a signal before it begins would end it, too.
    while (state := open(f"/proc/{child.pid}/stat").read().rsplit(") ", 1)[1][0]) != "S":
        assert state != "Z"
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=120)[0] == b"interrupted\n"
    assert child.returncode == 0


def test_another_thread_is_refused():
    reader, writer = os.pipe()
    out = fastpipes.Writer(writer)
    thread = threading.Thread(target=lambda: out.write(bytes(4 * MIB)))
    thread.start()
    with pytest.raises(RuntimeError, match="another thread"):
        while True:
            out.report()
            assert thread.is_alive()
    got = []
    drain = threading.Thread(target=lambda: got.append(len(fastpipes.Reader(reader).read())))
    drain.start()
    thread.join()
    out.finish()
    os.close(writer)
    drain.join()
    os.close(reader)
    assert got == [4 * MIB]


def test_popen_sizes_pipes_and_never_blocks_on_standard_error():
    noisy = "import sys; sys.stderr.write('x' * 3000000 + 'end'); print('done')"
    with fastpipes.Popen(
        [sys.executable, "-c", noisy], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.PIPE
    ) as child:
        import fcntl

        assert fcntl.fcntl(child.stdout, fcntl.F_GETPIPE_SZ) > 65536
        out, err = child.communicate()
        assert (out, err) == (b"done\n", None)
    assert child.stderr_tail.endswith(b"xend") and len(child.stderr_tail) == 65536
    child = fastpipes.Popen(["sh", "-c", "printf polled >&2"], stderr=subprocess.PIPE)
    while child.poll() is None:
        time.sleep(0.001)
    assert child.stderr_tail == b"polled"
    for wrong in ({"text": True}, {"pipe_size": -1}, {"pipe_size": 1 << 70}, {"stderr_tail_size": 0}):
        with pytest.raises(ValueError, match="bytes|least"):
            fastpipes.Popen(["true"], **wrong)
    with fastpipes.Popen(["sh", "-c", "echo err >&2"], stderr=subprocess.PIPE, bufsize=0) as child:
        child.wait()
    assert child.stderr_tail == b"err\n"


def test_a_forked_child_is_refused_and_changes_nothing():
    producer, consumer = fastpipes.ring(4096)
    pid = os.fork()
    if pid == 0:
        try:
            producer.send(b"from the child")
        except OSError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    producer.send(b"from the parent")
    assert consumer.receive() == b"from the parent"


def fails_in_the_child(out):
    """Whether each call that accepts or sends bytes raises."""
    for call in (lambda: out.write(b"x"), lambda: out.write(bytes(300_000)), out.flush, out.lend, out.finish):
        try:
            call()
        except OSError:
            continue
        return False
    return True


@pytest.mark.parametrize("method", ["auto", "copy", "fresh", "cow_checked", "drained"])
@pytest.mark.parametrize("is_lent", [False, True])
def test_a_forked_child_sends_nothing_of_its_parents_writer(method, is_lent):
    reader, writer = os.pipe()
    out = fastpipes.Writer(writer, method=method)
    out.write(b"before ")
    memory = out.lend(10) if is_lent else None
    if is_lent:
        # In memory of which the child has a copy.
        memory[:3] = b"and"
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(OSError):
            if is_lent:
                out.commit(3)
                os._exit(1)
        is_right = fails_in_the_child(out)
        del memory, out
        os._exit(7 if is_right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    if is_lent:
        out.commit(3)
    out.write(b" after")
    out.finish()
    del out
    os.close(writer)
    with open(reader, "rb") as file:
        assert file.read() == (b"before and after" if is_lent else b"before  after")


def test_a_ring_is_no_standard_stream():
    script = "import fastpipes, os; ends = fastpipes.ring(4096)\ntry: os.fstat(1)\nexcept OSError: os._exit(7)"
    closed = lambda: os.close(1)  # noqa: E731
    assert subprocess.run([sys.executable, "-c", script], preexec_fn=closed).returncode == 7


def interrupted(script, *args, lines=(b"ready\n",)):
    """What a program prints after these lines, with one SIGINT once it waits after each."""
    child = subprocess.Popen([sys.executable, "-c", script, *args], stdout=subprocess.PIPE)
    for line in lines:
        assert child.stdout.readline() == line
        while open(f"/proc/{child.pid}/stat").read().rsplit(") ", 1)[1][0] != "S":
            assert child.poll() is None
        child.send_signal(signal.SIGINT)
    return child.communicate(timeout=120)[0]


def test_a_second_ctrl_c_gives_up_what_a_deleted_writer_has():
    script = """
import fastpipes, os, signal, threading
reader, writer = os.pipe()
out = fastpipes.Writer(writer)
try:
    print("ready", flush=True)
    out.commit(len(out.lend(8 << 20)))
except KeyboardInterrupt:
    print("deleting", flush=True)
del out
print("deleted", flush=True)
"""
    assert interrupted(script, lines=(b"ready\n", b"deleting\n")) == b"deleted\n"


def test_a_writer_deleted_as_an_exception_passes_sends_its_bytes_and_keeps_that():
    reader, writer = os.pipe()
    file = os.fdopen(writer, "wb", buffering=0)

    def opened():
        out = fastpipes.Writer(file)
        out.write(b"line\n")
        return out

    with pytest.raises(ZeroDivisionError):
        print(opened(), 1 / 0)
    with pytest.raises(TypeError, match="bytes-like"):
        opened().write("text")
    file.close()
    with open(reader, "rb") as input:
        assert input.read() == b"line\nline\n"


def test_a_handler_of_a_signal_cannot_use_a_writer_in_the_midst_of_a_call():
    reader, writer = os.pipe()
    out = fastpipes.Writer(writer, method="fresh", at_once=True, keep_capacity=True)
    raised = []

    def handle(*_):
        for call in (out.lend, out.flush, lambda: out.write(b"x")):
            with pytest.raises(RuntimeError, match="in use"):
                call()
            raised.append(True)
        signal.setitimer(signal.ITIMER_REAL, 0)
        threading.Thread(target=lambda: os.read(reader, MIB), daemon=True).start()

    before = signal.signal(signal.SIGALRM, handle)
    with contextlib.suppress(BlockingIOError):
        os.set_blocking(writer, False)
        while True:
            os.write(writer, b"f" * 4096)
    os.set_blocking(writer, True)
    memory = out.lend(1 << 16)
    memory[:] = b"a" * len(memory)
    # Once the call has begun, which is all that follows, and again: the first one may come before its wait.
    signal.setitimer(signal.ITIMER_REAL, 0.3, 0.3)
    out.commit(1)
    signal.signal(signal.SIGALRM, before)
    assert len(raised) == 3
    out.finish()
    os.close(writer)
    os.close(reader)


@pytest.mark.parametrize("kind", ["socket", "pipe with one free page"])
def test_one_ctrl_c_ends_a_write_of_which_a_part_was_written(kind):
    script = """
import fastpipes, os, socket, sys
if sys.argv[1] == "socket":
    reader, writer = socket.socketpair()
    writer = writer.detach()
else:
    reader, writer = os.pipe()
    fastpipes.set_pipe_size(writer, 65536)
    os.write(writer, bytes(15 * 4096))
out = fastpipes.Writer(writer, method="copy", keep_capacity=True)
print("ready", flush=True)
try:
    while True:
        out.write(b"x" * 1000000)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    os._exit(0)
"""
    assert interrupted(script, kind) == b"interrupted\n"


@pytest.mark.parametrize("opened", ["open(sys.argv[1], 'wb')", "open(sys.argv[1], 'w')", "sys.stdout"])
def test_an_unfinished_writer_sends_what_it_has_before_its_file_is_closed_at_the_end(opened, tmp_path):
    # The function and what it uses refer to each other.
    script = f"""
import fastpipes, sys
file = {opened}
out = fastpipes.Writer(file)
out.write(b"x" * 100)
def main():
    out.write(b"never")
file_of = [file, out]
"""
    with open(tmp_path / "standard", "wb") as standard:
        done = subprocess.run(
            [sys.executable, "-c", script, tmp_path / "named"],
            stdout=standard,
            stderr=subprocess.PIPE,
            timeout=120,
        )
    assert (done.returncode, done.stderr) == (0, b"")
    written = tmp_path / ("standard" if opened == "sys.stdout" else "named")
    assert written.read_bytes() == b"x" * 100


def test_what_is_lost_at_the_end_is_reported_and_a_reader_that_left_is_not():
    script = "import fastpipes; out = fastpipes.Writer(1); out.write(b'x' * 100)\ndef main(): out.write(b'')"
    reader, writer = os.pipe()
    os.close(reader)
    with open("/dev/full", "wb") as full:
        for output, expected in ((full, b"No space left"), (writer, b"")):
            done = subprocess.run([sys.executable, "-c", script], stdout=output, stderr=subprocess.PIPE, timeout=120)
            assert expected in done.stderr and (expected or not done.stderr)
            assert b"panic" not in done.stderr
    os.close(writer)


@pytest.mark.parametrize("kind", ["writer", "ring"])
def test_an_exception_whose_frame_has_lent_memory_does_not_keep_the_end_from_the_reader(kind):
    def fail(end):
        with end:
            kept = numpy.frombuffer(end.lend(4096), dtype=numpy.uint8)
            assert kept.flags.writeable
            raise ZeroDivisionError

    if kind == "ring":
        producer, consumer = fastpipes.ring(1 << 16)
        with pytest.raises(ZeroDivisionError) as raised:
            fail(producer)
        assert consumer.peek(1).nbytes == 0
    else:
        reader, writer = os.pipe()
        out = fastpipes.Writer(writer, method="fresh", at_once=True)
        out.write(b"before")
        with pytest.raises(ZeroDivisionError) as raised:
            fail(out)
        os.close(writer)
        with open(reader, "rb") as file:
            assert file.read() == b"before"
    # The memory is still there.
    kept = raised.traceback[-1].frame.f_locals["kept"]
    kept[0] = kept[-1] = 7
    # Of the exception and its frame there is a cycle.
    del raised, kept
    gc.collect()


@pytest.mark.parametrize("call", ["out.write(b'late')", "out.lend(4)[:4] = b'late'; out.commit(4)"])
def test_what_is_written_as_the_program_ends_arrives(call, tmp_path):
    """Handlers of atexit that were registered before the import run after its own, as logging.shutdown() does."""
    script = f"""
import atexit, sys
def late():
    {call}
atexit.register(late)
import fastpipes
def main():
    global out
    out = fastpipes.Writer(open(sys.argv[1], "wb", buffering=0))
    out.write(b"early ")
main()
"""
    subprocess.run([sys.executable, "-c", script, tmp_path / "file"], check=True)
    assert (tmp_path / "file").read_bytes() == b"early late"


def test_no_child_is_left_behind_where_no_thread_can_be_started():
    script = """
import fastpipes, os, subprocess, threading
def refuse(_):
    raise RuntimeError
threading.Thread.start = refuse
try:
    fastpipes.Popen(["sleep", "60"], stderr=subprocess.PIPE)
except RuntimeError:
    try:
        print(os.waitpid(-1, os.WNOHANG))
    except ChildProcessError:
        print("none")
"""
    assert subprocess.check_output([sys.executable, "-c", script]) == b"none\n"


def test_a_handler_that_raises_tears_no_short_write():
    script = """
import fastpipes, os, signal, threading
def handle(*_):
    raise TimeoutError
signal.signal(signal.SIGALRM, handle)
reader, writer = os.pipe()
out = fastpipes.Writer(writer)
line = b"x" * 776 + b"\\n"
signal.setitimer(signal.ITIMER_REAL, 0.2)
try:
    while True:
        out.write(line)
except TimeoutError:
    pass
def read():
    with os.fdopen(reader, "rb") as lines:
        print({len(line) for line in lines})
reading = threading.Thread(target=read)
reading.start()
out.write(line)
out.finish()
os.close(writer)
reading.join()
"""
    assert subprocess.check_output([sys.executable, "-c", script]) == b"{777}\n"


def test_a_message_that_comes_as_a_handler_raises_is_not_lost():
    script = """
import fastpipes, os, signal, socket, time
def handle(*_):
    raise TimeoutError
signal.signal(signal.SIGALRM, handle)
ours, theirs = socket.socketpair()
if os.fork() == 0:
    ours.close()
    producer = fastpipes.Producer.offer(theirs, 1 << 16)
    for number in range(20):
        time.sleep(0.03)
        producer.send(b"%d" % number)
    producer.close()
    os._exit(0)
theirs.close()
consumer = fastpipes.Consumer.accept(ours)
messages = []
while True:
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        message = consumer.receive()
        signal.setitimer(signal.ITIMER_REAL, 0)
        if message is None:
            break
        messages.append(int(message))
    except TimeoutError:
        pass
print(messages == list(range(20)))
"""
    assert subprocess.check_output([sys.executable, "-c", script]) == b"True\n"


def test_a_message_for_which_memory_is_lacking_is_not_lost():
    script = """
import fastpipes, resource, sys
producer, consumer = fastpipes.ring(64 << 20)
producer.send(bytes(30 << 20))
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
for room in (20, 34, 40):
    resource.setrlimit(resource.RLIMIT_AS, (size + (room << 20), -1))
    try:
        consumer.receive()
        sys.exit(4)
    except MemoryError:
        pass
resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
sys.exit(0 if len(consumer.receive()) == 30 << 20 else 3)
"""
    assert subprocess.run([sys.executable, "-c", script], timeout=300).returncode == 0


@pytest.mark.parametrize("ends_by", ["with", "finish"])
def test_what_could_not_be_sent_is_not_sent_later(ends_by, tmp_path):
    """A program that makes room, and writes the file anew."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with open(tmp_path / "file", "wb", buffering=0) as file:
        out = fastpipes.Writer(file)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
        with pytest.raises(OSError, match="File too large"):
            if ends_by == "with":
                with out:
                    out.write(b"old" * 10000)
            else:
                out.write(b"old" * 10000)
                out.finish()
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        file.truncate(0)
        file.seek(0)
        with fastpipes.Writer(file) as out:
            out.write(b"new")
    signal.signal(signal.SIGXFSZ, before)
    gc.collect()
    assert (tmp_path / "file").read_bytes() == b"new"


def test_an_alarm_that_raises_ends_a_with_statement():
    script = """
import fastpipes, os, signal
def handle(*_): raise TimeoutError
signal.signal(signal.SIGALRM, handle)
reader, writer = os.pipe()
try:
    with fastpipes.Writer(writer, keep_capacity=True) as out:
        for _ in range(100):
            out.write(b"x" * 1000)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
except TimeoutError:
    print("late", flush=True)
"""
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, timeout=120)
    assert (done.returncode, done.stdout) == (0, b"late\n")


def test_a_wrong_call_gives_nothing_up():
    reader, writer = os.pipe()
    out = fastpipes.Writer(writer)
    out.write(b"kept")
    with pytest.raises(ValueError, match="nothing is lent"):
        out.commit(1)
    del out
    os.close(writer)
    with open(reader, "rb") as file:
        assert file.read() == b"kept"


def test_what_a_deleted_writer_loses_is_reported():
    script = "import fastpipes; out = fastpipes.Writer(1); out.write(b'x' * {}); del out"
    for size in (100, 100_000):
        with open("/dev/full", "wb") as full:
            lost = subprocess.run(
                [sys.executable, "-c", script.format(size)], stdout=full, stderr=subprocess.PIPE, timeout=120
            )
        assert b"No space left" in lost.stderr


def test_poll_does_not_wait_for_a_child_that_keeps_standard_error():
    with fastpipes.Popen(["sh", "-c", "exec 3>&2; sleep 20 >/dev/null 2>&3 3>&- & echo $!"], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE) as child:
        sleeper = int(child.stdout.readline())
        times = []
        while True:
            began = time.monotonic()
            status = child.poll()
            times.append(time.monotonic() - began)
            if status is not None:
                break
        os.kill(sleeper, signal.SIGKILL)
        while child._drain is not None:
            child.poll()
    assert max(times) < 0.9


def test_a_second_ctrl_c_ends_a_with_statement():
    script = """
import fastpipes, os
reader, writer = os.pipe()
try:
    with fastpipes.Writer(writer) as out:
        print("ready", flush=True)
        try:
            while True:
                out.write(b"x" * 1000)
        finally:
            print("leaving", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
try:
    out.finish()
    print("finished")
except ValueError:
    pass
del out
print("deleted", flush=True)
"""
    assert interrupted(script, lines=(b"ready\n", b"leaving\n")) == b"interrupted\ndeleted\n"


HANDLER_RAISES = """
import fastpipes, os, signal, sys
how, size = sys.argv[1], int(sys.argv[2])
def handle(*_):
    raise SystemExit if how == "exit" else RuntimeError("from a handler")
signal.signal(signal.SIGALRM, handle)
out = fastpipes.Writer(1)
signal.setitimer(signal.ITIMER_REAL, 0.1)
accepted = 0
def fill():
    global accepted
    try:
        while True:
            if how == "commit":
                memory = out.lend(size)
                memory[:size] = b"x" * size
                accepted += size
                out.commit(size)
            else:
                accepted += out.write(b"x" * size)
    finally:
        out.write(b"SUMMARY")
try:
    if how == "exit":
        fill()
    with out:
        fill()
except RuntimeError:
    pass
finally:
    print(accepted, file=sys.stderr)
"""


@pytest.mark.parametrize("how", ["with", "commit", "exit"])
@pytest.mark.parametrize("size", [100, 5000])
def test_what_was_accepted_before_a_handler_raises_arrives(how, size):
    child = subprocess.Popen(
        [sys.executable, "-c", HANDLER_RAISES, how, str(size)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    sent, accepted = child.communicate(timeout=300)
    assert child.returncode == 0
    assert sent.endswith(b"xSUMMARY")
    # An exception may come between the end of a call and the count, and a part of that call's bytes be accepted.
    assert int(accepted) - size <= len(sent) - len("SUMMARY") <= int(accepted) + size


def test_ctrl_c_that_ends_finish_gives_up_what_a_deleted_writer_has():
    script = """
import fastpipes, os
reader, writer = os.pipe()
os.set_blocking(writer, False)
try:
    while True:
        os.write(writer, bytes(4096))
except BlockingIOError:
    os.set_blocking(writer, True)
out = fastpipes.Writer(writer)
out.write(b"x" * 100)
try:
    print("ready", flush=True)
    out.finish()
except KeyboardInterrupt:
    print("deleting", flush=True)
del out
print("deleted", flush=True)
"""
    assert interrupted(script) == b"deleting\ndeleted\n"


@pytest.mark.parametrize("ends_by", ["del", "exit"])
def test_what_was_accepted_after_a_failure_is_sent(ends_by, tmp_path):
    script = """
import fastpipes, resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
_, limit = resource.getrlimit(resource.RLIMIT_FSIZE)
file = open(sys.argv[1], "wb", buffering=0)
out = fastpipes.Writer(file)
resource.setrlimit(resource.RLIMIT_FSIZE, (50, limit))
out.write(b"old" * 30)
try:
    out.flush()
    sys.exit(3)
except OSError:
    pass
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
out.write(b"new" * 30)
if sys.argv[2] == "del":
    del out
"""
    subprocess.run([sys.executable, "-c", script, tmp_path / "file", ends_by], check=True, timeout=120)
    assert (tmp_path / "file").read_bytes() == b"old" * 30 + b"new" * 30


def test_memory_that_is_lacking_for_a_loan_gives_nothing_up():
    reader, writer = os.pipe()
    out = fastpipes.Writer(writer)
    out.write(b"kept")
    with contextlib.suppress(MemoryError), out:
        out.lend(1 << 50)
    out = fastpipes.Writer(writer)
    with pytest.raises(MemoryError):
        out.lend(1 << 50)
    out.write(b", too")
    del out
    os.close(writer)
    with open(reader, "rb") as file:
        assert file.read() == b"kept, too"


@pytest.mark.parametrize("kind", [fastpipes.Writer, fastpipes.Reader])
def test_what_only_its_own_file_refers_to_is_collected(kind):
    class File(io.FileIO):
        pass

    reader, writer = os.pipe()
    file = File(writer if kind is fastpipes.Writer else reader, kind is fastpipes.Writer and "wb" or "rb")
    file.other = kind(file)
    collected = weakref.ref(file.other)
    del file
    gc.collect()
    assert collected() is None
    os.close(reader if kind is fastpipes.Writer else writer)


def test_memory_that_is_lacking_is_an_exception_and_loses_no_byte():
    script = """
import fastpipes, resource, sys
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (64 << 20), -1))
file = fastpipes.Reader(0)
try:
    file.read()
except MemoryError:
    resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
    sys.exit(0 if len(file.read()) == 128 << 20 else 3)
sys.exit(4)
"""
    child = subprocess.run([sys.executable, "-c", script], input=bytes(128 << 20), timeout=300)
    assert child.returncode == 0


def test_the_examples_of_the_documentation():
    for module in (fastpipes, fastpipes._popen):
        failed, tried = doctest.testmod(module)
        assert tried > 0 and failed == 0
