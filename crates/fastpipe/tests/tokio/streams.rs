//! Writers, readers and rings whose bytes arrive.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::{beside, both, cancelled_after, counted, run};
use crate::common::Directory;
use crate::common::ends::{self, Trace, cooked_terminal};
use crate::common::process::in_own_process;
use crate::common::writers::{KIB, MIB, check, fill, stream};
use fastpipe::tokio::{Consumer, Producer, Reader, Writer};
use fastpipe::{Method, ring};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};

const LEN: usize = 3 * MIB + 17;

/// Lends and writes by turns, up to `LEN` bytes.
async fn produce(mut out: Writer<std::io::PipeWriter>) {
    let mut at = 0;
    for size in [3, 70_000, 1, 4096, 9000].into_iter().cycle() {
        let size = size.min(LEN - at);
        if size == 0 {
            break;
        }
        if size % 2 == 0 {
            let mut loan = out.lend(size).await.unwrap();
            fill(&mut loan[..size], at as u64);
            loan.commit(size).unwrap();
        } else {
            out.write_all(&stream(at as u64, size)).await.unwrap();
        }
        at += size;
    }
    out.finish().await.unwrap();
}

async fn consume(mut input: Reader<std::io::PipeReader>) {
    let mut at = 0;
    loop {
        let bytes = input.fill_buf().await.unwrap();
        if bytes.is_empty() {
            break;
        }
        let n = bytes.len().min(5000);
        check(&bytes[..n], at as u64).unwrap();
        input.consume(n);
        at += n;
        let mut few = [0; 77];
        let n = input.read(&mut few).await.unwrap();
        check(&few[..n], at as u64).unwrap();
        at += n;
    }
    assert_eq!(at, LEN);
}

#[test]
fn a_stream_passes_from_writer_to_reader_in_one_runtime() {
    for method in [Method::Auto, Method::Fresh, Method::copy()] {
        run(async {
            let (reader, writer) = std::io::pipe().unwrap();
            let settings = fastpipe::Writer::builder().method(method);
            let out = Writer::with(settings, writer).unwrap();
            both(produce(out), consume(Reader::new(reader).unwrap())).await;
        });
    }
}

#[test]
fn files_are_always_ready() {
    let directory = Directory::new();
    let path = directory.path("f");
    run(async {
        let mut out = Writer::new(std::fs::File::create(&path).unwrap()).unwrap();
        out.write_all(&stream(0, LEN)).await.unwrap();
        out.flush().await.unwrap();
        assert_eq!(out.finish().await.unwrap().counts.bytes, LEN as u64);
        let mut got = Vec::new();
        let mut input = Reader::new(std::fs::File::open(&path).unwrap()).unwrap();
        input.read_to_end(&mut got).await.unwrap();
        check(&got, 0).unwrap();
        assert_eq!(got.len(), LEN);
    });
}

#[test]
fn a_reader_that_leaves_is_a_broken_pipe() {
    run(async {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut out = Writer::new(writer).unwrap();
        let sending = async {
            loop {
                if let Err(error) = out.write_all(&[1; 64 * KIB]).await {
                    break error.kind();
                }
            }
        };
        let (kind, ()) = both(sending, async { drop(reader) }).await;
        assert_eq!(kind, ErrorKind::BrokenPipe);
    });
}

#[test]
fn a_full_pipe_and_an_empty_one_are_not_polled_again_and_again() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut out = Writer::new(writer).unwrap();
        let (mut empty, _held) = {
            let (reader, writer) = std::io::pipe().unwrap();
            (Reader::new(reader).unwrap(), writer)
        };
        let polls = [const { AtomicUsize::new(0) }; 2];
        let full = counted(&polls[0], async {
            loop {
                out.write_all(&[1; 4 * MIB]).await.unwrap();
            }
        });
        let starved = counted(&polls[1], empty.fill_buf());
        // As long as they would spin.
        let waiting = async { tokio::join!(full, async { starved.await.map(drop) }) };
        let limit = Duration::from_millis(300);
        assert!(tokio::time::timeout(limit, waiting).await.is_err());
        for polls in &polls {
            let polls = polls.load(Ordering::Relaxed);
            assert!(polls < 20, "{polls} polls");
        }
        drop(reader);
    });
}

fn ring(capacity: usize) -> (ring::Producer, ring::Consumer) {
    let (here, there) = UnixStream::pair().unwrap();
    let accepting = beside(move || ring::Consumer::accept(&there).unwrap());
    let producer = ring::Producer::offer(&here, capacity).unwrap();
    (producer, accepting.join().unwrap())
}

#[test]
fn messages_pass_through_a_ring_in_one_runtime() {
    run(async {
        let (producer, consumer) = ring(1);
        let mut producer = Producer::new(producer).unwrap();
        let mut consumer = Consumer::new(consumer).unwrap();
        let sending = async move {
            for n in 0..10_000_usize {
                producer.send(&stream(n as u64, n % 900)).await.unwrap();
            }
        };
        let receiving = async {
            let mut message = Vec::new();
            let mut count = 0;
            while let Some(len) = consumer.recv(&mut message).await.unwrap() {
                assert_eq!(len, count % 900);
                check(&message, count as u64).unwrap();
                count += 1;
            }
            assert_eq!(count, 10_000);
        };
        both(sending, receiving).await;
    });
}

#[test]
fn one_end_may_wait_in_the_runtime_and_the_other_asleep() {
    // The consumer in the runtime.
    let (mut producer, consumer) = ring(8 * KIB);
    let sending = beside(move || {
        for at in (0..LEN).step_by(1000) {
            let n = 1000.min(LEN - at);
            producer.write_all(&stream(at as u64, n)).unwrap();
        }
    });
    run(async {
        let mut consumer = Consumer::new(consumer).unwrap();
        let mut got = Vec::new();
        consumer.read_to_end(&mut got).await.unwrap();
        check(&got, 0).unwrap();
        assert_eq!(got.len(), LEN);
    });
    sending.join().unwrap();

    // The producer.
    let (producer, mut consumer) = ring(8 * KIB);
    let receiving = beside(move || {
        let mut got = Vec::new();
        consumer.read_to_end(&mut got).unwrap();
        got
    });
    run(async {
        let mut producer = Producer::new(producer).unwrap();
        let mut at = 0;
        while at < LEN {
            let n = 3000.min(LEN - at);
            let mut slot = producer.lend(n).await.unwrap();
            slot.write_at(0, &stream(at as u64, n));
            slot.commit(n);
            at += n;
        }
    });
    let got = receiving.join().unwrap();
    check(&got, 0).unwrap();
    assert_eq!(got.len(), LEN);
}

/// Repeats `turn` until another task of the runtime has had its turn.
async fn lets_others_run(what: &str, mut turn: impl AsyncFnMut()) {
    let has_run = Arc::new(AtomicBool::new(false));
    let other = tokio::spawn({
        let has_run = has_run.clone();
        async move { has_run.store(true, Ordering::Relaxed) }
    });
    for _ in 0..1000 {
        turn().await;
        if has_run.load(Ordering::Relaxed) {
            return other.await.unwrap();
        }
    }
    panic!("{what} starves the other task");
}

#[test]
fn what_never_has_to_wait_lets_other_tasks_run() {
    run(async {
        let zero = || File::open("/dev/zero").unwrap();
        let null = || File::options().write(true).open("/dev/null").unwrap();
        let mut input = Reader::new(zero()).unwrap();
        let mut large = vec![0; MIB];
        lets_others_run("reading without buffer", async || {
            input.read_exact(&mut large).await.unwrap();
        })
        .await;
        lets_others_run("reading", async || {
            input.read_exact(&mut [0; 100]).await.unwrap();
        })
        .await;
        lets_others_run("a buffer", async || {
            input.fill_buf().await.unwrap();
        })
        .await;
        let mut out = Writer::new(null()).unwrap();
        lets_others_run("writing", async || out.write_all(&[1; 100]).await.unwrap()).await;
        lets_others_run("flushing", async || out.flush().await.unwrap()).await;
        lets_others_run("lending", async || {
            out.lend(0).await.unwrap().commit(1).unwrap();
        })
        .await;
        let directory = Directory::new();
        let short = directory.file("short", b"short");
        lets_others_run("short copies", async || {
            fastpipe::tokio::copy(&short, null()).await.unwrap();
        })
        .await;
    });
}

#[test]
fn a_ring_whose_peer_is_never_behind_lets_other_tasks_run() {
    run(async {
        let (producer, consumer) = ring(MIB);
        let mut producer = Producer::new(producer).unwrap();
        let mut consumer = Consumer::new(consumer).unwrap();
        lets_others_run("lending", async || {
            let _ = producer.lend(8).await.unwrap();
        })
        .await;
        lets_others_run("sending", async || {
            producer.send(b"message").await.unwrap();
            producer.send(b"message").await.unwrap();
        })
        .await;
        for _ in 0..1000 {
            producer.send(b"message").await.unwrap();
        }
        let mut message = Vec::new();
        lets_others_run("receiving", async || {
            consumer.recv(&mut message).await.unwrap();
        })
        .await;
    });
}

#[test]
fn a_terminal_whose_reader_does_not_read_blocks_no_thread() {
    let (_master, slave) = cooked_terminal();
    let (zero, other_slave) = (File::open("/dev/zero").unwrap(), slave.try_clone().unwrap());
    run(async {
        let mut out = Writer::new(slave).unwrap();
        let writing = async {
            loop {
                out.write_all(&[b'\n'; 4096]).await.unwrap();
                out.flush().await.unwrap();
            }
        };
        assert!(cancelled_after(0, writing).await.is_none());
        let copying = fastpipe::tokio::copy(&zero, &other_slave);
        assert!(cancelled_after(0, copying).await.is_none());
    });
}

/// Whether the file of `other` has a record lock. `other` must stay open: closing it releases the lock.
fn is_locked(other: &File) -> bool {
    let mut lock = whole_file();
    // SAFETY: valid for reading and writing a flock.
    let asked = unsafe { libc::fcntl(other.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) };
    assert_eq!(asked, 0, "{}", std::io::Error::last_os_error());
    i32::from(lock.l_type) != libc::F_UNLCK
}

fn whole_file() -> libc::flock {
    // SAFETY: all zeroes are a lock from the beginning to the end of a file.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    lock
}

/// Closing a descriptor of a file releases all of the process's locks.
#[test]
fn record_locks_of_a_file_remain() {
    let directory = Directory::new();
    let file = directory.file("f", b"locked");
    let other = File::options()
        .write(true)
        .read(true)
        .open(directory.path("f"))
        .unwrap();
    let lock = whole_file();
    // SAFETY: valid for reading a flock.
    let set = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const lock) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
    run(async {
        drop(Reader::new(&file).unwrap());
        assert!(is_locked(&other), "reader");
        drop(Writer::new(&file).unwrap());
        assert!(is_locked(&other), "writer");
        let null = File::options().write(true).open("/dev/null").unwrap();
        fastpipe::tokio::copy(&file, &null).await.unwrap();
        assert!(is_locked(&other), "input");
        fastpipe::tokio::copy(File::open("/dev/null").unwrap(), &file)
            .await
            .unwrap();
        assert!(is_locked(&other), "output");
    });
}

/// The runtime would never report it.
#[test]
fn the_wrong_end_of_a_pipe_is_refused() {
    run(async {
        let (reader, writer) = std::io::pipe().unwrap();
        let errors = [
            Reader::new(&writer).unwrap_err(),
            Writer::new(&reader).unwrap_err(),
        ];
        assert_eq!(errors.map(|e| e.raw_os_error()), [Some(libc::EBADF); 2]);
    });
}

#[test]
fn an_end_that_cannot_wait_in_the_runtime_is_no_proper_end() {
    run(async {
        // These have no descriptor to wait on.
        let (producer, mut consumer) = ring::pair(1).unwrap();
        assert_eq!(
            Producer::new(producer).unwrap_err().kind(),
            ErrorKind::Unsupported
        );
        assert_eq!(
            consumer.read(&mut [0]).unwrap_err().kind(),
            ErrorKind::ConnectionReset
        );
        let (mut producer, consumer) = ring::pair(1).unwrap();
        assert_eq!(
            Consumer::new(consumer).unwrap_err().kind(),
            ErrorKind::Unsupported
        );
        assert_eq!(
            producer.write(b"x").unwrap_err().kind(),
            ErrorKind::ConnectionReset
        );
    });
}

#[test]
fn a_file_of_the_kernel_is_read_to_its_end() {
    let null = File::options().write(true).open("/dev/null").unwrap();
    let files = [
        File::open("/proc/self/mounts").ok(),
        ends::file_that_reports_changes(),
    ];
    run(async {
        for file in files.into_iter().flatten() {
            let mut input = Reader::new(file.try_clone().unwrap()).unwrap();
            input.read_to_end(&mut Vec::new()).await.unwrap();
            fastpipe::tokio::copy(&file, &null).await.unwrap();
        }
    });
    let Some(trace) = Trace::new() else {
        return;
    };
    let processor = trace.write("hello");
    run(async {
        let mut input = Reader::new(trace.open_part(processor)).unwrap();
        let mut text = [0; 5];
        assert_eq!(input.read(&mut text).await.unwrap(), 5);
    });
}

#[test]
fn a_trace_blocks_no_thread() {
    let Some(trace) = Trace::new() else {
        return;
    };
    run(async {
        let mut input = Reader::new(trace.open()).unwrap();
        assert!(cancelled_after(0, input.read(&mut [0])).await.is_none());
        trace.write("hello");
        assert_eq!(input.read(&mut [0]).await.unwrap(), 1);
        // It can be open once.
        drop(input);
        let null = File::options().write(true).open("/dev/null").unwrap();
        let copying = fastpipe::tokio::copy(trace.open(), &null);
        assert!(cancelled_after(0, copying).await.is_none());
    });
}

/// For the runtime such a socket is closed for good.
#[test]
fn a_full_socket_with_an_error_queue_is_not_polled_again_and_again() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (to, from) = ends::tcp();
    if !ends::noticed(&to) {
        return;
    }
    runtime.block_on(async {
        let mut out = Writer::new(to).unwrap();
        let polls = AtomicUsize::new(0);
        let sending = async {
            loop {
                out.write_all(&[1; 4 * MIB]).await.unwrap();
            }
        };
        let limit = Duration::from_millis(300);
        let sending = counted(&polls, sending);
        assert!(tokio::time::timeout(limit, sending).await.is_err());
        let polls = polls.load(Ordering::Relaxed);
        assert!(polls < 100, "{polls} polls");
        // It notices at once that there is room again.
        let reading = beside(move || std::io::copy(&mut File::from(from), &mut std::io::sink()));
        let started = std::time::Instant::now();
        out.write_all(&[2; 16 * MIB]).await.unwrap();
        out.finish().await.unwrap();
        assert!(started.elapsed() < Duration::from_secs(20));
        reading.join().unwrap().unwrap();
    });
}

#[test]
fn shutting_down_ends_the_writing_side_of_a_connection_and_nothing_else() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let tcp = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (tcp_peer, _) = listener.accept().unwrap();
        let (unix, unix_peer) = UnixStream::pair().unwrap();
        let ends: [(OwnedFd, OwnedFd); 2] = [
            (tcp.into(), tcp_peer.into()),
            (unix.into(), unix_peer.into()),
        ];
        for (here, there) in ends {
            let mut answer = File::from(here.try_clone().unwrap());
            let answering = beside(move || {
                let mut file = File::from(there);
                let mut got = Vec::new();
                file.read_to_end(&mut got).unwrap();
                file.write_all(b"answer").unwrap();
                got
            });
            let mut out = Writer::new(here).unwrap();
            out.write_all(&stream(0, LEN)).await.unwrap();
            out.shutdown().await.unwrap();
            let got = answering.join().unwrap();
            assert_eq!(got.len(), LEN);
            check(&got, 0).unwrap();
            // The peer has gone by now.
            out.shutdown().await.unwrap();
            let mut text = String::new();
            answer.read_to_string(&mut text).unwrap();
            assert_eq!(text, "answer");
            out.finish().await.unwrap();
        }

        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut out = Writer::new(writer).unwrap();
        for _ in 0..2 {
            out.write_all(b"pipe").await.unwrap();
            out.shutdown().await.unwrap();
        }
        out.finish().await.unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "pipepipe");
        // Connected no more, or never.
        let (here, there) = UnixDatagram::pair().unwrap();
        drop(there);
        let unconnected = UnixDatagram::unbound().unwrap();
        for end in [here, unconnected] {
            Writer::new(OwnedFd::from(end))
                .unwrap()
                .shutdown()
                .await
                .unwrap();
        }
    });
}

/// systemd, inetd and socat give a program one connection as its standard streams.
#[test]
fn shutting_down_leaves_a_connection_that_is_a_standard_stream_as_it_is() {
    in_own_process(|| {
        let (mut peer, here) = UnixStream::pair().unwrap();
        rustix::stdio::dup2_stdin(&here).unwrap();
        run(async {
            let mut out = Writer::new(here.try_clone().unwrap()).unwrap();
            out.write_all(b"data").await.unwrap();
            out.shutdown().await.unwrap();
            out.write_all(b" more").await.unwrap();
            out.finish().await.unwrap();
        });
        let mut got = [0; 9];
        peer.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"data more");
    });
}
