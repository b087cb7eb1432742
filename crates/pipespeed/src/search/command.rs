//! The command line that does what a case did.

use crate::case::Case;
use crate::endpoint::spec::{PageKind, SinkTechnique, SourceTechnique, Waiting};
use crate::size;

/// A pipeline of `pipespeed write` and `pipespeed read` with this case's
/// techniques, sizes, pages, waiting and processors. The writer sets the
/// pipe's size.
pub fn command_line(case: &Case) -> String {
    let end = |cpu: Option<usize>, options: &[String]| {
        let place = cpu.map_or_else(String::new, |cpu| format!("taskset -c {cpu} "));
        format!("{place}pipespeed {}", options.join(" "))
    };
    let (writer, reader) = case.cpus.unzip();
    format!(
        "{} | {}",
        end(writer, &writing(case)),
        end(reader, &reading(case))
    )
}

fn writing(case: &Case) -> Vec<String> {
    let mut options = vec!["write".to_owned()];
    if let Some(sink) = &case.sink {
        if sink.technique == SinkTechnique::Vmsplice {
            options.push("--write-with-vmsplice".to_owned());
        }
        shared(sink.pages, sink.wait, sink.buffer_bytes, &mut options);
    }
    if let Some(bytes) = case.pipe_bytes {
        options.push(format!("--pipe-size {}", letters(bytes)));
    }
    options
}

fn reading(case: &Case) -> Vec<String> {
    let mut options = vec!["read".to_owned()];
    if let Some(source) = &case.source {
        if source.technique == SourceTechnique::Splice {
            options.push("--read-with-splice".to_owned());
        }
        shared(source.pages, source.wait, source.buffer_bytes, &mut options);
    }
    options
}

fn shared(pages: PageKind, wait: Waiting, buffer_bytes: usize, options: &mut Vec<String>) {
    if pages == PageKind::Huge {
        options.push("--huge-page".to_owned());
    }
    if wait == Waiting::Spin {
        options.push("--busy-loop".to_owned());
    }
    options.push(format!("--buf-size {}", letters(buffer_bytes)));
}

/// A size as options take it and people write it: `1M`.
fn letters(bytes: usize) -> String {
    size::short(bytes).to_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_case_says_only_sizes() {
        let case = Case::new("a", 256 << 10, 64 << 10);
        assert_eq!(
            command_line(&case),
            "pipespeed write --buf-size 256K --pipe-size 64K | pipespeed read --buf-size 256K"
        );
    }

    #[test]
    fn everything_a_case_does_stands_in_its_command_line() {
        let case = Case::new("a", 1 << 20, 512 << 10)
            .vmsplice()
            .splice()
            .huge()
            .spin()
            .on(Some((2, 3)));
        assert_eq!(
            command_line(&case),
            "taskset -c 2 pipespeed write --write-with-vmsplice --huge-page --busy-loop \
             --buf-size 1M --pipe-size 512K | taskset -c 3 pipespeed read --read-with-splice \
             --busy-loop --buf-size 1M"
        );
    }
}
