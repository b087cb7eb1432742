//! How the figures were measured: the method, and each record with its command.

use itertools::Itertools as _;
use maud::{Markup, html};
use pipespeed_measure::record::{RecordHeader, Warning};

use super::first::null_control;
use super::records::{Records, Saved};
use super::section::markdown;

/// How the figures were measured.
pub(super) fn method(records: &Records, other: Option<&Records>) -> Markup {
    let messages = records
        .all()
        .flat_map(Saved::warnings)
        .map(|warning| &*warning.message);
    let shared: Vec<&str> = messages.duplicates().collect();
    html! {
        h2 id="method" { "How this was measured" }
        (markdown(include_str!("sections/method.md")))
        @if !shared.is_empty() {
            p { "Of several of these records:" }
            ul { @for warning in &shared { li { (warning) } } }
            p { "The records:" }
        }
        ul {
            @for saved in records.all() { li { (record(saved, &shared)) } }
            @for replaced in &records.replaced {
                li { "Not shown, since another one was given: " (replaced) "." }
            }
        }
        @if let Some(other) = other {
            p { "The other machine:" }
            ul { @for saved in other.all() { li { (record(saved, &[])) } } }
        }
    }
}

/// A record: its command and date, for a run its rounds and null control, and its warnings
/// but for the shared ones.
fn record(saved: &Saved, shared: &[&str]) -> Markup {
    let RecordHeader {
        command,
        started_at,
        pipespeed_version,
        ..
    } = saved.header();
    let run = match saved {
        Saved::Bench(run) => Some(&**run),
        _ => None,
    };
    let own = saved.warnings().iter();
    let own: Vec<&Warning> = own
        .filter(|warning| !shared.contains(&&*warning.message))
        .collect();
    html! {
        code { (without_files(command)) } ", " (started_at) ", version " (pipespeed_version)
        @if let Some(run) = run {
            "; " (run.settings.rounds_done) " of " (run.settings.rounds_planned)
            " rounds, seed " (run.settings.seed) ". " (null_control(run))
        }
        @if !own.is_empty() {
            details {
                summary { "Possible disturbances and limitations (" (own.len()) ")" }
                ul { @for warning in own { li { (warning) } } }
            }
        }
    }
}

/// A command line without the files that it saves to.
pub(super) fn without_files(command: &[String]) -> String {
    const FILES: [&str; 5] = ["--json", "--csv", "--chart", "--folded", "--flame"];
    const OTHERS: [&str; 3] = ["-q", "--quiet", "--no-save"];
    let is_file = |word: &str| FILES.contains(&word.split('=').next().unwrap_or_default());
    let mut words = Vec::new();
    let mut all = command.iter();
    while let Some(word) = all.next() {
        if FILES.contains(&&**word) {
            all.next();
        } else if !is_file(word) && !OTHERS.contains(&&**word) {
            words.push(&**word);
        }
    }
    words.join(" ")
}
