//! Tests of the page as a document.

use std::collections::BTreeSet;

use itertools::Itertools as _;
use pipespeed_explain::pages::{self, Architecture, Scheme, Walk};
use pipespeed_explain::{costs, profile};
use pipespeed_host::{Warning, WarningKind};
use pipespeed_measure::comparison::compare;
use pipespeed_measure::fixtures::{self, within};
use pipespeed_measure::latency::spec::{ExchangeMode, Naive};
use pipespeed_measure::record::{Kind, NotRun, Ratio, Run};
use roxmltree::{Document, Node, ParsingOptions};

use super::*;
use crate::blocks::{Blocks, Conclusion, TableBlock};
use crate::{changes, checks, published};

mod lines;

/// Runs of the suites that a report measures.
fn runs() -> [Run; 6] {
    [
        fixtures::ladder(),
        fixtures::touched(),
        fixtures::sizes(),
        fixtures::channels(false),
        changes::tests::changes(),
        published::tests::of_options::run_of_options(),
    ]
}

/// One record of each other kind, and round trips that deadlock.
pub(super) fn others() -> [Saved; 6] {
    let scheme = Scheme::find(Architecture::X86_64, None).unwrap();
    let walk = pages::PagesRecord {
        header: fixtures::header(Kind::Pages),
        report: pages::PagesReport {
            walk: Some(Walk::new(0x0000_7f27_05af_93c0, scheme)),
            memory: None,
        },
    };
    let costs = costs::CostsRecord {
        header: fixtures::header(Kind::Costs),
        settings: costs::CostsSettings {
            rounds: 30,
            seed: 7,
            page_bytes: 4096,
        },
        warnings: Vec::new(),
        interrupted: None,
        costs_ns: crate::costs::tests::costs(),
    };
    let latency = |mode| Saved::Latency(Box::new(fixtures::latency_record(mode)));
    [
        latency(ExchangeMode::Closed),
        latency(ExchangeMode::Naive(Naive::ShortReads)),
        Saved::Check(Box::new(checks::tests::record())),
        Saved::Costs(Box::new(costs)),
        Saved::Pages(Box::new(walk)),
        Saved::Profile(Box::new(profile::fixtures::ladder())),
    ]
}

fn records(runs: impl IntoIterator<Item = Run>) -> Records {
    let runs = runs.into_iter().map(|run| Saved::Bench(Box::new(run)));
    Records::new(runs.chain(others()))
}

fn parse(page: &str) -> Document<'_> {
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(page, options).unwrap()
}

fn text(node: Node<'_, '_>) -> String {
    let texts = node.descendants().filter(Node::is_text);
    texts.filter_map(|text| text.text()).collect()
}

/// The elements of these names in a node.
fn elements<'a, 'b>(node: Node<'a, 'b>, names: &[&str]) -> Vec<Node<'a, 'b>> {
    let all = node.descendants();
    all.filter(|element| names.contains(&element.tag_name().name()))
        .collect()
}

/// The text of the page before its contents, a line for each block.
fn first_screen(records: &Records) -> String {
    let page = page(records, None);
    let (first, _) = page.split_once("<nav").unwrap();
    let page = format!("{first}</body></html>");
    let document = parse(&page);
    let blocks = ["h1", "h2", "p", "li", "figcaption", "summary"];
    let blocks = elements(document.root(), &blocks).into_iter();
    blocks.map(|block| text(block) + "\n").collect()
}

#[test]
fn the_first_screen_has_the_answer_the_steps_and_what_to_change() {
    insta::assert_snapshot!(first_screen(&records(runs())));
    let nothing = first_screen(&Records::default());
    assert!(nothing.contains("no changes to compare"), "{nothing}");
}

#[test]
fn only_certain_gains_are_changes_to_make() {
    let changes = |ratio: Ratio, control: Ratio| {
        let run = |mut run: Run| {
            for case in &mut run.cases {
                case.ratio = case.compared_with.is_some().then_some(ratio);
            }
            fixtures::set_control(&mut run, control);
            run
        };
        let text = first_screen(&records(runs().map(run)));
        ["Write 64KiB pieces", "In Rust", "Where both", "boost"].map(|words| text.contains(words))
    };
    for (ratio, shown) in [
        (within(1.21, 1.32, 1.43), [false, true, false, true]),
        (within(0.71, 0.82, 0.93), [true, false, false, false]),
        (within(0.98, 1.0, 1.02), [false; 4]),
        (within(0.91, 1.14, 1.36), [false; 4]),
    ] {
        assert_eq!(changes(ratio, within(0.99, 1.0, 1.01)), shown, "{ratio:?}");
        assert_eq!(changes(ratio, within(0.6, 1.0, 1.6)), [false; 4]);
    }
    // Another channel helps if it is faster than a pipe in its best sizes, too.
    let [_, touched, _, channels, ..] = runs();
    let is_shown = |runs: Vec<Run>| first_screen(&records(runs)).contains("Where both");
    assert!(is_shown(vec![channels.clone()]));
    assert!(!is_shown(vec![channels, touched]));
}

/// Asserts that a part of a page has the findings and the tables of a report.
fn has_blocks(part: &str, blocks: &Blocks<'_>) {
    for Conclusion { sentence, .. } in &blocks.findings {
        let item = html! { (sentence) }.into_string();
        assert!(part.contains(&format!("<li>{item}")), "{sentence}");
    }
    for TableBlock { name, table, .. } in &blocks.tables {
        assert!(part.contains(&table.html().into_string()), "{name}");
    }
}

#[test]
fn each_section_has_the_findings_and_tables_of_its_record() {
    let records = records(runs().into_iter().chain([fixtures::memory()]));
    let page = page(&records, None);
    let blocks: Vec<Blocks<'_>> = records.all().map(Saved::blocks).collect();
    for blocks in &blocks {
        has_blocks(&page, blocks);
    }
    assert!(
        blocks
            .iter()
            .map(|blocks| blocks.tables.len())
            .sum::<usize>()
            > 15
    );
}

#[test]
fn a_section_without_its_record_names_the_command_or_is_left_out() {
    let [_, _, check, ..] = others();
    let [empty, check] = [Records::default(), Records::new([check])].map(|all| page(&all, None));
    for topic in ["bench ladder", "check", "latency --naive", "profile"] {
        let line = format!("<code>{topic}</code>. Measure it with <code>pipespeed ");
        assert!(empty.contains(&line), "{topic}: {empty}");
        assert_eq!(check.contains(&line), topic != "check", "{topic}");
    }
    assert!(!empty.contains("id=\"volumes\""), "{empty}");
    let hint = "<code>pipespeed report --full</code>";
    for (count, is_shown) in [(0, true), (5, true), (6, false)] {
        let records = records(runs().into_iter().take(count));
        assert_eq!(page(&records, None).contains(hint), is_shown, "{count}");
    }
}

#[test]
fn another_machine_is_shown_as_compare_shows_it() {
    let [ladder, touched, ..] = runs();
    let mut other = ladder.clone();
    other.header.machine.kernel.release = Some("5.17.0".to_owned());
    fixtures::refuse(&mut other, "write_read", "only 1 processor");
    let there = records([other.clone()]);
    let page = page(&records([ladder.clone(), touched]), Some(&there));
    let (_, beside) = page.split_once("id=\"beside\"").unwrap();
    let comparison = compare("this machine", &ladder, "the other machine", &other);
    has_blocks(beside, &crate::compared::blocks(&comparison));
    assert!(beside.contains("Linux 5.17.0") && beside.contains("The suite ladder"));
    assert!(!beside.contains("The suite touched"), "{beside}");
}

#[test]
fn what_makes_figures_unreliable_is_an_alarm() {
    let [ladder, touched, ..] = runs();
    let warned = |warnings: &[(WarningKind, &str)]| {
        let mut run = touched.clone();
        run.warnings.clear();
        for (kind, words) in warnings {
            run.warnings.push(Warning::new(*kind, *words));
        }
        run
    };
    let guest = (WarningKind::Guest, "a guest");
    let before = (WarningKind::Busy, "others ran before");
    let during = (WarningKind::OtherLoad, "others ran during");
    let [mut older, mut suspect, mut cut] = [ladder.clone(), ladder.clone(), ladder];
    older.header.machine.kernel.release = Some("5.17.0".to_owned());
    fixtures::set_control(&mut suspect, within(1.2, 1.3, 1.4));
    cut.interrupted = Some("SIGINT".to_owned());
    for (runs, words) in [
        (vec![warned(&[guest])], ""),
        (
            vec![warned(&[guest, before])],
            "touched: others ran before.",
        ),
        (
            vec![warned(&[before, during])],
            "touched: others ran during.",
        ),
        (vec![older, warned(&[])], "of 2 machines or kernels."),
        (vec![suspect], "a case can't differ from itself"),
        (vec![cut], "ladder: it was interrupted"),
    ] {
        let runs = runs.into_iter().map(|run| Saved::Bench(Box::new(run)));
        let page = page(&Records::new(runs), None);
        let document = parse(&page);
        let alarms = elements(document.root(), &["aside"]);
        let alarm: String = alarms.into_iter().map(text).collect();
        assert_eq!(alarm.is_empty(), words.is_empty(), "{alarm}");
        assert!(alarm.contains(words), "{words}: {alarm}");
        let one = "Something may have disturbed these figures (1)";
        assert!(words.is_empty() || alarm.starts_with(one), "{alarm}");
    }
}

#[test]
fn a_page_needs_nothing_from_outside() {
    let here = records(runs());
    let page = page(&here, Some(&here));
    assert!(page.len() < 3 << 20, "{} bytes", page.len());
    // The documents in frames are escaped.
    let bare = page.replace("&lt;", "<").replace("&quot;", "\"");
    for word in [
        " src=", "srcset=", "<link", "<img", "<object", "<base", "@import", "url(http", "url(\"",
    ] {
        assert!(!bare.contains(word), "{word}");
    }
    let links = bare.split("href=\"").skip(1);
    for link in links.filter(|link| !link.starts_with('#')) {
        assert!(link.starts_with("https://mazzo.li/posts/fast-pipes.html\""));
    }
    assert_eq!(page.matches("<script>").count(), 1, "our own");
    assert!(page.contains(SCRIPT));
    let frames = page.matches("<iframe class=\"flame\"").count();
    assert_eq!(frames, profile::fixtures::ladder().cases.len());
    assert_eq!(page.matches(" sandbox=\"allow-scripts\"").count(), frames);
}

#[test]
fn a_warning_of_several_records_is_shown_once() {
    let [ladder, touched, ..] = runs();
    let both = [ladder, touched].map(|mut run| {
        run.warnings = vec![Warning::new(WarningKind::Guest, "a guest")];
        Saved::Bench(Box::new(run))
    });
    let page = page(&Records::new(both), None);
    assert_eq!(page.matches("a guest").count(), 1, "{page}");
}

#[test]
fn headings_are_in_order_and_every_chart_has_a_table() {
    let page = page(&records(runs()), None);
    let document = parse(&page);
    let root = document.root();
    let headings = elements(root, &["h1", "h2", "h3"]).into_iter();
    let levels: Vec<&str> = headings.map(|node| node.tag_name().name()).collect();
    assert_eq!(levels.iter().filter(|level| **level == "h1").count(), 1);
    assert!(!levels.windows(2).any(|pair| pair == ["h1", "h3"]));
    let attributes = |name| {
        root.descendants()
            .filter_map(move |node| node.attribute(name))
    };
    let ids: BTreeSet<&str> = attributes("id").collect();
    assert!(attributes("id").all_unique() && attributes("aria-label").all_unique());
    let mut targets = attributes("href").filter_map(|link| link.strip_prefix('#'));
    assert!(targets.all(|id| ids.contains(id)));
    let figures = elements(root, &["figure"]);
    assert_eq!(figures.len(), 9);
    for figure in figures {
        assert_eq!(elements(figure, &["svg"]).len(), 2, "wide and narrow");
        let divs = elements(figure, &["div"]).into_iter();
        let hidden = divs.filter(|div| div.has_attribute("hidden"));
        assert_eq!(hidden.count(), 1, "without a style sheet one is shown");
        assert!(!elements(figure, &["td"]).is_empty(), "{}", text(figure));
        assert!(!text(elements(figure, &["figcaption"])[0]).is_empty());
    }
}

#[test]
fn names_of_others_are_escaped() {
    let hostile = "</code><script>alert(1)</script>&\u{1b}[2J\u{202e}";
    let all = runs().map(|mut run| {
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
        run.warnings = vec![Warning::new(WarningKind::Guest, hostile)];
        run
    });
    let page = page(&records(all), None);
    assert_eq!(
        elements(parse(&page).root(), &["script"]).len(),
        1,
        "our own"
    );
    assert!(!page.contains(['\u{1b}', '\u{202e}']));
}

#[test]
fn files_are_left_out_of_command_lines() {
    let command = "pipespeed bench --json dir/a.json sizes --csv=b.csv --quick -q";
    let command: Vec<String> = command.split(' ').map(str::to_owned).collect();
    assert_eq!(
        method::without_files(&command),
        "pipespeed bench sizes --quick"
    );
}
