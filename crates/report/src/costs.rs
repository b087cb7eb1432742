//! The table of elementary costs.

use fastpipe::buffer::huge_page_size;
use fastpipe::pipe::page_size;

use super::blocks::{Blocks, TableBlock};
use super::format::{interval, significant};
use super::notes::{Note, notes};
use super::style::Style;
use super::table::{Column, Table};
use pipespeed_base::size;
use pipespeed_explain::costs::{Cost, Costs, PIECE};
use pipespeed_host::Warning;
use pipespeed_measure::record::GIB;
use pipespeed_stats::Estimate;

/// A row: its name, the cost, and the bytes moved by one step, if any.
type Row<'a> = (String, &'a Cost, Option<usize>);

/// The titles, with their rows.
fn groups(costs: &Costs) -> Vec<(String, Vec<Row<'_>>)> {
    let page = page_size();
    let moved = |name: &str, cost| (name.to_owned(), cost, Some(page));
    let plain = |name: &str, cost| (name.to_owned(), cost, None);
    let faulted = |name: &str, cost, bytes: usize| {
        let name = format!("{name} of {}", size::format(bytes as u64));
        (name, cost, Some(bytes))
    };
    let relation = match costs.places.relation.as_str() {
        "" => String::new(),
        relation => format!("; other: {relation}"),
    };
    vec![
        (
            "system calls (ns per call)".to_owned(),
            vec![
                plain("a call that does nothing (getppid)", &costs.call),
                plain("a read of an empty pipe", &costs.would_block),
            ],
        ),
        (
            format!(
                "through a pipe (ns per page, {} per call)",
                size::format(PIECE as u64)
            ),
            vec![
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
        ),
        (
            "pinning: vmsplice minus splice from a pipe (ns per page)".to_owned(),
            vec![
                plain("base pages", &costs.pin_base),
                plain("huge pages", &costs.pin_huge),
            ],
        ),
        (
            "page faults (ns per fault)".to_owned(),
            vec![
                faulted("first write to a page", &costs.fault_base, page),
                faulted(
                    "first write to a huge page",
                    &costs.fault_huge,
                    huge_page_size(),
                ),
            ],
        ),
        (
            format!("waking a sleeping process (ns{relation})"),
            vec![
                plain("same processor, until it runs", &costs.wake_up_same),
                plain("other processor, until it runs", &costs.wake_up_other),
                plain("other processor, the waker's call", &costs.wake_call_other),
            ],
        ),
    ]
}

/// The costs as text, each with its estimate or the reason why there is none, and the
/// warnings.
pub fn costs_table(costs: &Costs, warnings: &[Warning], style: Style) -> String {
    let mut text = table(costs).render(style) + "\n";
    if !warnings.is_empty() {
        let warnings = Note::warnings(warnings);
        text += &format!("\n{}\n", notes(warnings, style));
    }
    text
}

/// The report on elementary costs.
pub(super) fn blocks(costs: &Costs) -> Blocks<'_> {
    Blocks {
        findings: Vec::new(),
        chart: Box::new(|_| String::new()),
        tables: vec![TableBlock::new("Elementary costs", table(costs))],
    }
}

/// A row for each cost.
fn table(costs: &Costs) -> Table {
    let mut table = Table::new([
        Column::left(""),
        Column::right(""),
        Column::left(""),
        Column::right("").optional(1),
    ])
    .with_html_header(&["operation", "ns", "interval", "rate"]);
    for (title, rows) in groups(costs) {
        table.heading(title);
        for (name, cost, bytes) in rows {
            let Some(Estimate {
                median,
                interval: ends,
            }) = cost.estimate
            else {
                table.row_with_text(
                    [name, "-".to_owned()],
                    cost.not_run.as_ref().map_or("", |not_run| &not_run.reason),
                );
                continue;
            };
            let gib_per_s = |bytes: usize| bytes as f64 / median * 1e9 / GIB;
            let rate = bytes.map(|bytes| format!("{} GiB/s", significant(gib_per_s(bytes))));
            table.row([
                name,
                significant(median),
                interval(ends),
                rate.unwrap_or_default(),
            ]);
        }
    }
    table
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use pipespeed_host::WarningKind;
    use pipespeed_measure::record::NotRun;
    use pipespeed_testing::fits;

    pub(crate) fn costs() -> Costs {
        let mut costs = Costs {
            write: Cost::new(400.0),
            fault_huge: Cost::new(123_456.0),
            wake_up_other: Cost::new(27_100.0),
            ..Costs::default()
        };
        costs.vmsplice_huge.not_run = Some(NotRun::refused("this system grants no huge pages"));
        costs.places.relation = "different cores sharing L3".to_owned();
        costs
    }

    #[test]
    fn each_cost_has_a_row() {
        let costs = costs();
        let saved = serde_json::to_value(&costs).unwrap();
        let others = ["rounds", "places"];
        let saved = saved.as_object().unwrap().keys();
        let saved = saved.filter(|name| !others.contains(&name.as_str()));
        let rows: usize = groups(&costs).iter().map(|(_, rows)| rows.len()).sum();
        assert_eq!(saved.count(), rows);
    }

    #[test]
    fn costs_are_listed_with_units_and_reasons() {
        let warning = Warning::new(
            WarningKind::Quick,
            "no intervals are shown, since they need 6 rounds",
        );
        let text = costs_table(&costs(), &[warning], Style::of_width(80));
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_narrow_terminal_hides_the_rates() {
        for width in [48, 80] {
            let text = costs_table(&costs(), &[], Style::of_width(width));
            fits(&text, width);
            assert_eq!(text.contains("9.54 GiB/s"), width == 80, "{text}");
        }
    }
}
