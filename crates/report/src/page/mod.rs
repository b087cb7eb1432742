//! One HTML page of saved records: the published experiment with this machine's figures.
//!
//! Every sentence with a verdict is a [`claim::ClaimSentence`]; every number in one is a
//! [`figure::Figure`]. The page is well-formed XML, too, so tests can read it.

mod beside;
mod claim;
mod figure;
mod further;
mod ladder;
mod practice;
mod programs;
mod records;
mod walk;

pub use self::records::{Records, Saved};

use itertools::Itertools as _;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use pipespeed_base::Named as _;
use pipespeed_base::text::escape;
use pipespeed_host::warnings::disturbances_and_load;
use pipespeed_measure::record::{NullControl, RecordHeader, Run, Warning, WarningKind};
use pipespeed_measure::spec::Suite;

use self::claim::ClaimSentence;
use crate::chart::svg::{NARROW, WIDE};
use crate::format::pluralize;
use crate::steps::{cases_without_twin, measured};
use crate::table::{Column, Table};

const STYLE: &str = include_str!("page.css");
/// Shows the hint of a chart's part at the pointer. The page is complete without it.
const SCRIPT: &str = include_str!("page.js");
/// Written out, since the page is to be well-formed XML, too.
const META: &str = "<meta charset=\"utf-8\"/>\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
    <meta name=\"color-scheme\" content=\"light dark\"/>\
    <meta name=\"generator\" content=\"pipespeed report\"/>";
const ARTICLE: &str = "https://mazzo.li/posts/fast-pipes.html";

/// A section of the page.
struct Section {
    id: &'static str,
    title: &'static str,
    body: Markup,
}

/// The page of these records, with those of another machine beside them if there are any.
pub fn page(records: &Records, other: Option<&Records>) -> String {
    let mut sections = ladder::sections(records);
    sections.extend(practice::sections(records));
    sections.extend(further::sections(records));
    sections.push(programs::section(records));
    sections.extend(other.map(|other| beside::section(records, other)));
    let title = "How fast are pipes on this machine?";
    let body = html! {
        a.skip href="#main" { "Skip to the text" }
        header {
            h1 { (title) }
            p.origin { (origin(records)) }
            (programs::answer(records))
            (ladder::picture(records))
        }
        section.brief aria-labelledby="short" { div { (programs::changes(records)) } }
        (alarms(records))
        nav aria-label="Contents" {
            ol { @for section in &sections { li { a href={ "#" (section.id) } { (section.title) } } } }
        }
        main id="main" {
            (introduction(records))
            (incomplete(records))
            @for section in &sections {
                section aria-labelledby=(section.id) {
                    h2 id=(section.id) { (section.title) }
                    (section.body)
                }
            }
        }
        footer { (method(records, other)) }
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                (PreEscaped(META))
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (body)
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    // Names come from saved records, and XML has no control characters.
    escape(&page.into_string()).into_owned() + "\n"
}

/// What the page repeats, and how to read its figures.
fn introduction(records: &Records) -> Markup {
    html! {
        p {
            "A " a href=(ARTICLE) { "published experiment" } " took a program that writes to a \
            pipe from " (figure::published(3.5, "3.5")) " to "
            (figure::published(65.0, "65")) " GiB/s, step by step. This page repeats it on \
            this machine, and adds what the experiment left open: what remains of the gain \
            when the data is used, which sizes and channels are best here, and what to change \
            in a program."
        }
        p {
            "Rates are medians, with their " (level(records)) " interval in brackets. Compare \
            rates within one run only: between runs the machine changes. A ratio is called the \
            same if its whole interval lies within five percent of one, faster or slower if \
            the whole interval lies above or below one, and otherwise undecided. Where a case \
            measured twice (the null control) is not the same as itself, the interval must also \
            lie outside the null control's. "
            a href="#method" { "How this was measured" } "."
        }
    }
}

/// The machine, or the machines if the records are of several.
fn origin(records: &Records) -> Markup {
    let machines = records.machines();
    let dates = || {
        records
            .all()
            .filter_map(|saved| saved.header().started_at.get(..10))
    };
    let (first, last) = (dates().min(), dates().max());
    let guest = records.all().find_map(|saved| {
        let virtualisation = &saved.header().machine.virtualisation;
        virtualisation.hypervisor.clone()
    });
    let processors = records.all().find_map(|saved| {
        let online = saved.header().machine.processors.online.as_ref();
        Some(pluralize(online?.len(), "processor"))
    });
    html! {
        (machines.join("; "))
        @if let Some(count) = processors { "; " (count) }
        @if let Some(guest) = guest { "; a guest of " (guest) }
        @if let Some(first) = first {
            "; " time datetime=(first) { (first) }
            @if let Some(last) = last.filter(|last| *last != first) {
                " to " time datetime=(last) { (last) }
            }
        }
    }
}

/// The confidence level of the runs.
fn level(records: &Records) -> Markup {
    let mut runs = Suite::VALUES.iter().filter_map(|suite| records.run(*suite));
    let level = runs.next().map_or(0.95, |run| run.settings.confidence);
    html! { (figure::percent(level)) }
}

/// What makes the figures unreliable: a line, which unfolds.
fn alarms(records: &Records) -> Markup {
    let machines = records.machines();
    let runs = || Suite::VALUES.iter().filter_map(|suite| records.run(*suite));
    let mut notes: Vec<Markup> = Vec::new();
    if machines.len() > 1 {
        notes.push(html! {
            "These records are of " (machines.len()) " machines or kernels. Figures of different \
            sections can't be compared."
        });
    }
    for run in runs().filter(|run| run.failed_control().is_some()) {
        notes.push(html! {
            "In the run of " code { "bench " (run.suite) } " a case differs from itself, so \
            distrust small differences. " (control(run))
        });
    }
    for saved in records.all() {
        for warning in disturbances_and_load(warnings(saved)) {
            notes.push(html! { code { (saved.subject()) } ": " (warning) "." });
        }
    }
    for run in runs().filter(|run| run.interrupted.is_some()) {
        notes.push(html! {
            "The run of " code { "bench " (run.suite) } " was interrupted, so it has fewer rounds \
            than planned."
        });
    }
    html! {
        @if !notes.is_empty() {
            aside.notes {
                details.alarm {
                    summary { "Something may have disturbed these figures (" (notes.len()) ")" }
                    ul { @for note in &notes { li { (note) } } }
                }
            }
        }
    }
}

/// The result of the null control.
fn control(run: &Run) -> Markup {
    let Some(NullControl {
        case,
        ratio: Some(ratio),
        ..
    }) = &run.null_control
    else {
        return html! { "There was no null control." };
    };
    html! {
        code { (case) } " against itself: " (figure::ratio_of(&ratio.estimate)) ", "
        (ratio.verdict.name()) "."
    }
}

/// How the figures were measured.
fn method(records: &Records, other: Option<&Records>) -> Markup {
    html! {
        h2 id="method" { "How this was measured" }
        p {
            "Each trial starts a new pair of processes, each bound to a processor, and times them \
            after a warm-up. A round runs every case once, in a random order that is balanced as far \
            as the number of rounds allows. A rate is the median of the rounds; its interval is \
            that of the order statistics, which assumes no distribution. A ratio is the median of the ratios within rounds, so it may differ a \
            little from that of the two rates; its interval is that of the sign test, corrected for \
            the number of comparisons. The null control is one case measured under two names: \
            differences within its interval are undecided."
        }
        @let shared = shared_warnings(records);
        @if !shared.is_empty() {
            p { "Of several of these records:" }
            ul { @for warning in &shared { li { (warning) } } }
            p { "The records:" }
        }
        ul {
            @for saved in records.all() { li { (record(saved, &shared)) } }
            @for replaced in records.replaced() {
                li { "Not shown, since another one was given: " (replaced) "." }
            }
        }
        @if let Some(other) = other {
            p { "The other machine:" }
            ul { @for saved in other.all() { li { (record(saved, &[])) } } }
        }
    }
}

/// The warnings of a record.
fn warnings(saved: &Saved) -> &[Warning] {
    match saved {
        Saved::Bench(run) => &run.warnings,
        Saved::Latency(record) => &record.warnings,
        Saved::Costs(record) => &record.warnings,
        Saved::Profile(profile) => &profile.warnings,
        Saved::Check(_) | Saved::Pages(_) => &[],
    }
}

/// The warnings that several records have.
fn shared_warnings(records: &Records) -> Vec<&str> {
    let messages = records
        .all()
        .flat_map(warnings)
        .map(|warning| &*warning.message);
    messages.duplicates().collect()
}

/// A record: its command and date, for a run its rounds and null control, and its warnings
/// but for these.
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
    let own = warnings(saved).iter();
    let own: Vec<&Warning> = own
        .filter(|warning| !shared.contains(&&*warning.message))
        .collect();
    html! {
        code { (without_files(command)) } ", " (started_at) ", version " (pipespeed_version)
        @if let Some(run) = run {
            "; " (run.settings.rounds_done) " of " (run.settings.rounds_planned)
            " rounds, seed " (run.settings.seed) ". " (control(run))
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
fn without_files(command: &[String]) -> String {
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

/// A chart, drawn for a wide and for a narrow window, with the same figures as tables.
fn chart(draw: impl Fn(i32) -> String, caption: &str, tables: &[(&str, Table)]) -> Markup {
    html! {
        figure {
            div.chart {
                div.wide { (PreEscaped(draw(WIDE))) }
                // Also hidden where the style sheet is forbidden, as in Jenkins; it shows it
                // in narrow windows.
                div.narrow hidden="" { (PreEscaped(draw(NARROW))) }
            }
            figcaption { (caption) }
            (details("The figures as a table", caption, tables))
        }
    }
}

/// Tables about something that can be opened.
fn details(summary: &str, about: &str, tables: &[(&str, Table)]) -> Markup {
    html! {
        details {
            summary { (summary) }
            @for (name, table) in tables { (named_table(name, about, table)) }
        }
    }
}

/// A table about something, with a name unless that is empty.
fn named_table(name: &str, about: &str, table: &Table) -> Markup {
    html! {
        @if !name.is_empty() { p { (name) } }
        div.scroll tabindex="0" role="region" aria-label={ "Table: " (about) " " (name) } {
            (table.html())
        }
    }
}

/// Lines to paste.
fn lines(text: &str) -> Markup {
    html! { pre tabindex="0" { code { (text.trim_end()) } } }
}

/// Says which command brings what the records lack.
fn missing(what: &str, command: &str) -> Markup {
    html! {
        p.missing {
            "Not among the records: " (what) ". Measure with " code { "pipespeed " (command) } "."
        }
    }
}

/// Says how to bring all that the records lack at once. A profile is not counted: it may be
/// refused.
fn incomplete(records: &Records) -> Markup {
    use Suite::{Changes, Channels, Ladder, Options, Sizes, Touched};
    let suites = [Ladder, Touched, Sizes, Channels, Changes, Options];
    let is_complete = suites.iter().all(|suite| records.run(*suite).is_some())
        && [true, false]
            .iter()
            .all(|naive| records.latency(*naive).is_some())
        && records.check().is_some()
        && records.costs().is_some()
        && records.pages().is_some();
    html! {
        @if !is_complete {
            p.missing {
                "Some records are missing; each section names the command that brings its own, to \
                be given to " code { "pipespeed report" } " with the others. "
                code { "pipespeed report --full" } " measures all of them; with " code { "--resume" }
                ", in the directory where " code { "pipespeed report" }
                " was run, only the missing ones."
            }
        }
    }
}

/// The warning of a run that this is a guest.
fn guest_warning(run: &Run) -> Option<&str> {
    let warning = run
        .warnings
        .iter()
        .find(|warning| warning.kind == WarningKind::Guest);
    warning.map(|warning| &*warning.message)
}

/// The names of a run's cases, each with what it does.
fn table_of_names(run: &Run) -> Table {
    let mut table = Table::new([Column::left("case"), Column::left("what it does")]);
    for case in cases_without_twin(run) {
        table.row([case.name.clone(), case.description.clone()]);
    }
    table
}

/// The median of a case.
fn rate_of(run: &Run, name: &str) -> Option<Markup> {
    let case = run.cases.iter().find(|case| case.name == name)?;
    Some(figure::rate_of(measured(case)?.1))
}

/// Claims one after another.
fn claims(claims: impl IntoIterator<Item = Option<ClaimSentence>>) -> Markup {
    html! { @for claim in claims.into_iter().flatten() { (claim) } }
}

#[cfg(test)]
mod tests;
