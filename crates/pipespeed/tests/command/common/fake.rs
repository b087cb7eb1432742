//! A runner that measures nothing: invented numbers, the same every time.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use anyhow::anyhow;
use pipespeed_host::NoiseDelta;
use pipespeed_measure::endpoint::outcome::Outcome;
use pipespeed_measure::failure::TrialError;
use pipespeed_measure::fixtures::{header, run as invented_run};
use pipespeed_measure::record::{EndCounters, GIB, Granted, Kind, NotRun, Run, Settings, Setup};
use pipespeed_measure::rounds::Measurement;
use pipespeed_measure::spec::{Case, PageKind, PipeReader, PipeWriter, Suite, Waiting};
use pipespeed_measure::suite::Overrides;
use pipespeed_measure::trial::{Runner, Trial};

/// The duration of every invented trial, in seconds: exact in binary.
pub const SECONDS: f64 = 0.125;

/// The runner.
#[derive(Debug, Clone, Default)]
pub struct FakeRunner {
    /// Cases that are refused whenever they are tried.
    pub refused: BTreeMap<String, String>,
    /// Cases that fail from their trial of this number (from 0) on, and why.
    pub failing: BTreeMap<String, (usize, String)>,
    /// How much faster than usual a case is.
    pub factors: BTreeMap<String, f64>,
    /// The case of each trial so far. A clone of the runner shares it.
    pub log: Rc<RefCell<Vec<String>>>,
}

impl Runner for FakeRunner {
    fn run(&mut self, case: &Case) -> Result<Trial, TrialError> {
        self.log.borrow_mut().push(case.name.clone());
        if let Some(reason) = self.refused.get(&case.name) {
            return Err(NotRun::refused(reason).into());
        }
        let times = self
            .log
            .borrow()
            .iter()
            .filter(|name| **name == case.name)
            .count();
        if let Some((from, reason)) = self.failing.get(&case.name)
            && times > *from
        {
            return Err(TrialError::Failed(anyhow!(reason.clone())));
        }
        let wobble = 1.0 + 0.01 * ((times * 3 % 7) as f64 - 3.0) / 3.0;
        let factor = self.factors.get(&case.name).copied().unwrap_or(1.0);
        Ok(trial(case, rate(case) * factor * wobble))
    }
}

/// A rate in GiB/s by what the case does; the same for a case and its twin.
fn rate(case: &Case) -> f64 {
    let configuration = case.configuration();
    let mut rate = 1.0;
    if case.pipe_writer().is_some_and(PipeWriter::vmsplices) {
        rate *= 4.0;
    }
    if case.pipe_reader() == Some(PipeReader::Splice) {
        rate *= 2.0;
    }
    if configuration.pages == PageKind::Huge {
        rate *= 1.25;
    }
    if configuration.wait == Some(Waiting::Spin) {
        rate *= 3.0;
    }
    rate
}

fn trial(case: &Case, gib_per_s: f64) -> Trial {
    let bytes = (gib_per_s * GIB * SECONDS) as u64;
    let calls = bytes / (64 << 10);
    let end = |cpu: f64| {
        Some(Outcome {
            counters: EndCounters {
                bytes,
                seconds: SECONDS,
                cpu_s: SECONDS * cpu,
                voluntary_switches: calls / 2,
                involuntary_switches: 3,
                syscalls: calls + 5,
                moving_calls: calls,
                would_blocks: 0,
                page_faults: 1,
                run_delay_s: Some(0.0),
            },
            parts_gib_per_s: vec![gib_per_s; 2],
            window_ns: (0, (SECONDS * 1e9) as u64),
        })
    };
    let huge = case.subject.writer().map(|writer| match writer.pages {
        PageKind::Base => 0,
        _ => 512 << 10,
    });
    Trial {
        setup: Setup {
            pieces: case.subject.writer().map(|_| 2),
            alignment: case.subject.writer().map(|_| 4096),
            huge_bytes: huge,
            huge_shown_by: huge.map(|_| "smaps".to_owned()),
            ..Setup::default()
        },
        granted: Granted {
            pipe_bytes: case.subject.pipe_bytes(),
            ..Granted::default()
        },
        writer: case.subject.writer().and_then(|_| end(0.5)),
        reader: case.subject.reader().and_then(|_| end(0.75)),
        noise: NoiseDelta::default(),
    }
}

/// Everything of a run but what is measured.
pub fn empty_run(suite: Suite) -> Run {
    let invented = invented_run(suite, Vec::new());
    Run {
        header: header(Kind::Bench),
        settings: Settings {
            seed: 42,
            rounds_planned: 0,
            rounds_done: 0,
            order: String::new(),
            timed_s: 0.1,
            warm_up_s: 0.01,
            cpu_relation: "different cores".to_owned(),
            ..invented.settings
        },
        ..invented
    }
}

/// A measurement of a suite as it is published.
pub fn measurement(suite: Suite, runner: FakeRunner) -> Measurement<FakeRunner> {
    let cases = suite.cases(&Overrides::default());
    let refused = BTreeMap::new();
    let null_control = suite
        .definition()
        .null_control
        .map_or(cases[0].name.clone(), str::to_owned);
    Measurement::new(
        runner,
        cases,
        Some(&null_control),
        empty_run(suite),
        &refused,
    )
}

/// A whole run with this number of rounds.
pub fn whole_run(suite: Suite, runner: FakeRunner, rounds: usize) -> Run {
    let mut measurement = measurement(suite, runner);
    measurement.pilot(&mut ()).unwrap();
    measurement.rounds(rounds, None, &mut ()).unwrap();
    let mut run = measurement.finish(None);
    run.findings = pipespeed_report::findings(&run);
    run
}
