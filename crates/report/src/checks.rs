//! The checks, as text.

use super::format::wrap;
use super::style::{BOLD, DIM, GREEN, RED, Style, YELLOW};
use pipespeed_explain::check::{Check, Checked, Group, Record, Verdict};

/// The width of the longest mark.
const MARK_WIDTH: usize = 7;

/// The minimum width of a column of sentences.
const MIN_COLUMNS: usize = 24;

/// The checks by group, each with its verdict, name and value; and a summary.
pub fn checks(record: &Record, style: Style) -> String {
    let mut text = String::new();
    let names = width(record.checks.iter().map(|checked| checked.name));
    for group in Group::ALL {
        let those: Vec<&Checked> = record
            .checks
            .iter()
            .filter(|checked| checked.group == group)
            .collect();
        if those.is_empty() {
            continue;
        }
        text += &format!("{}\n", style.paint(group.name(), BOLD));
        for checked in those {
            text += &row(checked, names, style);
        }
        text.push('\n');
    }
    text + &wrap(&summary(record), style.width(), "  ") + "\n"
}

fn row(checked: &Checked, names: usize, style: Style) -> String {
    let outcome = &checked.outcome;
    let mark = format!("{:MARK_WIDTH$}", outcome.verdict.mark());
    let mark = match outcome.verdict {
        Verdict::Pass => style.paint(&mark, GREEN),
        Verdict::Seen => mark,
        Verdict::Refused => style.paint(&mark, YELLOW),
        Verdict::Fail | Verdict::Error => style.paint(&mark, RED),
    };
    let left = format!("  {mark}  {:names$}  ", checked.name);
    let indent = 2 + MARK_WIDTH + 2 + names + 2;
    let columns = style.width().saturating_sub(indent).max(MIN_COLUMNS);
    let said = format!("{}: {}", checked.statement, outcome.seen);
    let mut lines: Vec<String> = wrap(&said, columns, "")
        .lines()
        .map(str::to_owned)
        .collect();
    if let Some(note) = &outcome.note {
        let note = wrap(&format!("({note})"), columns, "");
        lines.extend(note.lines().map(|line| style.paint(line, DIM)));
    }
    let gap = format!("\n{:indent$}", "");
    format!("{left}{}\n", lines.join(&gap))
}

fn summary(record: &Record) -> String {
    let summary = &record.summary;
    let counts: Vec<String> = Verdict::ALL
        .into_iter()
        .map(|verdict| (summary.count(verdict), verdict.mark()))
        .filter(|(count, _)| *count > 0)
        .map(|(count, mark)| format!("{count} {mark}"))
        .collect();
    format!(
        "{}: {}; {:.2} s (pipespeed check --explain NAME explains one)",
        super::pluralize(summary.checks, "check"),
        counts.join(", "),
        record.seconds
    )
}

/// The checks with their statements, by group.
pub fn check_list(checks: &[&Check], style: Style) -> String {
    let names = width(checks.iter().map(|check| check.name));
    let mut text = String::new();
    let mut group = None;
    for check in checks {
        if group.replace(check.group) != Some(check.group) {
            text += &format!("{}\n", style.paint(check.group.name(), BOLD));
        }
        let columns = style.width().saturating_sub(names + 4).max(MIN_COLUMNS);
        let gap = format!("\n{:1$}", "", names + 4);
        let statement = wrap(check.statement, columns, "").replace('\n', &gap);
        text += &format!("  {:names$}  {statement}\n", check.name);
    }
    text
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

fn width<'a>(names: impl Iterator<Item = &'a str>) -> usize {
    names.map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipespeed_explain::check::Outcome;
    use pipespeed_measure::record::Kind;
    use pipespeed_measure::sample;

    fn check(group: Group, name: &'static str, statement: &'static str) -> Check {
        Check {
            name,
            group,
            statement,
            explanation: "Something is tried out, in this way and in that, until it is clear.",
            reference: "pipe(7); pipe_write() in fs/pipe.c",
            run: || Ok(Outcome::pass("never run")),
        }
    }

    fn record() -> Record {
        let known = [
            (
                check(Group::Limits, "default-capacity", "what a new pipe takes"),
                Outcome::seen("8192 bytes, 2 slots").with_note(
                    "this user's pipes hold more pages than /proc/sys/fs/pipe-user-pages-soft \
                     allows: close pipes, or have it raised",
                ),
            ),
            (
                check(
                    Group::Semantics,
                    "epipe",
                    "writing where no reader is left is EPIPE",
                ),
                Outcome::pass("EPIPE"),
            ),
            (
                check(
                    Group::Semantics,
                    "atomic-pipe-buf",
                    "writes of PIPE_BUF bytes stay whole",
                ),
                Outcome::fail("3 of 1024 records of 4096 bytes torn"),
            ),
            (
                check(
                    Group::Semantics,
                    "nonblock-reopened",
                    "a pipe reopened has its own flags",
                ),
                Outcome::error("no answer within 3 s: it hangs"),
            ),
            (
                check(Group::Permissions, "vmsplice", "vmsplice(2) is allowed"),
                Outcome::refused("EPERM: a seccomp filter"),
            ),
        ];
        let checked = known
            .iter()
            .map(|(check, outcome)| Checked::new(check, outcome.clone(), 0.01));
        Record::new(sample::header(Kind::Check), checked.collect(), 0.8)
    }

    #[test]
    fn the_checks_at_80_columns() {
        let style = Style {
            width: Some(80),
            colour: false,
        };
        let text = checks(&record(), style);
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        insta::assert_snapshot!(text);
    }

    #[test]
    fn colours_change_no_letter() {
        let plain = checks(&record(), Style::default());
        let style = Style {
            width: None,
            colour: true,
        };
        let coloured = checks(&record(), style);
        assert!(coloured.contains("\x1b[31mFAIL"), "{coloured}");
        let codes = [BOLD, DIM, GREEN, RED, YELLOW, "0"].map(|code| format!("\x1b[{code}m"));
        let bare = codes
            .iter()
            .fold(coloured, |text, code| text.replace(code, ""));
        assert_eq!(bare, plain);
    }

    #[test]
    fn lists_and_explanations_fit_80_columns() {
        let style = Style {
            width: Some(80),
            colour: false,
        };
        let all: Vec<&Check> = pipespeed_explain::check::all()
            .chain([&pipespeed_explain::check::SOFT_LIMIT])
            .collect();
        let list = check_list(&all, style);
        let told = all.iter().map(|check| check_explanation(check, style));
        for text in told.chain([list]) {
            for line in text.lines() {
                assert!(line.chars().count() <= 80, "{line}");
            }
        }
    }
}
