//! What several tests of reports need.

use pipespeed_measure::record::Run;

use crate::Style;

/// The texts of a picture, which has to be well-formed.
pub(crate) fn texts(svg: &str) -> Vec<String> {
    let document = roxmltree::Document::parse(svg).expect("well-formed XML");
    document
        .descendants()
        .filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "text")))
        .filter_map(|node| Some(node.text()?.trim().to_owned()))
        .collect()
}

/// Checks that each of these is a text of a picture.
#[track_caller]
pub(crate) fn has_texts(svg: &str, wanted: &[&str]) {
    let texts = texts(svg);
    for wanted in wanted {
        let is_there = texts.iter().any(|text| text == wanted);
        assert!(is_there, "{wanted}: {texts:?}");
    }
}

/// Style with all details.
pub(crate) fn verbose(width: usize) -> Style {
    Style {
        verbose: true,
        ..Style::of_width(width)
    }
}

/// The table of a run with all details.
pub(crate) fn shown(run: &Run, width: usize) -> String {
    crate::table(run, verbose(width))
}
