//! Real runs of `bench pages`: what runs has the pages of its name, and what the
//! system does not grant is refused with the line that enables it.

use crate::common::{PIPESPEED, conditions, pipespeed, recorded, says, skip};
use serde_json::Value;

const SHORT: &str = "bench pages --quick --rounds 1 --json - -q";

fn cases(record: &Value) -> impl Iterator<Item = (&str, Option<&str>, &Value)> {
    let cases = record["cases"].as_array().unwrap().iter();
    cases.map(|case| {
        let name = case["name"].as_str().unwrap();
        let refusal = case["not_run"]["reason"].as_str();
        (name, refusal, &case["configuration"])
    })
}

#[test]
fn each_case_has_its_pages_or_is_refused_with_remedy() {
    if conditions::processors() < 2 {
        return skip("spinning takes two processors");
    }
    let record = recorded(pipespeed(SHORT));
    let mut names = Vec::new();
    for (name, refusal, configuration) in cases(&record) {
        names.push(name.to_owned());
        let Some(refusal) = refusal else {
            let is_base = name.starts_with("base_pages");
            assert_eq!(configuration["huge_bytes"] == 0, is_base, "{name}");
            continue;
        };
        skip(format_args!("{name}: {refusal}"));
        let remedies = match name {
            "hugetlb1g" => vec!["echo 2 > /sys/kernel/mm/hugepages/hugepages-1048576kB"],
            "huge_pages" => vec!["/sys/kernel/mm/transparent_hugepage/enabled", "memory"],
            "huge_pages_split" => vec!["without root", "memory"],
            _ => {
                let kib = name.trim_start_matches("thp").replace("1m", "1024k");
                assert!(refusal.contains(&kib.replace('k', " KiB")), "{refusal}");
                vec![
                    "`echo madvise > /sys",
                    "this kernel has no",
                    "without root",
                    "memory",
                ]
            }
        };
        let named = |remedy: &&str| refusal.contains(remedy);
        assert!(remedies.iter().any(named), "{name}: {refusal}");
    }
    assert!(names.contains(&"thp64k".to_owned()));
    assert!(names.contains(&"base_pages_again".to_owned()));
}

#[test]
fn sizes_that_an_ordinary_user_cannot_prove_are_refused() {
    if conditions::processors() < 2 || !conditions::huge_pages() {
        return skip("this takes two processors and huge pages");
    }
    let Some(program) = conditions::ForAll::new(PIPESPEED) else {
        return;
    };
    let command = program.command(&format!("{SHORT} --case huge_pages,huge_pages_split"));
    let record = recorded(command);
    for (name, refusal, _) in cases(&record) {
        match (name, refusal) {
            ("huge_pages_split", Some(refusal)) => {
                says(refusal, &["can't be proven without root"]);
            }
            ("huge_pages_split", None) => panic!("{name} ran"),
            (_, refusal) => assert_eq!(refusal, None, "{name}"),
        }
    }
}
