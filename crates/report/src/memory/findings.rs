//! What memory's rates say, and how far from them the ladder is.

use crate::findings::apart;
use crate::format::{ratio_interval, significant, times};
use crate::steps::{doubted, step};
use pipespeed_base::size;
use pipespeed_measure::record::{CaseResult, DataUse, Estimate, Run, Verdict};
use pipespeed_measure::suite::memory::ROWS;

use super::{block, caches, footprint, of_way, place, rungs};

/// The places of the ways among [`ROWS`].
const READ: usize = 0;
const WRITE: usize = 1;
const READ_SCALAR: usize = 3;
const WRITE_SCALAR: usize = 4;

/// A few sentences; none that the intervals don't bear, or that a case differs
/// from itself by as much: by `doubt`, a logarithm.
pub(crate) fn findings(run: &Run, doubt: f64) -> Vec<String> {
    let mut sentences = Vec::new();
    sentences.extend(fastest_rung(run, doubt));
    sentences.extend(beyond_memory(run, doubt));
    sentences.extend(plain_pipe(run, doubt));
    sentences.extend(through_the_caches(run, doubt));
    sentences.extend(scalar(run, doubt));
    sentences
}

fn measured(case: &CaseResult) -> Option<(&CaseResult, &Estimate)> {
    Some((case, &case.summary.as_ref()?.gib_per_s))
}

/// The rung with the highest rate.
fn highest(run: &Run) -> Option<(&CaseResult, &Estimate)> {
    rungs(run)
        .filter_map(measured)
        .max_by(|a, b| a.1.median.total_cmp(&b.1.median))
}

/// The fastest rung against the copy.
fn fastest_rung(run: &Run, doubt: f64) -> Option<String> {
    let (rung, _) = highest(run)?;
    against_the_copy(run, rung, "the fastest rung", doubt)
}

/// The first rung, a pipe as everybody uses it, against the copy.
fn plain_pipe(run: &Run, doubt: f64) -> Option<String> {
    let rung = rungs(run).next()?;
    let (fastest, _) = highest(run)?;
    (rung.name != fastest.name)
        .then(|| against_the_copy(run, rung, "a plain pipe", doubt))
        .flatten()
}

fn against_the_copy(run: &Run, rung: &CaseResult, what: &str, doubt: f64) -> Option<String> {
    let step = step(rung)?;
    let copy = run.cases.iter().find(|case| case.name == step.base)?;
    let verb = match doubted(&step.ratio, doubt) {
        Verdict::Faster => "moves",
        Verdict::Slower => "reaches",
        Verdict::Same => "keeps up with",
        Verdict::Undecided => return None,
    };
    let shown = ratio_interval(step.ratio.estimate.interval);
    let ratio = format!("{} {shown}", times(step.ratio.estimate.median));
    let of_what = format!("memcpy of {}", within(run, copy));
    let sentence = match step.ratio.verdict {
        Verdict::Same => format!("{}, {what}, {verb} {of_what}: {ratio}", rung.name),
        _ => format!(
            "{}, {what}, {verb} {ratio} of what {of_what} does",
            rung.name
        ),
    };
    // Whoever looks at nothing is no match for a copy.
    let unseen = rung.data == DataUse::Discard && step.ratio.verdict != Verdict::Slower;
    Some(if unseen {
        format!("{sentence}: it does not touch the data.")
    } else {
        format!("{sentence}.")
    })
}

/// Whether a pipe moves more than the processor can read from memory.
fn beyond_memory(run: &Run, doubt: f64) -> Option<String> {
    let (rung, rate) = highest(run)?;
    let (case, memory) = of_way(run, READ).filter_map(measured).last()?;
    let largest = caches(run).into_iter().map(|(_, bytes)| bytes).max()?;
    (block(case) as u64 > largest && apart(memory, rate, doubt)).then(|| {
        format!(
            "{} moves more ({} GiB/s) than one processor reads from memory ({} GiB/s, blocks of {}).",
            rung.name,
            significant(rate.median),
            significant(memory.median),
            size::format(block(case) as u64)
        )
    })
}

/// From the smallest block to the largest.
fn through_the_caches(run: &Run, doubt: f64) -> Option<String> {
    let falls: Vec<String> = [0, 1, 2]
        .into_iter()
        .filter_map(|way| {
            let mut cases = of_way(run, way).filter_map(measured);
            let (first, near) = cases.next()?;
            let (last, far) = cases.last()?;
            apart(far, near, doubt).then(|| {
                format!(
                    "{} from {} GiB/s ({}) to {} ({})",
                    ROWS[way].title,
                    significant(near.median),
                    within(run, first),
                    significant(far.median),
                    within(run, last),
                )
            })
        })
        .collect();
    (!falls.is_empty()).then(|| format!("Through the caches: {}.", falls.join("; ")))
}

/// What one word at a time costs, near and far.
fn scalar(run: &Run, doubt: f64) -> Option<String> {
    let of = |name: &str, way: usize, wide: usize| -> Option<String> {
        let pairs = of_way(run, way).filter_map(|case| {
            let (_, slow) = measured(case)?;
            let fast = of_way(run, wide).find(|other| block(other) == block(case))?;
            let (_, fast) = measured(fast)?;
            Some((case, slow, fast))
        });
        let pairs: Vec<_> = pairs.collect();
        let ends = match pairs.as_slice() {
            [first, .., last] => vec![first, last],
            ends => ends.iter().collect(),
        };
        let ends: Vec<String> = ends
            .into_iter()
            .filter(|(_, slow, fast)| apart(slow, fast, doubt) || apart(fast, slow, doubt))
            .map(|(case, slow, fast)| {
                format!(
                    "{} ({})",
                    times(slow.median / fast.median),
                    within(run, case)
                )
            })
            .collect();
        (!ends.is_empty()).then(|| format!("{name} {}", ends.join(" and ")))
    };
    let parts: Vec<String> = [
        of("reading", READ_SCALAR, READ),
        of("writing", WRITE_SCALAR, WRITE),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!parts.is_empty()).then(|| {
        format!(
            "8 bytes at a time instead of wide loads and stores: {}.",
            parts.join(", ")
        )
    })
}

/// `256KiB, L2`: the block, and what holds it, or of a copy both blocks.
fn within(run: &Run, case: &CaseResult) -> String {
    let bytes = size::format(block(case) as u64);
    match place(run, footprint(case)) {
        place if place.is_empty() => bytes,
        place => format!("{bytes}, {place}"),
    }
}
