//! Invented profiles for tests of reports.

use super::account::ResourceUsage;
use super::gathered::{Chains, end_profile};
use super::perf::{Event, EventScope, FREQUENCY};
use super::reason::SleepReason;
use super::record::{
    CaseProfile, EndProfile, Losses, PipelineProfile, Profile, ProfileSettings, Share,
    StageProfile, Status,
};
use pipespeed_host::{Machine, Warning, WarningKind};
use pipespeed_measure::record::{Kind, RecordHeader};
use pipespeed_pipeline::wait::Asleep;

const MI: u64 = 1 << 20;

/// An end with `ns` nanoseconds per page, asleep for `asleep` of them. The rest is
/// divided by the weights of call chains, the outermost function first.
pub fn end(role: &str, ns: f64, asleep: f64, chains: &[(&str, u64)]) -> EndProfile {
    let bytes = 400 * MI;
    let seconds = |ns: f64| ns * 1e-9 * (bytes / 4096) as f64;
    let usage = ResourceUsage {
        bytes,
        wall_s: seconds(ns),
        cpu_s: seconds(ns - asleep),
        ..ResourceUsage::default()
    };
    let mut all = Chains::default();
    for (chain, weight) in chains {
        let frames = chain.split(' ').filter(|frame| !frame.is_empty());
        all.weights
            .insert(frames.rev().map(str::to_owned).collect(), *weight);
        all.samples += weight;
    }
    let sampled = ResourceUsage {
        cpu_s: all.samples as f64 / FREQUENCY as f64,
        ..usage
    };
    end_profile(role, EventScope::Processors, usage, sampled, all)
}

const WRITE: &str = "do_syscall_64 ksys_write vfs_write anon_pipe_write";
const COPY_IN: &str =
    "do_syscall_64 ksys_write vfs_write anon_pipe_write copy_page_from_iter _copy_from_iter";
const COPY_OUT: &str =
    "do_syscall_64 ksys_read vfs_read anon_pipe_read copy_page_to_iter _copy_to_iter";
const ALLOCATE: &str = "do_syscall_64 ksys_write vfs_write anon_pipe_write __alloc_pages";
const UNKNOWN: &str = "do_syscall_64 ksys_write vfs_write anon_pipe_write never_heard_of";

/// A writer that mostly copies.
pub fn writer(ns: f64, asleep: f64) -> EndProfile {
    let chains = [(COPY_IN, 60), (ALLOCATE, 20), (UNKNOWN, 15), ("", 5)];
    end("writer", ns, asleep, &chains)
}

/// A reader that mostly copies.
pub fn reader(ns: f64, asleep: f64) -> EndProfile {
    end("reader", ns, asleep, &[(COPY_OUT, 90), ("", 10)])
}

fn case(name: &str, from: Option<(&str, &str)>, ends: Vec<EndProfile>) -> CaseProfile {
    let rate = 4096.0 / ends[0].usage.wall_ns_per_page() * 1e9 / pipespeed_measure::record::GIB;
    CaseProfile {
        name: name.to_owned(),
        description: format!("{name}, invented"),
        compared_with: from.map(|(from, factor)| (from.to_owned(), factor.to_owned())),
        not_run: None,
        trials: 5,
        gib_per_s: rate * 0.9,
        gib_per_s_unsampled: rate,
        losses: Losses::default(),
        disturbances: Vec::new(),
        ends,
    }
}

fn profile() -> Profile {
    let mut machine = Machine::default();
    machine.kernel.release = Some("6.18.5".to_owned());
    let started_at = "2026-03-14T09:26:53Z".to_owned();
    let header = RecordHeader::new(Kind::Profile, Vec::new(), started_at, machine);
    Profile {
        header,
        interrupted: None,
        settings: ProfileSettings {
            event: Some(Event::CpuClock),
            scope: Some(EventScope::Processors),
            refusal: None,
            frequency: 1999,
            placement: "writer on processor 0, reader on 1 (different cores)".to_owned(),
        },
        warnings: vec![Warning::new(WarningKind::Sampling, "an invented note")],
        cases: Vec::new(),
        pipeline: None,
    }
}

/// Two rungs, of which the second copies at one end only.
pub fn ladder() -> Profile {
    let spliced = "do_syscall_64 __do_sys_vmsplice iov_iter_get_pages2 get_user_pages_fast";
    let copying = vec![writer(1000.0, 200.0), reader(1000.0, 500.0)];
    let vmsplicing = end("writer", 400.0, 300.0, &[(spliced, 100)]);
    let vmsplicing = vec![vmsplicing, reader(400.0, 10.0)];
    Profile {
        cases: vec![
            case("write_read", None, copying),
            case(
                "vmsplice_read",
                Some(("write_read", "vmsplice")),
                vmsplicing,
            ),
        ],
        ..profile()
    }
}

/// A stage with the costs of `end`, which is half as long and moved half as much in the phases
/// without sampling.
fn stage(number: usize, command: &str, bytes: [Option<u64>; 2], end: EndProfile) -> StageProfile {
    StageProfile {
        command: command.to_owned(),
        status: Some(Status::Exited(0)),
        reads_from: (number > 1).then_some(number - 1),
        writes_to: (number < 3).then_some(number + 1),
        wall_s: end.usage.wall_s,
        cpu_s: end.usage.cpu_s,
        usage_unsampled: Some(ResourceUsage {
            bytes: end.usage.bytes / 2,
            wall_s: end.usage.wall_s / 2.0,
            cpu_s: end.usage.cpu_s / 2.0,
            ..end.usage
        }),
        taken_bytes: bytes[0],
        given_bytes: bytes[1],
        waits: Vec::new(),
        seen_asleep: 0,
        is_timed: true,
        end: EndProfile {
            role: format!("{number}: {command}"),
            ..end
        },
    }
}

/// Three stages, of which the second is the bottleneck.
pub fn pipeline() -> Profile {
    let bytes = Some(400 * MI);
    let mut first = stage(1, "produce", [None, bytes], writer(10_000.0, 9_000.0));
    first.status = Some(Status::Signal(13));
    first.seen_asleep = 100;
    first.waits = [(Asleep::Room, 0.97), (Asleep::Poll, 0.03)]
        .map(|(kind, share)| Share {
            name: SleepReason::Kind(kind),
            share,
        })
        .to_vec();
    let second = end("", 10_000.0, 300.0, &[("", 95), (WRITE, 5)]);
    let second = stage(2, "filter", [bytes, None], second);
    let mut last = stage(3, "sink", [None, None], reader(10_000.0, 8_000.0));
    last.status = Some(Status::Exited(3));
    last.end.usage.bytes = 0;
    for cost in &mut last.end.costs {
        cost.ns_per_page = None;
    }
    Profile {
        pipeline: Some(PipelineProfile {
            command: "produce | filter | sink".to_owned(),
            wall_s: first.wall_s,
            cpu_s: None,
            out_of_time: false,
            status: Some(Status::Exited(3)),
            left: 0,
            losses: Losses::default(),
            stages: vec![first, second, last],
            other: None,
        }),
        ..profile()
    }
}
