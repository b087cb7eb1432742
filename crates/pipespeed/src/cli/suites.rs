//! What the help says of all suites.

use std::collections::BTreeMap;

use pipespeed_base::Named as _;
use pipespeed_measure::spec::Suite;

/// The help on --time.
pub(super) fn time_help() -> String {
    let budgets = groups(|suite| [false, true].map(|quick| suite.lengths(quick).budget_s as u32));
    let each = budgets
        .iter()
        .map(|([full, quick], suites)| format!("{suites} {full} ({quick})"));
    format!(
        "Duration of the whole run [default: by suite, mostly 60; --quick: 10]\n\n\
         Defaults by suite, with --quick in brackets: {}.",
        each.collect::<Vec<_>>().join(", ")
    )
}

/// The help on --rounds.
pub(super) fn rounds_help() -> String {
    let minima = groups(|suite| suite.lengths(false).min_rounds);
    let (usual, others) = minima.split_last().expect("there are suites");
    let each = others
        .iter()
        .map(|(rounds, suites)| format!("{rounds} in {suites}"));
    format!(
        "Number of rounds; each runs every case once [default: to fit --time]\n\n\
         The default is at least {}; {}; fewer with --quick or --time; more if verdicts on all comparisons need \
         more.",
        usual.0,
        each.collect::<Vec<_>>().join(", ")
    )
}

/// The names of the suites with the same figure, by figure.
fn groups<K: Ord>(figure: impl Fn(Suite) -> K) -> Vec<(K, String)> {
    let mut groups = BTreeMap::<K, Vec<&str>>::new();
    for suite in Suite::VALUES {
        groups.entry(figure(*suite)).or_default().push(suite.name());
    }
    let join = |names: Vec<&str>| match names.split_last() {
        Some((last, others @ [_, ..])) => format!("{} and {last}", others.join(", ")),
        _ => names.concat(),
    };
    let groups = groups.into_iter();
    groups
        .map(|(figure, names)| (figure, join(names)))
        .collect()
}
