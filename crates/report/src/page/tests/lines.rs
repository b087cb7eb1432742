//! The lines to paste.

use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};

use pipespeed_measure::record::Sizes;
use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};
use tempfile::TempDir;

use crate::page::programs::{C, PYTHON};

// Those in Rust compile.
#[path = "../lines/enlarge.rs"]
#[allow(dead_code, reason = "for other programs")]
mod enlarge;
#[path = "../lines/ring.rs"]
#[allow(dead_code, reason = "for other programs")]
mod ring;
#[path = "../lines/write.rs"]
#[allow(dead_code, reason = "for other programs")]
mod write;
#[path = "../lines/writer.rs"]
#[allow(dead_code, reason = "for other programs")]
mod writer;

const SIZES: Sizes = Sizes {
    buffer_bytes: 8192,
    pipe_bytes: 131_072,
};

/// Programs of the lines to paste, and how to run them; without one, its language is skipped.
fn programs(directory: &TempDir) -> Vec<Command> {
    let mut all = Vec::new();
    let path = |name: &str| directory.path().join(name);
    let rest = "int main(void) { static char data[20000]; enlarge_output(); \
                return write_all(data, sizeof data); }\n";
    std::fs::write(path("program.c"), C.with_sizes(SIZES) + rest).unwrap();
    let mut compiler = Command::new("cc");
    compiler
        .args(["-Wall", "-Werror", "-o"])
        .arg(path("program"));
    match compiler.arg(path("program.c")).status() {
        Ok(status) => {
            assert!(status.success());
            all.push(Command::new(path("program")));
        }
        Err(_) => pipespeed_testing::skip("no C compiler"),
    }
    let mut python = Command::new("python3");
    if python.arg("--version").output().is_ok() {
        let text = PYTHON.with_sizes(SIZES) + "write_all(b'x' * 20000)\n";
        std::fs::write(path("program.py"), text).unwrap();
        let mut python = Command::new("python3");
        python.arg(path("program.py"));
        all.push(python);
    } else {
        pipespeed_testing::skip("no python3");
    }
    all
}

#[test]
fn lines_to_paste_write_pieces_of_the_size_found() {
    let directory = tempfile::tempdir().unwrap();
    for mut program in programs(&directory) {
        // Each write(2) is a message.
        let (reader, writer) = UnixDatagram::pair().unwrap();
        let status = program
            .stdout(Stdio::from(std::os::fd::OwnedFd::from(writer)))
            .status();
        assert!(status.unwrap().success());
        reader.set_nonblocking(true).unwrap();
        let mut buffer = [0; 20000];
        let messages = std::iter::from_fn(|| reader.recv(&mut buffer).ok());
        assert_eq!(
            messages.collect::<Vec<_>>(),
            [8192, 8192, 3616],
            "{program:?}"
        );
    }
}

#[test]
fn lines_to_paste_enlarge_a_pipe_and_never_shrink_it() {
    let directory = tempfile::tempdir().unwrap();
    for mut program in programs(&directory) {
        for (before, after) in [(32768, 131_072), (262_144, 262_144)] {
            let (reader, writer) = std::io::pipe().unwrap();
            if fcntl_setpipe_size(&reader, before.max(after)).is_err() {
                return pipespeed_testing::skip("this user has too many large pipes");
            }
            fcntl_setpipe_size(&reader, before).unwrap();
            let status = program
                .stdout(Stdio::from(std::os::fd::OwnedFd::from(writer)))
                .status();
            assert!(status.unwrap().success());
            assert_eq!(fcntl_getpipe_size(&reader).unwrap(), after, "{program:?}");
        }
    }
}

#[test]
fn a_pipe_of_default_size_is_not_enlarged() {
    let sizes = Sizes {
        pipe_bytes: 65536,
        ..SIZES
    };
    let text = PYTHON.with_sizes(sizes);
    assert!(!text.contains("PIPE_SZ") && text.contains("8192"), "{text}");
}
