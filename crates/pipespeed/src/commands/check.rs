//! `pipespeed check`.

use std::io::{self, IsTerminal, Write};
use std::time::Instant;

use anyhow::bail;

use crate::cli::CheckArgs;
use crate::commands::files::Files;
use crate::commands::header;
use pipespeed_base::failure::{Interrupted, to_stdout, usage};
use pipespeed_base::interrupt::SignalFlag;
use pipespeed_explain::check::{self, Check, Checked, Group, PATIENCE, Record, SOFT_LIMIT};
use pipespeed_host::Machine;
use pipespeed_measure::record::{Kind, to_json};
use pipespeed_report::{self as report, Style};

/// Runs the checks.
///
/// # Errors
/// A check failed or could not be completed, the record can't be saved, or a signal
/// arrived.
pub fn run(args: &CheckArgs) -> anyhow::Result<()> {
    let style = Style::for_terminal(io::stdout().is_terminal(), args.verbose);
    if !args.explain.is_empty() {
        let named = args.explain.iter();
        let texts: Vec<String> = named
            .map(|name| Ok(report::check_explanation(explained(name)?, style)))
            .collect::<anyhow::Result<_>>()?;
        return to_stdout(io::stdout().write_all(texts.join("\n").as_bytes()));
    }
    let checks = selected(args)?;
    if args.list {
        let list = report::check_list(&checks, style);
        return to_stdout(io::stdout().write_all(list.as_bytes()));
    }
    let files = Files::new([("--json", &args.json)])?;
    let start = Instant::now();
    let header = header(Kind::Check, Machine::read(None, None));
    let checked = run_all(&checks)?;
    let record = Record::new(header, checked, start.elapsed().as_secs_f64());
    files.save(|_| Ok(to_json(&record)))?;
    if !args.quiet {
        files.print(args.verbose, |style| report::checks(&record, style))?;
    }
    match record.failure() {
        Some(failure) => bail!(failure),
        None => Ok(()),
    }
}

/// Runs checks until a signal arrives. Looks for signals between checks, when no
/// child process of a check is running.
fn run_all(checks: &[&Check]) -> anyhow::Result<Vec<Checked>> {
    let signals = SignalFlag::install()?;
    let mut checked = Vec::with_capacity(checks.len());
    for check in checks {
        checked.push(check::run_one(check, PATIENCE));
        if let Some(signal) = signals.signal() {
            return Err(Interrupted(signal).into());
        }
    }
    Ok(checked)
}

/// Returns all checks, including the one that only runs on request.
fn known() -> impl Iterator<Item = &'static Check> {
    check::all().chain([&SOFT_LIMIT])
}

fn names() -> String {
    let names: Vec<&str> = known().map(|check| check.name).collect();
    names.join(", ")
}

fn explained(name: &str) -> anyhow::Result<&'static Check> {
    known().find(|check| check.name == name).ok_or_else(|| {
        usage(format!(
            "--explain {name}: no such check; the checks are {}",
            names()
        ))
    })
}

/// Returns the requested checks in the order of the report.
fn selected(args: &CheckArgs) -> anyhow::Result<Vec<&'static Check>> {
    for name in &args.only {
        if name == SOFT_LIMIT.name && !args.soft_limit {
            return Err(usage(format!(
                "--only {name}: this check needs --soft-limit; it briefly keeps this user's other \
                 new pipes small"
            )));
        }
        let group = Group::ALL.into_iter().any(|group| group.name() == name);
        if !group && !known().any(|check| check.name == name) {
            return Err(usage(format!(
                "--only {name}: no such check or group; the checks are {}; the groups are {}",
                names(),
                Group::ALL.map(Group::name).join(", ")
            )));
        }
    }
    let wanted = |check: &&Check| {
        let named = |name: &String| name == check.name || name == check.group.name();
        args.only.is_empty() || args.only.iter().any(named)
    };
    let mut checks: Vec<&Check> = check::all().filter(wanted).collect();
    // It has an option of its own, and is always listed.
    if args.soft_limit || args.list && wanted(&&SOFT_LIMIT) {
        checks.push(&SOFT_LIMIT);
        checks.sort_by_key(|check| check.group);
    }
    Ok(checks)
}
