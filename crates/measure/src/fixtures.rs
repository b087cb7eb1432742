//! A run with invented samples, for the tests of every report.

use crate::latency::record::{CaseRecord, LatencyRecord, LatencyResults, LatencySettings};
use crate::latency::spec::{ExchangeMode, Length, RoundTripOutcome};
use crate::latency::trial::Measured;
use crate::record::{
    CaseResult, Configuration, EndCounters, Estimate, GIB, Interval, Kind as RecordKind, NotRun,
    NullControl, ProcessState, Ratio, RecordHeader, Run, Sample, Settings, Sleep, Summary,
    TrialDeadlock, Warning, WarningKind,
};
use crate::spec::{Act, Case, Channel, Suite, Waiting};
use pipespeed_base::Named as _;
use pipespeed_host::{Cache, CacheKind, Machine};

use crate::record::comparisons::allow_for_null_control;
use crate::rounds::{TrialPlace, unmeasured};
use crate::suite::Overrides;

const ROUNDS: usize = 30;

/// What is asked for, with something changed.
pub fn overrides(change: impl FnOnce(&mut Overrides)) -> Overrides {
    let mut asked = Overrides::default();
    change(&mut asked);
    asked
}

/// An invented machine.
fn machine() -> Machine {
    let mut machine = Machine::default();
    machine.processors.model = Some("AMD EPYC 7B13 64-Core Processor".to_owned());
    machine.kernel.release = Some("6.18.5".to_owned());
    machine
}

/// The header of an invented record.
pub fn header(kind: RecordKind) -> RecordHeader {
    RecordHeader {
        pipespeed_version: "0.0.0-invented".to_owned(),
        ..RecordHeader::new(
            kind,
            vec!["pipespeed".to_owned(), "bench".to_owned()],
            "2026-03-14T09:26:53Z".to_owned(),
            Machine::default(),
        )
    }
}

/// A case whose samples lie around a rate, compared with another case that differs in a
/// factor.
pub fn case(name: &str, rate: f64, against: Option<(&str, &str, Ratio)>) -> CaseResult {
    let mut case = Case::new(name, 256 << 10, 128 << 10).described("invented");
    if let Some((base, factor, _)) = against {
        case = case.against(base, factor);
    }
    measured(&case, rate, against.map(|(.., ratio)| ratio))
}

/// The result of a case whose samples lie around a rate.
fn measured(case: &Case, rate: f64, ratio: Option<Ratio>) -> CaseResult {
    CaseResult {
        configuration: Configuration {
            pipe_bytes: case.subject.pipe_bytes(),
            slots: case.subject.pipe_bytes().map(|bytes| bytes >> 12),
            ..case.configuration()
        },
        samples: (0..ROUNDS).map(|round| sample(round, rate)).collect(),
        summary: Some(Summary {
            gib_per_s: estimate(rate * 0.962, rate, rate * 1.043),
            flagged: 0,
            median_unflagged: Some(rate),
            cpu_s_per_gib: Some(1.3 / rate),
            cpu_us_per_message: None,
            switches_per_gib: Some(if case.spins() { 1.4 } else { 16_384.0 / rate }),
            syscalls_per_gib: Some(24_576.0),
            would_blocks_per_gib: Some(0.0),
            kib_per_call: Some(118.0),
        }),
        ratio,
        ..unmeasured(case)
    }
}

fn sample(round: usize, rate: f64) -> Sample {
    // A fixed wobble of some percent, so that no two samples are equal.
    let gib_per_s = rate * (1.0 + 0.05 * ((round * 7 % ROUNDS) as f64 / ROUNDS as f64 - 0.5));
    let seconds = 0.2 + round as f64 * 1e-5;
    let bytes = (gib_per_s * seconds * GIB) as u64;
    let end = EndCounters {
        bytes,
        seconds,
        cpu_s: seconds * 0.7,
        voluntary_switches: 1_800,
        syscalls: 4_100,
        moving_calls: 4_050,
        run_delay_s: Some(0.000_31),
        ..EndCounters::default()
    };
    Sample {
        round,
        position: (round * 5) % 9,
        bytes,
        seconds,
        gib_per_s,
        flags: Vec::new(),
        parts_gib_per_s: vec![gib_per_s * 0.99, gib_per_s, gib_per_s * 1.01],
        writer: Some(end.clone()),
        reader: Some(end),
    }
}

/// A median with its interval.
pub fn estimate(low: f64, median: f64, high: f64) -> Estimate {
    let coverage = 0.992;
    Estimate {
        median,
        interval: Some(Interval {
            low,
            high,
            coverage,
        }),
    }
}

/// A ratio with an interval of a few percent and the verdict that follows.
pub fn ratio(median: f64) -> Ratio {
    within(median * 0.97, median, median * 1.032)
}

/// A ratio with its interval and the verdict that follows.
pub fn within(low: f64, median: f64, high: f64) -> Ratio {
    Ratio::new(estimate(low, median, high))
}

/// A run of any cases.
pub fn run(suite: Suite, cases: Vec<CaseResult>) -> Run {
    Run {
        header: RecordHeader {
            machine: machine(),
            ..header(RecordKind::Bench)
        },
        suite,
        interrupted: None,
        settings: Settings {
            seed: 20_260_314,
            rounds_planned: ROUNDS,
            rounds_done: ROUNDS,
            order: "balanced for carry-over (Williams)".to_owned(),
            timed_s: 0.2,
            warm_up_s: 0.05,
            placement: "different".to_owned(),
            writer_cpu: Some(0),
            reader_cpu: Some(1),
            cpu_relation: "different cores, one cache".to_owned(),
            pipe_size: None,
            buffer_size: None,
            data: None,
            work: 0,
            quick: false,
            confidence: 0.95,
        },
        warnings: Vec::new(),
        null_control: None,
        cases,
        findings: Vec::new(),
        search: None,
    }
}

/// Plausible results of the suite `ladder` in a virtual machine.
pub fn ladder() -> Run {
    let figures = [
        (0.652, None),
        (1.05, Some(ratio(1.61))),
        (0.658, Some(within(0.98, 1.01, 1.03))),
        (0.913, Some(ratio(1.4))),
        (2.86, Some(ratio(2.72))),
        (2.95, Some(within(0.96, 1.03, 1.11))),
        (5.61, Some(ratio(1.96))),
        (6.14, Some(ratio(1.09))),
        (64.2, Some(ratio(10.4))),
    ];
    let cases = Suite::Ladder.cases(&Overrides::default());
    let twin = measured(&cases[0].twin(), 0.655, None);
    let figures = cases.iter().zip(figures);
    let mut cases: Vec<CaseResult> = figures
        .map(|(case, (rate, ratio))| measured(case, rate, ratio))
        .collect();
    cases.insert(1, twin);
    let mut run = run(Suite::Ladder, cases);
    run.null_control = Some(NullControl {
        case: "write_read".to_owned(),
        twin: "write_read_again".to_owned(),
        ratio: Some(within(0.974, 1.0, 1.03)),
    });
    run.warnings = vec![
        Warning {
            kind: WarningKind::Guest,
            case: None,
            message: "this is a virtual machine (KVM): waking a sleeping peer on another \
                      processor takes 9 us here"
                .to_owned(),
        },
        Warning {
            kind: WarningKind::TwoModes,
            case: Some("vmsplice_read_huge".to_owned()),
            message: "the samples fall into two groups, at 2.7 and 3.1 GiB/s".to_owned(),
        },
    ];
    run
}

/// Plausible results of the suite `sizes`.
pub fn sizes() -> Run {
    use crate::search::fake::{Fake, plan, whole_run};
    whole_run(run(Suite::Sizes, Vec::new()), &plan(60.0), Fake::default()).0
}

/// Plausible results of the suite `touched`.
pub fn touched() -> Run {
    use crate::search::fake::{Fake, baseline_plan};
    use crate::search::search;
    let mut run = run(Suite::Touched, Vec::new());
    let plan = baseline_plan(60.0);
    let found = search(&plan, &mut Fake::default(), &mut run, &mut ()).expect("no signal");
    let cases = plan.with_found(Suite::Touched.cases(&Overrides::default()), found);
    let rates = [
        5.12, 0.71, 7.64, 5.9, 6.4, 7.91, 4.4, 6.43, 8.02, 0.83, 3.7, 40.8, 80.7,
    ];
    let results = cases.iter().zip(rates).map(|(case, rate)| {
        let ratio = case.compared_with.is_some().then(|| ratio(rate / rates[0]));
        measured(case, rate, ratio)
    });
    run.cases = results.collect();
    run
}

/// Plausible results of the suite `channels`: rates grow with the size of the messages
/// up to the channel's limit, and spinning doubles them.
pub fn channels(all: bool) -> Run {
    let planned = Suite::Channels.cases(&overrides(|asked| asked.selection.all = all));
    let cases = planned.iter().map(|made| {
        let channel = made.subject.channel().unwrap();
        let kind = Channel::VALUES.iter().position(|one| *one == channel);
        let kind = kind.unwrap() as f64;
        let bytes = made.subject.message_bytes().unwrap() as f64;
        let max_rate = 1.0 + kind / 4.0;
        let rate = max_rate * bytes / (bytes + 6000.0 * (1.0 + kind % 3.0));
        let rate = if made.spins() { 2.0 * rate } else { rate };
        let is_compared = made.compared_with.is_some();
        let ratio = is_compared.then(|| ratio(1.0 + kind / 9.0));
        let mut case = measured(made, rate, ratio);
        let (in_pipe, in_ring) = (channel.is_pipe(), channel.is_ring());
        case.configuration = Configuration {
            pipe_bytes: in_pipe.then_some(64 << 10),
            ring_bytes: in_ring.then_some((2 * made.subject.buffer_bytes()).max(1 << 20)),
            send_buffer_bytes: (!in_pipe && !in_ring).then_some(212_992),
            ..made.configuration()
        };
        case.verified_bytes = Some(1 << 20);
        if let Some(summary) = &mut case.summary {
            summary.cpu_us_per_message = Some(1.3e6 / rate * bytes / GIB);
        }
        case
    });
    let mut run = run(Suite::Channels, cases.collect());
    run.null_control = None;
    let reason = "a message has at most 212960 bytes here (SO_SNDBUF less 32)";
    let is_over = |case: &&CaseResult| {
        let configuration = &case.configuration;
        configuration.channel() == Some(Channel::Seqpacket)
            && configuration.message_bytes >= Some(256 << 10)
    };
    let names = run.cases.iter().filter(is_over).map(|c| c.name.clone());
    for name in names.collect::<Vec<_>>() {
        leave_out(&mut run, &name, NotRun::limit(reason));
    }
    run
}

/// Plausible results of the suite `memory`: rates fall beyond the size of each cache.
/// Scalar rates are constant until they are limited by memory's.
pub fn memory() -> Run {
    const CACHES: [(u8, CacheKind, u64, f64); 4] = [
        (1, CacheKind::Data, 48 << 10, 180.0),
        (1, CacheKind::Instruction, 32 << 10, 180.0),
        (2, CacheKind::Unified, 1 << 20, 140.0),
        (3, CacheKind::Unified, 32 << 20, 80.0),
    ];
    let planned = Suite::Memory.cases(&Overrides::default());
    let cases = planned.iter().map(|made| {
        let Some(block) = made.subject.memory() else {
            let rungs = ladder().cases;
            let mut rung = rungs.into_iter().find(|case| case.name == made.name);
            let rung = rung.as_mut().expect("a rung of the ladder");
            let base = made.compared_with.clone();
            (rung.compared_with, rung.factor) = base.unzip();
            rung.ratio = rung
                .summary
                .as_ref()
                .map(|s| ratio(s.gib_per_s.median / 100.0));
            return rung.clone();
        };
        let bytes = (block.block_bytes * block.blocks()) as u64;
        let holds = CACHES.iter().find(|(_, _, size, _)| *size >= bytes);
        let wide = holds.map_or(30.0, |(.., rate)| *rate) / block.blocks() as f64;
        let rate = if matches!(block.act, Act::ReadScalar | Act::WriteScalar) {
            wide.min(55.0)
        } else {
            wide
        };
        measured(made, rate, None)
    });
    let mut run = run(Suite::Memory, cases.collect());
    run.header.machine.processors.caches = CACHES
        .map(|(level, kind, bytes, _)| Cache {
            level,
            kind,
            bytes: Some(bytes),
            ..Cache::default()
        })
        .to_vec();
    run
}

/// Makes this ratio the result of a run's null control, which verdicts allow for.
pub fn set_control(run: &mut Run, ratio: Ratio) {
    let case = run
        .cases
        .first()
        .map_or_else(String::new, |case| case.name.clone());
    let control = run.null_control.get_or_insert(NullControl {
        twin: format!("{case}_again"),
        case,
        ratio: None,
    });
    control.ratio = Some(ratio);
    allow_for_null_control(run);
}

/// Makes a case of a run one that is refused.
pub fn refuse(run: &mut Run, name: &str, reason: &str) {
    leave_out(run, name, NotRun::refused(reason));
}

/// Makes a case of a run one that was not run.
pub fn leave_out(run: &mut Run, name: &str, not_run: NotRun) {
    let case = run
        .cases
        .iter_mut()
        .find(|case| case.name == name)
        .expect("a case of the run");
    case.not_run = Some(not_run);
    case.samples.clear();
    case.summary = None;
    case.ratio = None;
}

/// An invented deadlock of messages of 128 KiB.
pub fn deadlock() -> TrialDeadlock {
    let state = |pid, written, read| ProcessState {
        pid,
        sleep: Sleep {
            letter: Some('S'),
            wait_channel: Some("pipe_write".to_owned()),
        },
        written,
        read,
        is_writing: true,
    };
    TrialDeadlock {
        round_trips: 1,
        seconds: 2.0,
        capacity: "each pipe holds 64KiB".to_owned(),
        processes: [state(11, 262_144, 131_072), state(12, 196_608, 262_144)],
    }
}

/// Plausible results of round trips.
pub fn latency_record(mode: ExchangeMode) -> LatencyRecord {
    let mut cases: Vec<CaseRecord> = [
        (Channel::PIPE, 8),
        (Channel::Tcp, 8),
        (Channel::PIPE, 1 << 17),
    ]
    .into_iter()
    .map(|(kind, size)| CaseRecord::new(kind, size, mode))
    .collect();
    for case in &mut cases[..2] {
        let slow = if case.channel == Channel::Tcp { 3 } else { 1 };
        for round in 0..7 {
            let counts = (0..2000)
                .map(|at| (slow * (8000 + round * 100 + at * at / 40), 1))
                .collect();
            let outcome = RoundTripOutcome {
                counts,
                seconds: 1.0,
                ..RoundTripOutcome::default()
            };
            let measured = Measured {
                outcome,
                ..Measured::default()
            };
            let place = TrialPlace {
                round: round as usize,
                position: 0,
            };
            case.add(place, &measured, true);
        }
    }
    match mode {
        ExchangeMode::Closed | ExchangeMode::Open(_) => cases[2].failed = 3,
        ExchangeMode::Naive(_) => cases[2].deadlock = Some(deadlock()),
    }
    let mut eventfd = CaseRecord::new(Channel::Eventfd, 1024, mode);
    eventfd.not_run = Some(NotRun::limit("a message has at most 8 bytes"));
    cases.push(eventfd);
    let settings = LatencySettings {
        length: Length::Count(2000),
        wait: Waiting::Block,
        cpus: [Some(0), Some(1)],
        relation: "different cores".to_owned(),
        pipe_bytes: None,
        rounds: 7,
        seed: 5,
    };
    let header = header(RecordKind::Latency);
    let mut record = LatencyRecord::new(header, settings, LatencyResults { cases });
    let guest = Warning::new(WarningKind::Guest, "this is a guest");
    record.warnings.push(guest);
    record
}
