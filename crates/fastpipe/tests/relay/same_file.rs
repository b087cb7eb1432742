//! Relays whose input and output are the same file.

use std::fs::File;
use std::io::{ErrorKind, Seek, SeekFrom};

use crate::common;
use crate::common::ends::going_on_while;
use crate::common::{Directory, assert_same, pattern};
use fastpipe::relay::{End, Options, RelayError, Relayed, Side, Technique, relay};

const LEN: usize = 10_000;

const TECHNIQUES: [Option<Technique>; 5] = [
    None,
    Some(Technique::CopyFileRange),
    Some(Technique::Sendfile),
    Some(Technique::SpliceThroughPipe),
    Some(Technique::Copy),
];

/// Relays, and stops once the file is ten times as long: a relay that should be refused
/// would not end.
fn relayed(input: &File, output: &File, options: &Options) -> Result<Relayed, RelayError> {
    common::state::watch();
    let options = options.block(1000).interval(std::time::Duration::ZERO);
    relay(input, output, &options, |progress| {
        going_on_while(progress.given < 10 * LEN as u64)
    })
}

fn options(technique: Option<Technique>) -> Options {
    technique.map_or(Options::new(), |t| Options::new().technique(t))
}

/// Opens the same file again: at this position, or to append.
fn output(directory: &Directory, at: Option<u64>) -> File {
    let path = directory.path("file");
    let Some(at) = at else {
        return File::options().append(true).open(path).unwrap();
    };
    let mut file = File::options().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(at)).unwrap();
    file
}

#[test]
fn a_file_that_would_read_its_own_output_is_refused() {
    let directory = Directory::new();
    let mut file = directory.file("file", &pattern(LEN));
    file.seek(SeekFrom::Start(5000)).unwrap();
    let opened_again = [None, Some(LEN as u64), Some(5001), Some(5000)];
    let opened_again = opened_again.map(|at| output(&directory, at));
    for out in opened_again.iter().chain([&file.try_clone().unwrap()]) {
        for technique in TECHNIQUES {
            let error = relayed(&file, out, &options(technique)).unwrap_err();
            assert_eq!(error.side, Side::Output);
            assert_eq!(error.source.kind(), ErrorKind::InvalidInput);
            assert_eq!((error.taken, error.given), (0, 0));
            assert_eq!(file.stream_position().unwrap(), 5000);
            let left = std::fs::read(directory.path("file")).unwrap();
            assert_same(&left, &pattern(LEN));
        }
    }
}

#[test]
fn a_file_may_be_moved_towards_its_beginning() {
    for technique in TECHNIQUES {
        let directory = Directory::new();
        let mut file = directory.file("file", &pattern(LEN));
        file.seek(SeekFrom::Start(4000)).unwrap();
        let out = output(&directory, Some(0));
        let done = relayed(&file, &out, &options(technique)).unwrap();
        assert_eq!((done.end, done.given), (End::EndOfData, 6000));
        let got = std::fs::read(directory.path("file")).unwrap();
        assert_same(&got[..6000], &pattern(LEN)[4000..]);
        assert_eq!(got.len(), LEN);
    }
}

#[test]
fn a_file_may_be_appended_to_itself_once() {
    for technique in TECHNIQUES {
        let directory = Directory::new();
        let file = directory.file("file", &pattern(LEN));
        let out = output(&directory, None);
        let limited = |limit: usize| options(technique).limit(limit as u64);
        let error = relayed(&file, &out, &limited(LEN + 1)).unwrap_err();
        assert_eq!(error.source.kind(), ErrorKind::InvalidInput);
        let done = relayed(&file, &out, &limited(LEN)).unwrap();
        assert_eq!((done.end, done.given), (End::Limit, LEN as u64));
        let twice = [pattern(LEN), pattern(LEN)].concat();
        assert_same(&std::fs::read(directory.path("file")).unwrap(), &twice);
    }
}

#[test]
fn a_file_read_to_its_end_may_be_appended_to() {
    let directory = Directory::new();
    let mut file = directory.file("file", b"all");
    file.seek(SeekFrom::End(0)).unwrap();
    let done = relayed(&file, &output(&directory, None), &Options::new()).unwrap();
    assert_eq!((done.end, done.given), (End::EndOfData, 0));
}
