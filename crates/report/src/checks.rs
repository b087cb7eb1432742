//! Checks as text.

use itertools::Itertools as _;

use super::blocks::{Blocks, TableBlock};
use super::format::{pluralize, wrap};
use super::notes::{Note, notes};
use super::style::{BOLD, GREEN, RED, Style, YELLOW};
use super::table::{Cell, Column, Table};
use pipespeed_base::Named;
use pipespeed_explain::check::{Check, CheckGroup, CheckRecord, CheckVerdict, Checked};

/// The checks by group, each with its verdict, name and value, then notes and a summary.
pub fn checks(record: &CheckRecord, style: Style) -> String {
    let all = record.checks.iter().filter_map(note);
    let blocks = [
        table(record).render(style),
        notes(all.collect(), style),
        style.sentence(&summary(record)),
    ];
    let blocks: Vec<String> = blocks
        .into_iter()
        .filter(|block| !block.is_empty())
        .collect();
    blocks.join("\n\n") + "\n"
}

/// The note on a check.
fn note(checked: &Checked) -> Option<Note> {
    let outcome = &checked.outcome;
    let note = format!("{}: {}", checked.name, outcome.note.as_ref()?);
    Some(match outcome.verdict {
        CheckVerdict::Fail | CheckVerdict::Error => Note::Alarm(note),
        CheckVerdict::Refused => Note::Caution(note),
        CheckVerdict::Pass | CheckVerdict::Seen => Note::Method(note),
    })
}

/// The report on checks.
pub(super) fn blocks(record: &CheckRecord) -> Blocks<'_> {
    Blocks {
        findings: vec![summary(record).into()],
        chart: Box::new(|_| String::new()),
        tables: vec![TableBlock::new("All statements", table(record))],
    }
}

/// A row for each check, by group.
fn table(record: &CheckRecord) -> Table {
    let mut table = Table::new([Column::left(""), Column::left("")]).with_html_header(&[
        "result",
        "check",
        "statement",
    ]);
    for group in CheckGroup::values() {
        let of_group = record
            .checks
            .iter()
            .filter(|checked| checked.group == group);
        for (at, checked) in of_group.enumerate() {
            if at == 0 {
                table.heading(group.name());
            }
            let outcome = &checked.outcome;
            let mark = outcome.verdict.name();
            let mark = match outcome.verdict {
                CheckVerdict::Pass => Cell::painted(mark, GREEN),
                CheckVerdict::Seen => mark.into(),
                CheckVerdict::Refused => Cell::painted(mark, YELLOW),
                CheckVerdict::Fail | CheckVerdict::Error => Cell::painted(mark, RED),
            };
            let text = format!("{}: {}", checked.statement, outcome.seen);
            table.row_with_text([mark, (&*checked.name).into()], text);
        }
    }
    table
}

fn summary(record: &CheckRecord) -> String {
    let summary = &record.summary;
    let count = |verdict: CheckVerdict| {
        let count = format!("{} {}", summary.count(verdict), verdict.name());
        match verdict {
            CheckVerdict::Pass | CheckVerdict::Seen => count,
            CheckVerdict::Fail | CheckVerdict::Refused | CheckVerdict::Error => {
                let of_verdict = |checked: &&Checked| checked.outcome.verdict == verdict;
                let checks = record.checks.iter().filter(of_verdict);
                format!(
                    "{count} ({})",
                    checks.map(|checked| &*checked.name).join(", ")
                )
            }
        }
    };
    let counts = CheckVerdict::values()
        .filter(|verdict| summary.count(*verdict) > 0)
        .map(count)
        .join(", ");
    format!(
        "{}: {}; {:.2} s (pipespeed check --explain NAME explains one)",
        pluralize(summary.checks, "check"),
        counts,
        record.seconds
    )
}

/// The checks with their statements, by group.
pub fn check_list(checks: &[&Check], style: Style) -> String {
    let mut table = Table::new([Column::left("")]);
    let mut group = None;
    for check in checks {
        if group.replace(check.group) != Some(check.group) {
            table.heading(check.group.name());
        }
        table.row_with_text([check.name], check.statement);
    }
    table.render(style) + "\n"
}

/// The explanation of a check.
pub fn check_explanation(check: &Check, style: Style) -> String {
    let columns = style.width().min(80);
    let inner = |text: &str| format!("  {}\n", wrap(text, columns - 2, "").replace('\n', "\n  "));
    let title = wrap(
        &format!("{}: {}", check.name, check.statement),
        columns,
        "  ",
    );
    let title: Vec<String> = title.lines().map(|line| style.paint(line, BOLD)).collect();
    format!(
        "{}\n{}{}",
        title.join("\n"),
        inner(check.explanation),
        inner(&format!(
            "See {}. Group: {}.",
            check.reference,
            check.group.name()
        )),
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use pipespeed_explain::check::{CheckResult, Checked};
    use pipespeed_measure::fixtures;
    use pipespeed_measure::record::Kind;
    use pipespeed_testing::{fits, says};

    fn check(group: CheckGroup, name: &'static str, statement: &'static str) -> Check {
        Check {
            name,
            group,
            statement,
            explanation: "Something is tried out, in this way and in that, until it is clear.",
            reference: "pipe(7); pipe_write() in fs/pipe.c",
            run: || Ok(CheckResult::pass("never run")),
        }
    }

    pub(crate) fn record() -> CheckRecord {
        let known = [
            (
                check(
                    CheckGroup::Limits,
                    "default-capacity",
                    "what a new pipe takes",
                ),
                CheckResult::seen("8192 bytes, 2 slots").with_note(
                    "this user's pipes hold more pages than /proc/sys/fs/pipe-user-pages-soft \
                     allows: close pipes, or have it raised",
                ),
            ),
            (
                check(
                    CheckGroup::Semantics,
                    "epipe",
                    "writing where no reader is left is EPIPE",
                ),
                CheckResult::pass("EPIPE"),
            ),
            (
                check(
                    CheckGroup::Semantics,
                    "atomic-pipe-buf",
                    "writes of PIPE_BUF bytes stay whole",
                ),
                CheckResult::fail("3 of 1024 records of 4096 bytes torn"),
            ),
            (
                check(
                    CheckGroup::Semantics,
                    "nonblock-reopened",
                    "a pipe reopened has its own flags",
                ),
                CheckResult::error("no answer within 10 s: it hangs, or the machine is busy"),
            ),
            (
                check(
                    CheckGroup::Permissions,
                    "vmsplice",
                    "vmsplice(2) is allowed",
                ),
                CheckResult::refused("EPERM: a seccomp filter"),
            ),
        ];
        let checked = known
            .iter()
            .map(|(check, outcome)| Checked::new(check, outcome.clone(), 0.01));
        CheckRecord::new(fixtures::header(Kind::Check), checked.collect(), 0.8)
    }

    #[test]
    fn the_checks_at_80_columns() {
        let style = Style::of_width(80);
        let text = checks(&record(), style);
        fits(&text, 80);
        insta::assert_snapshot!(text);
    }

    #[test]
    fn what_failed_is_red() {
        let style = Style {
            colour: true,
            ..Style::default()
        };
        says(checks(&record(), style), &["\x1b[31mFAIL"]);
    }

    #[test]
    fn lists_and_explanations_fit_80_columns() {
        let style = Style::of_width(80);
        let all: Vec<&Check> = pipespeed_explain::check::all().collect();
        let list = check_list(&all, style);
        let explanations = all.iter().map(|check| check_explanation(check, style));
        for text in explanations.chain([list]) {
            fits(&text, 80);
        }
    }
}
