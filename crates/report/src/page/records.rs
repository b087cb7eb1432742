//! The records that a page is made of.

use pipespeed_explain::costs::CostsRecord;
use pipespeed_explain::pages::PagesRecord;
use pipespeed_explain::profile::record::Profile;
use pipespeed_explain::{check, costs};
use pipespeed_measure::latency::record::LatencyRecord;
use pipespeed_measure::record::{Kind, LoadError, RecordHeader, Run, SavedFile};
use pipespeed_measure::spec::Suite;

use super::walk::WalkReport;
use crate::conditions::of_record;

/// A saved record of a kind that a page can use.
#[derive(Debug, Clone, PartialEq)]
pub enum Saved {
    /// A run of a suite.
    Bench(Box<Run>),
    /// Checks of this system's pipes.
    Check(Box<check::CheckRecord>),
    /// Round trips.
    Latency(Box<LatencyRecord>),
    /// Elementary costs.
    Costs(Box<CostsRecord>),
    /// A sampled profile.
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
            Kind::Profile => Saved::Profile(file.parse()?),
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

    /// Whether it is preferred to another record about the same subject, and when it was
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

    /// What the record is about, in words. Of two records with the same words, a page shows
    /// the newer, or the one that tells more.
    pub(super) fn subject(&self) -> String {
        match self {
            Saved::Bench(run) => format!("bench {}", run.suite),
            Saved::Check(_) => "check".to_owned(),
            Saved::Latency(record) if is_naive(record) => "latency --naive".to_owned(),
            Saved::Latency(_) => "latency".to_owned(),
            Saved::Costs(_) => "costs".to_owned(),
            Saved::Profile(profile) if profile.pipeline.is_some() => "profile --".to_owned(),
            Saved::Profile(_) => "profile".to_owned(),
            Saved::Pages(_) => "pages".to_owned(),
        }
    }
}

fn is_naive(record: &LatencyRecord) -> bool {
    record.cases.iter().any(|case| case.naive().is_some())
}

/// The records of one page: at most one about each subject.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Records {
    all: Vec<Saved>,
    /// Records that newer ones replace, in words.
    replaced: Vec<String>,
}

impl Records {
    /// The records of a page. Of several about the same subject the newest is kept; of walks,
    /// one to a huge page.
    pub fn new(saved: impl IntoIterator<Item = Saved>) -> Records {
        let mut records = Records::default();
        for new in saved {
            let same = |old: &&mut Saved| old.subject() == new.subject();
            let Some(old) = records.all.iter_mut().find(same) else {
                records.all.push(new);
                continue;
            };
            let left_out = if old.rank() <= new.rank() {
                std::mem::replace(old, new)
            } else {
                new
            };
            let subject = left_out.subject();
            let started_at = &left_out.header().started_at;
            records.replaced.push(format!("{subject} of {started_at}"));
        }
        records
    }

    /// All records.
    pub(super) fn all(&self) -> impl Iterator<Item = &Saved> {
        self.all.iter()
    }

    /// Records that newer ones replace, in words.
    pub(super) fn replaced(&self) -> &[String] {
        &self.replaced
    }

    /// The run of a suite.
    pub(super) fn run(&self, suite: Suite) -> Option<&Run> {
        self.all.iter().find_map(|saved| match saved {
            Saved::Bench(run) if run.suite == suite => Some(&**run),
            _ => None,
        })
    }

    /// The checks.
    pub(super) fn check(&self) -> Option<&check::CheckRecord> {
        self.all.iter().find_map(|saved| match saved {
            Saved::Check(record) => Some(&**record),
            _ => None,
        })
    }

    /// Round trips; with exchanges that can deadlock, or without.
    pub(super) fn latency(&self, naive: bool) -> Option<&LatencyRecord> {
        self.all.iter().find_map(|saved| match saved {
            Saved::Latency(record) if is_naive(record) == naive => Some(&**record),
            _ => None,
        })
    }

    /// The elementary costs.
    pub(super) fn costs(&self) -> Option<&costs::Costs> {
        self.all.iter().find_map(|saved| match saved {
            Saved::Costs(record) => Some(&record.costs_ns),
            _ => None,
        })
    }

    /// The profile of cases.
    pub(super) fn profile(&self) -> Option<&Profile> {
        self.all.iter().find_map(|saved| match saved {
            Saved::Profile(profile) if profile.pipeline.is_none() => Some(&**profile),
            _ => None,
        })
    }

    /// The walk to the pages behind a buffer or an address.
    pub(super) fn pages(&self) -> Option<WalkReport<'_>> {
        self.all.iter().find_map(|saved| match saved {
            Saved::Pages(record) => Some(WalkReport {
                walk: record.report.walk.as_ref()?,
                memory: record.report.memory.as_ref(),
            }),
            _ => None,
        })
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
