//! The checkable stream, from `write --data pattern` to `read --data verify`.

use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;

use crate::common::{
    Outcome, conditions, pipeline, pipespeed, run_alone, start, start_into, written_by,
};

/// No multiple of anything, and many times a buffer of 64 KiB.
const BYTES: usize = 1_000_003;

/// Every technique of writing a pattern that is right for every reader.
const WRITERS: [&str; 12] = [
    "",
    "--poll",
    "--busy-loop",
    "--huge-page",
    "--pipe-size 128K",
    "--write-with-vmsplice",
    "--write-with-vmsplice --poll",
    "--write-with-vmsplice --busy-loop --huge-page",
    "--write-with-vmsplice --same-buffer",
    "--write-with-vmsplice --pipe-size 4K",
    "--write-with-vmsplice --pipe-size 256K --gift",
    "--write-with-vmsplice --dont-touch-pages",
];

/// Every technique of reading. A reader that asks for a pipe smaller than what
/// is queued in it is refused, and how much is queued is up to chance: so ask
/// for more than any writer does.
const READERS: [&str; 6] = [
    "",
    "--busy-loop",
    "--pipe-size 1M",
    "--read-with-splice",
    "--read-with-splice --poll",
    "--read-with-splice --busy-loop --pipe-size 1M",
];

/// The stream, by its definition: word k is k times an odd constant.
fn stream(bytes: usize) -> Vec<u8> {
    let word = |k: u64| k.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes();
    let mut all: Vec<u8> = (0..bytes.div_ceil(8) as u64).flat_map(word).collect();
    all.truncate(bytes);
    all
}

fn writer(options: &str) -> Command {
    let fixed = format!("write --data pattern --buf-size 64K --bytes {BYTES}");
    pipespeed(&format!("{fixed} {options}"))
}

fn reader(options: &str, bytes: usize) -> Command {
    let fixed = format!("read --data verify --buf-size 64K --bytes-to-pipe {bytes}");
    pipespeed(&format!("{fixed} {options}"))
}

/// What the reader says of data put into its standard input.
fn verdict(options: &str, data: &[u8]) -> Outcome {
    let (from, mut into) = std::io::pipe().unwrap();
    let mut reader = reader(options, BYTES);
    reader.stdin(from);
    let reader = start(reader);
    thread::scope(|scope| {
        // The reader closes the pipe at the first wrong byte.
        scope.spawn(move || drop(into.write_all(data)));
        reader.finish()
    })
}

#[test]
fn every_writer_delivers_the_stream_to_every_reader() {
    // Pages written again once drained are right for a reader that reads.
    let is_safe =
        |options: &str, reading: &str| options != "--reuse drained" || !reading.contains("splice");
    let drained = WRITERS
        .iter()
        .filter(|options| options.contains("vmsplice"));
    let drained = drained.map(|options| (*options, "--reuse drained"));
    for (options, reuse) in WRITERS
        .map(|options| (options, ""))
        .into_iter()
        .chain(drained)
    {
        for reading in READERS
            .into_iter()
            .filter(|reading| is_safe(reuse, reading))
        {
            let writer = writer(&format!("{options} {reuse}"));
            let (writer, reader) = pipeline(writer, reader(reading, BYTES));
            let (writer, reader) = (writer.succeeded(), reader.succeeded());
            assert_eq!((&*writer.err, &*reader.err), ("", ""), "{reader:#?}");
            assert!(reader.out.contains("(1000003B piped)"), "{reader:#?}");
        }
    }
}

#[test]
fn writer_sends_the_bytes_asked_for_and_not_one_more() {
    for options in WRITERS {
        let (outcome, got) = written_by(writer(options));
        outcome.succeeded();
        assert_eq!(got.len(), BYTES, "{options}");
        assert!(got == stream(BYTES), "{options}: wrong bytes");
    }
    for bytes in [1, 7, 4096, 65_536, 65_537] {
        for options in ["", "--write-with-vmsplice"] {
            let writer = pipespeed(&format!("write --bytes {bytes} {options}"));
            let (outcome, got) = written_by(writer);
            outcome.succeeded();
            assert_eq!(got, vec![b'X'; bytes], "{options}");
        }
    }
}

#[test]
fn a_reader_wanting_more_says_how_many_bytes_it_got() {
    for options in READERS {
        let (writer, reader) = pipeline(writer(""), reader(options, BYTES + 1));
        writer.succeeded();
        let (got, expected) = (format!("got {BYTES} "), format!("expected {}", BYTES + 1));
        assert!(reader.out.contains("(1000003B piped)"), "{reader:#?}");
        reader.failed(1, &["early", &got, &expected]);
    }
}

#[test]
fn a_stream_shorter_than_the_default_is_measured_and_reported() {
    for options in ["", "--csv"] {
        let reader = pipespeed(&format!("read {options}"));
        let (writer, reader) = pipeline(pipespeed("write --bytes 3M"), reader);
        writer.succeeded_in_silence();
        let printed = match options {
            "--csv" => ",3145728,262144,0,0,0,0,0,0,0,0,0,0,0\n",
            _ => "GiB/s, 256KiB buffer, 12 iterations (3MiB piped)\n",
        };
        assert!(reader.out.ends_with(printed), "{reader:#?}");
        reader.failed(0, &["after 3MiB", "default of 10GiB", "--bytes-to-pipe"]);
    }
}

#[test]
fn bytes_to_pipe_says_it_does_not_affect_the_writer() {
    let writer = pipespeed("write --bytes-to-pipe 1K");
    let (writer, reader) = pipeline(writer, pipespeed("read --bytes-to-pipe 1M"));
    reader.succeeded_in_silence();
    let words = [
        "--bytes-to-pipe has no effect",
        "closes the pipe",
        "--bytes SIZE",
    ];
    writer.failed(0, &words);
}

#[test]
fn the_stream_passes_through_another_program_unharmed() {
    // cat may splice, tee(1) may use tee(2): pages wait in a second pipe.
    for (program, argument) in [("cat", "-"), ("tee", "/dev/null")] {
        for options in WRITERS {
            let (from, into) = std::io::pipe().unwrap();
            let (onward_from, onward_into) = std::io::pipe().unwrap();
            let writer = start_into(writer(options), into);
            let mut between = Command::new(program);
            between.arg(argument).stdin(from);
            let between = start_into(between, onward_into);
            let mut reader = reader("", BYTES);
            reader.stdin(onward_from);
            start(reader).finish().succeeded();
            between.finish();
            writer.finish().succeeded();
        }
    }
}

#[test]
fn a_byte_that_was_changed_is_named_by_its_offset() {
    for options in READERS {
        for offset in [0, 1, 7, 8, 4095, 4096, 65_535, 65_536, 500_001, BYTES - 1] {
            let mut data = stream(BYTES);
            let right = data[offset];
            let wrong = right ^ 0x10;
            data[offset] = wrong;
            let words = [
                format!("byte at offset {offset} is"),
                format!("{wrong:#04x} and"),
                format!("should be {right:#04x}"),
            ];
            verdict(options, &data).refused(1, &words.each_ref().map(|word| &**word));
        }
    }
    verdict("", &stream(BYTES)).succeeded();
}

#[test]
fn a_file_gets_exactly_the_bytes_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    for (data, bytes, expected) in [
        ("pattern", BYTES, stream(BYTES)),
        ("constant", 70_000, vec![b'X'; 70_000]),
    ] {
        let path = directory.path().join(data);
        let file = std::fs::File::create(&path).unwrap();
        let command = pipespeed(&format!("write --data {data} --bytes {bytes}"));
        start_into(command, file).finish().succeeded();
        assert!(std::fs::read(&path).unwrap() == expected, "{data}");
        // And a file can be verified.
        if data == "pattern" {
            let mut reader = reader("", BYTES);
            reader.stdin(std::fs::File::open(&path).unwrap());
            start(reader).finish().succeeded();
        }
    }
}

#[test]
fn a_pipe_size_with_vmsplice_takes_effect() {
    for (size, expected) in [("64K", "pipe of 64KiB"), ("1M", "pipe of 1MiB")] {
        let writer = writer(&format!(
            "--write-with-vmsplice --verbose --pipe-size {size}"
        ));
        let (writer, reader) = pipeline(writer, reader("", BYTES));
        reader.succeeded();
        assert!(writer.succeeded().err.contains(expected));
    }
}

#[test]
fn csv_has_pipe_size_as_given_and_warning_rounded_one() {
    let command = pipespeed("read --csv --pipe-size 100K --bytes-to-pipe 1M");
    let (writer, reader) = pipeline(pipespeed("write --bytes 1M --pipe-size 100000"), command);
    let writer = writer.succeeded();
    let expected = "write: --pipe-size 100000B: the kernel rounds the size to 128KiB";
    assert_eq!(writer.err.matches(expected).count(), 1, "{writer:#?}");
    let reader = reader.succeeded();
    let line = reader.out;
    assert_eq!(line.split(',').nth(3), Some("102400"), "{line}");
    let expected = "read: --pipe-size 100KiB: the kernel rounds the size to 128KiB";
    assert_eq!(reader.err.matches(expected).count(), 1, "{}", reader.err);
}

#[test]
fn spinning_ends_come_to_an_end_on_one_processor() {
    let mut writer = writer("--write-with-vmsplice --busy-loop");
    let mut reader = reader("--read-with-splice --busy-loop", BYTES);
    conditions::one_processor(&mut writer);
    conditions::one_processor(&mut reader);
    let (writer, reader) = pipeline(writer, reader);
    writer.succeeded();
    reader.succeeded();
}

#[test]
fn data_is_touched_or_discarded_as_asked() {
    for data in [
        "--data touch",
        "--data read",
        "--read-with-splice --data discard",
    ] {
        let command = pipespeed(&format!("read {data} --bytes-to-pipe 1M"));
        let (writer, reader) = pipeline(pipespeed("write"), command);
        writer.succeeded();
        let line = reader.succeeded().out;
        assert!(line.contains("4 iterations (1MiB piped)"), "{line}");
    }
    let mut impossible = pipespeed("read --data discard");
    impossible.stdin(Stdio::null());
    run_alone(impossible).refused(2, &["--data discard", "--read-with-splice"]);
}
