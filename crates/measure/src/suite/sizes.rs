//! The fastest sizes of buffer and pipe. The cases are the published sizes of
//! each technique and way of waiting. [`crate::search`] tries the sizes of a
//! [`Grid`] on each of them, and the best are measured beside the published.

use std::collections::BTreeMap;

use crate::record::Sizes;
use crate::spec::{Case, PageKind, PipeReader, PipeWriter, Subject, Waiting};
use fastpipe::buffer::{Buffer, Pages};
use fastpipe::pipe;
use pipespeed_base::size;
use pipespeed_host::process_memory::Backing;

use super::{
    BUFFER, DEFAULT_PIPE, DataRule, Definition, FEW_ROUNDS, LADDER, Lengths, Overrides, Preparation,
};

/// Each size tried is four times the one before, or a published one. Buffers begin
/// with 8 KiB, which write(2) and read(2) are fastest with on most machines.
const BUFFERS: [usize; 6] = [8 << 10, 32 << 10, 128 << 10, BUFFER, 512 << 10, 2 << 20];
const PIPES: [usize; 7] = [
    4 << 10,
    16 << 10,
    DEFAULT_PIPE,
    BUFFER / 2,
    256 << 10,
    1 << 20,
    4 << 20,
];

pub(super) const SUITE: Definition = Definition {
    cases,
    data_rule: DataRule::Constant,
    // The time includes the search; the parts are those of the rounds after it.
    full: Lengths::new(0.015, 0.100, 120.0, FEW_ROUNDS),
    quick: Lengths::new(0.005, 0.030, 30.0, FEW_ROUNDS),
    prepare: |overrides| {
        overrides.pages = pages();
        Preparation::Search(grid(pipe::page_size(), overrides, refusal))
    },
    ..LADDER
};

/// Base pages, for vmspliced buffers, if huge pages are unavailable.
fn pages() -> Option<PageKind> {
    let huge = Buffer::builder()
        .len(2 << 20)
        .pages(Pages::Huge)
        .touched(true)
        .map();
    let is_huge =
        huge.is_ok_and(|buffer| Backing::examine(&buffer).is_ok_and(|found| found.all_huge()));
    (!is_huge).then_some(PageKind::Base)
}

/// The published sizes of every technique, sleeping and spinning, under the
/// ladder's names where it has them. `overrides.pages` is for buffers that are
/// vmspliced; sizes in `overrides` are for the grid.
fn cases(overrides: &Overrides) -> Vec<Case> {
    let (suffix, huge) = match overrides.pages {
        Some(PageKind::Base) => ("", false),
        _ => ("_huge", true),
    };
    let vmsplice = |reader: &str| {
        Case::new(&format!("vmsplice_{reader}{suffix}"), BUFFER, BUFFER / 2).vmsplice()
    };
    // Last of all: which buffers get huge pages follows from the techniques.
    let paged = |case: Case| if huge { case.huge() } else { case };
    let techniques = [
        Case::new("write_read", BUFFER, DEFAULT_PIPE).described("write(2) and read(2)"),
        paged(vmsplice("read")).described("vmsplice(2) and read(2)"),
        paged(vmsplice("splice").splice()).described("vmsplice(2), and splice(2) to /dev/null"),
    ];
    let sleeping_and_spinning = |case: Case| {
        let mut spinning = case.clone().spin();
        spinning.name = match &*case.name {
            "vmsplice_splice_huge" => "busy_loop_huge".to_owned(),
            name => format!("{name}_spin"),
        };
        spinning.description += ", both ends spinning";
        [case, spinning]
    };
    techniques
        .into_iter()
        .flat_map(sleeping_and_spinning)
        .collect()
}

/// Adds a copy of each case whose ends sleep, with both ends on processor
/// `cpu`. Ends that spin would use up each other's time slices there.
pub fn with_one_processor(cases: Vec<Case>, cpu: usize) -> Vec<Case> {
    let with_copy = |case: Case| {
        let copy = (!case.spins()).then(|| {
            let mut copy = case.clone().on(Some((cpu, cpu)));
            copy.name += "_same";
            copy.description += ", both ends on one processor";
            copy
        });
        std::iter::once(case).chain(copy)
    };
    cases.into_iter().flat_map(with_copy).collect()
}

/// A case's sizes.
pub fn sizes_of(case: &Case) -> Sizes {
    Sizes {
        buffer_bytes: case.subject.buffer_bytes(),
        pipe_bytes: case.subject.pipe_bytes().unwrap_or(0),
    }
}

/// The case with other sizes, to be compared with the published ones; the case
/// itself if these are the published ones.
pub fn with_sizes(case: &Case, sizes: Sizes) -> Case {
    if sizes == sizes_of(case) {
        return case.clone();
    }
    let (buffer, pipe) = (
        size::short(sizes.buffer_bytes),
        size::short(sizes.pipe_bytes),
    );
    let mut sized = case
        .clone()
        .with_buffers(sizes.buffer_bytes)
        .with_pipe(sizes.pipe_bytes)
        .against(&case.name, "buffer and pipe size");
    sized.name = format!("{}_{buffer}_pipe_{pipe}", case.name);
    sized
}

/// The pairs to try where a page has `page` bytes.
pub fn grid(page: usize, overrides: &Overrides, refusal: impl Fn(usize) -> Option<String>) -> Grid {
    let whole_pages = |sizes: &[usize]| {
        let sizes = sizes.iter().copied();
        sizes.filter(|bytes| *bytes >= page).collect()
    };
    let (buffers, pipes) = (whole_pages(&BUFFERS), whole_pages(&PIPES));
    Grid::new(buffers, pipes, overrides, refusal)
}

/// Why a pipe of this size is refused, if it is.
pub(super) fn refusal(bytes: usize) -> Option<String> {
    let (_, end) = pipe::create().ok()?;
    Some(pipe::set_capacity(end, bytes).err()?.to_string())
}

/// The sizes that are tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    /// Buffer sizes, ascending.
    pub buffers: Vec<usize>,
    /// Pipe sizes, ascending.
    pub pipes: Vec<usize>,
    /// Pipe sizes that this machine refuses, with the reason.
    pub refused: BTreeMap<usize, String>,
}

impl Grid {
    /// The grid of these sizes, ascending. A size in `overrides` takes the place of
    /// an axis.
    pub(super) fn new(
        buffers: Vec<usize>,
        pipes: Vec<usize>,
        overrides: &Overrides,
        refusal: impl Fn(usize) -> Option<String>,
    ) -> Self {
        let axis = |given: Option<usize>, sizes| given.map_or(sizes, |bytes: usize| vec![bytes]);
        let pipes = axis(overrides.pipe_bytes, pipes);
        Grid {
            buffers: axis(overrides.buffer_bytes, buffers),
            refused: pipes
                .iter()
                .filter_map(|&bytes| Some((bytes, refusal(bytes)?)))
                .collect(),
            pipes,
        }
    }

    /// Every pair of sizes.
    pub fn pairs(&self) -> impl Iterator<Item = Sizes> + '_ {
        self.buffers.iter().flat_map(|&buffer_bytes| {
            self.pipes.iter().map(move |&pipe_bytes| Sizes {
                buffer_bytes,
                pipe_bytes,
            })
        })
    }

    /// The number of pairs that can be run.
    pub fn runnable(&self) -> usize {
        self.buffers.len() * (self.pipes.len() - self.refused.len())
    }
}

/// The pipeline of `pipespeed write` and `pipespeed read` that does what a case
/// does; `cpus` are the processors of its ends. The writer sets the pipe's size.
/// `None` if there is no such pipeline: its data is always constant.
pub fn command_line(case: &Case, cpus: Option<(usize, usize)>) -> Option<String> {
    let Subject::Channel {
        writer,
        reader,
        pipe_bytes,
        ..
    } = &case.subject
    else {
        return None;
    };
    if writer.rewritten {
        return None;
    }
    let letters = |bytes| size::short(bytes).to_uppercase();
    let words = |end: &str, cpu: Option<usize>, given: [(&str, bool); 3], buffer_bytes| {
        let mut words = cpu.map_or_else(String::new, |cpu| format!("taskset -c {cpu} "));
        words += &format!("pipespeed {end}");
        for (option, _) in given.iter().filter(|(_, is_given)| *is_given) {
            words += &format!(" {option}");
        }
        format!("{words} --buf-size {}", letters(buffer_bytes))
    };
    let (writer_cpu, reader_cpu) = cpus.unzip();
    let vmsplices = case.pipe_writer().is_some_and(PipeWriter::vmsplices);
    let writing = [
        ("--write-with-vmsplice", vmsplices),
        ("--huge-page", writer.pages == PageKind::Huge),
        ("--busy-loop", writer.wait == Waiting::Spin),
    ];
    let splices = case.pipe_reader() == Some(PipeReader::Splice);
    let reading = [
        ("--read-with-splice", splices),
        ("--huge-page", reader.pages == PageKind::Huge),
        ("--busy-loop", reader.wait == Waiting::Spin),
    ];
    let write = words("write", writer_cpu, writing, writer.buffer_bytes);
    let read = words("read", reader_cpu, reading, reader.buffer_bytes);
    let pipe = letters((*pipe_bytes)?);
    Some(format!("{write} --pipe-size {pipe} | {read}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Suite;

    #[test]
    fn cases_with_the_ladders_names_are_the_ladders() {
        let ladder = Suite::Ladder.cases(&Overrides::default());
        let same = |case: &&Case| {
            let mut rungs = ladder.iter().filter(|rung| rung.name == case.name);
            rungs.any(|rung| {
                rung.subject.writer() == case.subject.writer()
                    && rung.subject.reader() == case.subject.reader()
            })
        };
        let cases = cases(&Overrides::default());
        let shared: Vec<&str> = cases.iter().filter(same).map(|case| &*case.name).collect();
        assert_eq!(
            shared,
            [
                "write_read",
                "vmsplice_read_huge",
                "vmsplice_splice_huge",
                "busy_loop_huge"
            ]
        );
    }

    #[test]
    fn only_ends_that_sleep_share_a_processor() {
        let all = with_one_processor(cases(&Overrides::default()), 3);
        let shared: Vec<&Case> = all.iter().filter(|case| case.cpus.is_some()).collect();
        assert_eq!((all.len(), shared.len()), (9, 3));
        assert!(
            shared
                .iter()
                .all(|case| !case.spins() && case.cpus == Some((3, 3)))
        );
    }

    #[test]
    fn the_grid_has_the_published_sizes_and_marks_refused_pipes() {
        let refusal = |bytes| (bytes > 512 << 10).then(|| "too large".to_owned());
        let overrides = Overrides::default();
        let grid = grid(4096, &overrides, refusal);
        for case in cases(&overrides) {
            assert!(grid.pairs().any(|sizes| sizes == sizes_of(&case)));
        }
        let refused: Vec<usize> = grid.refused.keys().copied().collect();
        assert_eq!(refused, [1 << 20, 4 << 20]);
        assert_eq!((grid.pairs().count(), grid.runnable()), (6 * 7, 6 * 5));
        let overrides = Overrides {
            buffer_bytes: Some(12_288),
            pipe_bytes: Some(8192),
            ..Overrides::default()
        };
        let given = super::grid(4096, &overrides, |_| None);
        assert_eq!(
            (&*given.buffers, &*given.pipes),
            (&[12_288][..], &[8192][..])
        );
    }

    #[test]
    fn the_command_line_has_all_that_a_case_does() {
        let all = cases(&Overrides::default());
        assert_eq!(
            command_line(&all[0], None).unwrap(),
            "pipespeed write --buf-size 256K --pipe-size 64K | pipespeed read --buf-size 256K"
        );
        let sizes = Sizes {
            buffer_bytes: 1 << 20,
            pipe_bytes: 512 << 10,
        };
        let sized = with_sizes(&all[5], sizes);
        assert_eq!(sized.name, "busy_loop_huge_1m_pipe_512k");
        assert_eq!(
            command_line(&sized, Some((2, 3))).unwrap(),
            "taskset -c 2 pipespeed write --write-with-vmsplice --huge-page --busy-loop \
             --buf-size 1M --pipe-size 512K | taskset -c 3 pipespeed read --read-with-splice \
             --busy-loop --buf-size 1M"
        );
    }
}
