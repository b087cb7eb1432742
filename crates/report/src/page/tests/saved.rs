//! Which records a page is made of.

use super::*;

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
        ("odd", "a damaged record (unknown value `odd`"),
    ] {
        let other = text.replace("\"kind\": \"check\"", &format!("\"kind\": \"{kind}\""));
        let error = load(&other).unwrap_err();
        assert!(error.contains(words) && !error.contains('\n'), "{error}");
    }
    let doctor = text.replace("\"kind\": \"check\"", "\"kind\": \"doctor\"");
    assert_eq!(load(&doctor), Ok(None));
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

/// The names of all fields that hold whole numbers, also in lists.
fn whole_numbers(value: &mut Value, name: &str, found: &mut impl FnMut(&str, &mut Value)) {
    match value {
        Value::Array(all) => all.iter_mut().for_each(|it| whole_numbers(it, name, found)),
        Value::Object(all) => all
            .iter_mut()
            .for_each(|(name, it)| whole_numbers(it, name, found)),
        Value::Number(number) if number.is_u64() => found(name, value),
        _ => {}
    }
}

#[test]
fn huge_counts_of_an_edited_record_do_no_harm() {
    let memory = Saved::Bench(Box::new(fixtures::memory()));
    let pipeline = Saved::Profile(Box::new(profile::fixtures::pipeline()));
    for saved in others().into_iter().chain([memory, pipeline]) {
        let mut whole: Value = serde_json::from_str(&json(&saved)).unwrap();
        let mut names = BTreeSet::new();
        whole_numbers(&mut whole, "", &mut |name, _| {
            names.insert(name.to_owned());
        });
        for name in &names {
            let mut edited = whole.clone();
            whole_numbers(&mut edited, "", &mut |at, value| {
                if at == name {
                    *value = u64::MAX.into();
                }
            });
            // What a field can't hold is refused.
            if let Ok(Some(saved)) = load(&edited.to_string()) {
                page(&Records::new([saved]), None);
            }
        }
    }
}
