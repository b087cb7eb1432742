//! The table of elementary costs.

use comfy_table::{CellAlignment, Table, presets};

use super::format::{interval, significant};
use super::style::{BOLD, Style};
use crate::costs::cells::PIPE_SIZES;
use crate::costs::through::{PIECE, Technique, Turns, names};
use crate::costs::{Cost, Group, Per};
use crate::results::GIB;
use crate::size;

/// The costs as text, group by group; what could not be measured with its
/// reason.
pub fn costs_table(costs: &[Cost], style: Style) -> String {
    // So that the figures of all groups stand below one another.
    let longest = costs.iter().map(|cost| cost.kind.what.len()).max();
    let mut text = String::new();
    for group in Group::ALL {
        // They have a table of their own.
        if group == Group::Through {
            continue;
        }
        let rows: Vec<&Cost> = costs
            .iter()
            .filter(|cost| cost.kind.group == group)
            .collect();
        if rows.is_empty() {
            continue;
        }
        if !text.is_empty() {
            text.push('\n');
        }
        let title = format!("{} ({})", group.title(), unit(group));
        text.push_str(&style.paint(&title, BOLD));
        text.push('\n');
        text.push_str(&table(&rows, longest.unwrap_or(0)));
        text.push('\n');
    }
    text
}

/// All of a group are counted by the same.
fn unit(group: Group) -> &'static str {
    match group {
        Group::Calls => "ns a call",
        Group::WakeUps | Group::Sleeps => "ns a wake-up",
        Group::Lock => "% of the times it is let go",
        Group::Taken => "% of the time",
        Group::Copying | Group::Referring | Group::Pages | Group::Memory | Group::Through => {
            "ns a page"
        }
    }
}

fn table(rows: &[&Cost], longest: usize) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    for cost in rows {
        let (median, range) = match (cost.median, &cost.refused) {
            (Some(median), _) => (significant(median), interval(cost.low, cost.high)),
            (None, Some(why)) => ("-".to_owned(), why.clone()),
            (None, None) => ("-".to_owned(), String::new()),
        };
        let rate = match (cost.median, cost.kind.per) {
            (Some(ns), Per::Page) => {
                let page = fastpipe::pipe::page_size() as f64;
                format!("{} GiB/s", significant(page / ns * 1e9 / GIB))
            }
            _ => String::new(),
        };
        let what = format!("  {:longest$}", cost.kind.what);
        table.add_row([what, format!("{median:>7}"), format!("{range:16}"), rate]);
    }
    let right = CellAlignment::Right;
    let alignments = [CellAlignment::Left, right, CellAlignment::Left, right];
    for (column, alignment) in table.column_iter_mut().zip(alignments) {
        column.set_cell_alignment(alignment);
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}

/// What a page costs on its way through pipes of several sizes while nobody
/// sleeps; none where that was not measured.
pub fn through_table(costs: &[Cost], style: Style) -> Option<String> {
    let median = |name: &str| costs.iter().find(|cost| cost.kind.name == name)?.median;
    let mut text = String::new();
    for (turns, place) in [
        (Turns::Alone, "on one processor"),
        (Turns::Spinning, "on two in turns, nobody asleep"),
        (Turns::Sleeping, "on two in turns, each after a sleep"),
    ] {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let mut head = vec!["  pipe".to_owned()];
        head.extend(PIPE_SIZES.map(|bytes| size::format(bytes as u64)));
        table.set_header(head);
        let mut any = false;
        for technique in Technique::ALL {
            let mut row = vec![format!("  {}", technique.name())];
            for pipe in PIPE_SIZES {
                let [into, out] = names(technique, pipe, PIECE, turns);
                row.push(match (median(&into), median(&out)) {
                    (Some(into), Some(out)) => {
                        any = true;
                        format!("{} + {}", significant(into), significant(out))
                    }
                    _ => "-".to_owned(),
                });
            }
            table.add_row(row);
        }
        if any {
            let title = format!("through a pipe {place} (ns a page, in + out)");
            text.push_str(&style.paint(&title, BOLD));
            text.push('\n');
            align(&mut table);
            text.push_str(&table.trim_fmt());
            text.push('\n');
        }
    }
    (!text.is_empty()).then_some(text)
}

/// Figures to the right.
pub(super) fn align(table: &mut Table) {
    for (at, column) in table.column_iter_mut().enumerate() {
        if at > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
        column.set_padding((0, 2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::Kind;

    fn cost(group: Group, per: Per, what: &str, ns: Option<f64>) -> Cost {
        Cost {
            kind: Kind {
                name: what.to_owned(),
                what: what.to_owned(),
                group,
                per,
            },
            median: ns,
            low: ns,
            high: ns.map(|ns| 2.0 * ns),
            refused: ns.is_none().then(|| "not allowed".to_owned()),
            samples: Vec::new(),
            spreads: Vec::new(),
        }
    }

    #[test]
    fn ways_through_a_pipe_stand_side_by_side() {
        let costs = crate::costs::synthetic::costs(7);
        let style = Style::for_terminal(false);
        let text = through_table(&costs, style).unwrap();
        assert!(
            text.contains("400 + 400") && text.contains("20.0 + 50.0"),
            "{text}"
        );
        assert_eq!(text.matches("vmsplice_splice_huge").count(), 3);
        assert_eq!(through_table(&[], style), None);
    }

    #[test]
    fn each_group_has_a_title_with_its_unit_and_a_refusal_its_reason() {
        let costs = [
            cost(Group::WakeUps, Per::WakeUp, "one processor", Some(1234.5)),
            cost(Group::Copying, Per::Page, "write", Some(400.0)),
            cost(Group::Referring, Per::Page, "vmsplice", None),
        ];
        let text = costs_table(&costs, Style::for_terminal(false));
        let at = |word: &str| text.find(word).unwrap_or_else(|| panic!("{word}: {text}"));
        assert!(at("copying through a pipe (ns a page)") < at("handing pages over"));
        assert!(at("handing pages over") < at("(ns a wake-up)"));
        for word in ["400", "[400, 800]", "9.54 GiB/s", "not allowed", "1230"] {
            at(word);
        }
    }
}
