//! How each published program ends when the other one ends.

use std::io::{Read, Write};

use rustix::process::Signal;

use crate::common::{
    Running, assert_result_line, read, start, start_into, wait_until_readable, write,
};

/// All combinations of waiting and transfer method, for each program.
const WRITERS: [&str; 6] = [
    "",
    "--poll",
    "--busy_loop",
    "--write_with_vmsplice",
    "--write_with_vmsplice --poll",
    "--write_with_vmsplice --busy_loop",
];
const READERS: [&str; 6] = [
    "",
    "--poll",
    "--busy_loop",
    "--read_with_splice",
    "--read_with_splice --poll",
    "--read_with_splice --busy_loop",
];

#[test]
fn early_end_of_stream_is_an_error_after_the_rate() {
    for options in READERS {
        for sent in [0, 1, 10_007] {
            let (from, mut into) = std::io::pipe().unwrap();
            let mut reader = read(&format!("{options} --bytes_to_pipe 1M"));
            reader.stdin(from);
            let reader = start(reader);
            into.write_all(&vec![b'x'; sent]).unwrap();
            drop(into);
            let outcome = reader.finish();
            if sent == 0 {
                assert_eq!(outcome.out, "");
            } else {
                let settings = format!("256KiB buffer, 0 iterations ({sent}B piped)");
                assert_result_line(&outcome, &settings);
            }
            let got = format!("got {sent} bytes");
            outcome.failed(1, &["early", &got, "expected 1048576"]);
        }
    }
}

#[test]
fn the_writer_succeeds_when_the_reader_closes_the_pipe() {
    for options in WRITERS {
        let (mut from, into) = std::io::pipe().unwrap();
        let writer = start_into(write(options), into);
        from.read_exact(&mut [0; 100]).unwrap();
        drop(from);
        writer.finish().succeeded_in_silence();
    }
}

/// A writer and a reader of 1000 GiB with these options, once bytes flow between them.
fn flowing(writer: &str, reader: &str) -> (Running, Running) {
    let (from, into) = std::io::pipe().unwrap();
    let flowing = from.try_clone().unwrap();
    let mut reader = read(&format!("{reader} --bytes_to_pipe 1000G"));
    reader.stdin(from);
    let ends = (start_into(write(writer), into), start(reader));
    assert!(wait_until_readable(&flowing));
    ends
}

#[test]
fn the_writer_succeeds_when_the_reader_is_killed() {
    for (writer, reader) in WRITERS.iter().zip(READERS) {
        let (writer, reader) = flowing(writer, reader);
        reader.send(Signal::KILL);
        assert_eq!(reader.finish().code, None);
        writer.finish().succeeded_in_silence();
    }
}

#[test]
fn reader_reports_an_early_end_when_the_writer_is_killed() {
    for (writer, reader) in WRITERS.iter().zip(READERS) {
        let (writer, reader) = flowing(writer, reader);
        writer.send(Signal::KILL);
        assert_eq!(writer.finish().code, None);
        let expected = format!("expected {}", 1000_u64 << 30);
        reader.finish().failed(1, &["early", "got ", &expected]);
    }
}

#[test]
fn the_reader_leaves_excess_bytes_in_the_pipe() {
    for options in READERS {
        let (mut from, mut into) = std::io::pipe().unwrap();
        into.write_all(&[b'a'; 100]).unwrap();
        into.write_all(&[b'b'; 50]).unwrap();
        drop(into);
        let mut reader = read(&format!("{options} --bytes_to_pipe 100"));
        reader.stdin(from.try_clone().unwrap());
        start(reader).finish().succeeded_in_silence();
        let mut rest = Vec::new();
        from.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, [b'b'; 50]);
    }
}

#[test]
fn the_writer_refuses_an_output_that_is_not_a_pipe() {
    // An endless write could fill a disk.
    let null = std::fs::File::options()
        .write(true)
        .open("/dev/null")
        .unwrap();
    let writer = start_into(write("--bytes_to_pipe 1K"), null);
    let outcome = writer.finish().refused(2, &["not a pipe"]);
    // An option that the published program doesn't have.
    assert!(!outcome.err.contains("--bytes"), "{outcome:#?}");
}

#[test]
fn printing_the_result_to_a_closed_pipe_succeeds() {
    // Standard output is a pipe without a reader.
    let (from, into) = std::io::pipe().unwrap();
    drop(from);
    let (input, mut data) = std::io::pipe().unwrap();
    data.write_all(&[0; 100]).unwrap();
    let mut reader = read("--bytes_to_pipe 100");
    reader.stdin(input);
    start_into(reader, into).finish().succeeded_in_silence();
}
