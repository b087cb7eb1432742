use std::collections::BTreeSet;

use pipespeed_explain::check::{self, Checked, Group};
use pipespeed_explain::costs::{self, Cost, Costs};
use pipespeed_explain::pages::{self, Architecture, Scheme, Walk, Wanted};
use pipespeed_explain::profile;
use pipespeed_measure::fixtures::{self, estimate, within};
use pipespeed_measure::latency::spec::{Mode, Naive};
use pipespeed_measure::record::{Kind, NotRun, Run, SavedFile, to_json};
use pipespeed_measure::suite::Suite;
use roxmltree::{Document, Node, ParsingOptions};
use serde_json::Value;

use super::claim::Outcome;
use super::*;

mod lines;

const OUTCOMES: [Outcome; 5] = [
    Outcome::Faster,
    Outcome::Slower,
    Outcome::Same,
    Outcome::Undecided,
    Outcome::Refused,
];

fn changes() -> Run {
    use pipespeed_measure::suite::changes::{BASELINE, Change};
    let made = |change: Change, rate| {
        let ratio = fixtures::ratio(rate / 0.763);
        fixtures::case(change.name(), rate, Some((BASELINE, change.words(), ratio)))
    };
    fixtures::run(
        Suite::Changes,
        vec![
            fixtures::case(BASELINE, 0.763, None),
            made(Change::OneProcessor, 6.9),
            made(Change::LargePipe, 1.9),
            made(Change::SmallPieces, 0.5),
            made(Change::Drained, 9.1),
        ],
    )
}

fn checks() -> check::Record {
    let checked = |name: &'static str, group, outcome| Checked {
        name: name.into(),
        group,
        statement: "what a new pipe takes".into(),
        outcome,
        reference: "pipe(7)".into(),
        seconds: 0.01,
    };
    let all = vec![
        checked(
            "default-capacity",
            Group::Limits,
            check::Outcome::seen("65536 bytes"),
        ),
        checked("epipe", Group::Semantics, check::Outcome::pass("EPIPE")),
        checked(
            "vmsplice",
            Group::Permissions,
            check::Outcome::refused("EPERM"),
        ),
    ];
    check::Record::new(fixtures::header(Kind::Check), all, 0.8)
}

fn costs() -> costs::Record {
    costs::Record {
        header: fixtures::header(Kind::Costs),
        settings: costs::Settings {
            rounds: 30,
            seed: 7,
            page_bytes: 4096,
        },
        warnings: Vec::new(),
        interrupted: None,
        costs_ns: Costs {
            write: Cost::of(401.0),
            read: Cost::of(433.0),
            vmsplice_base: Cost::of(61.7),
            vmsplice_huge: Cost::of(13.9),
            wake_up_same: Cost::of(2_310.0),
            wake_up_other: Cost::of(27_100.0),
            ..Costs::default()
        },
    }
}

fn walk() -> pages::Record {
    let scheme = Scheme::find(Architecture::X86_64, Wanted::default()).unwrap();
    pages::Record {
        header: fixtures::header(Kind::Pages),
        report: pages::Report {
            walk: Walk::of(0x0000_7f27_05af_93c0, scheme),
            memory: None,
        },
    }
}

/// The published options, two of them with other ends.
fn options() -> Run {
    let base = "vmsplice_splice_spin";
    let option = |name: &str, factor: &str, base: &str| {
        fixtures::case(name, 30.0, Some((base, factor, fixtures::ratio(0.9))))
    };
    fixtures::run(
        Suite::Options,
        vec![
            fixtures::case(base, 33.0, None),
            option("untouched", "untouched buffers", base),
            option("gift", "gifted pages", base),
            option("unaligned", "unaligned buffers", base),
            option("busy_loop_huge", "huge pages", base),
            option(
                "poll_huge",
                "poll(2) before each transfer",
                "busy_loop_huge",
            ),
        ],
    )
}

fn runs() -> [Run; 6] {
    [
        fixtures::ladder(),
        fixtures::touched(),
        fixtures::sizes(),
        fixtures::channels(false),
        changes(),
        options(),
    ]
}

fn others() -> Vec<Saved> {
    let naive = fixtures::latency_record(Mode::Naive(Naive::ShortReads));
    vec![
        Saved::Latency(Box::new(fixtures::latency_record(Mode::Closed))),
        Saved::Latency(Box::new(naive)),
        Saved::Check(Box::new(checks())),
        Saved::Costs(Box::new(costs())),
        Saved::Pages(Box::new(walk())),
        Saved::Profile(Box::new(profile::fixtures::ladder())),
    ]
}

fn records(runs: impl IntoIterator<Item = Run>) -> Records {
    let runs = runs.into_iter().map(|run| Saved::Bench(Box::new(run)));
    Records::new(runs.chain(others()))
}

/// A record as JSON.
fn json(saved: &Saved) -> String {
    match saved {
        Saved::Bench(run) => to_json(run),
        Saved::Check(record) => to_json(record),
        Saved::Latency(record) => to_json(record),
        Saved::Costs(record) => to_json(record),
        Saved::Profile(record) => to_json(record),
        Saved::Pages(record) => to_json(record),
    }
}

/// The record or the error of a file with this text.
fn load(text: &str) -> Result<Option<Saved>, String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("record.json");
    std::fs::write(&path, text).unwrap();
    Saved::parse(&SavedFile::read(path).unwrap()).map_err(|error| error.to_string())
}

#[test]
fn records_of_every_kind_survive_saving_and_loading() {
    let runs = runs().map(|run| Saved::Bench(Box::new(run)));
    for saved in runs.into_iter().chain(others()) {
        let text = json(&saved);
        // Not assert_eq: a record takes pages to show.
        assert!(
            json(&load(&text).unwrap().unwrap()) == text,
            "{}",
            &text[..400]
        );
    }
}

#[test]
fn records_that_a_page_has_no_use_for_are_left_out_and_damaged_ones_refused() {
    let text = json(&Saved::Check(Box::new(checks())));
    for (kind, words) in [
        ("bench", "a damaged record (missing field"),
        ("odd", "a damaged record (unknown variant `odd`"),
    ] {
        let other = text.replace("\"kind\": \"check\"", &format!("\"kind\": \"{kind}\""));
        let error = load(&other).unwrap_err();
        assert!(error.contains(words) && !error.contains('\n'), "{error}");
    }
    let doctor = text.replace("\"kind\": \"check\"", "\"kind\": \"doctor\"");
    assert_eq!(load(&doctor), Ok(None));
}

/// Gives every comparison of a run the same outcome.
fn with_outcome(mut run: Run, outcome: Outcome) -> Run {
    let (low, median, high) = match outcome {
        Outcome::Faster => (1.21, 1.32, 1.43),
        Outcome::Slower => (0.71, 0.82, 0.93),
        Outcome::Same => (0.98, 1.0, 1.02),
        Outcome::Undecided | Outcome::Refused => (0.91, 1.14, 1.36),
    };
    for case in &mut run.cases {
        let is_compared = case.compared_with.is_some();
        if outcome != Outcome::Refused {
            case.ratio = is_compared.then(|| within(low, median, high));
            if let Some(summary) = &mut case.summary
                && case.name == "write_read"
            {
                // Beside the published 3.5 to 3.7.
                summary.gib_per_s = estimate(3.6 * low, 3.6 * median, 3.6 * high);
            }
        } else if is_compared || case.name == "write_read" {
            case.not_run = Some(NotRun::refused("only 1 processor"));
            case.samples.clear();
            (case.summary, case.ratio) = (None, None);
        }
    }
    run
}

fn parse(page: &str) -> Document<'_> {
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(page, options).unwrap()
}

/// The text of a node, without that of elements of these names.
fn text_without(node: Node<'_, '_>, names: &[&str]) -> String {
    let texts = node.descendants().filter(|it| it.is_text());
    let texts = texts.filter(|text| {
        let mut above = text.ancestors();
        !above.any(|it| names.contains(&it.tag_name().name()))
    });
    texts.filter_map(|it| it.text()).collect()
}

fn elements<'a, 'b>(document: &'a Document<'b>, name: &str) -> Vec<Node<'a, 'b>> {
    let all = document.descendants();
    all.filter(|it| it.tag_name().name() == name).collect()
}

fn elements_in<'a, 'b>(node: Node<'a, 'b>, name: &str) -> Vec<Node<'a, 'b>> {
    let all = node.descendants();
    all.filter(|it| it.tag_name().name() == name).collect()
}

/// The claims of a page: name, verdict, node.
fn claims_of<'a, 'b>(document: &'a Document<'b>) -> Vec<(&'a str, &'a str, Node<'a, 'b>)> {
    let all = document.descendants();
    all.filter_map(|node| {
        let name = node.attribute("data-claim")?;
        Some((name, node.attribute("data-verdict")?, node))
    })
    .collect()
}

#[test]
fn every_claim_has_a_verb_for_each_verdict() {
    let verbs = ["faster", "slower", "the same", "undecided", "not measured"];
    let mut names = Vec::new();
    for (outcome, verb) in OUTCOMES.into_iter().zip(verbs) {
        let text = page(&records(runs().map(|run| with_outcome(run, outcome))), None);
        let document = parse(&text);
        let found = claims_of(&document);
        for (name, verdict, node) in &found {
            let sentence = text_without(*node, &["q", "span"]);
            let expected = if sentence.contains("best sizes found") {
                ("same", "the same")
            } else {
                (outcome.name(), verb)
            };
            assert_eq!(*verdict, expected.0, "{name}: {sentence}");
            let contained = verbs.into_iter().filter(|verb| sentence.contains(verb));
            assert_eq!(
                contained.collect::<Vec<_>>(),
                [expected.1],
                "{name}: {sentence}"
            );
        }
        names.push(
            found
                .iter()
                .map(|it| it.0.to_owned())
                .collect::<BTreeSet<_>>(),
        );
    }
    for of_outcome in &names {
        assert_eq!(of_outcome, &names[0]);
    }
    insta::assert_debug_snapshot!(names[0]);
}

/// All numbers of a record.
fn numbers(value: &Value, found: &mut Vec<f64>) {
    match value {
        Value::Number(number) => found.extend(number.as_f64()),
        Value::Array(all) => all.iter().for_each(|it| numbers(it, found)),
        Value::Object(all) => all.values().for_each(|it| numbers(it, found)),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// The value of a number as shown, in the unit of records.
fn value_of(shown: &str) -> f64 {
    let plain = shown.strip_prefix('x').unwrap_or(shown);
    let (number, unit) = plain.split_once('\u{a0}').unwrap_or((plain, ""));
    let scale = match unit {
        "" | "GiB/s" | "us" | "ns" | "bytes" => 1.0,
        "ms" => 1e-3,
        "%" => 1e-2,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        unit => panic!("{unit}"),
    };
    number.parse::<f64>().unwrap() * scale
}

#[test]
fn every_number_is_one_of_the_records() {
    for outcome in OUTCOMES {
        let records = records(runs().map(|run| with_outcome(run, outcome)));
        let mut known = Vec::new();
        for saved in records.all() {
            numbers(&serde_json::from_str(&json(saved)).unwrap(), &mut known);
        }
        let text = page(&records, None);
        let document = parse(&text);
        let shown = elements(&document, "data");
        assert!(shown.len() > 50);
        for node in shown {
            let text = node.text().unwrap();
            let value: f64 = node.attribute("value").unwrap().parse().unwrap();
            if node.attribute("class") == Some("published") {
                continue;
            }
            assert!(known.contains(&value), "{value} ({text}) is in no record");
            let found = value_of(text);
            let tolerance = f64::max(0.0051, 0.0051 * value.abs());
            assert!((found - value).abs() <= tolerance, "{text} for {value}");
        }
        // Numbers of a claim outside of those are quoted: names, and texts of the record.
        for (name, _, node) in claims_of(&document) {
            let text = text_without(node, &["data", "q", "em", "code"]);
            assert!(
                !text.contains(|c: char| c.is_ascii_digit()),
                "{name}: {text}"
            );
        }
    }
}

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

/// The text of a page, a line for each block.
fn lines(document: &Document<'_>) -> String {
    let blocks = ["h1", "h2", "h3", "p", "li", "figcaption", "pre"];
    let nodes = document.descendants();
    let nodes = nodes.filter(|it| blocks.contains(&it.tag_name().name()));
    let lines = nodes.map(|node| {
        let text = text_without(node, &[]).replace('\u{a0}', " ");
        let prefix = match node.tag_name().name() {
            "h1" => "\n# ",
            "h2" => "\n## ",
            "h3" => "\n### ",
            "figcaption" => "[chart] ",
            _ => "",
        };
        format!("{prefix}{text}\n")
    });
    lines.collect()
}

#[test]
fn the_text_tells_the_whole_story() {
    let text = page(&records(runs()), None);
    insta::assert_snapshot!(lines(&parse(&text)));
}

#[test]
fn each_missing_record_is_named_with_its_command() {
    let text = page(&Records::default(), None);
    insta::assert_snapshot!(lines(&parse(&text)));
    let text = page(&Records::new([Saved::Check(Box::new(checks()))]), None);
    assert!(!text.contains("check --json"), "{text}");
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

#[test]
fn the_newest_of_several_records_is_used() {
    let old = fixtures::ladder();
    let mut new = old.clone();
    new.header.started_at = "2026-03-15T00:00:00Z".to_owned();
    for both in [[old.clone(), new.clone()], [new.clone(), old]] {
        let records = records(both);
        assert_eq!(records.run(Suite::Ladder), Some(&new));
        let text = page(&records, None);
        assert!(
            text.contains("bench ladder of 2026-03-14T09:26:53Z"),
            "{text}"
        );
    }
}

#[test]
fn records_of_two_machines_and_a_suspect_run_are_alarms() {
    let [mut ladder, touched, ..] = runs();
    ladder.header.machine.kernel.release = Some("5.17.0".to_owned());
    let control = ladder.null_control.as_mut().unwrap();
    control.ratio = Some(within(1.2, 1.3, 1.4));
    let text = page(&records([ladder, touched]), None);
    for words in ["machines or kernels", "a case differs from itself"] {
        assert!(text.contains(words), "{words}");
    }
}

#[test]
fn a_difference_that_the_null_control_shows_too_is_undecided() {
    let mut run = with_outcome(fixtures::ladder(), Outcome::Faster);
    let control = run.null_control.as_mut().unwrap();
    control.ratio = Some(within(0.7, 1.0, 1.5));
    let text = page(&records([run]), None);
    let document = parse(&text);
    let claims = claims_of(&document);
    let (_, verdict, node) = claims.iter().find(|claim| claim.0 == "spinning").unwrap();
    let sentence = text_without(*node, &[]);
    assert_eq!(*verdict, "undecided");
    assert!(
        sentence.contains("a case differs from itself by as much"),
        "{sentence}"
    );
}

#[test]
fn tables_and_charts_allow_for_the_null_control_as_claims_do() {
    let mut run = with_outcome(fixtures::ladder(), Outcome::Slower);
    let control = run.null_control.as_mut().unwrap();
    control.ratio = Some(within(0.7, 1.0, 1.5));
    let text = page(&records([run]), None);
    let document = parse(&text);
    for cell in elements(&document, "td") {
        let text = text_without(cell, &[]);
        assert!(!text.starts_with("slower than"), "{text}");
    }
    // The plain pipe is compared with the published rates.
    let claims = claims_of(&document).into_iter();
    for (name, verdict, _) in claims.filter(|claim| claim.0 != "plain-pipe") {
        assert!(verdict != "slower", "{name}");
    }
}

#[test]
fn of_several_walks_one_to_a_huge_page_is_shown() {
    let invented = walk();
    let mut real = walk();
    real.report.walk.address += 4096;
    real.report.memory = Some(pages::Memory {
        pid: None,
        mappings: Vec::new(),
        page_bytes: 4096,
        pages: Vec::new(),
        runs: None,
        hidden: Vec::new(),
    });
    let newer = pages::Record {
        header: fixtures::header(Kind::Pages),
        ..invented
    };
    let saved = |record: &pages::Record| Saved::Pages(Box::new(record.clone()));
    for both in [[&real, &newer], [&newer, &real]] {
        let records = Records::new(both.map(saved));
        assert_eq!(records.pages(), Some(&real.report));
    }
    let text = page(&Records::new([saved(&newer)]), None);
    assert!(text.contains("The walk to an address."), "{text}");
}

#[test]
fn another_machine_is_shown_beside() {
    let [ladder, touched, ..] = runs();
    let mut other = ladder.clone();
    other.header.machine.kernel.release = Some("5.17.0".to_owned());
    fixtures::refuse(&mut other, "write_read", "only 1 processor");
    let other = records([other, touched.clone()]);
    let text = page(&records([ladder, touched]), Some(&other));
    let document = parse(&text);
    let sections = elements(&document, "section");
    let beside = sections
        .into_iter()
        .find(|it| it.attribute("aria-labelledby") == Some("beside"));
    let beside = beside.unwrap();
    let rows: Vec<String> = elements_in(beside, "tr")
        .into_iter()
        .map(|row| {
            let cells = row.children().map(|cell| text_without(cell, &[]));
            cells.collect::<Vec<_>>().join(" | ")
        })
        .collect();
    insta::assert_snapshot!(rows.join("\n"));
}

#[test]
fn files_are_left_out_of_command_lines() {
    let words = [
        "pipespeed",
        "bench",
        "--json",
        "dir/a.json",
        "sizes",
        "--csv=b.csv",
        "--quick",
        "-q",
    ];
    let command = words.map(str::to_owned);
    assert_eq!(without_files(&command), "pipespeed bench sizes --quick");
}

#[test]
fn an_interval_from_too_few_rounds_is_not_said_to_contain_equal_rates() {
    let mut run = fixtures::ladder();
    for case in &mut run.cases {
        if let Some(ratio) = &mut case.ratio {
            *ratio = within(1.2, 1.3, 1.4);
            ratio.verdict = Verdict::Undecided;
        }
    }
    let text = page(&records([run]), None);
    let document = parse(&text);
    let claims = claims_of(&document).into_iter();
    let of_ladder = claims.filter(|claim| claim.0 == "spinning" || claim.0 == "splice");
    let sentences: Vec<String> = of_ladder.map(|claim| text_without(claim.2, &[])).collect();
    assert_eq!(sentences.len(), 2);
    for sentence in sentences {
        assert!(
            sentence.contains("from too few rounds for a verdict"),
            "{sentence}"
        );
    }
}

#[test]
fn a_disturbance_of_any_record_is_an_alarm() {
    let mut disturbed = fixtures::latency_record(Mode::Closed);
    let warning = pipespeed_host::Warning::new(WarningKind::OtherLoad, "others ran");
    disturbed.warnings = vec![warning];
    let text = page(&Records::new([Saved::Latency(Box::new(disturbed))]), None);
    let document = parse(&text);
    let alarms = document.descendants();
    let mut alarms = alarms.filter(|it| it.attribute("class") == Some("alarm"));
    let alarm = text_without(alarms.next().unwrap(), &[]);
    assert!(
        alarm.contains("latency. The first of them notes: others ran."),
        "{alarm}"
    );
    assert!(alarms.next().is_none());
}

#[test]
fn a_warning_of_several_records_is_shown_once() {
    let warning = || pipespeed_host::Warning::new(WarningKind::Guest, "this is a guest of many");
    let with_warning = |mut run: Run| {
        run.warnings = vec![warning()];
        Saved::Bench(Box::new(run))
    };
    let both = [fixtures::touched(), fixtures::sizes()].map(with_warning);
    let text = page(&Records::new(both), None);
    assert_eq!(text.matches("this is a guest of many").count(), 1);
}

#[test]
fn only_a_page_that_lacks_records_names_the_command_for_all() {
    let hint = "<code>pipespeed report --full</code>";
    assert!(!page(&records(runs()), None).contains(hint));
    let all = runs();
    assert!(page(&records(all[..5].to_vec()), None).contains(hint));
}
