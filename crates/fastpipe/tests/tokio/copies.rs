//! `copy` and `copy_bidirectional`.

use std::fs::File;
use std::future::Future;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::{beside, both, cancelled_after, counted, run};
use crate::common::Directory;
use crate::common::ends;
use crate::common::process::mappings_and_descriptors;
use crate::common::prohibited::{self, failing_connections};
use crate::common::seccomp::refuse;
use crate::common::state::until;
use crate::common::writers::{KIB, MIB, check, stream};
use fastpipe::relay::RelayError;
use fastpipe::tokio::{Reader, copy, copy_bidirectional};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const LEN: usize = 5 * MIB + 3;

/// Two ends of a TCP connection.
fn tcp() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (one, listener.accept().unwrap().0)
}

/// The same for tokio.
fn nonblocking(stream: TcpStream) -> tokio::net::TcpStream {
    stream.set_nonblocking(true).unwrap();
    tokio::net::TcpStream::from_std(stream).unwrap()
}

fn read_all(mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    beside(move || {
        let mut all = Vec::new();
        from.read_to_end(&mut all).unwrap();
        all
    })
}

fn write_all(mut to: impl Write + Send + 'static) -> std::thread::JoinHandle<()> {
    beside(move || to.write_all(&stream(0, LEN)).unwrap())
}

fn is_whole(got: &[u8]) {
    check(got, 0).unwrap();
    assert_eq!(got.len(), LEN);
}

#[test]
fn bytes_pass_between_ends_of_all_kinds() {
    let directory = Directory::new();
    let file = directory.file("f", &stream(0, LEN));
    drop(file);
    let path = directory.path("f");
    // From a pipe to a pipe.
    let ((reader, writer), (from, to)) = (std::io::pipe().unwrap(), std::io::pipe().unwrap());
    let (writing, reading) = (write_all(writer), read_all(from));
    assert_eq!(run(copy(&reader, &to)).unwrap(), LEN as u64);
    drop(to);
    is_whole(&reading.join().unwrap());
    writing.join().unwrap();

    // From a file to a pipe, and from a pipe to a file.
    let (from, to) = std::io::pipe().unwrap();
    let reading = read_all(from);
    assert_eq!(
        run(copy(File::open(&path).unwrap(), &to)).unwrap(),
        LEN as u64
    );
    drop(to);
    is_whole(&reading.join().unwrap());
    let (reader, writer) = std::io::pipe().unwrap();
    let writing = write_all(writer);
    let other = directory.path("other");
    run(copy(&reader, File::create(&other).unwrap())).unwrap();
    writing.join().unwrap();
    is_whole(&std::fs::read(&other).unwrap());

    // From a file to a file, to and from a socket, and to a device.
    let third = directory.path("third");
    run(copy(
        File::open(&path).unwrap(),
        File::create(&third).unwrap(),
    ))
    .unwrap();
    is_whole(&std::fs::read(&third).unwrap());
    let null = File::options().write(true).open("/dev/null").unwrap();
    assert_eq!(
        run(copy(File::open(&path).unwrap(), null)).unwrap(),
        LEN as u64
    );
    for blocking in [false, true] {
        let (mine, theirs) = tcp();
        mine.set_nonblocking(!blocking).unwrap();
        let reading = read_all(theirs);
        run(copy(File::open(&path).unwrap(), &mine)).unwrap();
        drop(mine);
        is_whole(&reading.join().unwrap());
        let (mine, theirs) = UnixStream::pair().unwrap();
        mine.set_nonblocking(!blocking).unwrap();
        let writing = write_all(theirs);
        run(copy(&mine, File::create(&other).unwrap())).unwrap();
        writing.join().unwrap();
        is_whole(&std::fs::read(&other).unwrap());
    }
}

#[test]
fn both_directions_pass_and_each_ends_by_itself() {
    for threads in [1, 2] {
        let (client, ours) = tcp();
        let (theirs, server) = tcp();
        let asking = beside({
            let client = client.try_clone().unwrap();
            move || {
                (&client).write_all(&stream(0, LEN)).unwrap();
                client.shutdown(Shutdown::Write).unwrap();
            }
        });
        let serving = beside(move || {
            let mut question = Vec::new();
            (&server).read_to_end(&mut question).unwrap();
            // After the other direction has ended.
            (&server).write_all(&question).unwrap();
        });
        let reading = read_all(client);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .enable_io()
            .build()
            .unwrap();
        let moved = runtime.block_on(async {
            let (ours, theirs) = (nonblocking(ours), nonblocking(theirs));
            // In a task of its own, which may run in either thread.
            tokio::spawn(async move { copy_bidirectional(&ours, &theirs).await })
                .await
                .unwrap()
        });
        assert_eq!(moved.unwrap(), (LEN as u64, LEN as u64));
        is_whole(&reading.join().unwrap());
        asking.join().unwrap();
        serving.join().unwrap();
    }
}

#[test]
fn a_connection_that_is_reset_is_an_error() {
    let (client, ours) = tcp();
    let (theirs, server) = tcp();
    // A reset, not an end: there are unread bytes.
    (&ours).write_all(b"unread").unwrap();
    rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
    let outcome = run(async {
        let (ours, theirs) = (nonblocking(ours), nonblocking(theirs));
        let copying = copy_bidirectional(&ours, &theirs);
        both(copying, async { drop(client) }).await.0
    });
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::ConnectionReset);
    drop(server);
}

#[test]
fn an_output_without_reader_ends_a_copy_that_waits_for_its_input() {
    let (reader, _writer) = std::io::pipe().unwrap();
    let (from, to) = std::io::pipe().unwrap();
    let outcome = run(async {
        let copying = copy(&reader, &to);
        both(copying, async {
            tokio::task::yield_now().await;
            drop(from);
        })
        .await
        .0
    });
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::BrokenPipe);
}

/// golang/go#75304: a splice between a pipe with bytes and an output that is full.
#[test]
fn a_copy_that_cannot_go_on_is_not_polled_again_and_again() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (idle, _held) = std::io::pipe().unwrap();
        let (_unread, to) = std::io::pipe().unwrap();
        let (endless, full) = (File::open("/dev/zero").unwrap(), std::io::pipe().unwrap());
        let (many, (_stuck, stuck)) = (std::io::pipe().unwrap(), std::io::pipe().unwrap());
        let feeding = beside({
            let mut writer = many.1;
            // Until its reader leaves.
            move || while writer.write_all(&[1; 64 * KIB]).is_ok() {}
        });
        let (client, ours) = tcp();
        let (theirs, server) = tcp();
        let flooding = beside(move || while (&client).write_all(&[1; 64 * KIB]).is_ok() {});
        let (ours, theirs) = (nonblocking(ours), nonblocking(theirs));
        let polls = [const { AtomicUsize::new(0) }; 4];
        let waiting = async {
            tokio::join!(
                counted(&polls[0], copy(&idle, &to)),
                counted(&polls[1], copy(&endless, &full.1)),
                counted(&polls[2], copy(&many.0, &stuck)),
                // Whose reader does not read.
                counted(&polls[3], copy_bidirectional(&ours, &theirs)),
            )
        };
        let limit = Duration::from_millis(300);
        assert!(tokio::time::timeout(limit, waiting).await.is_err());
        for polls in &polls {
            let polls = polls.load(Ordering::Relaxed);
            // A loop would take more than ten thousand.
            assert!(polls < 2000, "{polls} polls");
        }
        drop((many.0, ours, theirs, server));
        feeding.join().unwrap();
        flooding.join().unwrap();
    });
}

/// FASTPIPE_TEST_COPIES sets another number than 20,000.
#[test]
fn many_short_copies_pass_and_leave_nothing() {
    let copies = std::env::var("FASTPIPE_TEST_COPIES").map_or(20_000, |n| n.parse().unwrap());
    let before = mappings_and_descriptors();
    run(async {
        let (mut inner, outer) = UnixStream::pair().unwrap();
        outer.set_nonblocking(true).unwrap();
        inner
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        for n in 0..copies {
            let (reader, mut writer) = std::io::pipe().unwrap();
            let sent = (n as u64).to_le_bytes();
            writer.write_all(&sent).unwrap();
            drop(writer);
            assert_eq!(copy(&reader, &outer).await.unwrap(), 8);
            let mut got = [0; 8];
            inner.read_exact(&mut got).unwrap();
            assert_eq!(got, sent);
        }
    });
    // Other tests of this program open and close some, too.
    until("nothing is left", || {
        let after = mappings_and_descriptors();
        after.0 <= before.0 + 100 && after.1 <= before.1 + 100
    });
}

/// A server that answers early and closes with unread bytes, so that its connection is reset.
#[test]
fn an_answer_before_a_reset_is_passed_on() {
    for len in [100, 20 * KIB] {
        let (client, ours) = tcp();
        let (theirs, server) = tcp();
        (&client).write_all(&[1; 64 * KIB]).unwrap();
        let serving = beside(move || {
            (&server).read_exact(&mut [0; 100]).unwrap();
            (&server).write_all(&stream(0, len)).unwrap();
            drop(server);
        });
        let reading = beside(move || {
            let (mut all, mut piece) = (Vec::new(), [0; 4096]);
            while let Ok(n @ 1..) = (&client).read(&mut piece) {
                all.extend_from_slice(&piece[..n]);
            }
            all
        });
        let outcome = run(async move {
            let (ours, theirs) = (nonblocking(ours), nonblocking(theirs));
            copy_bidirectional(&ours, &theirs).await
        });
        serving.join().unwrap();
        let got = reading.join().unwrap();
        check(&got, 0).unwrap();
        assert_eq!(got.len(), len);
        let kind = outcome.unwrap_err().kind();
        assert!(
            matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe),
            "{kind}"
        );
    }
}

/// The other side is idle, and its own connection tells nothing.
#[test]
fn a_connection_that_is_reset_after_its_end_is_an_error() {
    let (client, ours) = tcp();
    let (theirs, _server) = tcp();
    // Its end is passed on before the reset.
    client.shutdown(Shutdown::Write).unwrap();
    let outcome = run(async move {
        let (ours, theirs) = (nonblocking(ours), nonblocking(theirs));
        let copying = copy_bidirectional(&ours, &theirs);
        both(copying, async {
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
            drop(client);
        })
        .await
        .0
    });
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

/// splice(2) stops at it, though poll(2) says that there is more.
#[test]
fn bytes_around_urgent_ones_are_passed_on() {
    let (client, ours) = tcp();
    let (theirs, server) = tcp();
    let reading = read_all(server);
    let copying = beside(move || {
        run(async move {
            let (ours, theirs) = (nonblocking(ours), nonblocking(theirs));
            copy(&ours, &theirs).await
        })
    });
    (&client).write_all(b"one ").unwrap();
    send(&client, b"!", SendFlags::OOB).unwrap();
    (&client).write_all(b"two").unwrap();
    drop(client);
    copying.join().unwrap().unwrap();
    assert_eq!(reading.join().unwrap(), b"one two");
}

#[test]
fn a_unix_socket_whose_reader_leaves_ends_a_copy_that_waits_for_its_input() {
    let (reader, _writer) = std::io::pipe().unwrap();
    let (to, from) = UnixStream::pair().unwrap();
    to.set_nonblocking(true).unwrap();
    let outcome = run(async {
        let copying = copy(&reader, &to);
        both(copying, async {
            tokio::task::yield_now().await;
            drop(from);
        })
        .await
        .0
    });
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::BrokenPipe);
}

#[test]
fn what_tokio_itself_reads_and_writes_afterwards_is_the_rest() {
    let (client, ours) = tcp();
    let (theirs, server) = tcp();
    run(async {
        let (mut ours, mut theirs) = (nonblocking(ours), nonblocking(theirs));
        (&client).write_all(b"before").unwrap();
        let mut got = [0; 6];
        ours.read_exact(&mut got).await.unwrap();
        // Nothing moves, and the copy is given up.
        assert!(
            cancelled_after(0, copy_bidirectional(&ours, &theirs))
                .await
                .is_none()
        );
        (&client).write_all(b"after!").unwrap();
        ours.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"after!");
        theirs.write_all(b"also").await.unwrap();
        let mut got = [0; 4];
        (&server).read_exact(&mut got).unwrap();
        assert_eq!(&got, b"also");
    });
}

#[test]
fn error_of_a_connection_that_looks_like_a_refusal_is_no_end() {
    let Some(([file, socket, both_ways, reader], _peers)) = failing_connections() else {
        return;
    };
    let directory = Directory::new();
    let (theirs, _server) = tcp();
    let outcomes = run(async {
        let theirs = nonblocking(theirs);
        let [file, socket, both_ways, reader] = [file, socket, both_ways, reader].map(nonblocking);
        [
            copy(&file, directory.file("out", b"")).await.map(drop),
            copy(&socket, &theirs).await.map(drop),
            copy_bidirectional(&both_ways, &theirs).await.map(drop),
            async {
                let mut got = Vec::new();
                Reader::new(&reader)?.read_to_end(&mut got).await.map(drop)
            }
            .await,
        ]
    });
    for outcome in outcomes {
        assert_eq!(outcome.unwrap_err().raw_os_error(), Some(prohibited::ERROR));
    }
}

/// The direction that sends to the reset connection takes its error.
#[test]
fn a_reset_connection_does_not_seem_to_have_ended() {
    for swapped in [false, true] {
        let (mut client, ours) = tcp();
        let (theirs, mut server) = tcp();
        client.write_all(b"a part").unwrap();
        server.write_all(b"answer").unwrap();
        linger_zero(&client);
        drop(client);
        until("it is reset", || is_hung_up(&ours));
        let reading = beside(move || {
            let mut got = Vec::new();
            let end = server.read_to_end(&mut got).map_err(|error| error.kind());
            (got, end)
        });
        let outcome = run(async move {
            let (ours, theirs) = (nonblocking(ours), nonblocking(theirs));
            let outcome = if swapped {
                copy_bidirectional(&theirs, &ours).await
            } else {
                copy_bidirectional(&ours, &theirs).await
            };
            // The caller passes the reset on.
            linger_zero(&theirs);
            outcome
        });
        outcome.unwrap_err();
        let (got, end) = reading.join().unwrap();
        assert_eq!(end, Err(ErrorKind::ConnectionReset), "after {got:?}");
    }
}

fn linger_zero(connection: &impl AsFd) {
    rustix::net::sockopt::set_socket_linger(connection, Some(Duration::ZERO)).unwrap();
}

fn is_hung_up(connection: &impl AsFd) -> bool {
    let mut fds = [PollFd::new(connection, PollFlags::empty())];
    poll(&mut fds, Some(&Timespec::default())).unwrap();
    fds[0].revents().contains(PollFlags::HUP)
}

/// The runtime ends a copy that would never end.
async fn limited<T>(copying: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(20);
    tokio::time::timeout(limit, copying).await.expect("an end")
}

#[test]
fn an_output_that_fails_and_stays_open_ends_both_directions() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    // It takes no more, and says nothing.
    let (mut client, ours) = UnixStream::pair().unwrap();
    let (theirs, server) = UnixStream::pair().unwrap();
    server.shutdown(Shutdown::Read).unwrap();
    client.write_all(b"hello").unwrap();
    let error = runtime.block_on(limited(copy_bidirectional(&ours, &theirs)));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::BrokenPipe);

    // A message is too long for it.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let pair = || socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    let ((client, ours), (theirs, _server)) = (pair(), pair());
    rustix::net::sockopt::set_socket_send_buffer_size(&theirs, 5000).unwrap();
    send(&client, &[1; 60_000], SendFlags::empty()).unwrap();
    let error = runtime.block_on(limited(copy_bidirectional(&ours, &theirs)));
    let error = error.unwrap_err().downcast::<RelayError>().unwrap();
    assert_eq!(error.source.raw_os_error(), Some(libc::EMSGSIZE));
}

/// A server that reads no more, answers and closes. Its client sends something, and reads later.
#[test]
fn an_answer_after_a_failed_upload_is_passed_on() {
    const ANSWER_LEN: usize = 1_000_000;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    for swapped in [false, true] {
        let (client, ours) = UnixStream::pair().unwrap();
        let (theirs, server) = UnixStream::pair().unwrap();
        server.shutdown(Shutdown::Read).unwrap();
        (&client).write_all(b"upload").unwrap();
        // More than fits into the socket.
        let answering = beside(move || (&server).write_all(&stream(0, ANSWER_LEN)).unwrap());
        let (tell, told) = std::sync::mpsc::channel();
        let reading = beside(move || {
            // The upload has failed.
            told.recv().unwrap();
            std::thread::sleep(Duration::from_millis(20));
            let mut got = Vec::new();
            (&client).read_to_end(&mut got).unwrap();
            got
        });
        let (one, other) = if swapped {
            (&theirs, &ours)
        } else {
            (&ours, &theirs)
        };
        let outcome = runtime.block_on(limited(async {
            let copying = copy_bidirectional(one, other);
            both(copying, async {
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                }
                tell.send(()).unwrap();
            })
            .await
            .0
        }));
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::BrokenPipe);
        drop((ours, theirs));
        let got = reading.join().unwrap();
        check(&got, 0).unwrap();
        assert_eq!(got.len(), ANSWER_LEN);
        answering.join().unwrap();
    }
}

/// A server that reads no more, and answers after a pause.
#[test]
fn an_answer_after_a_failed_upload_is_awaited_without_a_timer() {
    // No descriptor is left for one.
    if !refuse(&[libc::SYS_timerfd_create], libc::EMFILE) {
        return;
    }
    let (mut client, ours) = UnixStream::pair().unwrap();
    let (theirs, server) = UnixStream::pair().unwrap();
    server.shutdown(Shutdown::Read).unwrap();
    client.write_all(b"upload").unwrap();
    let answering = beside(move || {
        std::thread::sleep(Duration::from_millis(50));
        (&server).write_all(b"answer").unwrap();
    });
    let outcome = run(copy_bidirectional(&ours, &theirs));
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::BrokenPipe);
    drop(ours);
    answering.join().unwrap();
    let mut got = Vec::new();
    client.read_to_end(&mut got).unwrap();
    assert_eq!(got, b"answer");
}

/// A server that reads no more, and sends something from time to time.
#[test]
fn a_failed_upload_ends_an_endless_answer_with_pauses() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (client, ours) = UnixStream::pair().unwrap();
    let (theirs, server) = UnixStream::pair().unwrap();
    server.shutdown(Shutdown::Read).unwrap();
    (&client).write_all(b"upload").unwrap();
    let answering = beside(move || {
        while (&server).write_all(b"beat").is_ok() {
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    let outcome = runtime.block_on(limited(copy_bidirectional(&ours, &theirs)));
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::BrokenPipe);
    drop(theirs);
    answering.join().unwrap();
}

#[test]
fn the_end_of_an_output_with_an_error_queue_is_noticed() {
    let (reader, _writer) = std::io::pipe().unwrap();
    let (to, from) = ends::tcp();
    if !ends::noticed(&to) {
        return;
    }
    let outcome = run(async {
        let copying = copy(&reader, &to);
        both(copying, async {
            // It looks at the output.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            // With an unread byte.
            drop(from);
        })
        .await
        .0
    });
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::ConnectionReset);
}
