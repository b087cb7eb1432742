//! Which pipelines are compared.

use std::io::Write;
use std::rc::Rc;

use pipespeed_tools::fizzbuzz::{CodePath, FizzBuzz};
use tempfile::NamedTempFile;

use super::pipeline::{Pipeline, Places, installed};

/// The argument that makes this program a generator which uses write(2).
pub const BY_WRITE: &str = "--generate-by-write";

const PIPESPEED: &str = env!("CARGO_BIN_EXE_pipespeed");

/// The file that is read.
const FILE: u64 = 1 << 30;

/// One pipeline, and what it is compared with.
pub struct Comparison {
    pub name: String,
    /// What is to be reached at least, if anything is.
    pub aim: Option<f64>,
    /// A program that would be needed.
    pub missing: Option<String>,
    /// The most bytes, if there is a limit.
    pub most: Option<u64>,
    /// The pipelines for so many bytes.
    pub sides: [Box<dyn Fn(u64) -> Pipeline>; 2],
}

fn compare(
    name: &str,
    aim: Option<f64>,
    ours: impl Fn(u64) -> Pipeline + 'static,
    theirs: impl Fn(u64) -> Pipeline + 'static,
) -> Comparison {
    Comparison {
        name: name.to_owned(),
        aim,
        missing: None,
        most: None,
        sides: [Box::new(ours), Box::new(theirs)],
    }
}

impl Comparison {
    fn needs(mut self, program: &str) -> Self {
        if installed(program).is_none() {
            self.missing = Some(program.to_owned());
        }
        self
    }

    fn up_to(mut self, bytes: u64) -> Self {
        self.most = Some(bytes);
        self
    }
}

/// A pipeline of these programs, as in a shell. `pipespeed` is the one that was
/// built.
fn shell(line: String) -> Pipeline {
    let stages: Vec<String> = line
        .split('|')
        .map(|stage| match stage.trim().strip_prefix("pipespeed ") {
            Some(rest) => format!("{PIPESPEED} {rest}"),
            None => stage.trim().to_owned(),
        })
        .collect();
    Pipeline::new(&stages)
}

/// All of them.
pub fn all(_places: &Places) -> anyhow::Result<Vec<Comparison>> {
    let mut all = meters()?;
    all.extend(fizzbuzzes());
    all.extend(yeses());
    Ok(all)
}

/// The producer of all meter pipelines.
fn producer(bytes: u64) -> String {
    format!("pipespeed write --write_with_vmsplice --huge_page --bytes {bytes}")
}

fn meters() -> anyhow::Result<Vec<Comparison>> {
    let discarding = |bytes| shell(format!("{} | pipespeed meter", producer(bytes)));
    let counting = |bytes| shell(format!("{} | pipespeed meter | wc -c", producer(bytes)));
    // Removed with the last pipeline that reads it.
    let file = Rc::new(a_file()?);
    let from_file = |reader: &str, behind: &str| {
        let file = file.clone();
        let line = format!("{reader} {}{behind}", file.path().display());
        move |_: u64| {
            let _ = &file;
            shell(line.clone())
        }
    };
    Ok(vec![
        compare(
            "writer | meter, against read with splice",
            Some(0.9),
            discarding,
            |bytes| {
                shell(format!(
                    "{} | pipespeed read --read_with_splice --bytes-to-pipe {bytes}",
                    producer(bytes)
                ))
            },
        ),
        compare(
            "writer | meter, against pv",
            Some(2.0),
            discarding,
            |bytes| shell(format!("{} | pv", producer(bytes))),
        )
        .needs("pv"),
        compare(
            "meter FILE, against pv",
            Some(1.0),
            from_file("pipespeed meter", ""),
            from_file("pv", ""),
        )
        .needs("pv")
        .up_to(FILE),
        compare(
            "meter FILE, against cat",
            Some(1.0),
            from_file("pipespeed meter", ""),
            from_file("cat", ""),
        )
        .needs("cat")
        .up_to(FILE),
        compare(
            "meter FILE | wc -c, against pv",
            Some(1.0),
            from_file("pipespeed meter", " | wc -c"),
            from_file("pv", " | wc -c"),
        )
        .needs("pv")
        .up_to(FILE),
        compare(
            "meter FILE | wc -c, against cat",
            Some(1.0),
            from_file("pipespeed meter", " | wc -c"),
            from_file("cat", " | wc -c"),
        )
        .needs("wc")
        .up_to(FILE),
        compare(
            "writer | meter | wc -c, against no meter",
            Some(0.8),
            counting,
            |bytes| shell(format!("{} | wc -c", producer(bytes))),
        )
        .needs("wc"),
        compare(
            "writer | meter | wc -c, against pv",
            Some(1.0),
            counting,
            |bytes| shell(format!("{} | pv | wc -c", producer(bytes))),
        )
        .needs("pv"),
        compare(
            "writer | meter | wc -c, against mbuffer",
            Some(1.0),
            counting,
            |bytes| shell(format!("{} | mbuffer -q | wc -c", producer(bytes))),
        )
        .needs("mbuffer"),
    ])
}

/// A file in the page cache.
fn a_file() -> anyhow::Result<NamedTempFile> {
    let mut file = NamedTempFile::new()?;
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..FILE >> 20 {
        file.write_all(&piece)?;
    }
    Ok(file)
}

fn fizzbuzzes() -> Vec<Comparison> {
    const READ: &str = "pipespeed read --read-with-splice --busy-loop --bytes-to-pipe";
    let fresh = |bytes| shell(format!("pipespeed fizzbuzz | {READ} {bytes}")).pinned();
    vec![
        compare(
            "fizzbuzz drained, against an unchanging buffer",
            Some(0.9),
            |bytes| {
                let line =
                    format!("pipespeed fizzbuzz --method drained --busy-loop | {READ} {bytes}");
                shell(line).pinned()
            },
            // The same pipe, and pieces of the same size.
            |bytes| {
                let line = format!(
                    "pipespeed write --write-with-vmsplice --huge-page --busy-loop \
                     --buf-size 1M --pipe-size 1M | {READ} {bytes}"
                );
                shell(line).pinned()
            },
        ),
        compare(
            "fizzbuzz, against one that writes",
            Some(3.0),
            fresh,
            |bytes| shell(format!("{} | {READ} {bytes}", by_write())).pinned(),
        ),
        compare(
            "fizzbuzz | meter, against fizzbuzz | pv",
            None,
            |bytes| {
                shell(format!(
                    "pipespeed fizzbuzz --to {} | pipespeed meter",
                    lines(bytes)
                ))
            },
            |bytes| shell(format!("pipespeed fizzbuzz --to {} | pv", lines(bytes))),
        )
        .needs("pv"),
    ]
}

/// So many lines, from 1 on, are so many bytes, but for a few.
fn lines(bytes: u64) -> u64 {
    let (mut lines, mut left) = (0, bytes);
    for digits in 1.. {
        // 15 lines that follow one another: 8 numbers, 4 Fizz, 2 Buzz, 1
        // FizzBuzz and their line ends.
        let fifteen = 8 * digits + 47;
        let all = 9 * 10u64.pow(digits as u32 - 1);
        let fit = left * 15 / fifteen;
        if fit <= all {
            return lines + fit;
        }
        lines += all;
        left -= all * fifteen / 15;
    }
    lines
}

/// This program as a generator that uses write(2).
fn by_write() -> String {
    let own = std::env::current_exe().unwrap_or_default();
    format!("{} {BY_WRITE}", own.display())
}

/// The same lines as `fizzbuzz` makes, written as most programs would, 64 KiB
/// at a time.
pub fn generate_by_write() {
    let mut lines = FizzBuzz::with_path(CodePath::fastest(), 1, u64::MAX);
    let mut buffer = vec![0; 64 << 10];
    let mut out = std::io::stdout().lock();
    loop {
        let n = lines.fill(&mut buffer);
        if out.write_all(&buffer[..n]).is_err() {
            return;
        }
    }
}

fn yeses() -> Vec<Comparison> {
    const READ: &str = "pipespeed read --read-with-splice --busy-loop --bytes-to-pipe";
    let ours = |bytes| shell(format!("pipespeed yes | {READ} {bytes}")).pinned();
    let theirs =
        |program: String| move |bytes| shell(format!("{program} | {READ} {bytes}")).pinned();
    let uutils = std::env::var("UU_YES").ok();
    let mut against_uutils = compare(
        "yes, against the uutils' yes",
        Some(1.0),
        ours,
        theirs(uutils.clone().unwrap_or_default()),
    );
    if uutils.is_none() {
        against_uutils.missing = Some("uu_yes (UU_YES=PATH)".to_owned());
    }
    vec![
        compare(
            "yes, against the system's yes",
            Some(5.0),
            ours,
            theirs("yes".to_owned()),
        )
        .needs("yes"),
        against_uutils,
    ]
}
