//! One HTML page of saved records: the first screen, which is made for them, and a list of
//! sections, each of which shows the report on one record below a text of its own.
//!
//! The page is well-formed XML, too, so tests can read it.

mod beside;
mod first;
mod flame;
mod method;
mod records;
mod section;
mod walk;

pub use self::records::{Records, Saved};

use maud::{DOCTYPE, Markup, PreEscaped, html};
use pipespeed_base::text::escape;

use self::section::{markdown, shown_sections};

const STYLE: &str = include_str!("page.css");
/// Shows the hint of a chart's part at the pointer. The page is complete without it.
const SCRIPT: &str = include_str!("page.js");
/// Written out, since the page is to be well-formed XML, too.
const META: &str = "<meta charset=\"utf-8\"/>\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
    <meta name=\"color-scheme\" content=\"light dark\"/>\
    <meta name=\"generator\" content=\"pipespeed report\"/>";
const TITLE: &str = "How fast are pipes on this machine?";

/// The page of these records, with those of another machine beside them if there are any.
pub fn page(records: &Records, other: Option<&Records>) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                (PreEscaped(META))
                title { (TITLE) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (body(records, other))
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    // Names come from saved records, and XML has no control characters.
    escape(&page.into_string()).into_owned() + "\n"
}

fn body(records: &Records, other: Option<&Records>) -> Markup {
    let mut sections = shown_sections(records);
    sections.extend(other.map(|other| beside::section(records, other)));
    html! {
        a.skip href="#main" { "Skip to the text" }
        header {
            h1 { (TITLE) }
            p.origin { (first::origin(records)) }
            (first::answer(records))
            (section::picture(records))
        }
        section.brief aria-labelledby="short" { div { (first::changes(records)) } }
        (first::alarms(records))
        nav aria-label="Contents" {
            ol { @for section in &sections { li { a href={ "#" (section.id) } { (section.title) } } } }
        }
        main id="main" {
            (markdown(include_str!("sections/introduction.md")))
            (section::incomplete(records))
            @for section in &sections {
                section aria-labelledby=(section.id) {
                    h2 id=(section.id) { (section.title) }
                    (section.body)
                }
            }
        }
        footer { (method::method(records, other)) }
    }
}

#[cfg(test)]
mod tests;
