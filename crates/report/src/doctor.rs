//! What `doctor` found, as a table of stages and sentences.

mod deadlock;
mod names;
mod notes;
mod remedies;
mod sentences;
mod table;
#[cfg(test)]
mod tests;
mod unclear;
mod verdict;
mod waits;

use std::collections::BTreeSet;

use itertools::Itertools as _;
use pipespeed_base::size;
use pipespeed_base::text::escape;
use pipespeed_pipeline::diagnosis::Finding;
use pipespeed_pipeline::observe::Observation;
use pipespeed_pipeline::proc::LinkId;
use pipespeed_pipeline::sample::Observed;

use self::notes::notes;
pub use self::notes::slow_scans;
pub(super) use self::notes::{hidden, hidden_calls, silent};
use self::sentences::describe;
pub(super) use self::table::rate;
use self::table::table;
use self::verdict::{describe_verdict, too_short};

use super::format::pluralize;
use super::style::{DIM, Style};

/// The verdict, who waits for whom, the stages with their shares of time, and what was found, the
/// worst first.
pub fn doctor(observation: &Observation, findings: &[Finding], style: Style) -> String {
    let first = describe_verdict(observation, findings);
    let mut blocks = vec![style.note(&first, verdict::color(observation, findings))];
    for section in sections(observation, findings, style) {
        if let Some(name) = &section.name {
            blocks.push(style.heading(name));
        }
        blocks.push(waits::chain(observation, &section.findings));
        blocks.push(table(observation, &section.stages, style));
        if style.verbose {
            blocks.push(arguments(&section.stages));
        }
        let shown = section.findings.iter().filter(|finding| {
            let alike = section
                .findings
                .iter()
                .find(|other| are_alike(other, finding));
            alike.is_some_and(|first| std::ptr::eq(*first, **finding))
        });
        blocks.extend(shown.map(|finding| {
            let alike = section.findings.iter().copied();
            let alike: Vec<&Finding> = alike.filter(|other| are_alike(other, finding)).collect();
            describe(observation, findings, finding, &alike, style)
        }));
    }
    if !findings.is_empty() {
        blocks.extend(too_short(observation).map(|text| style.sentence(&text)));
    }
    let notes = notes(observation, findings, style.verbose);
    blocks.extend(notes.iter().map(|text| style.note(text, DIM)));
    blocks.retain(|block| !block.is_empty());
    blocks.join("\n\n") + "\n"
}

/// `3 stages in 1 pipeline`.
fn count_stages(observation: &Observation) -> String {
    let pipelines = observation.pipelines();
    let stages: usize = pipelines.iter().map(Vec::len).sum();
    if stages == 0 && observation.short_lived_pipes() > 0 {
        "no lasting pipeline".to_owned()
    } else if stages == 0 {
        "no pipeline".to_owned()
    } else {
        let pipelines = pluralize(pipelines.len(), "pipeline");
        format!("{} in {pipelines}", pluralize(stages, "stage"))
    }
}

/// A pipeline, or processes outside of pipelines, with what was found about them.
#[derive(Default)]
struct DoctorSection<'a> {
    /// Its stages as a heading; `None` if it is the only one.
    name: Option<String>,
    stages: Vec<&'a Observed>,
    findings: Vec<&'a Finding>,
}

/// The pipelines with what was found about each, the worst first; of many, only those with
/// findings.
fn sections<'a>(
    observation: &'a Observation,
    findings: &'a [Finding],
    style: Style,
) -> Vec<DoctorSection<'a>> {
    let pids = |stages: &[&Observed]| -> BTreeSet<i32> {
        stages.iter().map(|stage| stage.process.id.pid).collect()
    };
    let mut sections: Vec<DoctorSection<'a>> = observation
        .pipelines()
        .into_iter()
        .map(|stages| DoctorSection {
            stages,
            ..DoctorSection::default()
        })
        .collect();
    let mut rest = DoctorSection::default();
    for finding in findings {
        let named: BTreeSet<i32> = finding.named().iter().map(|who| who.pid).collect();
        let mut owners = sections.iter_mut();
        let owner = owners.find(|section| !pids(&section.stages).is_disjoint(&named));
        owner.unwrap_or(&mut rest).findings.push(finding);
    }
    if observation.is_survey && !style.verbose {
        sections.retain(|section| !section.findings.is_empty());
    }
    let all: BTreeSet<i32> = sections
        .iter()
        .flat_map(|section| pids(&section.stages))
        .collect();
    if !observation.is_survey {
        // A process in a deadlock may have no stage before or after it.
        let mentioned: BTreeSet<i32> = findings
            .iter()
            .flat_map(Finding::named)
            .map(|who| who.pid)
            .collect();
        let wanted = |process: &&Observed| {
            let pid = process.process.id.pid;
            let is_alone = process.is_asked && all.is_empty();
            !all.contains(&pid) && (mentioned.contains(&pid) || is_alone)
        };
        rest.stages = observation.living().filter(wanted).collect();
    }
    // One pipeline and what belongs to it are one section.
    if let [only] = &mut sections[..] {
        only.stages.append(&mut rest.stages);
        only.findings.append(&mut rest.findings);
        only.findings
            .sort_by_key(|finding| position(findings, finding));
        return sections;
    }
    if !rest.stages.is_empty() || !rest.findings.is_empty() {
        sections.push(rest);
    }
    // Findings stand in this order, the worst first.
    sections.sort_by_key(|section| {
        let first = section
            .findings
            .iter()
            .map(|finding| position(findings, finding));
        first.min().unwrap_or(usize::MAX)
    });
    if sections.len() > 1 {
        for section in &mut sections {
            let names = section.stages.iter().map(|stage| &*stage.process.name);
            let separator = if is_chain(observation, &section.stages) {
                " | "
            } else {
                ", "
            };
            section.name =
                (!section.stages.is_empty()).then(|| names.collect::<Vec<_>>().join(separator));
        }
    }
    sections
}

/// Whether two findings are the same but for the holder of a leaked write end, of which there may be
/// many, or but for which of its outputs that is, or but for which of several processes waits by itself.
fn are_alike(a: &Finding, b: &Finding) -> bool {
    match (a, b) {
        (Finding::LeakedWriteEnd(a), Finding::LeakedWriteEnd(b)) => {
            let is_same = a.pipe == b.pipe || a.holder == b.holder;
            is_same && a.reader == b.reader && a.is_last == b.is_last
        }
        // The workers of a server.
        (Finding::Bottleneck(a), Finding::Bottleneck(b)) if a.is_alone() && b.is_alone() => {
            let awaited = a.awaited();
            let is_same = a.stage.name == b.stage.name && awaited == b.awaited();
            a.stage == b.stage || is_same && awaited.is_some()
        }
        _ => std::ptr::eq(a, b),
    }
}

fn position(all: &[Finding], finding: &Finding) -> usize {
    let at = all.iter().position(|other| std::ptr::eq(other, finding));
    at.unwrap_or(usize::MAX)
}

/// Whether each stage writes to the next one.
fn is_chain(observation: &Observation, stages: &[&Observed]) -> bool {
    let edges = observation.edges();
    let pairs = stages.iter().tuple_windows();
    let mut pairs = pairs.map(|(a, b)| (a.process.id.pid, b.process.id.pid));
    pairs.all(|(a, b)| edges.iter().any(|(from, to, _)| (*from, *to) == (a, b)))
}

/// The arguments of the stages, as far as they are known.
fn arguments(stages: &[&Observed]) -> String {
    let known = stages.iter().filter_map(|observed| {
        let line = escape(observed.arguments.as_ref()?);
        Some(format!("{:>7}  {line}", observed.process.id.pid))
    });
    known.collect::<Vec<String>>().join("\n")
}

/// The bytes that lie in a link: `64KiB`, or `at least 4KiB` of datagrams.
fn unread_bytes(observation: &Observation, id: LinkId) -> Option<String> {
    let mut links = observation.pipes.iter();
    let link = links.find(|link| link.id == id)?;
    link.unread.filter(|bytes| *bytes > 0).map(size::format)
}
