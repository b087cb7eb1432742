//! The account of a case that could not be sampled, as text.

use super::costs::notes;
use super::format::{significant, wrap};
use super::profile::line;
use super::style::{BOLD, DIM, Style};
use pipespeed_explain::profile::account::PAGE;
use pipespeed_explain::profile::counted::{EndAccount, Item, Record};
use pipespeed_host::Warning;

/// Columns of what is counted; of the figures beside it.
const NAME: usize = 32;

fn name(item: Item) -> &'static str {
    match item {
        Item::Calls => "system calls",
        Item::WouldBlocks => "calls that would block",
        Item::Pages => "pages of 4 KiB",
        Item::Faults => "page faults",
        Item::Preemptions => "preemptions (context switches)",
        Item::WakeCalls => "waking the other end",
        Item::WakeUps => "being woken",
        Item::Asleep => "asleep besides",
        Item::RunDelay => "waiting for a processor",
        Item::Unexplained => "unexplained",
    }
}

/// A table for each end of each case, then the notes.
pub fn counted(record: &Record, style: Style) -> String {
    let mut text = String::new();
    for case in &record.cases {
        let rate = match (case.gib_per_s, &case.not_run) {
            (Some(rate), _) => format!("{} GiB/s, counted, not sampled", significant(rate)),
            (None, Some(not_run)) => not_run.to_string(),
            (None, None) => "nothing was moved".to_owned(),
        };
        let heading = wrap(&format!("{}: {rate}", case.name), style.width(), "  ");
        line(&mut text, &style.paint(&heading, BOLD));
        for end in &case.ends {
            line(&mut text, "");
            table(&mut text, end, style);
        }
        line(&mut text, "");
    }
    // The last blank line is that above the notes.
    text.pop();
    let mut said = vec![
        record.refusal.clone(),
        format!("ends: {}", record.settings.placement),
    ];
    said.extend(record.warnings.iter().map(Warning::to_string));
    text + &notes(&said, style)
}

fn table(text: &mut String, end: &EndAccount, style: Style) {
    let title = format!(
        "{:NAME$} {:>9} {:>9} {:>9} {:>8}",
        end.role, "count", "ns each", "ns/page", "share"
    );
    line(text, &style.paint(&title, BOLD));
    let wall_s = end.counters.seconds;
    let per_page = |seconds: f64| significant(seconds * 1e9 * PAGE / end.counters.bytes as f64);
    let shown = |value: Option<f64>| value.map(significant).unwrap_or_default();
    for row in &end.rows {
        let (ns, share) = match row.seconds {
            Some(seconds) => (
                per_page(seconds),
                format!("{:.1} %", 100.0 * seconds / wall_s),
            ),
            None => ("unknown".to_owned(), String::new()),
        };
        let count = row.count.map(|count| format!("{count:.0}"));
        let row = format!(
            "{:NAME$} {:>9} {:>9} {ns:>9} {share:>8}",
            name(row.item),
            count.unwrap_or_default(),
            shown(row.each_ns),
        );
        line(text, row.trim_end());
    }
    let wall = format!(
        "{:NAME$} {:>9} {:>9} {:>9} {:>8}",
        "wall time",
        "",
        "",
        per_page(wall_s),
        "100.0 %"
    );
    line(text, &style.paint(&wall, DIM));
}

#[cfg(test)]
mod tests {
    use super::super::format::longest_line;
    use super::*;
    use pipespeed_explain::costs::Costs;
    use pipespeed_explain::profile::counted::{CaseAccount, Row, Settings};
    use pipespeed_measure::record::Kind;
    use pipespeed_measure::record::{EndCounters, NotRun};
    use pipespeed_measure::sample;

    fn record(case: CaseAccount) -> Record {
        Record {
            header: sample::header(Kind::ProfileCounted),
            settings: Settings {
                placement: "different cores".to_owned(),
            },
            warnings: Vec::new(),
            refusal: "sampling is refused for a reason that takes a line and a half to tell"
                .to_owned(),
            costs_ns: Costs::default(),
            cases: vec![case],
        }
    }

    fn account() -> CaseAccount {
        let row = |item, count, each_ns: Option<f64>, seconds| Row {
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
                row(Item::Calls, Some(16_384.0), Some(180.0), Some(0.003)),
                row(Item::Pages, Some(262_144.0), None, None),
                row(Item::Unexplained, None, None, Some(-0.1)),
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
    fn counts_stand_beside_their_costs_and_the_wall_time() {
        let style = Style {
            width: Some(80),
            colour: false,
        };
        let text = counted(&record(account()), style);
        for words in [
            "write_read: 0.500 GiB/s, counted",
            "16384       180      11.4    0.1 %",
            "unknown",
            "-5.0 %",
            "100.0 %",
            "\n\nnote: sampling",
            "\nnote: ends: different cores",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(longest_line(&text) <= 80, "{text}");
    }

    #[test]
    fn a_case_that_cannot_be_run_says_why() {
        let case = CaseAccount {
            gib_per_s: None,
            not_run: Some(NotRun::refused("no huge pages")),
            ends: Vec::new(),
            ..account()
        };
        let text = counted(&record(case), Style::default());
        let first = "write_read: refused: no huge pages\n\nnote: ";
        assert!(text.starts_with(first), "{text}");
    }
}
