//! What a program is written in.

use serde::Serialize;

use super::Proc;
use super::files::ProcessFiles;

/// What a program is written in, as far as its file shows: remedies differ by that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    /// Python.
    Python,
    /// JavaScript, run by Node.js, Deno or Bun.
    JavaScript,
    /// Java, or another language of its virtual machine.
    Java,
    /// Go.
    Go,
    /// Perl.
    Perl,
    /// Ruby.
    Ruby,
    /// A shell's.
    Shell,
    /// Any other, or not known.
    #[default]
    Other,
}

impl Language {
    /// By the name of the program's file.
    fn by_name(name: &str) -> Self {
        match name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-') {
            "python" | "pypy" => Language::Python,
            "node" | "nodejs" | "deno" | "bun" => Language::JavaScript,
            "java" => Language::Java,
            "perl" => Language::Perl,
            "ruby" => Language::Ruby,
            "sh" | "bash" | "dash" | "zsh" | "ksh" | "ash" | "busybox" => Language::Shell,
            _ => Language::Other,
        }
    }
}

impl Proc {
    /// What the program of a process is written in.
    pub fn language(&self, pid: i32) -> Language {
        /// The note in which the linker of Go keeps its build id: its type and its owner.
        const GO: &[u8] = b"\x04\0\0\0Go\0\0";
        /// It is in the first page of the file.
        const LEN: usize = 4096;
        let files = ProcessFiles::new(self, pid);
        let program = files.program().unwrap_or_default();
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let by_name = Language::by_name(&name);
        let is_go = || {
            let head = files.slow("exe", 0, LEN).unwrap_or_default();
            head.windows(GO.len()).any(|bytes| bytes == GO)
        };
        if by_name == Language::Other && is_go() {
            Language::Go
        } else {
            by_name
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use pipespeed_host::Root;

    use super::*;

    #[test]
    fn a_go_program_is_found_by_the_note_of_its_linker() {
        for (program, expected) in [("gofmt", Language::Go), ("cat", Language::Other)] {
            let mut command = Command::new(program);
            let Ok(mut child) = command.stdin(Stdio::piped()).spawn() else {
                return pipespeed_testing::skip("no gofmt, which is written in Go");
            };
            // It has become the program, and waits for its input.
            let found = Proc::below(Root("/".into())).language(child.id() as i32);
            drop(child.stdin.take());
            child.wait().unwrap();
            assert_eq!(found, expected, "{program}");
        }
    }

    #[test]
    fn versions_in_the_name_of_an_interpreter_do_not_matter() {
        for (name, expected) in [
            ("python3.11", Language::Python),
            ("perl5.36.0", Language::Perl),
            ("node", Language::JavaScript),
            ("dash", Language::Shell),
            ("nodes", Language::Other),
            ("3.11", Language::Other),
        ] {
            assert_eq!(Language::by_name(name), expected, "{name}");
        }
    }
}
