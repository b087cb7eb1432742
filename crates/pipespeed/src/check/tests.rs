//! What must hold for every list of checks, and what a failing one leads to.

use super::*;

fn check(name: &'static str, run: fn() -> anyhow::Result<Outcome>) -> Check {
    Check {
        name,
        group: Group::Limits,
        statement: "a statement",
        explanation: "An explanation.",
        reference: "pipe(7)",
        run,
    }
}

fn record(checks: &[Check]) -> Record {
    let checked = run(checks, PATIENCE);
    Record::new(checked, Default::default(), String::new(), 0.0)
}

#[test]
fn names_are_words_and_unique() {
    let mut names: Vec<&str> = all().map(|check| check.name).collect();
    // Groups can be named in their place.
    names.extend(Group::ALL.map(Group::name));
    for name in &names {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(name.chars().all(plain) && name.len() <= 24, "{name}");
    }
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn every_check_says_what_it_is_about() {
    for check in all() {
        let name = check.name;
        assert!(check.statement.len() <= 90, "{name}: {}", check.statement);
        assert!(!check.statement.ends_with('.'), "{name}");
        assert!(check.explanation.ends_with('.'), "{name}");
        assert!(check.explanation.len() <= 700, "{name}");
        assert!(check.reference.len() >= 6, "{name}");
        for text in [check.statement, check.explanation, check.reference] {
            assert!(
                !text.contains('\n') && !text.contains("  "),
                "{name}: {text}"
            );
        }
    }
}

#[test]
fn checks_stand_by_group() {
    let groups: Vec<Group> = all().map(|check| check.group).collect();
    assert!(groups.is_sorted(), "{groups:?}");
}

#[test]
fn one_that_fails_makes_the_command_fail_and_the_others_run() {
    let record = record(&[
        check("good", || Ok(Outcome::pass("so"))),
        check("bad", || Ok(Outcome::fail("not so"))),
        check("odd", || anyhow::bail!("lost")),
        check("differs", || Ok(Outcome::seen("7"))),
        check("closed", || Ok(Outcome::refused("EPERM"))),
    ]);
    let marks: Vec<&str> = record
        .checks
        .iter()
        .map(|c| c.outcome.verdict.mark())
        .collect();
    assert_eq!(marks, ["pass", "FAIL", "ERROR", "seen", "refused"]);
    let failure = record.failure().unwrap();
    assert_eq!(
        failure,
        "not as every pipe must be: bad; could not be found out: odd (lost)"
    );
    let counts = Verdict::ALL.map(|verdict| record.summary.count(verdict));
    assert_eq!((counts, record.summary.checks), ([1; 5], 5));
}

#[test]
fn what_has_one_cause_is_told_together_and_not_all_of_it_by_name() {
    let lost = |name| check(name, || anyhow::bail!("lost"));
    let mut all = ["a", "b", "c", "d", "e", "f"].map(lost).to_vec();
    all.push(check("odd", || anyhow::bail!("gone")));
    let failure = record(&all).failure().unwrap();
    assert_eq!(
        failure,
        "could not be found out: a, b, c, d, e, f (lost), odd (gone)"
    );
    all.push(lost("g"));
    let failure = record(&all).failure().unwrap();
    assert!(failure.contains("e, f and 1 more (lost)"), "{failure}");
}

#[test]
fn what_is_refused_or_differs_is_no_failure() {
    let record = record(&[
        check("differs", || Ok(Outcome::seen("7").noting("odd"))),
        check("closed", || Ok(Outcome::refused("EPERM"))),
    ]);
    assert_eq!(record.failure(), None);
    let json = serde_json::to_value(&record).unwrap();
    assert_eq!(json["schema_version"], 1);
    assert_eq!(json["kind"], "check");
    let first = &json["checks"][0];
    for (key, value) in [
        ("name", "differs"),
        ("group", "limits"),
        ("statement", "a statement"),
        ("verdict", "seen"),
        ("seen", "7"),
        ("note", "odd"),
        ("reference", "pipe(7)"),
    ] {
        assert_eq!(first[key], value, "{key}");
    }
}
