//! A run of round trips as CSV: one row per launch, and one for each case that has no
//! launches, was not run or deadlocked.

use serde::Serialize;

use super::record::{CaseRecord, LatencyRecord, LatencySettings, Launch};
use super::spec::{ExchangeMode, Naive};
use crate::record::NotRunKind;
use crate::spec::Waiting;

/// A row; its fields are the columns.
#[derive(Debug, Serialize)]
struct LatencyRow<'a> {
    channel: &'static str,
    size: usize,
    round: Option<usize>,
    count: Option<u64>,
    p50_us: Option<f64>,
    p90_us: Option<f64>,
    p99_us: Option<f64>,
    p999_us: Option<f64>,
    max_us: Option<f64>,
    mib_per_s: Option<f64>,
    per_s: Option<f64>,
    unanswered: Option<u64>,
    short_reads: Option<u64>,
    waited_share: Option<f64>,
    flags: String,
    mode: &'static str,
    rate: Option<f64>,
    naive: Option<Naive>,
    wait: Waiting,
    /// What kept the case from being run.
    not_run: Option<NotRunKind>,
    /// Why, in a sentence.
    reason: Option<&'a str>,
    deadlock: Option<String>,
    /// Launches of the case that failed; not in the rows of launches.
    failed: Option<usize>,
}

impl<'a> LatencyRow<'a> {
    fn new(
        case: &CaseRecord,
        settings: &LatencySettings,
        launch: Option<&Launch>,
    ) -> LatencyRow<'a> {
        let of = |value: fn(&Launch) -> f64| launch.map(value);
        let (mode, rate) = match case.mode {
            ExchangeMode::Closed => ("closed", None),
            ExchangeMode::Open(rate) => ("open", Some(rate)),
            ExchangeMode::Naive(_) => ("naive", None),
        };
        let flags = launch.map_or(&[][..], |launch| &launch.flags);
        let flags: Vec<String> = flags.iter().map(|flag| flag.name()).collect();
        LatencyRow {
            channel: case.channel.name(),
            size: case.size,
            round: launch.map(|launch| launch.round),
            count: launch.map(|launch| launch.count),
            p50_us: of(|launch| launch.p50_us),
            p90_us: of(|launch| launch.p90_us),
            p99_us: of(|launch| launch.p99_us),
            p999_us: of(|launch| launch.p999_us),
            max_us: of(|launch| launch.max_us),
            mib_per_s: of(|launch| launch.mib_per_s),
            per_s: of(|launch| launch.per_s),
            unanswered: launch.map(|launch| launch.unanswered),
            short_reads: launch.map(|launch| launch.short_reads),
            waited_share: launch.and_then(|launch| launch.waited_share),
            flags: flags.join(" "),
            mode,
            rate,
            naive: case.naive(),
            wait: settings.wait,
            not_run: None,
            reason: None,
            deadlock: None,
            failed: None,
        }
    }
}

impl LatencyRecord {
    /// The launches as CSV, one row each, and a row for each case that has no launches,
    /// was not run or deadlocked.
    ///
    /// # Errors
    /// None, since it is written to memory.
    pub fn csv(&self) -> anyhow::Result<String> {
        let mut out = csv::Writer::from_writer(Vec::new());
        for case in &self.cases {
            for launch in &case.launches {
                out.serialize(LatencyRow::new(case, &self.settings, Some(launch)))?;
            }
            let is_empty = case.launches.is_empty();
            if is_empty || case.not_run.is_some() || case.deadlock.is_some() {
                out.serialize(LatencyRow {
                    not_run: case.not_run.as_ref().map(|not_run| not_run.kind),
                    reason: case.not_run.as_ref().map(|not_run| &*not_run.reason),
                    deadlock: case.explain_deadlock(),
                    failed: Some(case.failed),
                    ..LatencyRow::new(case, &self.settings, None)
                })?;
            }
        }
        Ok(String::from_utf8(out.into_inner()?)?)
    }
}

#[cfg(test)]
mod tests {
    use crate::fixtures::latency_record;
    use crate::latency::spec::{ExchangeMode, Naive};

    #[test]
    fn what_was_not_measured_has_a_row_with_the_reason() {
        let text = latency_record(ExchangeMode::Naive(Naive::ShortReads))
            .csv()
            .unwrap();
        let mut rows = csv::Reader::from_reader(text.as_bytes());
        let columns = rows.headers().unwrap().clone();
        let rows: Vec<csv::StringRecord> = rows.records().map(Result::unwrap).collect();
        let of = |row: &csv::StringRecord, name: &str| {
            let at = columns.iter().position(|column| column == name).unwrap();
            row[at].to_owned()
        };
        assert_eq!(rows.len(), 7 + 7 + 1 + 1, "{text}");
        for row in &rows {
            assert_eq!(
                ["mode", "rate", "naive", "wait"].map(|name| of(row, name)),
                ["naive", "", "short-reads", "block"]
            );
        }
        let (deadlock, limit) = (&rows[14], &rows[15]);
        let how = of(deadlock, "deadlock");
        assert!(
            how.starts_with("deadlock after 1 round trip: the sender"),
            "{how}"
        );
        let fields = ["not_run", "reason"].map(|name| of(limit, name));
        assert_eq!(fields, ["limit", "a message has at most 8 bytes"]);
        for row in [deadlock, limit] {
            assert_eq!(
                ["round", "p50_us", "failed"].map(|name| of(row, name)),
                ["", "", "0"]
            );
        }
    }

    #[test]
    fn the_rate_of_an_open_loop_is_in_every_row() {
        let text = latency_record(ExchangeMode::Open(2000.0)).csv().unwrap();
        let rows = text.lines().skip(1);
        assert!(
            rows.clone().all(|row| row.contains(",open,2000.0,,block,")),
            "{text}"
        );
        assert_eq!(rows.count(), 7 + 7 + 1 + 1);
    }
}
