//! Which cases make up a suite: data, one file per suite.

pub mod changes;
pub mod channels;
mod combine;
mod ladder;
pub mod memory;
mod options;
mod pages;
pub mod sizes;
pub mod touched;
mod volumes;

pub use self::channels::Selection;
use self::sizes::Grid;
pub use self::volumes::shown;
use crate::spec::{Case, DataUse, Durations, PageKind, Suite};

/// The published buffer, in bytes.
const BUFFER: usize = 256 << 10;
/// A pipe's default capacity in bytes, where pages are 4 KiB (16 slots).
pub const DEFAULT_PIPE: usize = 64 << 10;

/// Values that replace those of a suite.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Overrides {
    /// One pipe size for all cases, in bytes.
    pub pipe_bytes: Option<usize>,
    /// One buffer size for all cases, in bytes.
    pub buffer_bytes: Option<usize>,
    /// What becomes of the data.
    pub data: Option<DataUse>,
    /// Passes of computing over the data at each end.
    pub work: u32,
    /// Which channels and sizes of messages, or of blocks of memory.
    pub selection: Selection,
    /// The volumes in bytes; the suite's own if empty.
    pub volumes: Vec<u64>,
    /// The pages of blocks of memory.
    pub pages: Option<PageKind>,
    /// The processor that both ends share in a case of their sharing one; such
    /// a case is left out where none is named.
    pub one_cpu: Option<usize>,
    /// Whether volumes and blocks of memory are smaller, and sizes of messages fewer, if none
    /// are named.
    pub quick: bool,
}

/// What becomes of the data in the cases of a suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataRule {
    /// Every byte is produced and used.
    Used,
    /// Every byte is produced and used, unless something else is requested.
    UsedByDefault,
    /// It is up to each case, unless something else is requested.
    Free,
    /// It is up to each case.
    OfCases,
    /// It is constant, as published.
    Constant,
}

/// What a size of `--size` is in a suite that takes some.
#[derive(Debug, Clone, Copy)]
pub struct SizeRule {
    /// What has the size: a message or a block.
    pub what: &'static str,
    /// Why a size is not possible, if it is not.
    pub refusal: fn(usize) -> Option<String>,
}

/// How the rounds of a suite are prepared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Preparation {
    /// The pilot determines the number of rounds.
    Pilot,
    /// After the pilot, the changes to combine are chosen.
    Combination,
    /// The pilot determines the number of trials of each volume.
    Volumes,
    /// A search through these sizes determines the cases.
    Search(Grid),
    /// A search through these sizes determines those of the case that the others are
    /// compared with; then a pilot the number of rounds.
    Baseline(Grid),
}

/// Durations of a run and its trials.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lengths {
    /// Durations of the parts of a trial; a timed part of 0 is ended by a volume.
    pub durations: Durations,
    /// Durations of a trial that verifies, in suites with such trials.
    pub verifying: Option<Durations>,
    /// Duration of the whole run, in seconds.
    pub budget_s: f64,
    /// Minimum number of rounds.
    pub min_rounds: usize,
    /// Minimum number of rounds if --time is given.
    pub min_rounds_in_time: usize,
}

impl Lengths {
    const fn new(warm_up_s: f64, timed_s: f64, budget_s: f64, min_rounds: usize) -> Self {
        Lengths {
            durations: Durations::new(warm_up_s, timed_s),
            verifying: None,
            budget_s,
            min_rounds,
            min_rounds_in_time: FEW_ROUNDS,
        }
    }
}

/// Minimum number of rounds for verdicts on several simultaneous comparisons:
/// with 9 rounds the sign test reaches 2/2^9 = 0.4 %, enough for 12 of them.
const FEW_ROUNDS: usize = 9;

/// Everything that distinguishes a suite from the others.
#[derive(Debug)]
pub struct Definition {
    cases: fn(&Overrides) -> Vec<Case>,
    /// What becomes of the data.
    pub data_rule: DataRule,
    /// The case that is measured twice, if not the first.
    pub null_control: Option<&'static str>,
    /// The durations of a full run.
    pub full: Lengths,
    /// The durations of a quick run.
    pub quick: Lengths,
    /// What a quick run leaves out.
    pub quick_omits: fn(&Overrides) -> Option<&'static str>,
    /// How the rounds are prepared.
    pub prepare: fn(&mut Overrides) -> Preparation,
    /// The options that only some suites have.
    pub options: &'static [&'static str],
    /// What the sizes of `--size` are.
    pub sizes: Option<SizeRule>,
}

/// The definition that others change.
const LADDER: Definition = Definition {
    cases: ladder::cases,
    data_rule: DataRule::Free,
    null_control: None,
    full: Lengths::new(0.015, 0.150, 60.0, 30),
    quick: Lengths::new(0.010, 0.060, 10.0, FEW_ROUNDS),
    quick_omits: |_| None,
    prepare: |_| Preparation::Pilot,
    options: &[],
    sizes: None,
};

impl Suite {
    /// What distinguishes it from the others.
    pub const fn definition(self) -> &'static Definition {
        match self {
            Suite::Ladder => &LADDER,
            Suite::Touched => &touched::SUITE,
            Suite::Channels => &channels::SUITE,
            Suite::Changes => &changes::SUITE,
            Suite::Sizes => &sizes::SUITE,
            Suite::Options => &options::SUITE,
            Suite::Pages => &pages::SUITE,
            Suite::Volumes => &volumes::SUITE,
            Suite::Memory => &memory::SUITE,
        }
    }

    /// The durations of a full or a quick run.
    pub fn lengths(self, quick: bool) -> &'static Lengths {
        let definition = self.definition();
        if quick {
            &definition.quick
        } else {
            &definition.full
        }
    }

    /// Its cases, in the order in which they are shown. Each is compared with
    /// one that differs in one factor, except those that begin a comparison, and
    /// those whose factor says that a program would use them so.
    pub fn cases(self, overrides: &Overrides) -> Vec<Case> {
        let definition = self.definition();
        definition.with_requested((definition.cases)(overrides), overrides)
    }

    /// The cases of the ladder without its controls.
    pub fn rungs(overrides: &Overrides) -> Vec<Case> {
        LADDER.with_requested(ladder::rungs(overrides), overrides)
    }
}

impl Definition {
    /// Sets the requested work and use of the data.
    fn with_requested(&self, cases: Vec<Case>, overrides: &Overrides) -> Vec<Case> {
        let data = match self.data_rule {
            DataRule::Used | DataRule::UsedByDefault => {
                Some(overrides.data.unwrap_or(DataUse::Touch))
            }
            DataRule::Free => overrides.data,
            DataRule::OfCases | DataRule::Constant => None,
        };
        let changed = |case: Case| Case {
            work: overrides.work,
            ..match data {
                Some(data) => case.with_data(data),
                None => case,
            }
        };
        cases.into_iter().map(changed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::overrides;
    use crate::spec::{PageReuse, PipeReader, PipeWriter, SinkSpec};
    use pipespeed_base::Named;
    use std::collections::HashSet;

    fn all(overrides: &Overrides) -> Vec<(Suite, Vec<Case>)> {
        Suite::VALUES
            .iter()
            .map(|&suite| (suite, suite.cases(overrides)))
            .collect()
    }

    #[test]
    fn names_are_unique_and_comparisons_name_an_earlier_case() {
        let many = [
            Overrides::default(),
            overrides(|asked| asked.pipe_bytes = Some(1 << 20)),
            overrides(|asked| asked.buffer_bytes = Some(128 << 10)),
            overrides(|asked| asked.buffer_bytes = Some(1 << 20)),
            overrides(|asked| asked.data = Some(DataUse::Verify)),
        ];
        for overrides in &many {
            for (suite, cases) in all(overrides) {
                let mut seen = HashSet::new();
                for case in &cases {
                    if let Some((other, _)) = &case.compared_with {
                        assert!(seen.contains(other), "{} of {suite:?}", case.name);
                    }
                    assert!(seen.insert(case.name.clone()), "{} twice", case.name);
                }
                assert!(
                    suite
                        .definition()
                        .null_control
                        .is_none_or(|name| seen.contains(name))
                );
            }
        }
    }

    #[test]
    fn case_differs_in_one_factor_or_its_comparison_says_so() {
        // The technique, the wait, the pages and the pipe's size count as one
        // each; what becomes of the data follows from the technique. The
        // library picks pages and sizes by itself: with it they are one factor
        // with the technique.
        let piece_bytes = |sink: &SinkSpec| {
            let pieces = if sink.same_buffer { 2 } else { 1 };
            sink.buffer_bytes / pieces
        };
        let of_one_channel = |(suite, _): &(Suite, _)| *suite != Suite::Channels;
        let overrides = overrides(|asked| asked.one_cpu = Some(0));
        let all = all(&overrides).into_iter();
        for (suite, cases) in all.filter(of_one_channel) {
            for case in &cases {
                let Some((other, _)) = &case.compared_with else {
                    continue;
                };
                let other = cases.iter().find(|c| c.name == *other).unwrap();
                let (Some(s1), Some(s2)) = (case.subject.writer(), other.subject.writer()) else {
                    continue;
                };
                let (Some(r1), Some(r2)) = (case.subject.reader(), other.subject.reader()) else {
                    continue;
                };
                let (w1, w2) = (case.pipe_writer(), other.pipe_writer());
                let chosen = usize::from(s1.pages != s2.pages)
                    + usize::from(case.subject.pipe_bytes() != other.subject.pipe_bytes())
                    + usize::from(piece_bytes(s1) != piece_bytes(s2));
                let options = usize::from(s1.same_buffer != s2.same_buffer)
                    + usize::from(s1.touched != s2.touched)
                    + usize::from(s1.locked != s2.locked)
                    + usize::from(s1.gift != s2.gift)
                    + usize::from(s1.offset != s2.offset)
                    + usize::from(case.cpus != other.cpus)
                    + usize::from(case.volume_bytes != other.volume_bytes);
                let factors = usize::from(w1 != w2)
                    + usize::from(case.pipe_reader() != other.pipe_reader())
                    + usize::from(s1.wait != s2.wait || r1.wait != r2.wait)
                    + if w1.is_some_and(PipeWriter::is_library) {
                        0
                    } else {
                        chosen
                    }
                    + options;
                let context = format!("{suite:?}: {} and {}", case.name, other.name);
                if suite == Suite::Touched {
                    // A writer brings its own sizes and pages.
                    assert!(factors + chosen > 0, "{context}");
                } else {
                    assert_eq!(factors, 1, "{context}");
                }
            }
        }
    }

    #[test]
    fn data_that_is_looked_at_behind_splice_is_never_overwritten() {
        let overrides = overrides(|asked| asked.data = Some(DataUse::Verify));
        for case in Suite::Ladder.cases(&overrides) {
            let (writer, reader) = case.subject.channel().unwrap().pipe_ends().unwrap();
            assert_ne!(reader, PipeReader::Splice, "{}", case.name);
            if reader == PipeReader::SpliceThrough && writer.vmsplices() {
                assert_eq!(
                    writer,
                    PipeWriter::Vmsplice(PageReuse::Fresh),
                    "{}",
                    case.name
                );
            }
        }
    }
}
