//! The records that a page is made of.

use std::fmt;
use std::str::FromStr;

use pipespeed_base::Named as _;
use pipespeed_explain::check::CheckRecord;
use pipespeed_explain::costs::CostsRecord;
use pipespeed_explain::pages::PagesRecord;
use pipespeed_explain::profile::record::Profile;
use pipespeed_measure::latency::record::LatencyRecord;
use pipespeed_measure::record::{Kind, LoadError, RecordHeader, Run, SavedFile, Warning};
use pipespeed_measure::spec::Suite;

use super::walk;
use crate::blocks::Blocks;
use crate::conditions::of_record;
use crate::{checks, costs, latency, profile, run};

/// A saved record of a kind that a page can use.
#[derive(Debug, Clone, PartialEq)]
pub enum Saved {
    /// A run of a suite.
    Bench(Box<Run>),
    /// Checks of this system's pipes.
    Check(Box<CheckRecord>),
    /// Round trips.
    Latency(Box<LatencyRecord>),
    /// Elementary costs.
    Costs(Box<CostsRecord>),
    /// A sampled profile of cases.
    Profile(Box<Profile>),
    /// What memory is made of.
    Pages(Box<PagesRecord>),
}

impl Saved {
    /// The record in a file; `None` if it is of a kind that a page has no use for.
    ///
    /// # Errors
    /// It is not a record, or is damaged.
    pub fn parse(file: &SavedFile) -> Result<Option<Saved>, LoadError> {
        Ok(Some(match file.kind()? {
            Kind::Bench => Saved::Bench(file.parse()?),
            Kind::Check => Saved::Check(file.parse()?),
            Kind::Latency => Saved::Latency(file.parse()?),
            Kind::Costs => Saved::Costs(file.parse()?),
            Kind::Profile => {
                let record: Box<Profile> = file.parse()?;
                if record.pipeline.is_some() {
                    return Ok(None);
                }
                Saved::Profile(record)
            }
            Kind::Pages => {
                let record: Box<PagesRecord> = file.parse()?;
                // Without known page tables there is no walk to show.
                if record.report.walk.is_none() {
                    return Ok(None);
                }
                Saved::Pages(record)
            }
            Kind::Comparison
            | Kind::ProfileCounted
            | Kind::PagesOfPipe
            | Kind::Pinning
            | Kind::Doctor
            | Kind::Boost
            | Kind::Top => {
                return Ok(None);
            }
        }))
    }

    /// The header of the record.
    pub fn header(&self) -> &RecordHeader {
        match self {
            Saved::Bench(run) => &run.header,
            Saved::Check(record) => &record.header,
            Saved::Latency(record) => &record.header,
            Saved::Costs(record) => &record.header,
            Saved::Profile(profile) => &profile.header,
            Saved::Pages(record) => &record.header,
        }
    }

    /// Whether it is preferred to another record about the same topic, and when it was
    /// made. Of several walks the one to a huge page is preferred, then one to memory of this
    /// machine: an address alone may be invented.
    fn rank(&self) -> (bool, bool, &str) {
        let report = match self {
            Saved::Pages(record) => Some(&record.report),
            _ => None,
        };
        let memory = report.and_then(|report| report.memory.as_ref());
        let is_huge = memory.is_some_and(|memory| memory.huge_page().is_some());
        // RFC 3339 in UTC, so the order is that of the times.
        (is_huge, memory.is_some(), &self.header().started_at)
    }

    /// What the record is about. Of two records about the same topic, a page shows the
    /// newer, or the one that shows more.
    pub(super) fn topic(&self) -> Topic {
        match self {
            Saved::Bench(run) => Topic::Bench(run.suite),
            Saved::Check(_) => Topic::Check,
            Saved::Latency(record) => {
                let is_naive = record.cases.iter().any(|case| case.naive().is_some());
                Topic::Latency { is_naive }
            }
            Saved::Costs(_) => Topic::Costs,
            Saved::Profile(_) => Topic::Profile,
            Saved::Pages(_) => Topic::Pages,
        }
    }

    /// The warnings of the record.
    pub(super) fn warnings(&self) -> &[Warning] {
        match self {
            Saved::Bench(run) => &run.warnings,
            Saved::Latency(record) => &record.warnings,
            Saved::Costs(record) => &record.warnings,
            Saved::Profile(profile) => &profile.warnings,
            Saved::Check(_) | Saved::Pages(_) => &[],
        }
    }

    /// The report on the record.
    pub(super) fn blocks(&self) -> Blocks<'_> {
        match self {
            Saved::Bench(run) => run::blocks(run),
            Saved::Check(record) => checks::blocks(record),
            Saved::Latency(record) => latency::blocks(record),
            Saved::Costs(record) => costs::blocks(&record.costs_ns),
            Saved::Profile(profile) => profile::blocks(profile),
            Saved::Pages(record) => walk::blocks(&record.report),
        }
    }
}

/// What a record is about. As text, the command that makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Topic {
    Bench(Suite),
    Check,
    /// Round trips; with exchanges that can deadlock, or without.
    Latency {
        is_naive: bool,
    },
    Costs,
    Profile,
    Pages,
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Topic::Bench(suite) => write!(f, "bench {suite}"),
            Topic::Check => f.write_str("check"),
            Topic::Latency { is_naive: true } => f.write_str("latency --naive"),
            Topic::Latency { is_naive: false } => f.write_str("latency"),
            Topic::Costs => f.write_str("costs"),
            Topic::Profile => f.write_str("profile"),
            Topic::Pages => f.write_str("pages"),
        }
    }
}

impl FromStr for Topic {
    type Err = String;

    fn from_str(text: &str) -> Result<Topic, String> {
        let others = [
            Topic::Check,
            Topic::Latency { is_naive: true },
            Topic::Latency { is_naive: false },
            Topic::Costs,
            Topic::Profile,
            Topic::Pages,
        ];
        let runs = Suite::values().map(Topic::Bench);
        let found = runs.chain(others).find(|topic| topic.to_string() == text);
        found.ok_or_else(|| format!("no record is called `{text}`"))
    }
}

/// The records of one page: at most one about each topic.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Records {
    all: Vec<Saved>,
    /// Records that newer ones replace, in words.
    pub(super) replaced: Vec<String>,
}

impl Records {
    /// The records of a page. Of several about the same topic the newest is kept; of walks,
    /// one to a huge page.
    pub fn new(saved: impl IntoIterator<Item = Saved>) -> Records {
        let mut records = Records::default();
        for new in saved {
            let same = |old: &&mut Saved| old.topic() == new.topic();
            let Some(old) = records.all.iter_mut().find(same) else {
                records.all.push(new);
                continue;
            };
            let left_out = if old.rank() <= new.rank() {
                std::mem::replace(old, new)
            } else {
                new
            };
            let topic = left_out.topic();
            let started_at = &left_out.header().started_at;
            records.replaced.push(format!("{topic} of {started_at}"));
        }
        records
    }

    /// All records.
    pub(super) fn all(&self) -> impl Iterator<Item = &Saved> {
        self.all.iter()
    }

    /// The record about a topic.
    pub(super) fn find(&self, topic: Topic) -> Option<&Saved> {
        self.all().find(|saved| saved.topic() == topic)
    }

    /// The run of a suite.
    pub(super) fn run(&self, suite: Suite) -> Option<&Run> {
        match self.find(Topic::Bench(suite))? {
            Saved::Bench(run) => Some(run),
            _ => None,
        }
    }

    /// The machines of the records: processor and kernel, each once.
    pub(super) fn machines(&self) -> Vec<String> {
        let mut machines: Vec<String> = Vec::new();
        for saved in &self.all {
            let header = RecordHeader {
                started_at: String::new(),
                ..saved.header().clone()
            };
            let machine = of_record(&header);
            if !machine.is_empty() && !machines.contains(&machine) {
                machines.push(machine);
            }
        }
        machines
    }
}

#[cfg(test)]
mod tests {
    use super::super::page;
    use super::super::tests::others;
    use super::*;
    use itertools::Itertools as _;
    use pipespeed_explain::pages::MemoryRange;
    use pipespeed_explain::profile::fixtures::pipeline;
    use pipespeed_measure::fixtures;
    use pipespeed_measure::record::to_json;

    fn json(saved: &Saved) -> String {
        match saved {
            Saved::Bench(run) => to_json(run),
            Saved::Check(record) => to_json(record),
            Saved::Latency(record) => to_json(record),
            Saved::Costs(record) => to_json(record),
            Saved::Profile(record) => to_json(record),
            Saved::Pages(record) => to_json(record),
        }
    }

    /// The record or the error of a file with this text.
    fn load(text: &str) -> Result<Option<Saved>, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("record.json");
        std::fs::write(&path, text).unwrap();
        Saved::parse(&SavedFile::read(path).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn records_that_a_page_has_no_use_for_are_left_out_and_damaged_ones_refused() {
        let [_, _, check, ..] = others();
        let of_kind = |kind: &str| {
            let kind = format!("\"kind\": \"{kind}\"");
            load(&json(&check).replace("\"kind\": \"check\"", &kind))
        };
        for (kind, words) in [
            ("bench", "a damaged record (missing field"),
            ("odd", "a damaged record (unknown value `odd`"),
        ] {
            let error = of_kind(kind).unwrap_err();
            assert!(error.contains(words) && !error.contains('\n'), "{error}");
        }
        assert_eq!(of_kind("doctor"), Ok(None));
        assert_eq!(load(&json(&Saved::Profile(Box::new(pipeline())))), Ok(None));
    }

    /// Both records are given in either order, and the second is shown.
    #[test]
    fn the_newest_record_or_the_one_that_shows_more_is_used() {
        let ladder = fixtures::ladder();
        let mut newer = ladder.clone();
        newer.header.started_at = "2026-03-15T00:00:00Z".to_owned();
        let [_, _, _, _, walk, _] = others();
        let mut real = walk.clone();
        if let Saved::Pages(record) = &mut real {
            record.report.memory = Some(MemoryRange {
                pid: None,
                mappings: Vec::new(),
                page_bytes: 4096,
                pages: Vec::new(),
                runs: None,
                hidden: Vec::new(),
            });
        }
        let ladders = [ladder, newer].map(|run| Saved::Bench(Box::new(run)));
        for [other, best] in [ladders, [walk, real]] {
            for both in [[&other, &best], [&best, &other]] {
                let records = Records::new(both.map(Saved::clone));
                assert_eq!(records.find(best.topic()), Some(&best));
                let topic = format!("{} of 2026-03-14T09:26:53Z", other.topic());
                assert!(page(&records, None).contains(&topic));
            }
        }
    }

    /// The name of a field with a whole number, in a line of JSON; empty in a list.
    fn whole_number(line: &str) -> Option<(&str, &str)> {
        let line = line.trim().trim_end_matches(',');
        let (name, value) = line.rsplit_once(": ").unwrap_or(("", line));
        value.parse::<u64>().ok().map(|_| (name, value))
    }

    #[test]
    fn records_survive_saving_and_loading_and_huge_counts_do_no_harm() {
        let runs = [fixtures::memory(), fixtures::touched()];
        let runs = runs.map(|run| Saved::Bench(Box::new(run)));
        for saved in others().into_iter().chain(runs) {
            let text = json(&saved);
            // Not assert_eq: a record takes pages to show.
            let loaded = load(&text).unwrap().unwrap();
            assert!(json(&loaded) == text, "{}", saved.topic());
            let names = text.lines().filter_map(whole_number).map(|(name, _)| name);
            for name in names.unique() {
                let lines = text.lines().map(|line| match whole_number(line) {
                    Some((of_line, value)) if of_line == name => {
                        line.replace(value, &u64::MAX.to_string())
                    }
                    _ => line.to_owned(),
                });
                // What a field can't hold is refused.
                if let Ok(Some(saved)) = load(&lines.collect::<String>()) {
                    page(&Records::new([saved]), None);
                }
            }
        }
    }
}
