//! A run over invented trials: the record it makes, whatever happens on the
//! way.

use std::collections::BTreeMap;

use crate::common::fake::{FakeRunner, whole_run};
use pipespeed_measure::record::{Run, to_json};
use pipespeed_measure::spec::Suite;
use serde_json::Value;

const ROUNDS: usize = 6;

fn one_refused() -> FakeRunner {
    FakeRunner {
        refused: BTreeMap::from([(
            "vmsplice_splice_huge".to_owned(),
            "no huge pages".to_owned(),
        )]),
        ..FakeRunner::default()
    }
}

/// Makes a record fit for a snapshot: numbers are rounded, since logarithms
/// differ in the last digit from machine to machine; slots are those of 4 KiB
/// pages; and all samples but the first of the first case become a line each.
fn legible(run: &Run) -> Value {
    let mut record: Value = serde_json::from_str(&to_json(run)).unwrap();
    for (at, case) in record["cases"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .enumerate()
    {
        if let Some(slots) = case["configuration"]["slots"].as_u64() {
            let bytes = slots * rustix::param::page_size() as u64;
            case["configuration"]["slots"] = (bytes / 4096).into();
        }
        let samples = case["samples"].as_array_mut().unwrap();
        for sample in samples.iter_mut().skip(usize::from(at == 0)) {
            let line = format!(
                "round {}, position {}: {:.6} GiB/s",
                sample["round"],
                sample["position"],
                sample["gib_per_s"].as_f64().unwrap()
            );
            *sample = line.into();
        }
    }
    round(&mut record);
    record
}

fn round(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let rounded = (number.as_f64().unwrap() * 1e6).round() / 1e6;
            *value = rounded.into();
        }
        Value::Array(values) => values.iter_mut().for_each(round),
        Value::Object(fields) => fields.values_mut().for_each(round),
        _ => {}
    }
}

#[test]
fn the_record_of_a_ladder_is_as_it_was() {
    let run = whole_run(Suite::Ladder, one_refused(), ROUNDS);
    insta::assert_json_snapshot!(legible(&run));
}
