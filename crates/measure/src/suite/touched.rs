//! Every byte is produced anew by the writer and used by the reader, which is the
//! same plain read(2) in all cases: what does a program gain by another writer?
//!
//! All cases are compared with the best plain write(2) on this machine, whose piece
//! and pipe are searched for before the first round. The others run as a program
//! would use them, with sizes of their own, and sleep unless their name says
//! otherwise. A writer that vmsplices by hand may not write to a page again before
//! it has left the pipe; it uses as many buffers in turn as the pipe holds and one
//! more, and makes sure by counting what is unread. The two cases without a pipe
//! are the ceilings: no channel can be faster than the slower of its ends.

use super::sizes::{Grid, refusal, sizes_of};
use super::{BUFFER, DEFAULT_PIPE, DataRule, Definition, LADDER, Overrides, Preparation};
use crate::record::Sizes;
use crate::spec::{Case, PageKind, PageReuse, PipeWriter, SinkSpec, SourceSpec, Subject};
use fastpipe::pipe::page_size;
use pipespeed_base::size;

/// Name of the case that all others are compared with.
pub const BEST: &str = "write_read_best";

/// Names of the cases whose writer is fastpipe's, sleeps, and is right for every reader.
pub const SAFE: [&str; 4] = [
    "fastpipe_auto",
    "fastpipe_fresh",
    "fastpipe_cow_checked",
    "io_write_64k",
];

/// The pieces that are searched, in pages.
const PIECE_PAGES: [usize; 4] = [1, 2, 4, 16];
/// The pipes that are searched.
const PIPES: [usize; 3] = [DEFAULT_PIPE, 256 << 10, LARGE_PIPE];
/// The piece of the best write where nothing is searched.
const PIECE: usize = 8 << 10;

/// What `fastpipe::Writer` asks for by itself: the pipe, and half of it a loan.
const LARGE_PIPE: usize = 1 << 20;
const LOAN: usize = 512 << 10;
/// What a program writes at a time.
const WRITTEN: usize = 64 << 10;

pub(super) const SUITE: Definition = Definition {
    cases,
    data_rule: DataRule::Used,
    prepare: |overrides| {
        if overrides.buffer_bytes.is_some() && overrides.pipe_bytes.is_some() {
            return Preparation::Pilot;
        }
        Preparation::Baseline(grid(page_size(), overrides, refusal))
    },
    ..LADDER
};

fn describe_published(overrides: &Overrides, sizes: &str) -> String {
    match (overrides.buffer_bytes, overrides.pipe_bytes) {
        (None, None) => "the same in the published sizes".to_owned(),
        _ => format!("the same in {sizes}"),
    }
}

fn cases(overrides: &Overrides) -> Vec<Case> {
    let buffer = overrides.buffer_bytes;
    let case = |name, pipe| {
        let pipe = overrides.pipe_bytes.unwrap_or(pipe);
        Case::new(name, buffer.unwrap_or(BUFFER), pipe)
    };
    let best = case(BEST, LARGE_PIPE).with_pieces(buffer.unwrap_or(PIECE));
    let best = with_sizes(&best, sizes_of(&best));
    let published = case("write_read", DEFAULT_PIPE);
    let published_sizes = in_words(sizes_of(&published));
    let published = published.described(&describe_published(overrides, &published_sizes));
    // If both are given, the best is the same.
    let is_other = buffer.is_none() || overrides.pipe_bytes.is_none();
    let published = is_other.then(|| published.against(BEST, &published_sizes));
    let library = |name, technique, piece: usize, pipe| {
        let loan = buffer.unwrap_or(LOAN);
        case(name, pipe).library(technique, buffer.unwrap_or(piece), loan)
    };
    let lent = |name, reuse| library(name, PipeWriter::Fastpipe(reuse), LOAN, LARGE_PIPE);
    let buffered = PipeWriter::BufWriter;
    let written = PipeWriter::FastpipeIo;
    let others = [
        (
            case("vmsplice_read_huge", LARGE_PIPE)
                .vmsplice()
                .pages(PageKind::Huge),
            "vmsplice(2) of huge pages, written again once they left the pipe",
            "vmsplice",
        ),
        (
            lent("fastpipe_auto", PageReuse::Auto),
            "fastpipe's Writer as it is: tries the safe methods while sending",
            "Auto",
        ),
        (
            lent("fastpipe_auto_clone", PageReuse::AutoClone),
            "the same, which may also check pages by clone(2), as small producers may",
            "Auto, clone allowed",
        ),
        (
            lent("fastpipe_auto_spin", PageReuse::Auto).spin(),
            "the same, neither end ever sleeping",
            "Auto, spinning",
        ),
        (
            lent("fastpipe_fresh", PageReuse::Fresh),
            "pages are never written again",
            "Fresh",
        ),
        (
            lent("fastpipe_cow_checked", PageReuse::CowChecked),
            "pages are written again once the kernel finds nobody holding them",
            "CowChecked",
        ),
        (
            lent("fastpipe_drained", PageReuse::Drained),
            "pages are written again once they left the pipe",
            "Drained",
        ),
        (
            library("bufwriter_stdout_64k", buffered, WRITTEN, DEFAULT_PIPE),
            "BufWriter on standard output, 64 KiB written at a time",
            "BufWriter",
        ),
        (
            library("io_write_64k", written, WRITTEN, LARGE_PIPE),
            "the same bytes written to fastpipe's Writer",
            "Auto as io::Write",
        ),
    ];
    let others =
        others.map(|(case, description, factor)| case.described(description).against(BEST, factor));
    let buffer = buffer.unwrap_or(BUFFER);
    let ceilings = [
        Case::with_subject("produce_alone", Subject::Produce(SinkSpec::write(buffer)))
            .described("only producing the data, into memory"),
        Case::with_subject("consume_alone", Subject::Consume(SourceSpec::read(buffer)))
            .described("only using the data, from memory"),
    ];
    std::iter::once(best)
        .chain(published)
        .chain(others)
        .chain(ceilings)
        .collect()
}

/// The sizes to try where a page has `page` bytes.
pub fn grid(page: usize, overrides: &Overrides, refusal: impl Fn(usize) -> Option<String>) -> Grid {
    let pieces = PIECE_PAGES.map(|pages| pages * page).to_vec();
    Grid::new(pieces, PIPES.to_vec(), overrides, refusal)
}

/// [`BEST`] in other sizes. The reader stays the same.
pub fn with_sizes(best: &Case, sizes: Sizes) -> Case {
    best.clone()
        .with_pieces(sizes.buffer_bytes)
        .with_pipe(sizes.pipe_bytes)
        .described(&format!("write(2) and read(2), {}", in_words(sizes)))
}

/// `8KiB pieces into a 1MiB pipe`.
pub fn in_words(sizes: Sizes) -> String {
    let [piece, pipe] =
        [sizes.buffer_bytes, sizes.pipe_bytes].map(|bytes| size::format(bytes as u64));
    format!("{piece} pieces into a {pipe} pipe")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(buffer_bytes: Option<usize>, pipe_bytes: Option<usize>) -> Overrides {
        Overrides {
            buffer_bytes,
            pipe_bytes,
            ..Overrides::default()
        }
    }

    #[test]
    fn writers_that_find_their_method_change_their_rate_themselves() {
        let cases = cases(&given(None, None));
        let adapting = cases.iter().filter(|case| case.adapts());
        let names: Vec<&str> = adapting.map(|case| &*case.name).collect();
        assert_eq!(
            names,
            [
                "fastpipe_auto",
                "fastpipe_auto_clone",
                "fastpipe_auto_spin",
                "io_write_64k"
            ]
        );
    }

    #[test]
    fn all_but_the_ceilings_are_compared_with_the_best_write() {
        for overrides in [given(None, None), given(Some(8192), None)] {
            let cases = cases(&overrides);
            let (best, others) = cases.split_first().unwrap();
            assert_eq!((&*best.name, &best.compared_with), (BEST, &None));
            for case in others {
                let base = case.compared_with.as_ref().map(|(base, _)| &**base);
                let has_channel = case.subject.channel().is_some();
                assert_eq!(base, has_channel.then_some(BEST), "{}", case.name);
            }
        }
    }

    #[test]
    fn readers_are_the_same_and_only_spinning_cases_spin() {
        let cases = cases(&Overrides::default());
        let readers = || cases.iter().filter_map(|case| case.subject.reader());
        assert!(readers().all(|reader| reader.buffer_bytes == BUFFER));
        for case in &cases {
            assert_eq!(case.spins(), case.name.ends_with("_spin"), "{}", case.name);
        }
        let is_safe = |case: &&Case| SAFE.contains(&&*case.name);
        assert_eq!(cases.iter().filter(is_safe).count(), SAFE.len());
        let sizes = Sizes {
            buffer_bytes: 4096,
            pipe_bytes: 64 << 10,
        };
        let sized = with_sizes(&cases[0], sizes);
        assert_eq!(sizes_of(&sized), sizes);
        assert_eq!(sized.subject.reader(), cases[0].subject.reader());
        assert!(sized.description.ends_with("4KiB pieces into a 64KiB pipe"));
    }

    #[test]
    fn a_given_size_is_not_searched() {
        let axes = |overrides: &Overrides| {
            let grid = grid(4096, overrides, |_| None);
            (grid.buffers, grid.pipes)
        };
        let pieces = vec![4 << 10, 8 << 10, 16 << 10, 64 << 10];
        let pipes = vec![64 << 10, 256 << 10, 1 << 20];
        let piece = given(Some(12 << 10), None);
        assert_eq!(axes(&given(None, None)), (pieces.clone(), pipes.clone()));
        assert_eq!(axes(&piece), (vec![12 << 10], pipes));
        assert_eq!(axes(&given(None, Some(8192))), (pieces, vec![8192]));
        let both = given(Some(12 << 10), Some(8192));
        let prepared = |overrides: &Overrides| (SUITE.prepare)(&mut overrides.clone());
        assert!(matches!(prepared(&piece), Preparation::Baseline(_)));
        assert_eq!(prepared(&both), Preparation::Pilot);
        let cases = cases(&both);
        assert!(cases.iter().all(|case| case.name != "write_read"));
        assert_eq!(
            sizes_of(&cases[0]),
            Sizes {
                buffer_bytes: 12 << 10,
                pipe_bytes: 8192
            }
        );
    }
}
