//! What a run of round trips consists of, and what has to be said of that and
//! of what went on meanwhile.

use crate::cli::LatencyArgs;
use crate::commands::{header, pipe_size_allowed};
use pipespeed_base::Named;
use pipespeed_base::failure::usage;
use pipespeed_host::placement::Chosen;
use pipespeed_host::topology::Topology;
use pipespeed_host::{Machine, Warning, WarningKind, spinning_refused, warnings};
use pipespeed_measure::latency::channels::{EVENTFD_BYTES, Kind};
use pipespeed_measure::latency::record::{CaseRecord, Record, Settings};
use pipespeed_measure::latency::rounds::{Ended, Plan};
use pipespeed_measure::latency::spec::{Length, Mode};
use pipespeed_measure::record::{Flag, Kind as RecordKind};
use pipespeed_measure::rounds::{RULE, waited_for_processor};
use pipespeed_report::pluralize;

/// Sizes of a run that names none.
const USUAL_SIZES: [usize; 3] = [8, 1 << 10, 64 << 10];
/// What starting and ending a trial takes beside its timed part, in seconds.
const AROUND_S: f64 = 0.025;
/// The longest and shortest timed part, in seconds.
const SHORTEST_S: f64 = 0.02;
const LONGEST_S: f64 = 30.0;
/// A run that takes so many times --time, and what starting takes, has overrun it.
const OVERRUN: f64 = 1.25;
const STARTING_S: f64 = 0.5;
/// With fewer messages a launch of an open loop says little.
const FEWEST_MESSAGES: f64 = 10.0;
/// So many cases are named in a warning that concerns several of them.
const MAX_NAMED: usize = 12;

/// Where there are more launches than the time has room for.
pub(super) fn overtime(args: &LatencyArgs, cases: usize) -> Option<Warning> {
    let launches = args.rounds as usize * cases;
    let least_s = launches as f64 * (SHORTEST_S + AROUND_S);
    (args.count.is_none() && least_s > args.time).then(|| {
        let message = format!(
            "--time {}: {launches} launches of at least {SHORTEST_S} s take about {least_s:.0} s; fewer channels, sizes \
             or --rounds take less",
            args.time
        );
        Warning::new(WarningKind::Configuration, message)
    })
}

/// Where it took longer than there was time for.
pub(super) fn overrun(args: &LatencyArgs, took_s: f64) -> Option<Warning> {
    let over = took_s > args.time * OVERRUN + STARTING_S;
    (args.count.is_none() && over).then(|| {
        let message = format!(
            "--time {}: the run took {took_s:.1} s: a launch takes {SHORTEST_S} s at least, and starting its processes and \
             warming them up takes its time; fewer channels, sizes or --rounds, or smaller messages, take less",
            args.time
        );
        Warning::new(WarningKind::Configuration, message)
    })
}

/// A rate at which a launch has hardly any messages.
pub(super) fn few_messages(plan: &Plan) -> Option<Warning> {
    let (Mode::Open(rate), Length::Time(ns)) = (plan.mode, plan.length) else {
        return None;
    };
    let launch_s = ns as f64 / 1e9;
    let messages = (rate * launch_s).round().max(1.0);
    (messages < FEWEST_MESSAGES).then(|| {
        let message = format!(
            "--rate {rate}: a launch of {launch_s:.2} s has {}, which is too few for percentiles; more --time, fewer \
             --rounds, or --count give it more",
            pluralize(messages as usize, "message")
        );
        Warning::new(WarningKind::Quick, message)
    })
}

/// Each channel with each size; those of an eventfd are all alike.
pub(super) fn cases(args: &LatencyArgs) -> anyhow::Result<Vec<CaseRecord>> {
    let named = || args.channels.iter().chain(&args.channel);
    let mut kinds: Vec<Kind> = match (args.all, named().next()) {
        (true, _) => Kind::VALUES.to_vec(),
        (false, None) => Kind::USUAL.to_vec(),
        (false, Some(_)) => Vec::new(),
    };
    for kind in named() {
        if !kinds.contains(kind) {
            kinds.push(*kind);
        }
    }
    if let Some(bytes) = args.pipe_size {
        if !kinds.iter().any(|kind| kind.is_of_pipes()) {
            return Err(usage(
                "--pipe-size: none of these channels has pipes; pipe, vmsplice, uring and fifo have",
            ));
        }
        pipe_size_allowed(bytes)?;
    }
    let mut sizes = args.size.clone();
    sizes.sort_unstable();
    sizes.dedup();
    let of = |kind: Kind| match (kind, sizes.is_empty()) {
        (Kind::Eventfd, true) => vec![EVENTFD_BYTES],
        (_, true) => USUAL_SIZES.to_vec(),
        (_, false) => sizes.clone(),
    };
    Ok(kinds
        .iter()
        .flat_map(|kind| {
            of(*kind)
                .into_iter()
                .map(|size| CaseRecord::new(*kind, size))
        })
        .collect())
}

/// What went on meanwhile, in words.
pub(super) fn disturbances(record: &Record, ended: &Ended) -> Vec<Warning> {
    let mut found = warnings::of_noise(&ended.noise);
    let waited = |case: &&CaseRecord| {
        let launches = || case.launches.iter();
        let with = launches().filter(|launch| launch.flags.contains(&Flag::RunDelay));
        with.count() as f64 > RULE * launches().count() as f64
    };
    let cases = record.cases.iter().filter(waited);
    let names: Vec<String> = cases.map(CaseRecord::name).collect();
    let who = match names.len() {
        0 => return found,
        1..=MAX_NAMED => names.join(", "),
        many => format!("{many} of {} cases", record.cases.len()),
    };
    let message = waited_for_processor(&who);
    found.push(Warning::new(WarningKind::RunDelay, message));
    found
}

pub(super) fn plan(args: &LatencyArgs, topology: &Topology, chosen: &Chosen, cases: usize) -> Plan {
    let trials = f64::from(args.rounds) * cases as f64;
    let timed_s = (args.time / trials - AROUND_S).clamp(SHORTEST_S, LONGEST_S);
    Plan {
        pipe_bytes: args.pipe_size,
        mode: match (args.naive, args.rate) {
            (true, _) => Mode::Naive,
            (false, Some(rate)) => Mode::Open(rate),
            (false, None) => Mode::Closed,
        },
        length: match args.count {
            Some(count) => Length::Count(count),
            None => Length::Time((timed_s * 1e9) as u64),
        },
        wait: args.wait,
        apart: spinning_refused(chosen, topology).is_none(),
        rounds: args.rounds as usize,
        seed: args.seed.unwrap_or_else(new_seed),
    }
}

/// From the clock: it only has to differ from run to run, and is recorded.
fn new_seed() -> u64 {
    (jiff::Timestamp::now().as_nanosecond() as u64 / 1000) % 1_000_000_000
}

pub(super) fn record(plan: &Plan, chosen: &Chosen) -> Record {
    let machine = Machine::read(chosen.writer, chosen.reader);
    let mut warnings = warnings::of_machine(&machine);
    let chosen_otherwise = chosen.warning.iter();
    warnings.extend(chosen_otherwise.map(|message| Warning::new(WarningKind::Placement, message)));
    Record {
        header: header(RecordKind::Latency, machine),
        interrupted: None,
        settings: Settings {
            mode: plan.mode,
            length: plan.length,
            wait: plan.wait,
            cpus: [chosen.writer, chosen.reader],
            relation: chosen.relation.clone(),
            pipe_bytes: plan.pipe_bytes,
            rounds: plan.rounds,
            seed: plan.seed,
        },
        cases: Vec::new(),
        failures: Vec::new(),
        warnings,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use pipespeed_measure::latency::spec::Wait;

    fn args(words: &str) -> LatencyArgs {
        #[derive(Parser)]
        struct Only {
            #[command(flatten)]
            args: LatencyArgs,
        }
        Only::try_parse_from(["x"].into_iter().chain(words.split_whitespace()))
            .map_err(|error| error.to_string())
            .unwrap()
            .args
    }

    #[test]
    fn more_launches_than_the_time_has_room_for_are_told_of() {
        assert_eq!(overtime(&args(""), 13), None);
        assert_eq!(overtime(&args("--count 5"), 1000), None);
        let told = overtime(&args("--time 2 --rounds 10"), 10).unwrap().message;
        assert!(told.contains("--time 2: 100 launches"), "{told}");
        assert!(told.contains("about 4 s") || told.contains("about 5 s"));
    }

    #[test]
    fn a_run_that_took_longer_than_its_time_is_told_of() {
        assert_eq!(overrun(&args("--time 2"), 2.9), None);
        assert_eq!(overrun(&args("--count 5"), 1000.0), None);
        let told = overrun(&args("--time 2"), 6.2).unwrap().message;
        assert!(told.contains("--time 2: the run took 6.2 s"), "{told}");
    }

    #[test]
    fn a_rate_too_low_for_the_length_of_a_launch_is_told_of() {
        let told = |mode, length| {
            few_messages(&Plan {
                pipe_bytes: None,
                mode,
                length,
                wait: Wait::Block,
                apart: true,
                rounds: 9,
                seed: 1,
            })
        };
        let launch = Length::Time(420_000_000);
        assert_eq!(told(Mode::Closed, launch), None);
        assert_eq!(told(Mode::Open(24.0), launch), None);
        assert_eq!(told(Mode::Open(1.0), Length::Count(3)), None);
        let told = told(Mode::Open(1.0), launch).unwrap().message;
        assert!(told.contains("0.42 s has 1 message,"), "{told}");
    }

    #[test]
    fn an_eventfd_is_measured_once_unless_sizes_are_named() {
        let sizes = |words: &str| -> Vec<usize> {
            let cases = cases(&args(words)).unwrap().into_iter();
            cases.map(|case| case.size).collect()
        };
        assert_eq!(sizes("").len(), 13);
        assert_eq!(sizes("--all --size 64").len(), Kind::VALUES.len());
        assert_eq!(sizes("pipe --channel pipe,tcp --size 64").len(), 2);
        assert_eq!(sizes("eventfd"), [8]);
        assert_eq!(sizes("eventfd eventfd --size 1K,8"), [8, 1024]);
    }
}
