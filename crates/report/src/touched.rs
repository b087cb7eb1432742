//! The suite touched: which write the others are compared with, and which writer that
//! is right for every reader is fastest.

use pipespeed_base::size;
use pipespeed_measure::record::{Run, Search, Sizes};
use pipespeed_measure::suite::touched::{BEST, SAFE, in_words};

use super::findings::{is_below, of_steps};
use super::format::{pluralize, ratio, times};
use super::sizes::missing_pairs;
use super::steps::{CaseStep, steps};

/// The best sizes and the next: `write_read_best is the best of 12: ...`.
fn best_of(search: &Search) -> Option<String> {
    let panel = search.panels.first()?;
    let best = panel.best.as_ref()?;
    let ranking = panel.ranking();
    let rate = |at: usize| panel.cells[at].median.unwrap_or(0.0);
    let next = ranking.get(1).map_or_else(String::new, |&next| {
        let Sizes {
            buffer_bytes,
            pipe_bytes,
        } = panel.cells[next].sizes;
        let [piece, pipe] = [buffer_bytes, pipe_bytes].map(|bytes| size::format(bytes as u64));
        let found = times(rate(next) / rate(ranking[0]));
        format!("; next {piece}/{pipe} at {found}")
    });
    Some(format!(
        "{BEST} is the best of {}: {}{next}.",
        ranking.len(),
        in_words(best.sizes)
    ))
}

/// The outcome of the search, below the title of the chart.
pub(super) fn remarks(run: &Run) -> Vec<String> {
    run.search.iter().filter_map(best_of).collect()
}

/// The outcome of the search, the fastest of the writers that are right for every reader,
/// then the comparisons with the largest effect and those without an effect.
pub(super) fn findings(run: &Run) -> Vec<String> {
    let searched = run.search.as_ref().and_then(|search| {
        let is_cut = run.interrupted.is_some();
        let cut = is_cut.then(|| format!("The search for the sizes of {BEST} was not completed."));
        best_of(search).or(cut)
    });
    let safe = fastest_safe(run);
    searched
        .into_iter()
        .chain(safe)
        .chain(of_steps(run))
        .collect()
}

/// The fastpipe writer with the highest ratio, and those that may be as fast.
fn fastest_safe(run: &Run) -> Option<String> {
    let steps = steps(run).into_iter();
    let mut safe: Vec<_> = steps
        .filter(|step| SAFE.contains(&&*step.case.name))
        .collect();
    let median = |step: &CaseStep<'_>| step.ratio.estimate.median;
    safe.sort_by(|a, b| median(b).total_cmp(&median(a)));
    let (best, others) = safe.split_first()?;
    let is_slower = |other: &CaseStep<'_>| {
        let other_ratio = other.ratio;
        let [other, best] = [&other.ratio.estimate, &best.ratio.estimate];
        other_ratio.is_tested() && is_below(other, best, run.null_tolerance())
    };
    let alike = others.iter().filter(|other| !is_slower(other));
    let alike: Vec<&str> = alike.map(|step| &*step.case.name).collect();
    let alike = match &*alike {
        [] => String::new(),
        names => format!("; {} may be as fast", names.join(", ")),
    };
    Some(format!(
        "Of fastpipe's writers that sleep and are right for every reader, {} has the highest ratio: {} of {}, \
         {}{alike}.",
        best.case.name,
        ratio(best.ratio.estimate),
        best.base,
        best.ratio.verdict.name()
    ))
}

/// How the search and the rounds were made.
pub(super) fn method(run: &Run) -> Vec<String> {
    let mut notes = super::conditions::method(run);
    if let Some(search) = &run.search {
        notes.extend(missing_pairs(search));
        notes.push(format!(
            "Searched: {} of {:.0} ms, {} of them disturbed; {:.1} s in all.",
            pluralize(search.trials(), "trial"),
            search.timed_s * 1e3,
            search.flagged,
            search.took_s
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::shown;
    use pipespeed_measure::fixtures::touched;

    #[test]
    fn the_best_write_the_next_and_the_comparisons_are_shown() {
        let run = touched();
        insta::assert_snapshot!(shown(&run, 100));
        let [remark] = &remarks(&run)[..] else {
            panic!("{:?}", remarks(&run));
        };
        assert!(crate::chart(&run).contains(remark));
    }

    #[test]
    fn an_interrupted_search_names_no_best_write() {
        let mut run = touched();
        run.interrupted = Some("SIGINT".to_owned());
        let search = run.search.as_mut().unwrap();
        search.panels[0].best = None;
        search.panels[0].cells[0].median = None;
        let text = shown(&run, 100);
        assert!(text.contains("was not completed"), "{text}");
        assert!(!text.contains("best of"), "{text}");
        assert!(text.contains("no time for 1 pair"), "{text}");
        assert!(remarks(&run).is_empty());
    }

    #[test]
    fn without_a_search_nothing_is_said_about_one() {
        let mut run = touched();
        run.search = None;
        let text = shown(&run, 100);
        assert!(!text.contains("earch"), "{text}");
    }

    #[test]
    fn unsafe_and_spinning_writers_are_not_the_fastest_safe_one() {
        let run = touched();
        let found = &findings(&run)[1];
        assert!(
            found.contains("fastpipe_cow_checked has the highest ratio"),
            "{found}"
        );
        let faster = ["fastpipe_drained", "fastpipe_auto_spin"];
        let ratio_of = |name: &str| {
            let case = run.cases.iter().find(|case| case.name == name);
            case.unwrap().ratio.unwrap().estimate.median
        };
        for name in faster {
            assert!(ratio_of(name) > ratio_of("fastpipe_cow_checked"), "{name}");
        }
    }

    #[test]
    fn a_safe_writer_that_may_be_as_fast_is_named_with_the_fastest() {
        let mut run = touched();
        assert!(!findings(&run)[1].contains("may be as fast"));
        let fastpipe = run
            .cases
            .iter_mut()
            .find(|case| case.name == "fastpipe_fresh");
        let ratio = fastpipe.unwrap().ratio.as_mut().unwrap();
        ratio.estimate.interval.as_mut().unwrap().high = 1.5;
        let found = &findings(&run)[1];
        assert!(
            found.ends_with("faster; fastpipe_fresh may be as fast."),
            "{found}"
        );
    }
}
