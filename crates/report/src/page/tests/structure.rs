//! The page as a document.

use super::*;

#[test]
fn a_page_needs_nothing_from_outside() {
    let here = records(runs());
    let text = page(&here, Some(&here));
    assert!(text.len() < 3 << 20, "{} bytes", text.len());
    let document = parse(&text);
    for node in document.descendants() {
        for attribute in node.attributes() {
            let is_link = attribute.name() == "href";
            let to_itself = attribute.value().starts_with('#') || attribute.value() == ARTICLE;
            assert!(!is_link || to_itself, "{attribute:?}");
            assert!(!["src", "srcset", "data", "style"].contains(&attribute.name()));
        }
        let name = node.tag_name().name();
        assert!(!["link", "img", "object", "base"].contains(&name), "{name}");
    }
    let scripts = elements(&document, "script");
    assert_eq!(scripts.len(), 1);
    assert_eq!(scripts[0].text(), Some(SCRIPT));
    let frames = elements(&document, "iframe");
    assert_eq!(frames.len(), profile::fixtures::ladder().cases.len());
    for frame in frames {
        assert_eq!(frame.attribute("sandbox"), Some("allow-scripts"));
        let graph = frame.attribute("srcdoc").unwrap();
        assert!(graph.contains("<script"), "{graph}");
        for word in [
            " src=",
            "<link",
            "<img",
            "@import",
            "url(http",
            "href=\"http",
        ] {
            assert!(!graph.contains(word), "{word} in {graph}");
        }
    }
    for word in ["url(", "@import", "http-equiv"] {
        let of_page = text
            .split("srcdoc=")
            .map(|part| part.rsplit("</iframe>").next());
        assert!(of_page.flatten().all(|part| !part.contains(word)), "{word}");
    }
}

#[test]
fn headings_are_in_order_and_every_chart_has_a_table() {
    let text = page(&records(runs()), None);
    let document = parse(&text);
    let levels = document.descendants().filter_map(|node| {
        let name = node.tag_name().name();
        name.strip_prefix('h')
            .and_then(|level| level.parse::<u32>().ok())
    });
    let levels: Vec<u32> = levels.collect();
    assert_eq!(levels.iter().filter(|level| **level == 1).count(), 1);
    assert!(
        levels.windows(2).all(|pair| pair[1] <= pair[0] + 1),
        "{levels:?}"
    );
    let ids: Vec<&str> = document
        .descendants()
        .filter_map(|it| it.attribute("id"))
        .collect();
    let unique: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(unique.len(), ids.len());
    for node in elements(&document, "a") {
        let target = node.attribute("href").unwrap().strip_prefix('#');
        assert!(target.is_none_or(|id| unique.contains(id)), "{target:?}");
    }
    let figures = elements(&document, "figure");
    assert_eq!(figures.len(), 9);
    for figure in figures {
        assert_eq!(elements_in(figure, "svg").len(), 2, "wide and narrow");
        let divs = elements_in(figure, "div");
        let hidden = divs.iter().filter(|div| div.has_attribute("hidden"));
        assert_eq!(hidden.count(), 1, "without a style sheet one is shown");
        for name in ["svg", "figcaption", "table", "td"] {
            let has = figure.descendants().any(|it| it.tag_name().name() == name);
            assert!(has, "{name} in {}", text_without(figure, &[]));
        }
    }
    let labels = document
        .descendants()
        .filter_map(|it| it.attribute("aria-label"));
    let labels: Vec<&str> = labels.collect();
    assert_eq!(
        labels.iter().collect::<BTreeSet<_>>().len(),
        labels.len(),
        "{labels:#?}"
    );
}

#[test]
fn names_of_others_are_escaped() {
    let hostile = "</code><script>alert(1)</script>&\u{1b}[2J\u{202e}";
    let mut all = runs();
    for run in &mut all {
        run.header.command = vec![hostile.to_owned()];
        run.header.machine.processors.model = Some(hostile.to_owned());
        for case in &mut run.cases {
            case.not_run = Some(NotRun::refused(hostile));
            case.description = hostile.to_owned();
            case.factor = Some(hostile.to_owned());
        }
        for case in run.cases.iter_mut().skip(3) {
            (case.summary, case.ratio) = (None, None);
        }
        run.warnings = vec![pipespeed_host::Warning::new(WarningKind::Guest, hostile)];
    }
    let text = page(&records(all), None);
    let document = parse(&text);
    let scripts = elements(&document, "script");
    assert_eq!(scripts.len(), 1, "our own");
    assert!(!text.contains(['\u{1b}', '\u{202e}']));
}
