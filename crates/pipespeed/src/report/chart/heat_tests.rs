use super::*;
use crate::report::sample;

/// Texts of a picture.
fn texts(svg: &str) -> Vec<String> {
    let document = roxmltree::Document::parse(svg).expect("well-formed XML");
    let named = document
        .descendants()
        .filter(|node| node.tag_name().name() == "text");
    named
        .filter_map(|node| Some(node.text()?.trim().to_owned()))
        .collect()
}

/// How bright a colour looks in grey, from 0 to 255 (ITU-R BT.601).
fn brightness(colour: RGBColor) -> f64 {
    0.299 * f64::from(colour.0) + 0.587 * f64::from(colour.1) + 0.114 * f64::from(colour.2)
}

#[test]
fn faster_is_darker_in_grey_too() {
    let grey: Vec<f64> = (0..=20)
        .map(|step| brightness(colour(f64::from(step) / 20.0)))
        .collect();
    assert!(
        grey.windows(2).all(|pair| pair[1] < pair[0] - 4.0),
        "{grey:?}"
    );
    assert!((depth(8.0, 8.0) - 1.0).abs() < 1e-9);
    assert!(depth(1.0, 8.0).abs() < 1e-9 && depth(0.1, 8.0).abs() < 1e-9);
    assert!((depth(4.0, 8.0) - depth(2.0, 8.0) - 1.0 / 3.0).abs() < 1e-9);
}

#[test]
fn figures_have_two_digits() {
    let shown = [66.4, 9.96, 9.94, 1.0, 0.996, 0.762, 0.05].map(figure);
    assert_eq!(shown, ["66", "10", "9.9", "1.0", "1.0", ".76", ".05"]);
}

#[test]
fn there_is_a_map_for_each_panel_with_a_figure_in_each_cell() {
    let run = sample::sizes();
    let search = run.search.as_ref().unwrap();
    let texts = texts(&chart(&run, search));
    let maps = texts.iter().filter(|text| *text == "pipe").count();
    assert_eq!(maps, 9);
    let figures = texts.iter().filter(|text| text.parse::<f64>().is_ok());
    assert_eq!(figures.count(), 9 * 99);
    for row in [
        "write and read, base pages",
        "vmsplice and splice, huge pages",
    ] {
        assert!(texts.iter().any(|text| text == row), "{row}: {texts:?}");
    }
}

#[test]
fn the_sizes_found_are_framed_in_each_map() {
    let run = sample::sizes();
    let svg = chart(&run, run.search.as_ref().unwrap());
    let RGBColor(r, g, b) = FOUND;
    let colour = format!("#{r:02X}{g:02X}{b:02X}");
    let document = roxmltree::Document::parse(&svg).unwrap();
    let framed = document
        .descendants()
        .filter(|node| node.attribute("stroke") == Some(&*colour));
    // Four lines each, and the legend's.
    assert_eq!(framed.count(), 4 * (9 + 1));
}

#[test]
fn what_was_not_tried_is_blank_and_said_to_be() {
    let mut run = sample::sizes();
    let said = |run: &Run| {
        let texts = texts(&chart(run, run.search.as_ref().unwrap()));
        let figures = texts.iter().filter(|text| text.parse::<f64>().is_ok());
        let blank = texts.iter().any(|text| text == "blank: not tried");
        (figures.count(), blank)
    };
    assert_eq!(said(&run), (9 * 99, false));
    let cell = &mut run.search.as_mut().unwrap().panels[2].cells[0];
    cell.trials.clear();
    cell.median = None;
    assert_eq!(said(&run), (9 * 99 - 1, true));
}

#[test]
fn a_refused_panel_is_named_with_its_reason() {
    let mut run = sample::sizes();
    let panel = &mut run.search.as_mut().unwrap().panels[2];
    panel.refused = Some("spinning needs two processors".to_owned());
    let texts = texts(&chart(&run, run.search.as_ref().unwrap()));
    let line = "write_read_spin: refused: spinning needs two processors";
    assert!(texts.iter().any(|text| text == line), "{texts:?}");
    assert_eq!(texts.iter().filter(|text| *text == "pipe").count(), 8);
}

#[test]
fn one_cell_and_none_are_drawn_without_fault() {
    let mut run = sample::sizes();
    let search = run.search.as_mut().unwrap();
    search.panels.truncate(1);
    search.buffers.truncate(1);
    search.pipes.truncate(1);
    search.panels[0].cells.truncate(1);
    chart(&run, run.search.as_ref().unwrap());
    let search = run.search.as_mut().unwrap();
    search.panels.clear();
    search.buffers.clear();
    search.pipes.clear();
    search.best.clear();
    chart(&run, run.search.as_ref().unwrap());
}
