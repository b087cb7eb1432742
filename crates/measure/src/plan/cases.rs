//! The cases of a run: those requested, and why some can't be run.

use std::collections::{BTreeMap, BTreeSet};

use crate::spec::{Case, DataUse, PipeWriter, Suite};
use crate::suite::{Overrides, Preparation};
use pipespeed_base::failure::usage;
use pipespeed_base::text::pluralize;
use pipespeed_host::placement::{self, Chosen};
use pipespeed_host::topology::Topology;

/// The null control repeats no volume above this, which would take minutes.
const MAX_REPEATED_BYTES: u64 = 1 << 30;

/// Returns the named cases and the ones they are compared with.
pub(super) fn selected(mut cases: Vec<Case>, names: &[String]) -> anyhow::Result<Vec<Case>> {
    if names.is_empty() {
        return Ok(cases);
    }
    let known: Vec<&str> = cases.iter().map(|case| &*case.name).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(usage(format!(
            "--case {unknown}: no such case in this suite; its cases are {}",
            known.join(", ")
        )));
    }
    let named = cases.iter().filter(|case| names.contains(&case.name));
    let references = named.filter_map(|case| Some(case.compared_with.as_ref()?.0.clone()));
    let wanted: BTreeSet<String> = names.iter().cloned().chain(references).collect();
    cases.retain(|case| wanted.contains(&case.name));
    for case in &mut cases {
        let missing = |(other, _): &mut (String, String)| !wanted.contains(other);
        case.compared_with.take_if(missing);
    }
    Ok(cases)
}

/// Checks that the requested values are valid for these cases.
pub(super) fn check(
    cases: &[Case],
    overrides: &Overrides,
    preparation: &Preparation,
) -> anyhow::Result<()> {
    let discards = |case: &&Case| case.data == DataUse::Discard;
    if overrides.work > 0
        && let Some(case) = cases.iter().find(discards)
    {
        return Err(usage(format!(
            "--work: the reader of {} splices the data without reading it, so it can't compute \
             over it: add --data touch, or use the suite touched",
            case.name
        )));
    }
    let has_pipe = |case: &Case| case.subject.pipe_bytes().is_some();
    if overrides.pipe_bytes.is_some() && !cases.iter().any(has_pipe) {
        return Err(usage(
            "--pipe-size: none of these cases has a pipe: omit the option or choose such a case",
        ));
    }
    let pages = match preparation {
        // A search combines the buffer with pipes of any size.
        Preparation::Search(_) => 1,
        // A published pipe has half of the buffer's size.
        Preparation::Pilot
        | Preparation::Combination
        | Preparation::Volumes
        | Preparation::Baseline(_) => 2,
    };
    let unit = pages * fastpipe::pipe::page_size();
    let splices = cases
        .iter()
        .any(|case| case.pipe_writer().is_some_and(PipeWriter::vmsplices));
    match overrides.buffer_bytes {
        Some(bytes) if splices && !bytes.is_multiple_of(unit) => Err(usage(format!(
            "--buffer-size {bytes}: vmsplice needs a multiple of {unit} bytes ({})",
            pluralize(pages, "page")
        ))),
        _ => Ok(()),
    }
}

/// Returns the cases that can't be run on these processors or contradict the
/// requested use of their data, with the reason.
pub(super) fn refusals(
    cases: &[Case],
    chosen: &Chosen,
    topology: &Topology,
) -> BTreeMap<String, String> {
    let no_spinning = placement::spinning_refused(chosen, topology);
    let refusal = |case: &Case| {
        let shares_processor = case.cpus.is_some_and(|(writer, reader)| writer == reader);
        let refused = match &no_spinning {
            Some(_) if shares_processor => {
                Some("both ends already share one processor: no change".to_owned())
            }
            Some(reason) if case.needs_two_processors() => Some(reason.clone()),
            _ => None,
        };
        Some((case.name.clone(), case.contradiction().or(refused)?))
    };
    cases.iter().filter_map(refusal).collect()
}

/// Returns the number of comparisons of the run, or an upper limit: the pilot may find
/// that more cases can't be run. The null control is not counted.
pub(super) fn comparisons(
    cases: &[Case],
    refused: &BTreeMap<String, String>,
    preparation: &Preparation,
) -> usize {
    let runs = |name: &str| {
        let is_known = cases.iter().any(|case| case.name == name);
        is_known && !refused.contains_key(name)
    };
    let is_compared = |case: &&Case| match (&case.compared_with, preparation) {
        // The best sizes are compared with the published ones.
        (None, Preparation::Search(_)) => true,
        (None, _) => false,
        (Some((reference, _)), _) => runs(reference),
    };
    let runnable = cases.iter().filter(|case| runs(&case.name));
    runnable.filter(is_compared).count()
}

/// Returns the case that is measured twice: the suite's own if it can be run, else
/// the first that can, which is the smallest of volumes.
pub(super) fn null_control(
    suite: Suite,
    cases: &[Case],
    refused: &BTreeMap<String, String>,
) -> Option<String> {
    let runnable = |case: &&Case| !refused.contains_key(&case.name);
    let mut runnable = cases.iter().filter(runnable);
    let first = runnable.clone().next();
    let usual = runnable.find(|case| suite.definition().null_control == Some(&case.name));
    let is_short = |case: &&Case| {
        case.volume_bytes
            .is_none_or(|bytes| bytes <= MAX_REPEATED_BYTES)
    };
    let repeated = usual.or(first).filter(is_short)?;
    Some(repeated.name.clone())
}
