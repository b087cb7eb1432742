//! What most programs do with a pipe, and each single change to it: which of
//! them would help most here?
//!
//! The baseline is write(2) and read(2) of 64 KiB through a pipe of the
//! kernel's default size, blocking, each end on a processor of its own. Every
//! byte is produced by the writer and used by the reader. The library's
//! `fastpipe::Writer` takes the place of write(2) on a pipe of the same size.

use super::{
    DEFAULT_PIPE, DataRule, Definition, FEW_ROUNDS, LADDER, Lengths, Overrides, Preparation,
};
use crate::spec::{Case, DataUse, PageKind, PageReuse, PipeWriter};
use pipespeed_base::{Named, named};

/// Name of the case that all others are compared with.
pub const BASELINE: &str = "baseline";
/// Name of the case that combines changes.
pub const COMBINED: &str = "combined";

const PIECE: usize = 64 << 10;
/// The default of /proc/sys/fs/pipe-max-size.
const LARGE_PIPE: usize = 1 << 20;
const SMALL_PIECE: usize = 8 << 10;

named! {
    /// A single change to the baseline.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Change {
        /// both ends on one processor
        OneProcessor = "one_processor",
        /// neither end ever sleeping
        Spinning = "spinning",
        /// through a pipe of 1 MiB
        LargePipe = "pipe_1m",
        /// 8 KiB written and read at a time
        SmallPieces = "pieces_8k",
        /// fastpipe's Writer, base pages that are never written again
        FreshBase = "fresh_base",
        /// fastpipe's Writer, huge pages that are never written again
        FreshHuge = "fresh_huge",
        /// fastpipe's Writer, pages written again once they left the pipe: unsafe where the reader splices
        Drained = "drained",
    }
}

impl Change {
    /// The change in a few words.
    pub const fn words(self) -> &'static str {
        match self {
            Change::OneProcessor => "one processor for both ends",
            Change::Spinning => "spinning instead of sleeping",
            Change::LargePipe => "a pipe of 1 MiB",
            Change::SmallPieces => "pieces of 8 KiB",
            Change::FreshBase => "vmsplice, Fresh, base pages",
            Change::FreshHuge => "vmsplice, Fresh, huge pages",
            Change::Drained => "vmsplice, Drained (unsafe where the reader splices)",
        }
    }

    /// Whether it is right for every reader.
    pub fn is_safe(self) -> bool {
        self != Change::Drained
    }

    /// Whether both can't be made at once: spinning needs two processors, and
    /// a writer has one kind of pages and one policy.
    pub fn excludes(self, other: Change) -> bool {
        let placement = |change| matches!(change, Change::OneProcessor | Change::Spinning);
        let writer = |change| {
            matches!(
                change,
                Change::FreshBase | Change::FreshHuge | Change::Drained
            )
        };
        placement(self) && placement(other) || writer(self) && writer(other)
    }

    /// `case` with the change made; `cpu` is the processor for both ends.
    fn apply(self, case: Case, cpu: Option<usize>) -> Case {
        match self {
            Change::OneProcessor => case.on(cpu.map(|cpu| (cpu, cpu))),
            Change::Spinning => case.spin(),
            Change::LargePipe => case.with_pipe(LARGE_PIPE),
            Change::SmallPieces => case.with_buffers(SMALL_PIECE),
            Change::FreshBase => by_pipe_writer(case, PageReuse::Fresh, PageKind::Base),
            Change::FreshHuge => by_pipe_writer(case, PageReuse::Fresh, PageKind::Huge),
            Change::Drained => by_pipe_writer(case, PageReuse::Drained, PageKind::Huge),
        }
    }
}

fn by_pipe_writer(case: Case, reuse: PageReuse, pages: PageKind) -> Case {
    let piece = case.subject.buffer_bytes();
    case.library(PipeWriter::Fastpipe(reuse), piece, piece)
        .change_writer(|writer| writer.pages = pages)
}

pub(super) const SUITE: Definition = Definition {
    cases,
    data_rule: DataRule::UsedByDefault,
    // As many cases as the ladder, and trials before the first round.
    full: Lengths::new(0.015, 0.120, 60.0, 30),
    quick: Lengths::new(0.010, 0.030, 10.0, FEW_ROUNDS),
    prepare: |_| Preparation::Combination,
    ..LADDER
};

/// The baseline and each change. A change that would set what was asked for
/// is left out; so is one processor where none is named.
fn cases(overrides: &Overrides) -> Vec<Case> {
    let piece = overrides.buffer_bytes.unwrap_or(PIECE);
    let pipe = overrides.pipe_bytes.unwrap_or(DEFAULT_PIPE);
    let baseline = Case::new(BASELINE, piece, pipe)
        .described("what most programs do: write(2) and read(2), blocking")
        .with_data(overrides.data.unwrap_or(DataUse::Touch));
    let possible = |change: &Change| match change {
        Change::OneProcessor => overrides.one_cpu.is_some(),
        Change::LargePipe => overrides.pipe_bytes.is_none(),
        Change::SmallPieces => overrides.buffer_bytes.is_none(),
        _ => true,
    };
    let changed = |change: Change| {
        let case = Case {
            name: change.name().to_owned(),
            ..change.apply(baseline.clone(), overrides.one_cpu)
        };
        case.described(change.about())
            .against(BASELINE, change.words())
    };
    let changes = Change::values().filter(possible).map(changed);
    std::iter::once(baseline.clone()).chain(changes).collect()
}

/// Stands for the combination until a pilot has fixed it: the baseline under
/// its name.
pub fn combination_placeholder(baseline: &Case) -> Case {
    Case {
        name: COMBINED.to_owned(),
        ..baseline.clone()
    }
    .described("the changes that helped in the pilot, fixed before the first round")
    .against(BASELINE, "what helped in the pilot")
}

/// The case that makes all of `changes` at once; `cpu` is the processor for
/// both ends.
pub fn combine(baseline: &Case, changes: &[Change], cpu: Option<usize>) -> Case {
    let words: Vec<&str> = changes.iter().map(|change| change.words()).collect();
    let changed = changes
        .iter()
        .fold(baseline.clone(), |case, change| change.apply(case, cpu));
    Case {
        name: COMBINED.to_owned(),
        ..changed
    }
    .described(&format!("chosen in the pilot: {}", words.join(", ")))
    .against(BASELINE, &words.join(" + "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::overrides;

    fn names(overrides: &Overrides) -> Vec<String> {
        cases(overrides).into_iter().map(|case| case.name).collect()
    }

    #[test]
    fn what_was_asked_for_is_no_change() {
        let all = overrides(|asked| asked.one_cpu = Some(3));
        assert_eq!(names(&all).len(), 1 + Change::VALUES.len());
        let asked = Overrides {
            pipe_bytes: Some(1 << 20),
            buffer_bytes: Some(8 << 10),
            ..Overrides::default()
        };
        assert_eq!(
            names(&asked),
            [
                "baseline",
                "spinning",
                "fresh_base",
                "fresh_huge",
                "drained"
            ]
        );
    }

    #[test]
    fn the_order_of_changes_does_not_matter() {
        let baseline = cases(&Overrides::default()).remove(0);
        for (i, one) in Change::VALUES.iter().copied().enumerate() {
            for other in Change::VALUES.iter().copied().skip(i + 1) {
                assert_eq!(one.excludes(other), other.excludes(one));
                if one.excludes(other) {
                    continue;
                }
                let there = combine(&baseline, &[one, other], Some(3));
                let back = combine(&baseline, &[other, one], Some(3));
                assert_eq!(there.subject, back.subject);
                assert_eq!(there.configuration(), back.configuration());
                for change in [one, other] {
                    let alone = combine(&baseline, &[change], Some(3));
                    assert_ne!(alone.configuration(), there.configuration());
                }
            }
        }
    }
}
