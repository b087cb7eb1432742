//! `pipespeed check`.

use std::io::{self, IsTerminal};
use std::time::Instant;

use anyhow::anyhow;

use crate::cli::CheckArgs;
use crate::commands::files::SavedFiles;
use crate::commands::{MIN_PRIVATE, first_error, header};
use pipespeed_base::Named;
use pipespeed_base::failure::{Interrupted, require_memory, usage};
use pipespeed_base::interrupt::SignalFlag;
use pipespeed_base::output::print;
use pipespeed_explain::check::{self, CHECK_TIMEOUT, Check, CheckGroup, CheckRecord, Checked};
use pipespeed_host::Machine;
use pipespeed_measure::record::{Kind, to_json};
use pipespeed_report::{self as report, Style};

/// For up to six threads at once.
const MIN_ADDRESS_SPACE: u64 = 512 << 20;

/// Runs the checks.
///
/// # Errors
/// A check failed or could not be completed, the record can't be saved, a signal arrived,
/// or the address space is limited to less than the checks need.
pub fn run(args: &CheckArgs) -> anyhow::Result<()> {
    let style = Style::for_terminal(io::stdout().is_terminal(), args.verbose);
    if !args.explain.is_empty() {
        let names = args.explain.iter();
        let texts: Vec<String> = names
            .map(|name| Ok(report::check_explanation(find_check(name)?, style)))
            .collect::<anyhow::Result<_>>()?;
        return print(texts.join("\n"));
    }
    let checks = select_checks(args)?;
    if args.list {
        return print(report::check_list(&checks, style));
    }
    require_memory(MIN_ADDRESS_SPACE, MIN_PRIVATE)?;
    let files = SavedFiles::new([("--json", &args.json)])?;
    let start = Instant::now();
    let header = header(Kind::Check, Machine::read(None, None));
    let checked = run_all(&checks)?;
    let record = CheckRecord::new(header, checked, start.elapsed().as_secs_f64());
    let saved = files.save(|_| Ok(to_json(&record)));
    let shown = if args.quiet {
        Ok(())
    } else {
        files.print(args.verbose, |style| report::checks(&record, style))
    };
    let failed = record.failure();
    first_error([
        failed.map_or(Ok(()), |failure| Err(anyhow!(failure))),
        saved,
        shown,
    ])
}

/// Runs checks until a signal arrives. Tests for signals between checks, when no child
/// process of a check is running.
fn run_all(checks: &[&Check]) -> anyhow::Result<Vec<Checked>> {
    let signals = SignalFlag::install()?;
    let mut checked = Vec::with_capacity(checks.len());
    for check in checks {
        checked.push(check::run_one(check, CHECK_TIMEOUT));
        if let Some(signal) = signals.signal() {
            return Err(Interrupted(signal).into());
        }
    }
    Ok(checked)
}

fn names() -> String {
    let names: Vec<&str> = check::all().map(|check| check.name).collect();
    names.join(", ")
}

fn find_check(name: &str) -> anyhow::Result<&'static Check> {
    check::all()
        .find(|check| check.name == name)
        .ok_or_else(|| {
            usage(format!(
                "--explain {name}: no such check; the checks are {}",
                names()
            ))
        })
}

/// Returns the requested checks in the order of the report.
fn select_checks(args: &CheckArgs) -> anyhow::Result<Vec<&'static Check>> {
    for name in &args.only {
        let is_group = name.parse::<CheckGroup>().is_ok();
        if !is_group && !check::all().any(|check| check.name == name) {
            let groups: Vec<&str> = CheckGroup::values().map(CheckGroup::name).collect();
            return Err(usage(format!(
                "--only {name}: no such check or group; the checks are {}; the groups are {}",
                names(),
                groups.join(", ")
            )));
        }
    }
    let is_selected = |check: &&Check| {
        let has_name = |name: &String| name == check.name || name == check.group.name();
        args.only.is_empty() || args.only.iter().any(has_name)
    };
    Ok(check::all().filter(is_selected).collect())
}
