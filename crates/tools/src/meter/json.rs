//! Snapshots as lines of JSON. Every field is always present; unknown values are
//! null.

use serde_json::json;

use super::progress::{Snapshot, Unit};

/// Formats a snapshot as a line with its newline; with a summary if it is the last.
pub fn line(snapshot: &Snapshot, unit: Unit) -> String {
    let what = match unit {
        Unit::Bytes => "bytes",
        Unit::Lines { .. } => "lines",
    };
    let left = snapshot.time_left().filter(|_| snapshot.ending.is_none());
    let mut object = json!({
        "name": snapshot.name,
        "bytes": snapshot.bytes,
        what: snapshot.done,
        "unread_bytes": snapshot.unread,
        format!("size_{what}"): snapshot.size,
        "elapsed_seconds": snapshot.elapsed.as_secs_f64(),
        format!("rate_{what}_per_second"): snapshot.shown_rate(),
        format!("average_{what}_per_second"): snapshot.average(),
        "eta_seconds": left.map(|left| left.as_secs_f64()),
        "technique": snapshot.technique,
    });
    if let Some(ending) = &snapshot.ending {
        object["summary"] = json!(true);
        object["end"] = json!(ending.end);
        object["status"] = json!(ending.status);
        object["passed_over"] = json!(ending.passed_over);
    }
    format!("{object}\n")
}

/// Formats an error as a line.
pub fn error(message: &str) -> String {
    json!({ "error": message }).to_string() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::progress::Ending;
    use std::time::Duration;

    #[test]
    fn every_field_is_always_present() {
        let mut snapshot = Snapshot {
            done: 5,
            bytes: 5,
            elapsed: Duration::from_secs(2),
            ..Snapshot::default()
        };
        insta::assert_snapshot!(line(&snapshot, Unit::Bytes).trim_end(), @r#"{"average_bytes_per_second":2.5,"bytes":5,"elapsed_seconds":2.0,"eta_seconds":null,"name":null,"rate_bytes_per_second":null,"size_bytes":null,"technique":null,"unread_bytes":null}"#);
        snapshot.ending = Some(Ending {
            end: "end of data",
            ..Ending::default()
        });
        let lines = Unit::Lines { end: b'\n' };
        insta::assert_snapshot!(line(&snapshot, lines).trim_end(), @r#"{"average_lines_per_second":2.5,"bytes":5,"elapsed_seconds":2.0,"end":"end of data","eta_seconds":null,"lines":5,"name":null,"passed_over":[],"rate_lines_per_second":2.5,"size_lines":null,"status":0,"summary":true,"technique":null,"unread_bytes":null}"#);
        assert_eq!(error("a \"b\""), "{\"error\":\"a \\\"b\\\"\"}\n");
    }
}
