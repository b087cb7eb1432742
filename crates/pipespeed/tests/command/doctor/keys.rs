//! The keys of saved records, which programs rely on: a change of a snapshot is one of the schema.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Group, pipe};
use crate::common::procs::eventually;
use crate::common::{json, pipespeed, run_alone};

/// Collects the places of all values: `a.b[].c`.
fn collect(value: &Value, place: String, keys: &mut BTreeSet<String>) {
    match value {
        Value::Array(all) => all
            .iter()
            .for_each(|value| collect(value, format!("{place}[]"), keys)),
        Value::Object(map) => {
            for (key, value) in map {
                match &**key {
                    // Other records have it, too.
                    "machine" => {}
                    // By what was waited for.
                    "outside" if value.is_object() => {
                        keys.insert(format!("{place}.{key}.*"));
                    }
                    _ => collect(value, format!("{place}.{key}"), keys),
                }
            }
        }
        _ => {
            keys.insert(place);
        }
    }
}

fn keys(records: &[Value]) -> String {
    let mut keys = BTreeSet::new();
    for record in records {
        collect(record, String::new(), &mut keys);
    }
    keys.into_iter().collect::<Vec<String>>().join("\n")
}

/// A stage that waits for a timer, and one that waits for it.
fn sleep_and_cat() -> Group {
    let (reader, writer) = pipe();
    let mut group = Group::default();
    group.add("sleep 1000", [None, writer, None]);
    group.add("cat", [reader, None, None]);
    group
}

#[test]
fn records_of_doctor_have_these_keys() {
    let ((to_second, from_first), (to_first, from_second)) = (pipe(), pipe());
    let mut stuck = Group::default();
    stuck.add("head -c 1000000 /dev/zero", [to_first, from_first, None]);
    stuck.add("head -c 1000000 /dev/zero", [to_second, from_second, None]);
    let healthy = sleep_and_cat();
    let records = [(stuck, "knot"), (healthy, "pace")].map(|(group, finding)| {
        let record = eventually(|| {
            let record = json(&group.examine("--json -").out);
            (record["findings"][0]["finding"] == finding).then_some(record)
        });
        record.unwrap()
    });
    insta::assert_snapshot!(keys(&records));
}

#[test]
fn records_of_top_have_these_keys() {
    let group = sleep_and_cat();
    let record = eventually(|| {
        let outcome = run_alone(pipespeed(&format!("top --once --json - {}", group.first())));
        let record = json(&outcome.succeeded().out);
        record["pipelines"][0]["pace"].is_object().then_some(record)
    });
    insta::assert_snapshot!(keys(&[record.unwrap()]));
}
