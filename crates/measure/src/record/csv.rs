//! A run as CSV: one row per sample, for spreadsheets and data frames.

use std::io::Write;

use super::{CaseResult, Configuration, EndCounters, Run, Sample};
use crate::spec::Suite;

/// A column of an end's counters: its name after `writer_` or `reader_`, and
/// its value.
type CounterColumn = (&'static str, fn(&EndCounters) -> String);

const COUNTERS: [CounterColumn; 10] = [
    ("bytes", |end| end.bytes.to_string()),
    ("seconds", |end| end.seconds.to_string()),
    ("cpu_s", |end| end.cpu_s.to_string()),
    ("voluntary_switches", |end| {
        end.voluntary_switches.to_string()
    }),
    ("involuntary_switches", |end| {
        end.involuntary_switches.to_string()
    }),
    ("syscalls", |end| end.syscalls.to_string()),
    ("moving_calls", |end| end.moving_calls.to_string()),
    ("would_blocks", |end| end.would_blocks.to_string()),
    ("page_faults", |end| end.page_faults.to_string()),
    ("run_delay_s", |end| or_empty(end.run_delay_s)),
];

/// A column of the configuration, the same in every row of a case.
type ConfigurationColumn = (&'static str, fn(&Configuration) -> String);

const CONFIGURATION: [ConfigurationColumn; 22] = [
    ("writer", |c| or_empty(c.words().writer)),
    ("reader", |c| or_empty(c.words().reader)),
    ("wait", |c| c.wait_word().to_owned()),
    ("buffer_bytes", |c| c.buffer_bytes.to_string()),
    ("buffers", |c| or_empty(c.buffers)),
    ("pages", |c| c.pages.to_string()),
    ("huge_bytes", |c| or_empty(c.huge_bytes)),
    ("alignment", |c| or_empty(c.alignment)),
    ("pipe_bytes_asked", |c| or_empty(c.pipe_bytes_asked)),
    ("pipe_bytes", |c| or_empty(c.pipe_bytes)),
    ("slots", |c| or_empty(c.slots)),
    ("channel", |c| or_empty(c.words().channel)),
    ("message_bytes", |c| or_empty(c.message_bytes)),
    ("reader_buffer_bytes", |c| or_empty(c.reader_buffer_bytes)),
    ("send_buffer_bytes", |c| or_empty(c.send_buffer_bytes)),
    ("receive_buffer_bytes", |c| or_empty(c.receive_buffer_bytes)),
    ("queue_messages", |c| or_empty(c.queue_messages)),
    ("writer_cpu", |c| or_empty(c.writer_cpu)),
    ("reader_cpu", |c| or_empty(c.reader_cpu)),
    ("volume_bytes", |c| or_empty(c.volume_bytes)),
    ("options", |c| c.options.join("; ")),
    ("ring_bytes", |c| or_empty(c.ring_bytes)),
];

const SAMPLE: [&str; 9] = [
    "suite",
    "case",
    "data",
    "round",
    "position",
    "bytes",
    "seconds",
    "gib_per_s",
    "flags",
];

/// Writes a header and a row for every sample of every case, in the suite's order. A
/// case that was not run has no sample, hence no row. A value that was not measured is
/// an empty field. Several flags share a field, separated by spaces.
///
/// # Errors
///
/// Whatever `out` reports.
pub fn write_csv(run: &Run, out: impl Write) -> csv::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(header())?;
    for case in &run.cases {
        for sample in &case.samples {
            writer.write_record(row(run.suite, case, sample))?;
        }
    }
    writer.flush()?;
    Ok(())
}

fn header() -> Vec<String> {
    let mut names: Vec<String> = SAMPLE.iter().map(|&name| name.to_owned()).collect();
    names.extend(CONFIGURATION.iter().map(|(name, _)| (*name).to_owned()));
    for end in ["writer", "reader"] {
        names.extend(COUNTERS.iter().map(|(name, _)| format!("{end}_{name}")));
    }
    names
}

fn row(suite: Suite, case: &CaseResult, sample: &Sample) -> Vec<String> {
    let flags: Vec<String> = sample.flags.iter().map(|flag| flag.name()).collect();
    let mut fields = vec![
        suite.to_string(),
        case.name.clone(),
        case.data.name().to_owned(),
        sample.round.to_string(),
        sample.position.to_string(),
        sample.bytes.to_string(),
        sample.seconds.to_string(),
        sample.gib_per_s.to_string(),
        flags.join(" "),
    ];
    let configuration = &case.configuration;
    fields.extend(CONFIGURATION.iter().map(|(_, show)| show(configuration)));
    for end in [&sample.writer, &sample.reader] {
        fields.extend(
            COUNTERS
                .iter()
                .map(|(_, show)| end.as_ref().map_or_else(String::new, show)),
        );
    }
    fields
}

fn or_empty(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{ladder, refuse};
    use crate::record::Flag;

    fn text(run: &Run) -> String {
        let mut out = Vec::new();
        write_csv(run, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_sample_has_a_full_row() {
        let run = ladder();
        let samples: usize = run.cases.iter().map(|case| case.samples.len()).sum();
        let written = text(&run);
        let mut reader = csv::Reader::from_reader(written.as_bytes());
        let columns = reader.headers().unwrap().len();
        let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
        assert_eq!(rows.len(), samples);
        assert!(rows.iter().all(|row| row.len() == columns));
    }

    #[test]
    fn no_two_columns_share_a_name() {
        let mut names = header();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn a_refused_case_gives_no_row() {
        let mut run = ladder();
        refuse(
            &mut run,
            "busy_loop_huge",
            "one processor, and both ends spin",
        );
        assert!(!text(&run).contains("busy_loop_huge"));
    }

    #[test]
    fn flags_share_a_field_and_unmeasured_fields_are_empty() {
        let mut run = ladder();
        run.cases.truncate(1);
        run.cases[0].samples.truncate(1);
        run.cases[0].samples[0].flags = vec![Flag::Steal, Flag::RunDelay];
        run.cases[0].samples[0].reader = None;
        let written = text(&run);
        let row = written.lines().nth(1).unwrap();
        assert!(row.contains(",steal run_delay,"), "{row}");
        assert!(row.ends_with(&",".repeat(COUNTERS.len())), "{row}");
    }
}
