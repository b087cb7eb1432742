use std::collections::BTreeSet;

use pipespeed_explain::check::{self, CheckGroup, Checked};
use pipespeed_explain::costs::{self, Cost, Costs};
use pipespeed_explain::pages::{self, Architecture, Scheme, Walk};
use pipespeed_explain::profile;
use pipespeed_measure::fixtures::{self, estimate, within};
use pipespeed_measure::latency::spec::{ExchangeMode, Naive};
use pipespeed_measure::record::{Doubt, Ends, Kind, NotRun, Ratio, Run, SavedFile, to_json};
use pipespeed_measure::spec::{Channel, DataUse, Suite};
use roxmltree::{Document, Node, ParsingOptions};
use serde_json::Value;

use super::claim::ClaimBasis;
use super::*;

mod doubts;
mod lines;
mod saved;
mod structure;

const OUTCOMES: [ClaimBasis; 5] = [
    ClaimBasis::Faster,
    ClaimBasis::Slower,
    ClaimBasis::Same,
    ClaimBasis::Undecided,
    ClaimBasis::Refused,
];

fn changes() -> Run {
    use pipespeed_measure::suite::changes::{BASELINE, COMBINED, Change};
    let made = |change: Change, rate| {
        let ratio = fixtures::ratio(rate / 0.763);
        fixtures::case(change.name(), rate, Some((BASELINE, change.words(), ratio)))
    };
    let (one, large) = (Change::OneProcessor, Change::LargePipe);
    let both = format!("{} + {}", one.words(), large.words());
    let both = Some((BASELINE, &*both, fixtures::ratio(7.7 / 0.763)));
    let mut run = fixtures::run(
        Suite::Changes,
        vec![
            fixtures::case(BASELINE, 0.763, None),
            made(one, 6.9),
            made(large, 1.9),
            made(Change::SmallPieces, 0.5),
            made(Change::Drained, 9.1),
            fixtures::case(COMBINED, 7.7, both),
        ],
    );
    for case in &mut run.cases {
        case.data = DataUse::Touch;
        let configuration = &mut case.configuration;
        if [one.name(), COMBINED].contains(&&*case.name) {
            (configuration.writer_cpu, configuration.reader_cpu) = (Some(2), Some(2));
        }
        if case.name == Change::Drained.name() {
            configuration.ends = Ends::Channel(Channel::VMSPLICE);
        }
    }
    run
}

fn checks() -> check::CheckRecord {
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
            CheckGroup::Limits,
            check::CheckResult::seen("65536 bytes"),
        ),
        checked(
            "epipe",
            CheckGroup::Semantics,
            check::CheckResult::pass("EPIPE"),
        ),
        checked(
            "vmsplice",
            CheckGroup::Permissions,
            check::CheckResult::refused("EPERM"),
        ),
    ];
    check::CheckRecord::new(fixtures::header(Kind::Check), all, 0.8)
}

fn costs() -> costs::CostsRecord {
    costs::CostsRecord {
        header: fixtures::header(Kind::Costs),
        settings: costs::CostsSettings {
            rounds: 30,
            seed: 7,
            page_bytes: 4096,
        },
        warnings: Vec::new(),
        interrupted: None,
        costs_ns: Costs {
            write: Cost::new(401.0),
            read: Cost::new(433.0),
            vmsplice_base: Cost::new(61.7),
            vmsplice_huge: Cost::new(13.9),
            wake_up_same: Cost::new(2_310.0),
            wake_up_other: Cost::new(27_100.0),
            ..Costs::default()
        },
    }
}

fn walk() -> pages::PagesRecord {
    let scheme = Scheme::find(Architecture::X86_64, None).unwrap();
    pages::PagesRecord {
        header: fixtures::header(Kind::Pages),
        report: pages::PagesReport {
            walk: Some(Walk::new(0x0000_7f27_05af_93c0, scheme)),
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
    let naive = fixtures::latency_record(ExchangeMode::Naive(Naive::ShortReads));
    vec![
        Saved::Latency(Box::new(fixtures::latency_record(ExchangeMode::Closed))),
        Saved::Latency(Box::new(naive)),
        Saved::Check(Box::new(checks())),
        Saved::Costs(Box::new(costs())),
        Saved::Pages(Box::new(walk())),
        Saved::Profile(Box::new(profile::fixtures::ladder())),
    ]
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

fn records(runs: impl IntoIterator<Item = Run>) -> Records {
    let runs = runs.into_iter().map(|run| Saved::Bench(Box::new(run)));
    Records::new(runs.chain(others()))
}

/// Gives every comparison of a run the same outcome.
fn with_outcome(mut run: Run, outcome: ClaimBasis) -> Run {
    let (low, median, high) = match outcome {
        ClaimBasis::Faster => (1.21, 1.32, 1.43),
        ClaimBasis::Slower => (0.71, 0.82, 0.93),
        ClaimBasis::Same => (0.98, 1.0, 1.02),
        ClaimBasis::Undecided | ClaimBasis::Refused => (0.91, 1.14, 1.36),
    };
    for case in &mut run.cases {
        let is_compared = case.compared_with.is_some();
        if outcome != ClaimBasis::Refused {
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
            // The page shows a change as a gain, even if the record has the inverse ratio.
            let mut all = known.iter();
            let is_known = all.any(|known| *known == value || 1.0 / *known == value);
            assert!(is_known, "{value} ({text}) is in no record");
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
fn of_several_walks_one_to_a_huge_page_is_shown() {
    let invented = walk();
    let mut real = walk();
    real.report.memory = Some(pages::MemoryRange {
        pid: None,
        mappings: Vec::new(),
        page_bytes: 4096,
        pages: Vec::new(),
        runs: None,
        hidden: Vec::new(),
    });
    let newer = pages::PagesRecord {
        header: fixtures::header(Kind::Pages),
        ..invented
    };
    let saved = |record: &pages::PagesRecord| Saved::Pages(Box::new(record.clone()));
    for both in [[&real, &newer], [&newer, &real]] {
        let records = Records::new(both.map(saved));
        assert!(records.pages().unwrap().memory.is_some());
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
fn only_a_page_that_lacks_records_names_the_command_for_all() {
    let hint = "<code>pipespeed report --full</code>";
    assert!(!page(&records(runs()), None).contains(hint));
    let all = runs();
    assert!(page(&records(all[..5].to_vec()), None).contains(hint));
}
