//! The lines to paste.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};

use pipespeed_measure::record::Sizes;
use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};
use tempfile::TempDir;

use super::*;
use crate::page::first::with_best_sizes;

/// The first lines of a language, with pieces of 8 KiB and a pipe of 128 KiB. Those in Rust
/// are documentation tests.
fn lines_in(language: &str) -> String {
    let mut run = fixtures::touched();
    let panel = &mut run.search.as_mut().unwrap().panels[0];
    panel.best.as_mut().unwrap().sizes = Sizes {
        buffer_bytes: 8192,
        pipe_bytes: 131_072,
    };
    let text = include_str!("../sections/programs.md");
    let text = with_best_sizes(text, &records([run]));
    let (_, lines) = text.split_once(&format!("```{language}\n")).unwrap();
    lines.split_once("```").unwrap().0.to_owned()
}

/// Programs of the lines to paste, and how to run them; without one, its language is skipped.
fn programs(directory: &TempDir) -> Vec<Command> {
    let mut all = Vec::new();
    let path = |name: &str| directory.path().join(name);
    let rest = "int main(void) { static char data[20000]; enlarge_output(); \
                return write_all(data, sizeof data); }\n";
    std::fs::write(path("program.c"), lines_in("c") + rest).unwrap();
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
        let text = lines_in("python") + "write_all(b'x' * 20000)\n";
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
fn lines_to_paste_write_pieces_of_the_size_found_into_an_enlarged_pipe() {
    let directory = tempfile::tempdir().unwrap();
    let run = |program: &mut Command, output: OwnedFd| {
        let status = program.stdout(Stdio::from(output)).status();
        assert!(status.unwrap().success());
    };
    for mut program in programs(&directory) {
        // Each write(2) is a message.
        let (reader, writer) = UnixDatagram::pair().unwrap();
        run(&mut program, writer.into());
        reader.set_nonblocking(true).unwrap();
        let mut buffer = [0; 20000];
        let messages = std::iter::from_fn(|| reader.recv(&mut buffer).ok());
        let messages: Vec<usize> = messages.collect();
        assert_eq!(messages, [8192, 8192, 3616], "{program:?}");
        // A larger pipe is not shrunk.
        for (before, after) in [(32768, 131_072), (262_144, 262_144)] {
            let (reader, writer) = std::io::pipe().unwrap();
            if fcntl_setpipe_size(&reader, before.max(after)).is_err() {
                return pipespeed_testing::skip("this user has too many large pipes");
            }
            fcntl_setpipe_size(&reader, before).unwrap();
            run(&mut program, writer.into());
            assert_eq!(fcntl_getpipe_size(&reader).unwrap(), after, "{program:?}");
        }
    }
}
