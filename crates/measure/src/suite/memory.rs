//! What memory itself does, by the size of the block, and the ladder's rungs
//! beside it.
//!
//! One process goes over a block, again and again: from a size that lies in the
//! first cache to one beyond all of them. The rungs run in the same rounds, each
//! compared with copying a block as large as the ladder's buffer.

use super::{
    BUFFER, DataRule, Definition, FEW_ROUNDS, LADDER, Lengths, Overrides, SizeRule, ladder,
};
use crate::spec::{Act, Case, DataUse, MemorySpec, Subject};
use pipespeed_base::{Named, size};
use pipespeed_stats::MIN_SAMPLES;

/// The size of a block is a multiple of this: a cache line, in bytes.
const LINE: usize = 64;

/// Sizes of blocks, each four times the one before.
const SIZES: [usize; 10] = [
    4 << 10,
    16 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
    4 << 20,
    16 << 20,
    64 << 20,
    256 << 20,
    1 << 30,
];

/// The number of sizes in a quick run: setting up larger blocks takes longer than
/// measuring them.
const QUICK: usize = 8;

pub(super) const SUITE: Definition = Definition {
    cases,
    data_rule: DataRule::OfCases,
    null_control: Some("mem_copy_256k"),
    // Setting up a large block takes longer than a pass over it.
    full: Lengths::new(0.010, 0.060, 85.0, FEW_ROUNDS),
    quick: Lengths {
        min_rounds_in_time: MIN_SAMPLES,
        ..Lengths::new(0.004, 0.020, 25.0, FEW_ROUNDS)
    },
    quick_omits: |overrides| {
        let sizes = &overrides.selection.sizes;
        sizes.is_empty().then_some("no blocks of more than 64MiB")
    },
    options: &["--size", "--pages"],
    sizes: Some(SizeRule {
        what: "block",
        refusal: |bytes| {
            let is_whole = bytes.is_multiple_of(LINE);
            (!is_whole).then(|| format!("a block must be a multiple of {LINE} bytes"))
        },
    }),
    ..LADDER
};

fn cases(overrides: &Overrides) -> Vec<Case> {
    let mut sizes = match &overrides.selection.sizes[..] {
        [] if overrides.quick => SIZES[..QUICK].to_vec(),
        [] => SIZES.to_vec(),
        named => named.to_vec(),
    };
    sizes.sort_unstable();
    sizes.dedup();
    let pages = overrides.pages.unwrap_or_default();
    let name = |act: Act, bytes| format!("mem_{act}_{}", size::short(bytes));
    let mut cases = Vec::new();
    for &block_bytes in &sizes {
        for act in Act::values() {
            let spec = MemorySpec {
                act,
                block_bytes,
                pages,
            };
            cases.push(Case {
                data: if act == Act::Copy {
                    DataUse::Read
                } else {
                    DataUse::Touch
                },
                ..Case::with_subject(&name(act, block_bytes), Subject::Memory(spec))
                    .described(act.about())
            });
        }
    }
    // As large as the rungs' buffer, or what comes nearest to it.
    let beside = sizes.iter().rev().find(|bytes| **bytes <= BUFFER);
    let yardstick = beside.or(sizes.first()).copied().unwrap_or(BUFFER);
    let copy = name(Act::Copy, yardstick);
    // Then the sizes differ, too.
    let factor = if yardstick == BUFFER {
        "a pipe instead of memcpy".to_owned()
    } else {
        format!(
            "a pipe and pieces of {} instead of memcpy and blocks of {}",
            size::format(BUFFER as u64),
            size::format(yardstick as u64)
        )
    };
    let rungs = ladder::rungs(overrides);
    cases.extend(rungs.into_iter().map(|rung| rung.against(&copy, &factor)));
    cases
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::overrides;
    use crate::spec::PageKind;

    fn of_sizes(sizes: &[usize]) -> Vec<Case> {
        cases(&overrides(|asked| asked.selection.sizes = sizes.to_vec()))
    }

    #[test]
    fn five_ways_by_ten_sizes_and_seven_rungs() {
        let cases = of_sizes(&[]);
        assert_eq!(cases.len(), 5 * 10 + 7);
        let blocks = cases.iter().filter_map(|case| case.subject.memory());
        let largest = blocks.map(|block| block.block_bytes).max();
        assert_eq!(largest, Some(1 << 30));
        assert!(cases.iter().any(|case| case.name == "mem_read_scalar_1g"));
        for case in &cases {
            let is_rung = case.subject.channel().is_some();
            assert_ne!(case.subject.memory().is_some(), is_rung, "{}", case.name);
            assert_eq!(is_rung, case.compared_with.is_some());
        }
    }

    #[test]
    fn rungs_are_compared_with_the_nearest_copy_below_their_buffer() {
        let compared = |sizes: &[usize]| {
            let rungs = of_sizes(sizes).into_iter();
            let mut with: Vec<String> = rungs
                .filter_map(|case| Some(case.compared_with?.0))
                .collect();
            with.dedup();
            with
        };
        assert_eq!(compared(&[]), ["mem_copy_256k"]);
        assert_eq!(compared(&[4096, 65_536, 1 << 20]), ["mem_copy_64k"]);
        assert_eq!(compared(&[1 << 20, 4 << 20]), ["mem_copy_1m"]);
    }

    #[test]
    fn copy_of_another_size_than_rungs_is_named_with_it() {
        let factor = |sizes: &[usize]| {
            let last = of_sizes(sizes).pop().unwrap();
            last.compared_with.unwrap().1
        };
        assert_eq!(factor(&[]), "a pipe instead of memcpy");
        assert_eq!(
            factor(&[1 << 20]),
            "a pipe and pieces of 256KiB instead of memcpy and blocks of 1MiB"
        );
    }

    #[test]
    fn huge_pages_are_those_of_the_blocks_only() {
        let huge = cases(&overrides(|asked| asked.pages = Some(PageKind::Huge)));
        for (case, base) in huge.iter().zip(of_sizes(&[])) {
            match case.subject.memory() {
                Some(block) => assert_eq!(block.pages, PageKind::Huge),
                None => assert_eq!(*case, base),
            }
        }
    }
}
