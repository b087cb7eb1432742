//! Snapshots as lines of JSON. Every field is always present; unknown values are
//! null.

use serde_json::{Map, Value, json};

use super::progress::Snapshot;
use super::units::Unit;

/// Fields besides those of the snapshot.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Beside {
    /// The name given.
    pub name: Option<String>,
    /// Bytes passed, whatever the unit.
    pub bytes: u64,
    /// Unread bytes in the output pipe.
    pub unread: Option<u64>,
    /// The technique in use.
    pub technique: Option<&'static str>,
}

/// Additional fields of the last line.
#[derive(Debug, Clone, PartialEq)]
pub struct Ending {
    /// The reason for the end.
    pub end: &'static str,
    /// The exit status.
    pub status: u8,
    /// The techniques not used, with reasons.
    pub passed_over: Vec<String>,
}

/// A line with its newline; a summary if `ending` is given.
pub fn line(snapshot: &Snapshot, beside: &Beside, unit: Unit, ending: Option<&Ending>) -> String {
    let mut fields = Map::new();
    let mut put = |name: &str, value: Value| {
        fields.insert(name.to_owned(), value);
    };
    if ending.is_some() {
        put("summary", json!(true));
    }
    put("name", json!(beside.name));
    put("bytes", json!(beside.bytes));
    let what = match unit {
        Unit::Bytes => "bytes",
        Unit::Lines { .. } => "lines",
    };
    put(what, json!(snapshot.done));
    put("unread_bytes", json!(beside.unread));
    put(&format!("size_{what}"), json!(snapshot.size));
    put("elapsed_seconds", json!(snapshot.elapsed.as_secs_f64()));
    put(
        &format!("rate_{what}_per_second"),
        json!(snapshot.shown_rate()),
    );
    put(
        &format!("average_{what}_per_second"),
        json!(snapshot.average()),
    );
    let left = snapshot.time_left().filter(|_| !snapshot.last);
    put("eta_seconds", json!(left.map(|left| left.as_secs_f64())));
    put("technique", json!(beside.technique));
    if let Some(ending) = ending {
        put("end", json!(ending.end));
        put("status", json!(ending.status));
        put("passed_over", json!(ending.passed_over));
    }
    Value::Object(fields).to_string() + "\n"
}

/// An error as a line.
pub fn error(message: &str) -> String {
    json!({ "error": message }).to_string() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn every_field_is_always_present() {
        let snapshot = Snapshot {
            done: 5,
            elapsed: Duration::from_secs(2),
            ..Snapshot::default()
        };
        let beside = Beside {
            bytes: 5,
            ..Beside::default()
        };
        insta::assert_snapshot!(line(&snapshot, &beside, Unit::Bytes, None).trim_end(), @r#"{"average_bytes_per_second":2.5,"bytes":5,"elapsed_seconds":2.0,"eta_seconds":null,"name":null,"rate_bytes_per_second":null,"size_bytes":null,"technique":null,"unread_bytes":null}"#);
        let ending = Ending {
            end: "end of data",
            status: 0,
            passed_over: vec![],
        };
        let lines = Unit::Lines { end: b'\n' };
        insta::assert_snapshot!(line(&snapshot, &beside, lines, Some(&ending)).trim_end(), @r#"{"average_lines_per_second":2.5,"bytes":5,"elapsed_seconds":2.0,"end":"end of data","eta_seconds":null,"lines":5,"name":null,"passed_over":[],"rate_lines_per_second":null,"size_lines":null,"status":0,"summary":true,"technique":null,"unread_bytes":null}"#);
        assert_eq!(error("a \"b\""), "{\"error\":\"a \\\"b\\\"\"}\n");
    }
}
