//! The table of elementary costs.

use comfy_table::{CellAlignment, Table, presets};

use super::format::{interval, significant};
use super::style::{BOLD, Style};
use crate::costs::{Cost, Group, Per};
use crate::results::GIB;

/// The costs as text, group by group; what could not be measured with its
/// reason.
pub fn costs_table(costs: &[Cost], style: Style) -> String {
    // So that the figures of all groups stand below one another.
    let longest = costs.iter().map(|cost| cost.kind.what.len()).max();
    let mut text = String::new();
    for group in Group::ALL {
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
