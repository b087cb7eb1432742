//! Flame graphs of a profile, each in a frame of its own.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use pipespeed_explain::profile::flame;
use pipespeed_explain::profile::record::{CaseProfile, Profile};

/// The flame graph of a case, which brings a script of its own.
pub(super) fn graph(profile: &Profile, case: &CaseProfile) -> Markup {
    let name = &case.name;
    html! {
        @if let Ok(graph) = flame::of_case(profile, case) {
            details {
                summary { "Flame graph of " code { (name) } }
                p {
                    "The wider a function, the longer it or those above it ran. A click on one \
                    enlarges it."
                }
                iframe.flame title={ "Flame graph of " (name) } loading="lazy"
                    sandbox="allow-scripts" height=(graph.height) srcdoc=(framed(name, &graph.svg)) {}
            }
        }
    }
}

/// Starts the script of a picture once it is seen: a frame out of sight has no layout, and the
/// script would find no width. What is enlarged is not kept in the address, since a frame has
/// none.
const START: &str = include_str!("flame.js").trim_ascii_end();

/// A page with nothing but a picture.
fn framed(name: &str, svg: &str) -> String {
    // What stands before the picture is for files of their own.
    let svg = svg.find("<svg").map_or(svg, |at| &svg[at..]);
    let svg = svg.replacen(" onload=\"init(evt)\"", "", 1);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                (PreEscaped("<meta charset=\"utf-8\">"))
                title { "Flame graph of " (name) }
                style { (PreEscaped("body { margin: 0; } main > svg { width: 100%; }")) }
            }
            body {
                main { (PreEscaped(svg)) }
                script { (PreEscaped(START)) }
            }
        }
    };
    page.into_string()
}
