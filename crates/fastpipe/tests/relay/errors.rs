//! Relays of which one end fails.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::common;
use crate::common::ends::{TECHNIQUES, nonblocking, outputs, tcp, unix};
use crate::common::prohibited::{self, failing_connections};
use crate::common::state::{until, until_unread};
use crate::common::{Directory, assert_same, pattern, pipe_of, read_rest, write_all};
use fastpipe::relay::{Activity, Flow, Options, RelayError, Side, Technique, relay};
use fastpipe::wait::Wait;
use rustix::event::{PollFd, PollFlags, poll};

fn fails(
    input: impl std::os::fd::AsFd,
    output: impl std::os::fd::AsFd,
    options: &Options,
) -> RelayError {
    let mut last = None;
    let error = relay(input, output, options, |progress| {
        last = Some((progress.taken, progress.given, progress.activity));
        Flow::Continue
    })
    .unwrap_err();
    // The last call of the callback reports the same numbers as the error.
    assert_eq!(last, Some((error.taken, error.given, Activity::Ended)));
    assert_eq!(error.taken, error.given + error.undelivered.len() as u64);
    error
}

#[test]
fn full_disk_is_an_output_error_with_no_bytes_given() {
    for technique in TECHNIQUES {
        let options = Options::new().technique(technique);
        let full = File::options().write(true).open("/dev/full").unwrap();
        let directory = Directory::new();
        let file = directory.file("in", &pattern(100_000));
        let error = fails(&file, &full, &options);
        assert_eq!(error.side, Side::Output);
        assert_eq!(error.source.kind(), ErrorKind::StorageFull);
        assert_eq!((error.taken, error.given), (0, 0));
        assert_eq!(
            rustix::fs::tell(&file).unwrap(),
            0,
            "the position is put back"
        );

        for (reader, writer) in [pipe_of(65_536), unix()] {
            File::from(writer).write_all(&pattern(5000)).unwrap();
            let error = fails(&reader, &full, &options);
            assert_eq!((error.side, error.given), (Side::Output, 0));
            let all = [error.undelivered, read_rest(reader)].concat();
            assert_same(&all, &pattern(5000));
        }
    }
}

#[test]
fn file_size_limit_is_output_error_with_the_bytes_given() {
    // In its own process, since the limit affects all of it.
    common::process::in_own_process(|| {
        const MAX: u64 = 50_000;
        // SAFETY: no handler is replaced; the call then returns the error.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        let directory = Directory::new();
        let file = directory.file("in", &pattern(100_000));
        let limit = rustix::process::Rlimit {
            current: Some(MAX),
            maximum: Some(MAX),
        };
        rustix::process::setrlimit(rustix::process::Resource::Fsize, limit).unwrap();
        for technique in TECHNIQUES {
            rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0)).unwrap();
            let out = File::create(directory.path("out")).unwrap();
            let options = Options::new().technique(technique).block(30_000);
            let error = fails(&file, &out, &options);
            assert_eq!(error.side, Side::Output);
            assert_eq!(error.source.kind(), ErrorKind::FileTooLarge, "{technique}");
            let got = std::fs::read(directory.path("out")).unwrap();
            assert_eq!((error.taken, error.given), (MAX, MAX), "{technique}");
            assert_same(&got, &pattern(MAX as usize));
            assert_eq!(rustix::fs::tell(&file).unwrap(), MAX);
        }
    });
}

#[test]
fn end_of_wrong_direction_is_an_error_of_that_side() {
    let directory = Directory::new();
    directory.file("file", &pattern(1000));
    let path = directory.path("file");
    let read_only = File::open(&path).unwrap();
    let write_only = File::options().write(true).open(&path).unwrap();
    for technique in TECHNIQUES {
        let options = Options::new().technique(technique);
        let (reader, writer) = pipe_of(65_536);
        File::from(writer.try_clone().unwrap())
            .write_all(b"abc")
            .unwrap();
        for output in [&read_only.try_clone().unwrap().into(), &reader] as [&OwnedFd; 2] {
            let error = fails(&read_only, output, &options);
            assert_eq!(error.side, Side::Output, "{technique}: {error}");
            assert_eq!(error.source.raw_os_error(), Some(libc::EBADF));
            assert_eq!(error.taken, 0);
        }
        for input in [&write_only.try_clone().unwrap().into(), &writer] as [&OwnedFd; 2] {
            let error = fails(input, &write_only, &options);
            assert_eq!(error.side, Side::Input, "{technique}: {error}");
            assert_eq!(error.source.raw_os_error(), Some(libc::EBADF));
        }
        let directory = File::open(std::env::temp_dir()).unwrap();
        let error = fails(&directory, &writer, &options);
        assert_eq!(error.side, Side::Input, "{technique}: {error}");
        assert_eq!(error.source.kind(), ErrorKind::IsADirectory);
    }
}

#[test]
fn every_byte_is_accounted_for_when_the_reader_dies() {
    for technique in [
        Technique::Splice,
        Technique::SpliceThroughPipe,
        Technique::Copy,
    ] {
        for from in 0..3 {
            for to in 0..3 {
                let bytes = pattern(4 << 20);
                let (input, feeder) = match from {
                    0 => pipe_of(65_536),
                    1 => unix(),
                    _ => tcp(),
                };
                let (output, reader) = match to {
                    0 => {
                        let (reader, writer) = pipe_of(65_536);
                        (writer, reader)
                    }
                    1 => nonblocking(unix()),
                    _ => unix(),
                };
                let writing = write_all(feeder, bytes.clone(), vec![]);
                let reading = std::thread::spawn(move || {
                    let mut got = vec![0; 300_000];
                    File::from(reader).read_exact(&mut got).unwrap();
                    got
                });
                // Few slots, since each may hold 32 KiB from a socket.
                let options = Options::new().technique(technique).raise_capacity(false);
                let error = fails(&input, &output, &options);
                assert!(error.reader_is_gone(), "{error}: {}", error.source);
                assert_same(&reading.join().unwrap(), &bytes[..300_000]);
                // The undelivered bytes and the rest of the input are all bytes not given.
                let mut rest = error.undelivered;
                File::from(input).read_to_end(&mut rest).unwrap();
                assert_same(&rest, &bytes[error.given as usize..]);
                writing.join().unwrap();
            }
        }
    }
}

#[test]
fn sending_to_socket_without_reader_is_an_error_without_signal() {
    // In its own process, which SIGPIPE would kill.
    common::process::in_own_process(|| {
        // SAFETY: no handler is replaced.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        let (reader, writer) = pipe_of(65_536);
        File::from(writer).write_all(b"bytes").unwrap();
        let (output, peer) = unix();
        drop(peer);
        let error = fails(&reader, &output, &Options::new().copy());
        assert!(error.reader_is_gone());
        assert_eq!(error.undelivered, b"bytes");
    });
}

#[test]
fn a_relay_that_never_waits_can_be_resumed() {
    for technique in [Technique::Splice, Technique::Copy] {
        let options = Options::new().technique(technique).wait(Wait::Never);
        let options = options.raise_capacity(false);
        let (input, input_writer) = pipe_of(1 << 18);
        let (reader, output) = pipe_of(4096);
        let error = fails(&input, &output, &options);
        assert_eq!(
            (error.side, error.source.kind()),
            (Side::Input, ErrorKind::WouldBlock)
        );
        let bytes = pattern(30_000);
        File::from(input_writer).write_all(&bytes).unwrap();
        let error = fails(&input, &output, &options);
        assert_eq!(
            (error.side, error.source.kind()),
            (Side::Output, ErrorKind::WouldBlock)
        );
        let mut all = vec![0; error.given as usize];
        File::from(reader).read_exact(&mut all).unwrap();
        all.extend(error.undelivered);
        File::from(input).read_to_end(&mut all).unwrap();
        assert_same(&all, &bytes);
    }
}

#[test]
fn an_error_names_the_end_that_failed() {
    let (_reader, output) = pipe_of(4096);
    let error = fails(File::open("/").unwrap(), &output, &Options::new());
    assert_eq!(error.to_string(), "the input failed after 0 bytes");
    // The message does not repeat the source.
    let source = std::error::Error::source(&error).unwrap();
    let source = source.downcast_ref::<std::io::Error>().unwrap();
    assert_eq!(source.kind(), ErrorKind::IsADirectory);
    assert_eq!(std::io::Error::from(error).kind(), ErrorKind::IsADirectory);
    let options = Options::new().interval(Duration::MAX);
    let full = File::options().write(true).open("/dev/full").unwrap();
    let (reader, writer) = pipe_of(4096);
    File::from(writer).write_all(b"abc").unwrap();
    let error = fails(&reader, &full, &options);
    assert_eq!(
        error.to_string(),
        "the output failed after 0 bytes, 3 more bytes were taken from the input"
    );
}

/// A connection to be broken.
struct Breakable {
    ours: OwnedFd,
    /// Has a byte unread, so closing it resets the connection: the first end reports that
    /// once, and then the end of the data.
    peer: Option<OwnedFd>,
}

impl Breakable {
    /// Makes the first end non-blocking.
    fn new((ours, peer): (OwnedFd, OwnedFd)) -> Self {
        rustix::io::ioctl_fionbio(&ours, true).unwrap();
        rustix::io::write(&ours, b"?").unwrap();
        until_unread(&peer, 1);
        let peer = Some(peer);
        Breakable { ours, peer }
    }

    fn break_it(&mut self) {
        self.peer = None;
        until("it is broken", || {
            let mut fds = [PollFd::new(&self.ours, PollFlags::empty())];
            poll(&mut fds, Some(&Default::default())).unwrap() == 1
        });
    }
}

/// Options for each technique, and those by default.
fn all_options() -> impl Iterator<Item = Options> {
    let each = TECHNIQUES.map(|technique| Options::new().technique(technique));
    [Options::new()].into_iter().chain(each)
}

#[test]
fn a_broken_input_is_never_taken_for_its_end() {
    const LEN: u64 = 1000;
    let directory = Directory::new();
    let null = || {
        File::options()
            .write(true)
            .open("/dev/null")
            .unwrap()
            .into()
    };
    for (n, options) in all_options().enumerate() {
        let own = Directory::new();
        let mut outputs = outputs(&own);
        outputs.push(("file", directory.file(&n.to_string(), b"").into(), null()));
        outputs.push(("/dev/null", null(), null()));
        for (to, output, _reader) in outputs {
            for len in [0, LEN] {
                for connection in [tcp(), unix()] {
                    let mut input = Breakable::new(connection);
                    let peer = input.peer.as_ref().unwrap();
                    rustix::io::write(peer, &pattern(len as usize)).unwrap();
                    let fd = input.ours.try_clone().unwrap();
                    let error = relay(fd, &output, &options.interval(Duration::ZERO), |progress| {
                        if progress.given == len && input.peer.is_some() {
                            input.break_it();
                        }
                        Flow::Continue
                    })
                    .unwrap_err();
                    let number = error.source.raw_os_error();
                    let end = (error.side, number, error.taken, error.given);
                    let expected = (Side::Input, Some(libc::ECONNRESET), len, len);
                    assert_eq!(end, expected, "{to}, {options:?}");
                }
            }
        }
    }
}

#[test]
fn a_broken_output_is_named_with_its_own_error() {
    let bytes = pattern(100_000);
    for options in all_options() {
        let directory = Directory::new();
        let file = directory.file("in", &bytes).into();
        let (pipe, writer) = pipe_of(1 << 17);
        File::from(writer).write_all(&bytes).unwrap();
        let (socket, peer) = unix();
        let writing = write_all(peer, bytes.clone(), vec![]);
        for input in [file, pipe, socket] {
            // A unix socket reports EPIPE first.
            let mut output = Breakable::new(tcp());
            output.break_it();
            let error = fails(&input, &output.ours, &options);
            let number = error.source.raw_os_error();
            let end = (error.side, number, error.given);
            let expected = (Side::Output, Some(libc::ECONNRESET), 0);
            assert_eq!(end, expected, "{options:?}");
            let mut rest = error.undelivered;
            rest.extend(read_rest(input));
            assert_same(&rest, &bytes);
        }
        writing.join().unwrap();
    }
}

/// A socket reports its error once; here it is one by which filters refuse system calls.
#[test]
fn error_of_a_socket_that_looks_like_a_refusal_is_no_end() {
    let Some((inputs, _peers)) = failing_connections::<4>() else {
        return;
    };
    let directory = Directory::new();
    let (_reader, pipe) = pipe_of(65_536);
    let (_unix_reader, blocking) = unix();
    let (nonblocking_tcp, _tcp_reader) = nonblocking(tcp());
    let outputs = [
        directory.file("out", b"").into(),
        pipe,
        blocking,
        nonblocking_tcp,
    ];
    for (input, output) in inputs.iter().zip(&outputs) {
        let error = fails(input, output, &Options::new());
        assert_eq!(error.side, Side::Input);
        assert_eq!(error.source.raw_os_error(), Some(prohibited::ERROR));
        assert_eq!(error.given, prohibited::LEN as u64);
    }
}
