//! Inputs that preserve message boundaries: no message is cut, and none ends the relay.
//! Pipes in packet mode, which lose what a read does not take of a packet.

use crate::common::skip::skip;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use crate::common;
use crate::common::seccomp::{filters_work, refuse};
use crate::common::shapes::cut;
use crate::common::vmsplice;
use crate::common::{assert_same, buffer_with, pattern, pipe_of, read_rest};
use fastpipe::reader::Reader;
use fastpipe::relay::{End, Flow, Options, Relayed, Technique, relay, relay_inspecting};
use fastpipe::transfer::Output;
use fastpipe::wait::Wait;
use rustix::fs::OFlags;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, sockopt};
use rustix::pipe::PipeFlags;

/// Returns a sending and a receiving socket. The queue of a Unix socket holds only about
/// ten messages.
fn unix(kind: SocketType) -> (OwnedFd, OwnedFd) {
    common::state::watch();
    let (family, flags) = (AddressFamily::UNIX, SocketFlags::CLOEXEC);
    rustix::net::socketpair(family, kind, flags, None).unwrap()
}

fn udp() -> (OwnedFd, OwnedFd) {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    (sender.into(), receiver.into())
}

fn send_each(sender: &OwnedFd, messages: &[&[u8]]) {
    for message in messages {
        let sent = send(sender, message, SendFlags::empty()).unwrap();
        assert_eq!(sent, message.len());
    }
}

/// Returns the bytes in a pipe after a relay of this many bytes.
fn relayed(input: impl AsFd, options: &Options, len: usize) -> (Relayed, Vec<u8>) {
    let (reader, output) = pipe_of(1 << 20);
    let options = options.limit(len as u64);
    let done = relay(input, &output, &options, |_| Flow::Continue).unwrap();
    drop(output);
    let got = read_rest(reader);
    (done, got)
}

#[test]
fn messages_are_taken_whole_and_empty_ones_end_nothing() {
    let bytes = pattern(60_000);
    // Longer than the block, and empty.
    let cuts = [0..0, 0..3000, 3000..3000, 3000..3001, 3001..60_000];
    let messages = cuts.map(|range| &bytes[range]);
    for (sender, receiver) in [unix(SocketType::DGRAM), unix(SocketType::SEQPACKET), udp()] {
        for wait in [Wait::Block, Wait::Spin] {
            send_each(&sender, &messages);
            let options = Options::new().block(100).wait(wait);
            let (done, got) = relayed(&receiver, &options, bytes.len());
            assert_same(&got, &bytes);
            assert_eq!((done.end, done.taken), (End::Limit, 60_000));
        }
    }
}

#[test]
fn a_message_longer_than_any_buffer_is_taken_whole() {
    let bytes = pattern(180_000);
    for kind in [SocketType::DGRAM, SocketType::SEQPACKET] {
        let (sender, receiver) = unix(kind);
        // The default send buffer may be too small.
        sockopt::set_socket_send_buffer_size(&sender, 400_000).unwrap();
        if send(&sender, &bytes, SendFlags::DONTWAIT).is_err() {
            skip("no message of this length is possible here");
            continue;
        }
        send_each(&sender, &[b"short"]);
        let (_, got) = relayed(&receiver, &Options::new(), 180_005);
        assert_same(&got[..180_000], &bytes);
        assert_eq!(&got[180_000..], b"short");
    }
}

#[test]
fn seqpacket_input_ends_with_its_sender_not_an_empty_packet() {
    for messages in [
        vec!["one", "", "", "two"],
        vec!["", "onetwo"],
        vec!["one", "two", "", ""],
    ] {
        let (sender, receiver) = unix(SocketType::SEQPACKET);
        let messages: Vec<_> = messages.into_iter().map(str::as_bytes).collect();
        send_each(&sender, &messages);
        drop(sender);
        let (done, got) = relayed(&receiver, &Options::new(), 1000);
        assert_eq!((done.end, &got[..]), (End::EndOfData, &b"onetwo"[..]));
    }
}

/// What takes messages whole discards bytes of a stream.
#[test]
fn a_socket_that_may_not_be_asked_for_its_type_loses_nothing() {
    if !filters_work() {
        return;
    }
    let filtered = std::thread::spawn(|| {
        let bytes = pattern(30_000);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        sender.write_all(&bytes).unwrap();
        drop(sender);
        assert!(refuse(&[libc::SYS_getsockopt], libc::EPERM));
        let (done, got) = relayed(&receiver, &Options::new(), 1 << 20);
        assert_same(&got, &bytes);
        assert_eq!(done.end, End::EndOfData);
    });
    filtered.join().unwrap();
}

#[test]
fn seqpacket_input_ends_where_polling_is_refused() {
    if !filters_work() {
        return;
    }
    let filtered = std::thread::spawn(|| {
        let (sender, receiver) = unix(SocketType::SEQPACKET);
        send_each(&sender, &[b"one", b"two"]);
        drop(sender);
        assert!(refuse(&[libc::SYS_ppoll], libc::EPERM));
        let (done, got) = relayed(&receiver, &Options::new(), 1000);
        assert_eq!((done.end, &got[..]), (End::EndOfData, &b"onetwo"[..]));
    });
    filtered.join().unwrap();
}

#[test]
fn datagrams_end_with_the_last_one_before_a_shutdown() {
    for wait in [Wait::Block, Wait::Spin] {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        for message in [&b""[..], b"one", b"", b"two"] {
            theirs.send(message).unwrap();
        }
        ours.shutdown(Shutdown::Read).unwrap();
        let (done, got) = relayed(&ours, &Options::new().wait(wait), 1000);
        assert_eq!((done.end, &got[..]), (End::EndOfData, &b"onetwo"[..]));
    }
}

#[test]
fn messages_keep_their_boundaries_between_message_sockets() {
    for kind in [SocketType::DGRAM, SocketType::SEQPACKET] {
        let (sender, input) = unix(kind);
        let (output, receiver) = unix(kind);
        let bytes = pattern(5000);
        send_each(&sender, &[&bytes[..4000], b"", &bytes[4000..]]);
        let options = Options::new().block(10).limit(5000);
        relay(&input, &output, &options, |_| Flow::Continue).unwrap();
        let mut file = File::from(receiver);
        let mut got = [0; 6000];
        assert_eq!(file.read(&mut got).unwrap(), 4000);
        assert_same(&got[..4000], &bytes[..4000]);
        assert_eq!(file.read(&mut got).unwrap(), 1000);
        assert_same(&got[..1000], &bytes[4000..]);
    }
}

#[test]
fn a_message_above_the_allowance_is_taken_and_deducted_later() {
    let (sender, receiver) = unix(SocketType::DGRAM);
    let bytes = pattern(5000);
    send_each(&sender, &bytes.chunks(1000).collect::<Vec<_>>());
    let (reader, output) = pipe_of(65_536);
    let (mut before, mut taken) = (0, Vec::new());
    let options = Options::new().interval(Duration::ZERO).limit(5000);
    relay(&receiver, &output, &options, |progress| {
        taken.push(progress.taken - before);
        before = progress.taken;
        let (bytes, within) = (250, None);
        Flow::AtMost { bytes, within }
    })
    .unwrap();
    drop(output);
    let got = read_rest(reader);
    assert_same(&got, &bytes);
    // Each message is taken in one step, the next one after its excess was deducted.
    let at: Vec<_> = (0..taken.len()).filter(|&n| taken[n] > 0).collect();
    assert!(at.iter().all(|&n| taken[n] == 1000), "{taken:?}");
    assert!(
        at.windows(2).all(|pair| pair[1] - pair[0] >= 4),
        "{taken:?}"
    );
}

#[test]
fn message_is_truncated_at_limit_and_the_next_one_remains() {
    for kind in [SocketType::DGRAM, SocketType::SEQPACKET] {
        let (sender, receiver) = unix(kind);
        send_each(&sender, &[b"12345678", b"next"]);
        let (done, got) = relayed(&receiver, &Options::new(), 5);
        assert_eq!((done.end, &got[..]), (End::Limit, &b"12345"[..]));
        let mut rest = [0; 100];
        assert_eq!(File::from(receiver).read(&mut rest).unwrap(), 4);
        assert_eq!(&rest[..4], b"next");
    }
}

#[test]
fn a_message_in_whose_midst_the_inspector_stops_is_passed_on_whole() {
    let (sender, receiver) = unix(SocketType::SEQPACKET);
    let bytes = pattern(60_000);
    send_each(&sender, &[&bytes, b"next"]);
    // Without room for the message.
    let (reader, output) = pipe_of(4096);
    let options = Options::new().raise_capacity(false);
    let (done, got) = std::thread::scope(|scope| {
        let reading = scope.spawn(|| read_rest(reader));
        let stop = |_: &[u8]| Flow::Stop;
        let done = relay_inspecting(&receiver, &output, &options, stop, |_| Flow::Continue);
        drop(output);
        (done.unwrap(), reading.join().unwrap())
    });
    assert_eq!((done.end, done.undelivered.len()), (End::Stopped, 0));
    assert_same(&got, &bytes);
    let mut rest = [0; 100];
    assert_eq!(File::from(receiver).read(&mut rest).unwrap(), 4);
}

#[test]
fn a_message_that_comes_later_is_waited_for() {
    let (sender, receiver) = unix(SocketType::SEQPACKET);
    let (reader, output) = pipe_of(65_536);
    let mut sender = Some(File::from(sender));
    let options = Options::new().interval(Duration::from_millis(1));
    let done = relay(&receiver, &output, &options, |progress| {
        use fastpipe::relay::{Activity, Side};
        if progress.activity == Activity::WaitingFor(Side::Input)
            && let Some(mut sender) = sender.take()
        {
            sender.write_all(b"late").unwrap();
        }
        Flow::Continue
    })
    .unwrap();
    assert_eq!((done.end, done.given), (End::EndOfData, 4));
    drop(reader);
}

/// A pipe in packet mode, filled with a packet of each size; the bytes of all packets.
fn packets(sizes: &[usize]) -> (OwnedFd, Vec<u8>) {
    mixed(0, sizes)
}

/// As [`packets`], with `first` bytes before them that are no packet.
fn mixed(first: usize, sizes: &[usize]) -> (OwnedFd, Vec<u8>) {
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
    let bytes = pattern(first + sizes.iter().sum::<usize>());
    let mut writer = File::from(writer);
    writer.write_all(&bytes[..first]).unwrap();
    rustix::fs::fcntl_setfl(&writer, OFlags::WRONLY | OFlags::DIRECT).unwrap();
    for packet in cut(&bytes[first..], sizes) {
        writer.write_all(packet).unwrap();
    }
    (reader, bytes)
}

/// All bytes of a pipe, read in small pieces.
fn read_in_pieces(reader: OwnedFd, size: usize) -> Vec<u8> {
    let (mut reader, mut got, mut piece) = (File::from(reader), Vec::new(), vec![0; size]);
    loop {
        match reader.read(&mut piece).unwrap() {
            0 => return got,
            n => got.extend(&piece[..n]),
        }
    }
}

#[test]
fn packets_become_a_stream_of_bytes_up_to_the_limit() {
    for options in [Options::new(), Options::new().technique(Technique::Splice)] {
        for limit in [1, 999, 1000, 1001, 5095, 5096, 5097] {
            let (input, bytes) = packets(&[1000, 4096, 1, 10]);
            let (reader, output) = pipe_of(65_536);
            let options = options.limit(limit);
            let done = relay(&input, &output, &options, |_| Flow::Continue).unwrap();
            assert_eq!((done.end, done.given), (End::Limit, limit));
            assert_eq!(done.technique, Technique::Copy);
            drop(output);
            let mut got = read_in_pieces(reader, 7);
            let mut packets = Reader::builder().open(input).unwrap();
            packets.read_to_end(&mut got).unwrap();
            assert_same(&got, &bytes);
        }
    }
}

/// A read takes a packet and the other bytes before it.
#[test]
fn packets_after_other_bytes_are_not_cut_whatever_is_refused() {
    for refused in [None, Some(libc::SYS_splice), Some(libc::SYS_pipe2)] {
        if refused.is_some() && !filters_work() {
            return;
        }
        for (first, block, limit) in [
            (1, 1 << 17, 1),
            (1, 1 << 17, 4096),
            (4095, 4096, 100_000),
            (100, 100, 100_000),
            (5000, 1, 5001),
            (0, 4000, 14_001),
        ] {
            // In its own thread, since a filter can't be removed.
            let filtered = std::thread::spawn(move || {
                let (input, bytes) = mixed(first, &[4096, 4096, 10, 4096, 4096]);
                let (reader, output) = pipe_of(65_536);
                assert!(refused.is_none_or(|call| refuse(&[call], libc::EPERM)));
                let options = Options::new().copy().block(block).limit(limit);
                let done = relay(&input, &output, &options, |_| Flow::Continue).unwrap();
                drop(output);
                assert_eq!(done.given, limit.min(bytes.len() as u64));
                assert!(done.undelivered.is_empty() || refused.is_some());
                let mut got = read_rest(reader);
                got.extend(done.undelivered);
                let mut rest = Reader::builder().open(input).unwrap();
                rest.read_to_end(&mut got).unwrap();
                assert_same(&got, &bytes);
            });
            filtered.join().unwrap();
        }
    }
}

/// As a writer with double buffering does: the pages have left the pipe.
#[test]
fn copying_small_parts_keeps_no_reference_to_the_writers_pages() {
    if !vmsplice::is_allowed() {
        return;
    }
    let mut pages = buffer_with(b"old bytes", 0);
    let (input, writer) = pipe_of(65_536);
    Output::new(&writer, Wait::Block)
        .vmsplice(&[pages.slice(..)], Default::default())
        .unwrap();
    let (reader, output) = pipe_of(65_536);
    let options = Options::new().copy().limit(3).interval(Duration::ZERO);
    let mut was_between = false;
    relay(&input, &output, &options, |progress| {
        if progress.taken > progress.given {
            was_between = true;
            pages.fill(b'!');
        }
        Flow::Continue
    })
    .unwrap();
    assert!(was_between);
    let mut got = [0; 3];
    File::from(reader).read_exact(&mut got).unwrap();
    assert_eq!(&got, b"old");
}
