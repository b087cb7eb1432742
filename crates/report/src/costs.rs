//! The table of elementary costs.

use std::fmt::Display;

use fastpipe::buffer::huge_page_size;
use fastpipe::pipe::page_size;

use super::format::{interval, significant, wrap};
use super::style::{BOLD, DIM, Style};
use pipespeed_base::size;
use pipespeed_explain::costs::{Cost, Costs, PIECE};
use pipespeed_measure::record::GIB;
use pipespeed_stats::Estimate;

/// A row: what it is, its cost, and the bytes that one step moves.
type Row<'a> = (String, &'a Cost, Option<usize>);

/// Costs below one title.
struct Group<'a> {
    title: String,
    rows: Vec<Row<'a>>,
}

fn groups(costs: &Costs) -> Vec<Group<'_>> {
    let page = page_size();
    let moved = |what: &str, cost| (what.to_owned(), cost, Some(page));
    let plain = |what: &str, cost| (what.to_owned(), cost, None);
    let faulted = |what: &str, cost, bytes: usize| {
        let what = format!("{what} of {}", size::format(bytes as u64));
        (what, cost, Some(bytes))
    };
    let relation = match costs.places.relation.as_str() {
        "" => String::new(),
        relation => format!("; other: {relation}"),
    };
    vec![
        Group {
            title: "system calls (ns a call)".to_owned(),
            rows: vec![
                plain("a call that does nothing (getppid)", &costs.call),
                plain("a read of an empty pipe", &costs.would_block),
            ],
        },
        Group {
            title: format!(
                "through a pipe (ns a page, {} a call)",
                size::format(PIECE as u64)
            ),
            rows: vec![
                moved("write", &costs.write),
                moved("read", &costs.read),
                moved("read of vmspliced pages", &costs.read_vmspliced),
                moved("vmsplice, base pages", &costs.vmsplice_base),
                moved("vmsplice, huge pages", &costs.vmsplice_huge),
                moved("splice to /dev/null, base pages", &costs.splice_base),
                moved("splice to /dev/null, huge pages", &costs.splice_huge),
                moved("splice to another pipe", &costs.move_page),
                moved("tee to another pipe", &costs.tee),
            ],
        },
        Group {
            title: "pinning, vmsplice less splice from a pipe (ns a page)".to_owned(),
            rows: vec![
                plain("base pages", &costs.pin_base),
                plain("huge pages", &costs.pin_huge),
            ],
        },
        Group {
            title: "page faults (ns a fault)".to_owned(),
            rows: vec![
                faulted("first write to a page", &costs.fault_base, page),
                faulted(
                    "first write to a huge page",
                    &costs.fault_huge,
                    huge_page_size(),
                ),
            ],
        },
        Group {
            title: format!("waking a sleeping process (ns{relation})"),
            rows: vec![
                plain("same processor, until it runs", &costs.wake_up_same),
                plain("other processor, until it runs", &costs.wake_up_other),
                plain("other processor, the waker's call", &costs.wake_call_other),
            ],
        },
    ]
}

/// The costs as text, with the reason where there is none.
pub fn costs_table(costs: &Costs, style: Style) -> String {
    let groups = groups(costs).into_iter().map(|group| {
        let title = wrap(&group.title, style.width(), "  ");
        let rows = group.rows.iter().map(|cost| row(cost, style) + "\n");
        style.paint(&title, BOLD) + "\n" + &rows.collect::<String>()
    });
    groups.collect::<Vec<_>>().join("\n")
}

/// Columns of a row's parts; the figures of all groups stand below one another.
const NAME: usize = 36;
const MEDIAN: usize = 9;
const RANGE: usize = 18;
/// Columns below which the rate is left out.
const MIN_WIDTH_WITH_RATE: usize = 80;

fn row((what, cost, bytes): &Row<'_>, style: Style) -> String {
    let name = format!("  {what:NAME$}");
    let Some(Estimate {
        median,
        interval: ends,
    }) = cost.estimate
    else {
        let why = cost.refused.as_deref().unwrap_or_default();
        let text = format!("{name}{:>MEDIAN$}  {why}", "-");
        // In a file a line stays in one piece, to be searched for.
        let width = style.width.unwrap_or(usize::MAX);
        return wrap(&text, width, &" ".repeat(NAME + MEDIAN + 4));
    };
    let range = interval(ends);
    let rate = match bytes {
        Some(bytes) if style.width() >= MIN_WIDTH_WITH_RATE => {
            format!("{} GiB/s", significant(*bytes as f64 / median * 1e9 / GIB))
        }
        _ => String::new(),
    };
    let median = significant(median);
    let row = format!("{name}{median:>MEDIAN$}  {range:RANGE$}{rate:>13}");
    row.trim_end().to_owned()
}

/// What has to be known to read the figures, a line each.
pub fn notes<T: Display>(notes: &[T], style: Style) -> String {
    let note = |note: &T| {
        let note = wrap(&format!("note: {note}"), style.width(), "      ");
        style.paint(&note, DIM) + "\n"
    };
    match notes {
        [] => String::new(),
        _ => "\n".to_owned() + &notes.iter().map(note).collect::<String>(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::format::longest_line;
    use super::*;

    fn costs() -> Costs {
        let mut costs = Costs {
            write: Cost::of(400.0),
            fault_huge: Cost::of(123_456.0),
            wake_up_other: Cost::of(27_100.0),
            ..Costs::default()
        };
        costs.vmsplice_huge.refused = Some("this system grants no huge pages".to_owned());
        costs.places.relation = "different cores sharing L3".to_owned();
        costs
    }

    #[test]
    fn each_group_has_a_unit_and_a_refusal_its_reason() {
        let text = costs_table(&costs(), Style::default());
        for words in [
            "system calls (ns a call)",
            "9.54 GiB/s",
            "123000",
            "grants no huge pages",
            "other: different cores sharing L3",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for (width, has_rate) in [(70, false), (80, true), (120, true)] {
            let style = Style {
                width: Some(width),
                colour: false,
            };
            let note = "a long note of many words that will not fit in one line ".repeat(3);
            let text = costs_table(&costs(), style) + &notes(&[note], style);
            assert!(longest_line(&text) <= width, "{text}");
            assert_eq!(text.contains("GiB/s"), has_rate, "{text}");
        }
        assert_eq!(notes::<String>(&[], Style::default()), "");
    }
}
