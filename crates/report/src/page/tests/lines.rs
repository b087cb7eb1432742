//! The lines to paste.

use std::io::Write as _;
use std::process::{Command, Stdio};

use pipespeed_measure::record::Sizes;

use crate::page::programs::{WRITE_LINES, with_sizes};

// Those in Rust compile.
#[path = "../lines/ring.rs"]
#[allow(dead_code, reason = "for other programs")]
mod ring;
#[path = "../lines/write.rs"]
#[allow(dead_code, reason = "for other programs")]
mod write;
#[path = "../lines/writer.rs"]
#[allow(dead_code, reason = "for other programs")]
mod writer;

/// The capacity of a pipe that a program wrote to: its lines to paste, then `rest`.
fn capacity_after(program: &mut Command, text: &str, rest: &str) -> Option<usize> {
    let sizes = Sizes {
        buffer_bytes: 8192,
        // Not more than the default, which may be refused.
        pipe_bytes: 16384,
    };
    let (reader, writer) = std::io::pipe().unwrap();
    program.stdin(Stdio::piped()).stdout(writer);
    let mut child = program.spawn().ok()?;
    let mut stdin = child.stdin.take().unwrap();
    stdin
        .write_all((with_sizes(text, sizes) + rest).as_bytes())
        .unwrap();
    drop(stdin);
    assert!(child.wait().unwrap().success());
    Some(rustix::pipe::fcntl_getpipe_size(&reader).unwrap())
}

#[test]
fn lines_to_paste_set_the_capacity_of_the_pipe() {
    let [(_, c), (_, python), _] = WRITE_LINES;
    let rest = "\nout.write(b'x' * 10000)\nout.flush()\n";
    match capacity_after(&mut Command::new("python3"), python, rest) {
        Some(capacity) => assert_eq!(capacity, 16384),
        None => pipespeed_testing::skip("no python3"),
    }
    let rest = "int main(void) { enlarge_output(); return puts(\"x\") < 0; }";
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("program");
    let mut compiler = Command::new("cc");
    compiler.args(["-Wall", "-Werror", "-x", "c", "-", "-o"]);
    if capacity_after(compiler.arg(&program), c, rest).is_none() {
        return pipespeed_testing::skip("no C compiler");
    }
    let capacity = capacity_after(&mut Command::new(&program), "", "");
    assert_eq!(capacity, Some(16384));
}

#[test]
fn the_lines_have_the_sizes_found_even_if_they_are_swapped() {
    let sizes = Sizes {
        buffer_bytes: 1_048_576,
        pipe_bytes: 65536,
    };
    let text = with_sizes("pipe 1048576, buffer 65536, buffer 65536", sizes);
    assert_eq!(text, "pipe 65536, buffer 1048576, buffer 1048576");
}
