//! The sections of the page: a text in Markdown, and below it the report on a record.
//!
//! Each is a file in `sections/`, which begins with what it is: `key: value`, between two
//! lines `---`.

use maud::{Markup, PreEscaped, html};
use pipespeed_base::named;
use pulldown_cmark::{Parser, html::push_html};

use super::first::with_best_sizes;
use super::flame;
use super::records::{Records, Saved, Topic};
use crate::blocks::{Blocks, Conclusion, TableBlock};
use crate::chart::svg::{NARROW, WIDE};
use crate::steps::cases_without_twin;
use crate::table::{Column, Table};

/// The files of the sections, in the order of the page.
const FILES: [&str; 16] = [
    include_str!("sections/ladder.md"),
    include_str!("sections/time.md"),
    include_str!("sections/costs.md"),
    include_str!("sections/walk.md"),
    include_str!("sections/used.md"),
    include_str!("sections/changes.md"),
    include_str!("sections/sizes.md"),
    include_str!("sections/channels.md"),
    include_str!("sections/latency.md"),
    include_str!("sections/deadlock.md"),
    include_str!("sections/options.md"),
    include_str!("sections/pages.md"),
    include_str!("sections/volumes.md"),
    include_str!("sections/memory.md"),
    include_str!("sections/promises.md"),
    include_str!("sections/programs.md"),
];

named! {
    /// Where the chart of a section stands.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    enum ChartPlace {
        /// below the text
        #[default]
        Section = "section",
        /// on the first screen
        First = "first",
        /// there is none
        Nowhere = "nowhere",
    }
}

/// A file of a section.
#[derive(Debug, Default, PartialEq)]
struct SectionFile {
    id: &'static str,
    title: &'static str,
    /// The record that it shows; `None` if it has only a text.
    topic: Option<Topic>,
    /// The words after `pipespeed` that bring the record; without them the section is left
    /// out where the record is missing.
    command: Option<&'static str>,
    chart: ChartPlace,
    /// What the chart shows.
    caption: &'static str,
    text: &'static str,
}

/// Reads a file of a section.
fn parse(file: &'static str) -> Result<SectionFile, String> {
    let inner = file.strip_prefix("---\n");
    let (head, text) = inner
        .and_then(|inner| inner.split_once("\n---\n"))
        .ok_or("it does not begin with lines between two lines `---`")?;
    let mut section = SectionFile {
        text,
        ..SectionFile::default()
    };
    for line in head.lines() {
        let (key, value) = line.split_once(": ").unwrap_or((line, ""));
        match key {
            "id" => section.id = value,
            "title" => section.title = value,
            "record" => section.topic = Some(value.parse()?),
            "command" => section.command = Some(value),
            "chart" => section.chart = value.parse()?,
            "caption" => section.caption = value,
            _ => return Err(format!("unknown key `{key}`")),
        }
    }
    if section.id.is_empty() || section.title.is_empty() {
        return Err("it has no id or no title".to_owned());
    }
    Ok(section)
}

fn files() -> impl Iterator<Item = SectionFile> {
    FILES
        .iter()
        .map(|file| parse(file).expect("a unit test parses all of them"))
}

/// A section of the page.
pub(super) struct Section {
    pub id: &'static str,
    pub title: &'static str,
    pub body: Markup,
}

/// The sections that these records have something for.
pub(super) fn shown_sections(records: &Records) -> Vec<Section> {
    let section = |file: SectionFile| {
        let text = markdown(&with_best_sizes(file.text, records));
        let report = match (file.topic, file.command) {
            (None, _) => html! {},
            (Some(topic), command) => match (records.find(topic), command) {
                (Some(saved), _) => report(&file, saved),
                (None, Some(command)) => missing(topic, command),
                (None, None) => return None,
            },
        };
        Some(Section {
            id: file.id,
            title: file.title,
            body: html! { (text) (report) },
        })
    };
    files().filter_map(section).collect()
}

/// The chart of the first screen.
pub(super) fn picture(records: &Records) -> Markup {
    let mut files = files().filter(|file| file.chart == ChartPlace::First);
    let shown = files.find_map(|file| Some((records.find(file.topic?)?, file.caption)));
    html! {
        @if let Some((saved, caption)) = shown { (figure(&blocks(saved), caption)) }
    }
}

/// The report on a record.
fn report(file: &SectionFile, saved: &Saved) -> Markup {
    let blocks = blocks(saved);
    html! {
        (list(&blocks.findings))
        @match file.chart {
            ChartPlace::First => {}
            ChartPlace::Nowhere => (tables(&blocks, file.title, blocks.findings.is_empty())),
            ChartPlace::Section => (figure(&blocks, file.caption)),
        }
        @if let Saved::Profile(profile) = saved {
            @for case in &profile.cases { (flame::graph(profile, case)) }
        }
    }
}

/// The report on a record, in which the names of a run's cases are explained.
fn blocks(saved: &Saved) -> Blocks<'_> {
    let mut blocks = saved.blocks();
    if let Saved::Bench(run) = saved {
        let mut names = Table::new([Column::left("case"), Column::left("what it does")]);
        for case in cases_without_twin(run) {
            names.row([case.name.clone(), case.description.clone()]);
        }
        let names = TableBlock::new("What the names mean", names);
        blocks.tables.push(names);
    }
    blocks
}

/// Conclusions, with lines to paste.
pub(super) fn list(findings: &[Conclusion]) -> Markup {
    html! {
        @if !findings.is_empty() {
            ul.findings {
                @for finding in findings {
                    li {
                        (finding.sentence)
                        @if let Some(command) = &finding.command { (lines(command)) }
                    }
                }
            }
        }
    }
}

/// A command line to paste, divided into short lines.
fn lines(command: &str) -> Markup {
    let command = command.replace(" | ", " |\n  ");
    let command = command.replace(" --buf-size", " \\\n    --buf-size");
    html! { pre tabindex="0" { code { (command) } } }
}

/// A chart, drawn for a wide and for a narrow window, with the same figures as tables.
pub(super) fn figure(blocks: &Blocks<'_>, caption: &str) -> Markup {
    html! {
        figure {
            div.chart {
                div.wide { (PreEscaped((blocks.chart)(WIDE))) }
                // Also hidden where the style sheet is forbidden, as in Jenkins; it shows it
                // in narrow windows.
                div.narrow hidden="" { (PreEscaped((blocks.chart)(NARROW))) }
            }
            figcaption { (caption) }
            (tables(blocks, caption, false))
        }
    }
}

/// Tables about something, which unfold.
fn tables(blocks: &Blocks<'_>, about: &str, is_open: bool) -> Markup {
    let tables = blocks.tables.iter().filter(|block| !block.table.is_empty());
    html! {
        details open=[is_open.then_some("")] {
            summary { "The figures as a table" }
            @for TableBlock { name, table, .. } in tables {
                @if !name.is_empty() { p { (name) } }
                div.scroll tabindex="0" role="region" aria-label={ "Table: " (about) " " (name) } {
                    (table.html())
                }
            }
        }
    }
}

/// Says which command brings a record.
fn missing(topic: Topic, command: &str) -> Markup {
    html! {
        p.missing {
            "Not among the records: " code { (topic) } ". Measure it with "
            code { "pipespeed " (command) } "."
        }
    }
}

/// Says how to bring all records that the sections lack at once. A profile is not counted: it
/// may be refused.
pub(super) fn incomplete(records: &Records) -> Markup {
    let topics = files()
        .filter(|file| file.command.is_some())
        .filter_map(|file| file.topic);
    let mut topics = topics.filter(|topic| *topic != Topic::Profile);
    html! {
        @if topics.any(|topic| records.find(topic).is_none()) {
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

/// A text in Markdown.
pub(super) fn markdown(text: &str) -> Markup {
    let mut html = String::new();
    push_html(&mut html, Parser::new(text));
    // What can be scrolled must be reached by the keyboard.
    PreEscaped(html.replace("<pre>", "<pre tabindex=\"0\">"))
}

/// The lines in Rust are compiled.
#[cfg(doctest)]
#[doc = include_str!("sections/programs.md")]
struct ProgramsCompile;

#[cfg(test)]
mod tests {
    use super::*;
    use itertools::Itertools as _;

    #[test]
    fn every_file_is_understood() {
        let parsed: Result<Vec<_>, _> = FILES.iter().map(|file| parse(file)).collect();
        let parsed = parsed.unwrap();
        assert!(parsed.iter().map(|file| file.id).all_unique());
        let topics = parsed.iter().filter_map(|file| file.topic);
        assert!(topics.map(|topic| topic.to_string()).all_unique());
        for file in &parsed {
            let has_chart = file.topic.is_some() && file.chart != ChartPlace::Nowhere;
            assert_eq!(has_chart, !file.caption.is_empty(), "{}", file.id);
        }
    }

    #[test]
    fn unknown_words_are_refused() {
        let known = "---\nid: a\ntitle: A: b\nrecord: bench sizes\nchart: first\n---\nText.\n";
        let file = parse(known).unwrap();
        assert_eq!((file.title, file.text), ("A: b", "Text.\n"));
        let sizes = Topic::Bench(pipespeed_measure::spec::Suite::Sizes);
        assert_eq!((file.topic, file.chart), (Some(sizes), ChartPlace::First));
        for (word, other) in [
            ("---\nid", "id"),
            ("id: a\n", ""),
            ("title: A: b\n", ""),
            ("title", "titel"),
            ("bench sizes", "bench size"),
            ("bench sizes", "latency --native"),
            ("first", "above"),
        ] {
            let text: &str = known.replacen(word, other, 1).leak();
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
