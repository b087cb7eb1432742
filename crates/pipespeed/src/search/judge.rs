//! What comes of a search: medians, the best of each panel and for each kind
//! of reader, the cases to measure afresh, and what that says.

use std::collections::HashSet;

use super::command::command_line;
use super::grid::Panel;
use super::halving;
use crate::case::Case;
use crate::results::{Against, Best, CellResult, PanelResult, Search};
use crate::stats;

/// Notes each cell's median.
pub(super) fn settle(search: &mut Search) {
    let panels = search.panels.iter_mut();
    for cell in panels.flat_map(|panel| &mut panel.cells) {
        let rates: Vec<f64> = cell.trials.iter().map(|trial| trial.gib_per_s).collect();
        cell.median = stats::median(&rates);
    }
}

/// The cells that got furthest, fastest first; a stage that only a few had a
/// trial in counts for none. In a search that came to its end they are the
/// finalists.
pub fn leaders(panel: &PanelResult) -> Vec<&CellResult> {
    let runnable = || panel.cells.iter().filter(|cell| cell.refused.is_none());
    let measured = || runnable().filter(|cell| cell.median.is_some());
    let mut stages: Vec<usize> = measured().map(|cell| cell.stages).collect();
    stages.sort_unstable_by(|a, b| b.cmp(a));
    let fewest = halving::kept(stages.len(), 0.0);
    let furthest = stages.get(fewest.saturating_sub(1)).copied().unwrap_or(0);
    let mut leaders: Vec<&CellResult> = measured().filter(|cell| cell.stages >= furthest).collect();
    leaders.sort_by(|a, b| b.median.unwrap_or(0.0).total_cmp(&a.median.unwrap_or(0.0)));
    leaders
}

/// Notes the best of each panel, and which of them is the best for each kind
/// of reader.
pub(super) fn choose(search: &mut Search, panels: &[Panel]) {
    for (result, panel) in search.panels.iter_mut().zip(panels) {
        let finalists: Vec<_> = leaders(result)
            .into_iter()
            .filter_map(|cell| Some((cell.sizes, cell.median?)))
            .collect();
        let Some(won) = halving::winner(&finalists) else {
            continue;
        };
        let sizes = finalists[won].0;
        let name = match sizes == result.published {
            true => panel.published_name(),
            false => panel.winner_name(sizes),
        };
        result.command = Some(command_line(&panel.case(&name, sizes)));
        result.winner = Some(sizes);
        result.winner_case = Some(name);
    }
    search.best = KINDS
        .iter()
        .filter_map(|(reader, wait)| best(&search.panels, reader, wait))
        .collect();
}

/// What the reader does, and how the ends wait.
const KINDS: [(&str, &str); 4] = [
    ("read", "block"),
    ("read", "spin"),
    ("splice", "block"),
    ("splice", "spin"),
];

/// The winner's median in the search.
pub fn found(panel: &PanelResult) -> Option<f64> {
    let winner = panel.winner?;
    let cell = panel.cells.iter().find(|cell| cell.sizes == winner)?;
    cell.median
}

fn best(panels: &[PanelResult], reader: &str, wait: &str) -> Option<Best> {
    let (panel, _) = panels
        .iter()
        .filter(|panel| panel.reader == reader && panel.wait == wait)
        .filter_map(|panel| Some((panel, found(panel)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    let case = panel.winner_case.clone()?;
    // Those with a technique and way of waiting; the first panel of the kind is
    // that on two processors, as published.
    let published = |writer: &str, reader: &str, wait: &str| {
        let of = |panel: &&PanelResult| {
            panel.writer == writer
                && panel.reader == reader
                && panel.wait == wait
                && panel.winner.is_some()
        };
        panels.iter().find(of).map(|it| it.published_case.clone())
    };
    let fastest = match reader {
        // No published reader that reads spins.
        "read" => published("vmsplice", "read", "block"),
        _ => published("vmsplice", reader, wait),
    };
    // Its own panel's first: they differ in sizes and in nothing else.
    let own = Some(panel.published_case.clone());
    let mut others: Vec<String> = Vec::new();
    for other in [own, fastest, published("write", "read", "block")] {
        others.extend(other.filter(|other| *other != case && !others.contains(other)));
    }
    Some(Best {
        reader: reader.to_owned(),
        wait: wait.to_owned(),
        panel: panel.name.clone(),
        case,
        against: others
            .into_iter()
            .map(|case| Against { case, ratio: None })
            .collect(),
    })
}

/// The cases to measure afresh: of each panel the published sizes and the ones
/// found, which are compared with them.
pub fn candidates(search: &Search, panels: &[Panel]) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut seen = HashSet::new();
    for (result, panel) in search.panels.iter().zip(panels) {
        let (Some(sizes), Some(name)) = (result.winner, &result.winner_case) else {
            continue;
        };
        let published = panel.published_name();
        if seen.insert(published.clone()) {
            cases.push(panel.case(&published, result.published));
        }
        if seen.insert(name.clone()) {
            let case = panel.case(name, sizes);
            cases.push(case.against(&published, "buffer and pipe size"));
        }
    }
    cases
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
