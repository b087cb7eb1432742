//! Accounts of cases that could not be sampled, as text: counts and their costs.

use super::format::{fixed, percent, resolved, significant};
use super::notes::{Note, notes};
use super::profile::MIN_NS;
use super::style::{DIM, Style};
use super::table::{Cell, Column, Table};
use pipespeed_explain::profile::account::PAGE;
use pipespeed_explain::profile::counted::{CountedRecord, EndAccount, TimeUse};

/// Width of the column of names.
const NAME_WIDTH: usize = 32;

/// A table for each end of each case, then the notes.
pub fn counted_cases(record: &CountedRecord, style: Style) -> String {
    let mut blocks = Vec::new();
    for case in &record.cases {
        let rate = match (case.gib_per_s, &case.not_run) {
            (Some(rate), _) => format!("{} GiB/s, counted, not sampled", significant(rate)),
            (None, Some(not_run)) => not_run.to_string(),
            (None, None) => "nothing was moved".to_owned(),
        };
        blocks.push(style.heading(&format!("{}: {rate}", case.name)));
        blocks.extend(case.ends.iter().map(|end| table(end, style)));
    }
    let is_impossible = |end: &EndAccount| end.has_impossible_costs();
    if record
        .cases
        .iter()
        .flat_map(|case| &case.ends)
        .any(is_impossible)
    {
        let text = "The costs exceed the wall time: they were measured in a disturbed minute, just before, and \
                    are too high. Times and shares that depend on them are not shown (?): repeat on a quiet machine.";
        blocks.push(style.sentence(text));
    }
    let mut all = vec![
        Note::Run(format!("note: {}", record.refusal)),
        Note::Method(format!("note: ends: {}", record.settings.placement)),
    ];
    all.extend(Note::warnings(&record.warnings));
    blocks.push(notes(all, style));
    blocks.join("\n\n") + "\n"
}

fn table(end: &EndAccount, style: Style) -> String {
    let mut table = Table::new([
        Column::left(format!("{:NAME_WIDTH$}", end.role)),
        Column::right("count").optional(1),
        Column::right("ns each").optional(2),
        Column::right("ns/page"),
        Column::right("  share"),
    ]);
    let wall_s = end.counters.seconds;
    let per_page =
        |seconds: f64| resolved(seconds * 1e9 * PAGE / end.counters.bytes as f64, MIN_NS);
    for row in &end.rows {
        let is_shown = !end.has_impossible_costs() || row.item == TimeUse::RunDelay;
        let share = |seconds: f64| percent(seconds / wall_s, 1);
        let figure = |text: String| if is_shown { text } else { "?".to_owned() };
        let count = row.count.map(|count| fixed(count, 0));
        table.row([
            row.item.name().to_owned(),
            count.unwrap_or_default(),
            row.each_ns.map(significant).unwrap_or_default(),
            figure(row.seconds.map_or_else(|| "unknown".to_owned(), per_page)),
            figure(row.seconds.map(share).unwrap_or_default()),
        ]);
    }
    let wall = ["wall time", "", "", &per_page(wall_s), "100.0 %"];
    table.row(wall.map(|text| Cell::painted(text, DIM)));
    table.render(style)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipespeed_explain::costs::Costs;
    use pipespeed_explain::profile::counted::{CaseAccount, CountedRow, CountedSettings};
    use pipespeed_measure::fixtures;
    use pipespeed_measure::record::Kind;
    use pipespeed_measure::record::{EndCounters, NotRun};

    fn record(case: CaseAccount) -> CountedRecord {
        CountedRecord {
            header: fixtures::header(Kind::ProfileCounted),
            settings: CountedSettings {
                placement: "different cores".to_owned(),
            },
            warnings: Vec::new(),
            refusal: "sampling is refused for a reason that needs a line and a half of text"
                .to_owned(),
            costs_ns: Costs::default(),
            cases: vec![case],
        }
    }

    fn account() -> CaseAccount {
        let row = |item, count, each_ns: Option<f64>, seconds| CountedRow {
            item,
            count,
            each_ns,
            seconds,
        };
        let end = EndAccount {
            role: "writer",
            counters: EndCounters {
                bytes: 1 << 30,
                seconds: 2.0,
                ..EndCounters::default()
            },
            rows: vec![
                row(TimeUse::Calls, Some(16_384.0), Some(180.0), Some(0.003)),
                row(TimeUse::Pages, Some(262_144.0), None, None),
                row(TimeUse::Unexplained, None, None, Some(-0.1)),
            ],
        };
        CaseAccount {
            name: "write_read".to_owned(),
            description: String::new(),
            not_run: None,
            gib_per_s: Some(0.5),
            disturbances: Vec::new(),
            ends: vec![end],
        }
    }

    #[test]
    fn counts_are_listed_with_costs_and_wall_time() {
        insta::assert_snapshot!(counted_cases(&record(account()), Style::of_width(80)));
    }

    #[test]
    fn costs_that_exceed_the_wall_time_have_no_shares() {
        let mut case = account();
        case.ends[0].rows[1].seconds = Some(8.64);
        case.ends[0].rows[2].seconds = Some(-6.64);
        let text = counted_cases(&record(case), Style::default());
        assert!(text.contains("measured in a disturbed minute"), "{text}");
        for share in ["432", "-"] {
            let row = |line: &&str| line.starts_with("pages") || line.starts_with("unexplained");
            let mut rows = text.lines().filter(row);
            assert!(rows.all(|row| !row.contains(share)), "{share}: {text}");
        }
        let normal = counted_cases(&record(account()), Style::default());
        assert!(!normal.contains("disturbed"), "{normal}");
    }

    #[test]
    fn a_case_that_was_not_run_gives_the_reason() {
        let case = CaseAccount {
            gib_per_s: None,
            not_run: Some(NotRun::refused("no huge pages")),
            ends: Vec::new(),
            ..account()
        };
        let text = counted_cases(&record(case), Style::default());
        let first = "write_read: refused: no huge pages\n\nnote: ";
        assert!(text.starts_with(first), "{text}");
    }
}
