//! Records in the text format of Prometheus, for a fleet: node_exporter's textfile collector reads a
//! file, and the machine is the label that it adds.
//!
//! All metrics are gauges in base units (seconds, bytes), as
//! <https://prometheus.io/docs/practices/naming/> asks. A label has one of a bounded number of values: names of
//! suites, cases, channels, sizes, costs, verdicts; never a command, a path or a process.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use pipespeed_base::Named;
use pipespeed_explain::costs::CostsRecord;
use pipespeed_measure::latency::record::LatencyRecord;
use pipespeed_measure::latency::spec::ExchangeMode;
use pipespeed_measure::record::{GIB, RecordHeader, Run};
use pipespeed_pipeline::diagnosis::{Finding, Severity, verdict};
use pipespeed_pipeline::observe::Observation;
use pipespeed_stats::{Estimate, Ratio, Verdict};

/// Names and values of the labels of a sample.
type Labels<'a> = [(&'static str, &'a str)];

/// A metric: what it means, and its samples.
struct Metric {
    help: &'static str,
    samples: String,
}

/// The metrics of a record, by name.
#[derive(Default)]
struct Metrics(BTreeMap<String, Metric>);

impl Metrics {
    /// The metrics that every record has.
    fn new(header: &RecordHeader, suite: &str, warnings: usize, is_complete: bool) -> Metrics {
        let mut metrics = Metrics::default();
        let labels = [("run", suite)];
        let version = [("run", suite), ("version", &*header.pipespeed_version)];
        let started = header.started_at.parse::<jiff::Timestamp>();
        let seconds = started.map_or(f64::NAN, |at| at.as_second() as f64);
        metrics.add(
            "pipespeed_run_start_timestamp_seconds",
            "When the run began.",
            &labels,
            seconds,
        );
        metrics.add(
            "pipespeed_run_info",
            "The version that made the run.",
            &version,
            1.0,
        );
        metrics.add(
            "pipespeed_run_complete",
            "Whether the run reached its end.",
            &labels,
            f64::from(u8::from(is_complete)),
        );
        metrics.add(
            "pipespeed_run_warnings",
            "Possible disturbances and limitations of the run.",
            &labels,
            warnings as f64,
        );
        metrics
    }

    /// Adds a sample.
    fn add(&mut self, name: &str, help: &'static str, labels: &Labels<'_>, value: f64) {
        let metric = self.0.entry(name.to_owned()).or_insert_with(|| Metric {
            help,
            samples: String::new(),
        });
        let labels: Vec<String> = labels
            .iter()
            .map(|(label, value)| format!("{label}=\"{}\"", escaped(value)))
            .collect();
        let labels = labels.join(",");
        let _ = writeln!(metric.samples, "{name}{{{labels}}} {value}");
    }

    /// Adds a median and the ends of its interval, as three metrics: `UNIT` ends the name of each. Without an
    /// interval there are no ends.
    fn add_estimate(
        &mut self,
        [name, unit]: [&str; 2],
        helps: [&'static str; 3],
        labels: &Labels<'_>,
        estimate: &Estimate,
        scale: f64,
    ) {
        let unit = if unit.is_empty() {
            ""
        } else {
            &format!("_{unit}")
        };
        self.add(
            &format!("{name}{unit}"),
            helps[0],
            labels,
            estimate.median * scale,
        );
        if let Some(interval) = &estimate.interval {
            self.add(
                &format!("{name}_low{unit}"),
                helps[1],
                labels,
                interval.low * scale,
            );
            self.add(
                &format!("{name}_high{unit}"),
                helps[2],
                labels,
                interval.high * scale,
            );
        }
    }

    /// Adds a ratio, and a metric that is 1 for its verdict and 0 for all others.
    fn add_ratio(&mut self, labels: &Labels<'_>, ratio: &Ratio) {
        let helps = [
            "The rate of a case over that of the case it is compared with, paired by round.",
            "The low end of the interval of pipespeed_case_ratio.",
            "The high end of the interval of pipespeed_case_ratio.",
        ];
        let names = ["pipespeed_case_ratio", ""];
        self.add_estimate(names, helps, labels, &ratio.estimate, 1.0);
        for verdict in [
            Verdict::Faster,
            Verdict::Slower,
            Verdict::Same,
            Verdict::Undecided,
        ] {
            let mut labels = labels.to_vec();
            labels.push(("verdict", verdict.name()));
            self.add(
                "pipespeed_case_verdict",
                "1 for the verdict on a case, 0 for all others.",
                &labels,
                f64::from(u8::from(verdict == ratio.verdict)),
            );
        }
    }

    /// All of them as text.
    fn text(self) -> String {
        let mut text = String::new();
        for (name, Metric { help, samples }) in self.0 {
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{samples}");
        }
        text
    }
}

/// The value of a label, in which three characters have a meaning.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// A run of a suite: rates with intervals, ratios with verdicts.
pub fn prometheus_of_run(run: &Run) -> String {
    let suite = run.suite.name();
    let is_complete = run.interrupted.is_none();
    let mut metrics = Metrics::new(&run.header, suite, run.warnings.len(), is_complete);
    for case in &run.cases {
        let labels = [
            ("suite", suite),
            ("case", &*case.name),
            ("data", case.data.name()),
        ];
        if let Some(summary) = &case.summary {
            let helps = [
                "The median rate of a case.",
                "The low end of the 95 % interval of the rate.",
                "The high end of the 95 % interval of the rate.",
            ];
            let names = ["pipespeed_case", "bytes_per_second"];
            metrics.add_estimate(names, helps, &labels, &summary.gib_per_s, GIB);
        }
        if let Some((other, ratio)) = case.compared_with.as_deref().zip(case.ratio.as_ref()) {
            let compared = [
                ("suite", suite),
                ("case", &*case.name),
                ("compared_with", other),
            ];
            metrics.add_ratio(&compared, ratio);
        }
    }
    metrics.text()
}

/// A run of round trips: percentiles with intervals.
pub fn prometheus_of_latency(record: &LatencyRecord) -> String {
    let is_complete = record.interrupted.is_none();
    let warnings = record.warnings.len();
    let mut metrics = Metrics::new(&record.header, "latency", warnings, is_complete);
    for case in &record.cases {
        let Some(summary) = &case.summary else {
            continue;
        };
        let size = case.size.to_string();
        let mode = match &case.mode {
            ExchangeMode::Closed => "closed".to_owned(),
            ExchangeMode::Open(rate) => format!("open at {rate}/s"),
            ExchangeMode::Naive(naive) => naive.name().to_owned(),
        };
        for (percentile, estimate) in [
            ("50", &summary.p50_us),
            ("90", &summary.p90_us),
            ("99", &summary.p99_us),
            ("99.9", &summary.p999_us),
        ] {
            let labels = [
                ("channel", case.channel.name()),
                ("size", &*size),
                ("mode", &*mode),
                ("percentile", percentile),
            ];
            let helps = [
                "A percentile of round trips: its median over the launches.",
                "The low end of the 95 % interval of the percentile.",
                "The high end of the 95 % interval of the percentile.",
            ];
            let names = ["pipespeed_round_trip", "seconds"];
            metrics.add_estimate(names, helps, &labels, estimate, 1e-6);
        }
    }
    metrics.text()
}

/// Elementary costs with intervals.
pub fn prometheus_of_costs(record: &CostsRecord) -> String {
    let is_complete = record.interrupted.is_none();
    let warnings = record.warnings.len();
    let mut metrics = Metrics::new(&record.header, "costs", warnings, is_complete);
    for (name, cost) in record.costs_ns.named() {
        if let Some(estimate) = &cost.estimate {
            let helps = [
                "The cost of one step.",
                "The low end of the 95 % interval of the cost.",
                "The high end of the 95 % interval of the cost.",
            ];
            let names = ["pipespeed_cost", "seconds"];
            metrics.add_estimate(names, helps, &[("cost", name)], estimate, 1e-9);
        }
    }
    metrics.text()
}

/// What doctor found: its verdict.
pub fn prometheus_of_doctor(
    header: &RecordHeader,
    observation: &Observation,
    findings: &[Finding],
    is_complete: bool,
) -> String {
    let mut metrics = Metrics::new(header, "doctor", 0, is_complete);
    let found = verdict(observation, findings).0;
    for severity in Severity::values() {
        metrics.add(
            "pipespeed_doctor_verdict",
            "1 for the verdict on all pipelines, 0 for all others.",
            &[("verdict", severity.name())],
            f64::from(u8::from(severity == found)),
        );
    }
    metrics.add(
        "pipespeed_doctor_stuck_findings",
        "Findings of processes that will not go on.",
        &[],
        findings.iter().filter(|finding| finding.is_stuck()).count() as f64,
    );
    metrics.add(
        "pipespeed_doctor_pipelines",
        "Pipelines that were examined.",
        &[],
        observation.pipelines().len() as f64,
    );
    metrics.text()
}

#[cfg(test)]
mod tests {
    use super::*;
    use itertools::Itertools;
    use pipespeed_measure::fixtures;
    use pipespeed_measure::record::CaseResult;

    #[test]
    fn a_case_has_its_rate_in_bytes_and_one_verdict() {
        let mut run = fixtures::ladder();
        // As in a real run, the control is one of the cases.
        fixtures::set_control(&mut run, fixtures::ratio(1.01));
        let twin = run.null_control.as_ref().unwrap().twin.clone();
        let control = run.cases.iter_mut().find(|case| case.name == twin);
        control.unwrap().ratio = Some(fixtures::ratio(1.01));
        let text = prometheus_of_run(&run);
        let summary = run.cases[0].summary.as_ref().unwrap();
        let rate = summary.gib_per_s.median * GIB;
        let name = &run.cases[0].name;
        let labels = format!("{{suite=\"ladder\",case=\"{name}\",data=\"read\"}}");
        let line = format!("pipespeed_case_bytes_per_second{labels} {rate}\n");
        assert!(text.contains(&line), "{text}");
        // Every name has its help and type once, and every sample its name's.
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let name = line.split('{').next().unwrap();
            for about in ["HELP", "TYPE"] {
                let about = format!("# {about} {name} ");
                assert_eq!(text.matches(&about).count(), 1, "{line}");
            }
        }
        let compared = |case: &&CaseResult| case.ratio.is_some() && case.compared_with.is_some();
        let compared = run.cases.iter().filter(compared).count();
        let series = text.lines().filter_map(|line| line.rsplit_once(' '));
        let series: Vec<&str> = series.map(|(series, _)| series).collect();
        assert!(series.iter().all_unique(), "{text}");
        let verdicts = text
            .lines()
            .filter(|line| line.starts_with("pipespeed_case_verdict{") && line.ends_with(" 1"));
        assert_eq!(verdicts.count(), compared);
    }

    #[test]
    fn a_label_cannot_end_itself() {
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
