//! `report`: which files it takes, and where it puts the page.

use std::fs;

use crate::common::records::{Records, run};
use pipespeed_measure::suite::Suite;

fn page(records: &Records, args: &str) -> String {
    let outcome = records.pipespeed(&format!("report {args} -o -"));
    outcome.succeeded_in_silence().out
}

#[test]
fn a_page_of_saved_records_says_what_else_could_be_measured() {
    let records = Records::new();
    let outcome = records
        .pipespeed("report old.json -o page.html")
        .succeeded();
    assert_eq!(
        (&*outcome.out, outcome.err.trim_end()),
        ("", "saved: page.html")
    );
    let text = fs::read_to_string(records.0.path().join("page.html")).unwrap();
    assert!(text.starts_with("<!DOCTYPE html>") && text.ends_with("</html>\n"));
    assert!(text.contains("data-claim=\"spinning\""));
    assert!(text.contains("pipespeed bench touched --json"), "{text}");
    assert_eq!(page(&records, "old.json"), text);
    // With the missing record the line is gone.
    records.save("touched.json", &run(Suite::Touched, &[]));
    let both = page(&records, "old.json touched.json");
    assert!(!both.contains("pipespeed bench touched --json"));
    assert!(both.contains("data-claim=\"published-sizes\""));
}

#[test]
fn a_page_has_a_new_name_unless_one_is_given() {
    let records = Records::new();
    for _ in 0..2 {
        let outcome = records.pipespeed("report old.json").succeeded();
        assert!(outcome.err.starts_with("saved: pipespeed-results/report-"));
        assert!(outcome.err.trim_end().ends_with(".html"), "{outcome:#?}");
    }
    let saved = fs::read_dir(records.0.path().join("pipespeed-results")).unwrap();
    assert_eq!(saved.count(), 2);
    let quiet = records.pipespeed("report old.json -q -o page.html");
    quiet.succeeded_in_silence();
}

#[test]
fn a_record_of_a_command_can_be_used_as_it_is() {
    let records = Records::new();
    let check = "check --only epipe --json check.json --quiet";
    records.pipespeed(check).succeeded();
    let pages = "pages --buffer 8K --json pages.json";
    records.pipespeed(pages).succeeded();
    let text = page(&records, "check.json pages.json");
    assert!(
        text.contains("<code>pipespeed check --only epipe"),
        "{text}"
    );
    assert!(text.contains("The walk to address"), "{text}");
}

#[test]
fn a_file_that_is_no_record_is_refused_in_one_line() {
    let records = Records::new();
    let path = |name: &str| records.0.path().join(name);
    let old = fs::read_to_string(path("old.json")).unwrap();
    fs::write(path("half.json"), &old[..old.len() / 2]).unwrap();
    fs::write(
        path("newer.json"),
        old.replace("_version\": 2", "_version\": 3"),
    )
    .unwrap();
    fs::write(
        path("damaged.json"),
        old.replacen("\"cases\"", "\"casts\"", 1),
    )
    .unwrap();
    fs::write(path("other.json"), "{\"kind\": \"check\"}").unwrap();
    fs::write(path("text.json"), "case  GiB/s\n").unwrap();
    for (name, words) in [
        ("half.json", "not JSON"),
        (
            "newer.json",
            "schema_version 3, this pipespeed reads 2: use a newer",
        ),
        ("damaged.json", "a damaged record (missing field `cases`"),
        ("other.json", "not a record of pipespeed"),
        ("text.json", "not JSON"),
        ("missing.json", "No such file"),
    ] {
        let outcome = records.pipespeed(&format!("report old.json {name} -o page.html"));
        outcome.refused(2, &[name, words]);
        assert!(!path("page.html").exists(), "{name}");
    }
}

#[test]
fn a_record_that_a_page_has_no_use_for_is_left_out() {
    let records = Records::new();
    let path = records.0.path().join("doctor.json");
    let old = fs::read_to_string(records.0.path().join("old.json")).unwrap();
    fs::write(path, old.replacen("\"bench\"", "\"doctor\"", 1)).unwrap();
    let both = records.pipespeed("report old.json doctor.json -o -");
    let both = both.succeeded();
    assert_eq!(both.out, page(&records, "old.json"));
    assert!(
        both.err.contains("doctor.json: a page has no use"),
        "{both:#?}"
    );
    let alone = records.pipespeed("report doctor.json -q -o -");
    alone.refused(2, &["none of these files can be used"]);
}

#[test]
fn a_record_is_not_replaced_by_the_page() {
    let records = Records::new();
    for output in ["old.json", "./old.json"] {
        let outcome = records.pipespeed(&format!("report old.json -o {output}"));
        outcome.refused(2, &["--output", "is a record: name another file"]);
    }
    let outcome = records.pipespeed("report old.json -o no/such.html");
    outcome.refused(2, &["--output", "no/such.html"]);
    let outcome = records.pipespeed("report - - -o page.html");
    outcome.refused(2, &["only one file can be '-'"]);
    records
        .pipespeed("report old.json -o /dev/full")
        .failed(1, &["/dev/full"]);
}
