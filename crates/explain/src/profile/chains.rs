//! Tests of the table of costs with saved call chains.

use std::collections::BTreeMap;

use super::groups::{CostGroup, CostTable};

const RECORDED: &str = include_str!("chains/linux-6.18.txt");
const BY_HAND: &str = include_str!("chains/by-hand.txt");

/// A line of a file.
struct SourceLine<'a> {
    case: &'a str,
    end: &'a str,
    weight: u64,
    group: CostGroup,
    /// The functions, the innermost first.
    chain: Vec<&'a str>,
}

fn lines(text: &str) -> Vec<SourceLine<'_>> {
    let read = |line| {
        let words: Vec<&str> = str::split(line, ' ').collect();
        let [case, end, weight, group, frames] = words[..] else {
            panic!("{line}");
        };
        SourceLine {
            case,
            end,
            weight: weight.parse().unwrap(),
            group: serde_json::from_value(group.into()).unwrap(),
            chain: match frames {
                "-" => Vec::new(),
                frames => frames.rsplit(';').collect(),
            },
        }
    };
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(read)
        .collect()
}

fn check(text: &str) {
    for line in lines(text) {
        let (group, by) = CostTable::built_in().attribute(&line.chain);
        assert_eq!(group, line.group, "{} by {by}: {:?}", line.case, line.chain);
    }
}

#[test]
fn chains_recorded_on_linux_6_18_keep_their_groups() {
    check(RECORDED);
}

#[test]
fn chains_of_older_kernels_have_their_groups() {
    check(BY_HAND);
}

#[test]
fn less_than_a_tenth_of_each_rung_is_unknown() {
    let mut ends: BTreeMap<(&str, &str), (u64, u64)> = BTreeMap::new();
    for line in lines(RECORDED) {
        let (all, other) = ends.entry((line.case, line.end)).or_default();
        *all += line.weight;
        if line.group == CostGroup::Other {
            *other += line.weight;
        }
    }
    assert_eq!(ends.len(), 14);
    for ((case, end), (all, other)) in ends {
        assert!(other * 10 < all, "{case}, {end}: {other} of {all}");
    }
}
