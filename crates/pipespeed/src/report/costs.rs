//! The table of elementary costs.

use comfy_table::{CellAlignment, Table, presets};

use super::format::{in_parts, interval, significant, wrap};
use super::style::{BOLD, DIM, Style};
use crate::costs::cells::PIPE_SIZES;
use crate::costs::through::{PIECE, Technique, Turns, names};
use crate::costs::{Cost, Group, Per};
use crate::results::GIB;
use crate::size;

/// The costs as text, group by group; what could not be measured with its
/// reason.
pub fn costs_table(costs: &[Cost], style: Style) -> String {
    // So that the figures of all groups stand below one another.
    let rows = costs.iter().filter(|cost| !has_own_table(cost.kind.group));
    let longest = rows.map(|cost| cost.kind.what.len()).max();
    let mut text = String::new();
    for group in Group::ALL {
        if has_own_table(group) {
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
        text.push_str(&style.paint(&wrap(&title, style.width(), "  "), BOLD));
        text.push('\n');
        text.push_str(&table(&rows, longest.unwrap_or(0), style));
        text.push('\n');
    }
    text
}

fn has_own_table(group: Group) -> bool {
    matches!(group, Group::Through | Group::Sleeps)
}

/// What stands below a title.
const INDENT: &str = "  ";

/// All of a group are counted by the same.
fn unit(group: Group) -> &'static str {
    match group {
        Group::Calls => "ns a call",
        Group::WakeUps | Group::Sleeps => "ns a wake-up",
        Group::Taken => "% of the time",
        Group::Copying | Group::Referring | Group::Pages | Group::Memory | Group::Through => {
            "ns a page"
        }
    }
}

/// Columns for what a cost is, below which its rate makes room.
const LEAST: usize = 40;
/// Columns of a median, with an interval, and of a rate.
const FIGURES: usize = 2 + 7 + 2 + 18;
const RATE: usize = 2 + 11;

fn table(rows: &[&Cost], longest: usize, style: Style) -> String {
    let room = style.width().saturating_sub(INDENT.len() + FIGURES);
    let rated = room >= LEAST.min(longest) + RATE;
    let name = longest.min(
        room.saturating_sub(if rated { RATE } else { 0 })
            .max(LEAST / 2),
    );
    // In a file a reason stays in one piece, to be searched for.
    let reason = style.width.map_or(usize::MAX, |width| {
        width.saturating_sub(name + 13).max(LEAST / 2)
    });
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    for cost in rows {
        let (median, range) = match (cost.median, &cost.refused) {
            (Some(median), _) => (significant(median), interval(cost.low, cost.high)),
            (None, Some(why)) => ("-".to_owned(), wrap(why, reason, "")),
            (None, None) => ("-".to_owned(), String::new()),
        };
        let rate = match (cost.median, cost.kind.per) {
            (Some(ns), Per::Page) if rated => {
                let page = fastpipe::pipe::page_size() as f64;
                format!("{} GiB/s", significant(page / ns * 1e9 / GIB))
            }
            _ => String::new(),
        };
        let what = wrap(&cost.kind.what, name, "  ").replace('\n', "\n  ");
        let what = format!("{INDENT}{what}");
        let filled = format!("{what:filled$}", filled = INDENT.len() + name);
        table.add_row([filled, format!("{median:>7}"), format!("{range:16}"), rate]);
    }
    let right = CellAlignment::Right;
    let alignments = [CellAlignment::Left, right, CellAlignment::Left, right];
    for (column, alignment) in table.column_iter_mut().zip(alignments) {
        column.set_cell_alignment(alignment);
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}

/// What else has to be known; none where there is nothing.
pub fn notes(notes: &[String], style: Style) -> Option<String> {
    let note = |note: &String| {
        let note = wrap(&format!("note: {note}"), style.width(), "      ");
        style.paint(&note, DIM) + "\n"
    };
    (!notes.is_empty()).then(|| notes.iter().map(note).collect())
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
        let draw = |sizes: &[usize]| {
            let mut table = Table::new();
            table.load_style(presets::NOTHING);
            let mut head = vec!["  pipe".to_owned()];
            head.extend(sizes.iter().map(|bytes| size::format(*bytes as u64)));
            table.set_header(head);
            for technique in Technique::ALL {
                let mut row = vec![format!("  {}", technique.name())];
                row.extend(sizes.iter().map(|pipe| {
                    let [into, out] = names(technique, *pipe, PIECE, turns);
                    match (median(&into), median(&out)) {
                        (Some(into), Some(out)) => {
                            format!("{} + {}", significant(into), significant(out))
                        }
                        _ => "-".to_owned(),
                    }
                }));
                table.add_row(row);
            }
            align(&mut table);
            table.trim_fmt()
        };
        let all = in_parts(PIPE_SIZES.len(), style.width(), |part| {
            draw(&PIPE_SIZES[part])
        });
        if all.contains(" + ") {
            if !text.is_empty() {
                text.push('\n');
            }
            let title = format!("through a pipe {place} (ns a page, in + out)");
            text.push_str(&style.paint(&wrap(&title, style.width(), "  "), BOLD));
            text.push('\n');
            text.push_str(&all);
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
    use super::super::format::longest_line;
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
    fn no_line_is_wider_than_the_terminal() {
        let long = "a read of a page that was vmspliced into the pipe";
        let costs = [
            cost(Group::Copying, Per::Page, long, Some(400.0)),
            cost(Group::Referring, Per::Page, long, None),
        ];
        for (width, has_rate) in [(60, false), (80, false), (120, true)] {
            let style = Style {
                width: Some(width),
                colour: false,
            };
            let text = costs_table(&costs, style);
            assert!(longest_line(&text) <= width, "{text}");
            assert_eq!(text.contains("GiB/s"), has_rate, "{text}");
            assert!(text.contains("[400, 800]") && text.contains("not allowed"));
            let through = through_table(&crate::costs::synthetic::costs(7), style);
            assert!(longest_line(&through.unwrap()) <= width);
            let said = notes(&[format!("{long}, {long}")], style).unwrap();
            assert!(longest_line(&said) <= width, "{said}");
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
