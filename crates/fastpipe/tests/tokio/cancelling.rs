//! Futures that are dropped at each of their await points lose nothing.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use super::{beside, cancelled_after, run};
use crate::common::writers::{KIB, check, fill, stream};
use fastpipe::ring;
use fastpipe::tokio::{Consumer, Producer, Reader, Writer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const LEN: usize = 300 * KIB + 11;

/// How often a future may be pending before it is dropped: each in turn.
fn turns() -> impl Iterator<Item = usize> {
    (0..4).cycle()
}

/// Reads slowly, in small pieces.
fn slow_reader(mut reader: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    beside(move || {
        let (mut all, mut piece) = (Vec::new(), [0; 700]);
        loop {
            std::thread::yield_now();
            match reader.read(&mut piece).unwrap() {
                0 => return all,
                n => all.extend_from_slice(&piece[..n]),
            }
        }
    })
}

/// Writes slowly, in small pieces.
fn slow_writer(mut writer: impl Write + Send + 'static) -> std::thread::JoinHandle<()> {
    beside(move || {
        for at in (0..LEN).step_by(700) {
            std::thread::yield_now();
            let n = 700.min(LEN - at);
            writer.write_all(&stream(at as u64, n)).unwrap();
        }
    })
}

fn is_whole(got: &[u8]) {
    check(got, 0).unwrap();
    assert_eq!(got.len(), LEN);
}

fn handed_over() -> (ring::Producer, ring::Consumer) {
    let (here, there) = UnixStream::pair().unwrap();
    let accepting = beside(move || ring::Consumer::accept(&there).unwrap());
    let producer = ring::Producer::offer(&here, 1).unwrap();
    (producer, accepting.join().unwrap())
}

#[test]
fn of_a_writer() {
    let (reader, writer) = std::io::pipe().unwrap();
    let reading = slow_reader(reader);
    run(async {
        let mut out = Writer::new(writer).unwrap();
        let mut at = 0;
        for (nth, times) in turns().enumerate() {
            if at == LEN {
                break;
            }
            let n = 20_000.min(LEN - at);
            match nth % 3 {
                0 => {
                    let lent = cancelled_after(times, out.lend(n)).await;
                    if let Some(loan) = lent {
                        let mut loan = loan.unwrap();
                        fill(&mut loan[..n], at as u64);
                        loan.commit(n).unwrap();
                        at += n;
                    }
                }
                1 => {
                    let data = stream(at as u64, n);
                    let written = cancelled_after(times, out.write(&data)).await;
                    at += written.map_or(0, |n| n.unwrap());
                }
                _ => {
                    let _ = cancelled_after(times, out.flush()).await;
                }
            }
        }
        out.finish().await.unwrap();
    });
    is_whole(&reading.join().unwrap());
}

#[test]
fn of_a_reader() {
    let (reader, writer) = std::io::pipe().unwrap();
    let writing = slow_writer(writer);
    run(async {
        let mut input = Reader::new(reader).unwrap();
        let (mut all, mut piece) = (Vec::new(), [0; 500]);
        for times in turns() {
            match cancelled_after(times, input.read(&mut piece)).await {
                None => {}
                Some(Ok(0)) => break,
                Some(n) => all.extend_from_slice(&piece[..n.unwrap()]),
            }
        }
        is_whole(&all);
    });
    writing.join().unwrap();
}

#[test]
fn of_a_ring() {
    let (producer, consumer) = handed_over();
    let reading = slow_reader(consumer);
    run(async {
        let mut producer = Producer::new(producer).unwrap();
        let mut at = 0;
        for (nth, times) in turns().enumerate() {
            if at == LEN {
                break;
            }
            let n = 900.min(LEN - at);
            if nth % 2 == 0 {
                if let Some(slot) = cancelled_after(times, producer.lend(n)).await {
                    let mut slot = slot.unwrap();
                    slot.write_at(0, &stream(at as u64, n));
                    slot.commit(n);
                    at += n;
                }
            } else {
                let data = stream(at as u64, n);
                let written = cancelled_after(times, producer.write(&data)).await;
                at += written.map_or(0, |n| n.unwrap());
            }
        }
    });
    is_whole(&reading.join().unwrap());

    let (producer, consumer) = handed_over();
    let writing = slow_writer(producer);
    run(async {
        let mut consumer = Consumer::new(consumer).unwrap();
        let (mut all, mut piece) = (Vec::new(), [0; 500]);
        for (nth, times) in turns().enumerate() {
            if nth % 2 == 0 {
                match cancelled_after(times, consumer.read(&mut piece)).await {
                    None => {}
                    Some(Ok(0)) => break,
                    Some(n) => all.extend_from_slice(&piece[..n.unwrap()]),
                }
            } else if let Some(view) = cancelled_after(times, consumer.peek(300)).await {
                let mut view = view.unwrap();
                let n = view.len().min(400);
                view.read_at(0, &mut piece[..n]);
                view.release(n);
                all.extend_from_slice(&piece[..n]);
            }
        }
        is_whole(&all);
    });
    writing.join().unwrap();
}

#[test]
fn of_a_rings_messages() {
    const COUNT: usize = 3000;
    let (mut producer, consumer) = handed_over();
    let sending = beside(move || {
        for n in 0..COUNT {
            std::thread::yield_now();
            producer.send(&stream(n as u64, n % 700)).unwrap();
        }
    });
    run(async {
        let mut consumer = Consumer::new(consumer).unwrap();
        let (mut message, mut count) = (Vec::new(), 0);
        for times in turns() {
            match cancelled_after(times, consumer.recv(&mut message)).await {
                None => continue,
                Some(received) => match received.unwrap() {
                    None => break,
                    Some(len) => assert_eq!(len, count % 700),
                },
            }
            check(&message, count as u64).unwrap();
            count += 1;
        }
        assert_eq!(count, COUNT);
    });
    sending.join().unwrap();
}

#[test]
fn of_a_copy_which_gives_a_beginning_and_leaks_nothing() {
    use crate::common::process::mappings_and_descriptors;
    let before = mappings_and_descriptors().1;
    for times in 0..40 {
        let (reader, writer) = std::io::pipe().unwrap();
        let (from, to) = std::io::pipe().unwrap();
        let writing = slow_writer_until_closed(writer);
        let reading = slow_reader(from);
        run(async {
            cancelled_after(times, fastpipe::tokio::copy(&reader, &to)).await;
        });
        drop((reader, to));
        check(&reading.join().unwrap(), 0).unwrap();
        writing.join().unwrap();
    }
    // Other tests of this program open and close some, too.
    crate::common::state::until("no descriptor is left", || {
        mappings_and_descriptors().1 <= before + 40
    });
}

fn slow_writer_until_closed(mut writer: std::io::PipeWriter) -> std::thread::JoinHandle<()> {
    beside(move || {
        for at in (0..LEN).step_by(700) {
            std::thread::yield_now();
            let n = 700.min(LEN - at);
            if writer.write_all(&stream(at as u64, n)).is_err() {
                return;
            }
        }
    })
}
