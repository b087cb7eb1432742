//! Records as CSV, for spreadsheets and data frames.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

/// The first columns; the others are in alphabetical order.
const FIRST: [&str; 8] = [
    "suite", "case", "data", "round", "position", "channel", "size", "mode",
];

/// The fields of a sample by the names of their columns.
type CsvRow = BTreeMap<String, String>;

/// A record of cases as CSV: a row for each sample, in the order of the record, which begins with
/// what the record says of its case. A column has the name of its field; for a field of a field it
/// is both names (`writer_cpu_s`). A value that was not measured is an empty field, and the
/// elements of a list share one. A case that was not run has no sample, hence no row.
///
/// # Errors
/// None, since it is written to memory.
pub fn to_csv(record: &impl Serialize) -> anyhow::Result<String> {
    let record = serde_json::to_value(record)?;
    let mut rows = Vec::new();
    for case in elements(&record["cases"]) {
        let of_case = row_of_case(&record, case);
        for sample in elements(&case["samples"]) {
            let mut row = of_case.clone();
            add(&mut row, "", sample);
            rows.push(row);
        }
    }
    let columns: BTreeSet<&String> = rows.iter().flat_map(BTreeMap::keys).collect();
    let mut columns: Vec<&String> = columns.into_iter().collect();
    columns.sort_by_key(|column| {
        FIRST
            .iter()
            .position(|first| first == column)
            .unwrap_or(FIRST.len())
    });
    let mut out = csv::Writer::from_writer(Vec::new());
    if !columns.is_empty() {
        out.write_record(&columns)?;
    }
    for row in &rows {
        let field = |column: &&String| row.get(*column).map_or("", String::as_str);
        out.write_record(columns.iter().map(field))?;
    }
    Ok(String::from_utf8(out.into_inner()?)?)
}

/// What all samples of a case have in common.
fn row_of_case(record: &Value, case: &Value) -> CsvRow {
    let mut row = CsvRow::new();
    for (column, value) in [
        ("suite", record.get("suite")),
        ("wait", record["settings"].get("wait")),
        ("case", case.get("name")),
        ("channel", case.get("channel")),
        ("size", case.get("size")),
        ("mode", case.get("mode")),
        ("data", case.get("data")),
        ("", case.get("configuration")),
    ] {
        if let Some(value) = value {
            add(&mut row, column, value);
        }
    }
    row
}

/// Adds a value to a row, with the fields of an object each in a column of its own.
fn add(row: &mut CsvRow, column: &str, value: &Value) {
    if let Value::Object(fields) = value {
        for (name, value) in fields {
            match column {
                "" => add(row, name, value),
                column => add(row, &format!("{column}_{name}"), value),
            }
        }
    } else if value.is_null() {
        // Without its counters, an end still has its name in the configuration.
        row.entry(column.to_owned()).or_default();
    } else {
        row.insert(column.to_owned(), text(value));
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(text).collect::<Vec<_>>().join("; "),
        other => other.to_string(),
    }
}

fn elements(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{ladder, latency_record, refuse};
    use crate::latency::spec::ExchangeMode;
    use crate::record::Flag;

    /// The fields of the rows by the names of their columns.
    fn rows(record: &impl Serialize) -> Vec<BTreeMap<String, String>> {
        let text = to_csv(record).unwrap();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let rows: Vec<_> = reader.deserialize().map(Result::unwrap).collect();
        let columns = reader.headers().unwrap();
        let names: BTreeSet<&str> = columns.iter().collect();
        assert_eq!(names.len(), columns.len(), "two columns share a name");
        rows
    }

    #[test]
    fn each_sample_of_a_run_is_a_row() {
        let mut run = ladder();
        refuse(
            &mut run,
            "busy_loop_huge",
            "one processor, and both ends spin",
        );
        run.cases[0].samples[0].flags = vec![Flag::Steal, Flag::RunDelay];
        run.cases[0].samples[0].reader = None;
        let samples: usize = run.cases.iter().map(|case| case.samples.len()).sum();
        let rows = rows(&run);
        assert_eq!(rows.len(), samples);
        assert!(rows.iter().all(|row| row["case"] != "busy_loop_huge"));
        let fields = ["suite", "case", "flags", "writer", "reader", "reader_cpu_s"];
        let first = fields.map(|column| &*rows[0][column]);
        assert_eq!(
            first,
            [
                "ladder",
                "write_read",
                "steal; run_delay",
                "write",
                "read",
                ""
            ]
        );
        let sample = run.cases[0].samples[1].reader.as_ref().unwrap();
        assert_eq!(rows[1]["reader_cpu_s"].parse(), Ok(sample.cpu_s));
        assert_eq!(rows[1]["pipe_bytes"], "65536");
    }

    #[test]
    fn each_sample_of_round_trips_is_a_row() {
        for (mode, column, value) in [
            (ExchangeMode::Closed, "mode", "closed"),
            (ExchangeMode::Open(2000.0), "mode_open", "2000.0"),
        ] {
            let rows = rows(&latency_record(mode));
            assert_eq!(rows.len(), 7 + 7);
            for row in &rows {
                assert_eq!([&*row["wait"], &*row[column]], ["block", value]);
            }
            assert_eq!([&*rows[7]["channel"], &*rows[7]["size"]], ["tcp", "8"]);
        }
    }

    #[test]
    fn without_samples_there_is_nothing() {
        let mut run = ladder();
        run.cases.clear();
        assert_eq!(to_csv(&run).unwrap(), "");
    }
}
