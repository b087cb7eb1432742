//! The record of a command, made from its stages.

use std::time::Duration;

use super::member::Member;
use super::running::RunOutcome;
use super::stages::{self, MergedStage};
use super::usage::StageUsage;
use crate::profile::account::ResourceUsage;
use crate::profile::event::MIN_SAMPLES;
use crate::profile::gathered::{Chains, end_profile};
use crate::profile::perf::{EventScope, Sampling};
use crate::profile::record::{PipelineProfile, Share, StageProfile};
use pipespeed_base::text::in_short;

/// A stage's role contains at most this many characters of its command.
const MAX_ROLE: usize = 40;
/// Of the processes outside of pipelines at most this many are named.
const MAX_OTHERS: usize = 3;
/// Minimum share of the phases without sampling in a stage's time to compare them with the others.
const MIN_UNSAMPLED: f64 = 0.2;
/// Minimum share of a stage's samples whose processes were seen, to compare phases: short-lived
/// processes may start and end unseen.
const MIN_SEEN: f64 = 0.9;

/// Of the time of a stage, at most this share may be unknown.
const MAX_UNKNOWN: f64 = 0.05;

/// Makes the record.
pub fn record(command: &str, ran: RunOutcome, sampling: Option<&Sampling>) -> PipelineProfile {
    let (mut stages, rest, others) = stages::find(ran.members);
    let mut rest = MergedStage::new(rest);
    add_unseen(stages.iter_mut().chain([&mut rest]), ran.used);
    let mut other = None;
    if stages.is_empty() {
        command.clone_into(&mut rest.member.command);
        rest.member.status = ran.status;
        stages.push(rest);
    } else {
        let weight: u64 = others.values().sum();
        let names = Share::list(others, weight).into_iter();
        let names: Vec<String> = names.take(MAX_OTHERS).map(|name| name.name).collect();
        rest.member.command = names.join(", ");
        other = Some(rest);
    }
    let mut named: Vec<Chains<String>> = Vec::new();
    for stage in &mut stages {
        let chains = name_functions(&mut stage.member, sampling);
        stage.splices = chains.weights.keys().any(|chain| splices(chain));
        named.push(chains);
    }
    let volumes = |of| stages::volumes(&stages, of);
    let all = volumes(|stage| stage.usage);
    let unsampled = volumes(|stage| stage.member.unsampled);
    let sampled = volumes(|stage| stage.member.sampled);
    let scope = sampling.map_or(EventScope::Processors, |sampling| sampling.scope);
    let stages = stages.into_iter().zip(named).enumerate();
    let stages = stages.map(|(at, (stage, chains))| {
        let role = format!("{}: {}", at + 1, in_short(&stage.command(), MAX_ROLE));
        let volumes = [all[at], unsampled[at], sampled[at]];
        profile(&role, stage, chains, volumes, scope)
    });
    PipelineProfile {
        command: command.to_owned(),
        wall_s: ran.wall.as_secs_f64(),
        cpu_s: ran.used.map(|used| used.as_secs_f64()),
        out_of_time: ran.out_of_time,
        status: ran.status,
        left: ran.left,
        losses: ran.losses,
        stages: stages.collect(),
        other: other.map(|mut rest| {
            let role = format!("other: {}", in_short(&rest.member.command, MAX_ROLE));
            let chains = name_functions(&mut rest.member, sampling);
            profile(&role, rest, chains, [[None; 2]; 3], scope)
        }),
    }
}

/// Takes the samples of a process, and names their functions.
fn name_functions(member: &mut Member, sampling: Option<&Sampling>) -> Chains<String> {
    let chains = std::mem::take(&mut member.chains);
    sampling.map_or_else(Chains::default, |sampling| chains.named(&sampling.symbols))
}

/// Divides the running time of processes that were not seen, i.e. the rest of the `used` time of
/// all, among the stages by their samples in such processes.
fn add_unseen<'a>(stages: impl Iterator<Item = &'a mut MergedStage>, used: Option<Duration>) {
    let stages: Vec<&mut MergedStage> = stages.collect();
    let seen: Duration = stages.iter().map(|stage| stage.usage.ran).sum();
    let members = || stages.iter().map(|stage| &stage.member);
    let samples: u64 = members().map(|member| member.chains.samples).sum();
    let weight: u64 = members().map(|member| member.weight_unseen).sum();
    let Some(used) = used.filter(|_| samples >= MIN_SAMPLES && weight > 0) else {
        return;
    };
    let unseen = used.saturating_sub(seen);
    for stage in stages {
        stage.unseen = unseen.mul_f64(stage.member.weight_unseen as f64 / weight as f64);
    }
}

/// The record of a stage, with the bytes that it took and gave in all phases, and in those without
/// and with sampling.
fn profile(
    role: &str,
    stage: MergedStage,
    chains: Chains<String>,
    volumes: [[Option<u64>; 2]; 3],
    scope: EventScope,
) -> StageProfile {
    let command = stage.command();
    let member = stage.member;
    let weight = member.weight_seen + member.weight_unseen;
    let seen = member.weight_seen as f64 / weight.max(1) as f64;
    let wall = stage.usage.wall.as_secs_f64();
    let parts = [stage.usage, member.unsampled, member.sampled];
    let usage = |usage: StageUsage, [taken, given]: [Option<u64>; 2]| {
        let wall_s = usage.wall.as_secs_f64();
        let share = wall_s / wall.max(f64::MIN_POSITIVE);
        ResourceUsage {
            bytes: taken.or(given).unwrap_or(0),
            wall_s,
            cpu_s: usage.ran.as_secs_f64() + stage.unseen.as_secs_f64() * share,
            run_delay_s: usage.delayed.as_secs_f64(),
            ..ResourceUsage::default()
        }
    };
    let [all, unsampled, sampled] = [0, 1, 2].map(|at| usage(parts[at], volumes[at]));
    let [taken, given] = volumes[0];
    let is_comparable =
        unsampled.wall_s >= MIN_UNSAMPLED * all.wall_s && sampled.wall_s > 0.0 && seen >= MIN_SEEN;
    let unseen_samples = chains.samples as f64 * (1.0 - seen);
    let unseen = stage.unseen.as_secs_f64();
    let guessed = if unseen_samples < MIN_SAMPLES as f64 {
        unseen
    } else {
        0.0
    };
    let unknown = member.missed_time().as_secs_f64() + guessed;
    let is_timed = unknown <= MAX_UNKNOWN * all.wall_s;
    let mut end = end_profile(
        role,
        scope,
        all.within_wall_time(stage.usage.asleep.as_secs_f64()),
        sampled,
        chains,
    );
    end.usage = all;
    let seen_asleep: u64 = member.waits.values().sum();
    StageProfile {
        command,
        status: member.status,
        reads_from: stage.before.first().map(|at| at + 1),
        writes_to: stage.after.first().map(|at| at + 1),
        wall_s: all.wall_s,
        cpu_s: all.cpu_s,
        is_timed,
        usage_unsampled: is_comparable.then_some(unsampled),
        taken_bytes: taken,
        given_bytes: given,
        waits: Share::list(member.waits, seen_asleep),
        seen_asleep,
        end,
    }
}

/// Functions of the kernel that move bytes without counting them: those of
/// splice(2), vmsplice(2) and tee(2) (fs/splice.c). sendfile(2) counts.
const UNCOUNTED: &[&str] = &[
    "__do_splice",
    "do_splice",
    "__x64_sys_splice",
    "__arm64_sys_splice",
    "__do_sys_vmsplice",
    "__x64_sys_vmsplice",
    "__arm64_sys_vmsplice",
    "vmsplice_to_pipe",
    "vmsplice_to_user",
    "__x64_sys_tee",
    "__arm64_sys_tee",
    "do_tee",
    "link_pipe",
];

/// Whether a call chain goes through one of them.
fn splices(chain: &[String]) -> bool {
    let mut chain = chain.iter();
    chain.any(|function| UNCOUNTED.contains(&&**function))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::pipeline::member::tests::member;

    #[test]
    fn the_time_of_unseen_processes_is_divided_by_their_samples() {
        let with = |name: &str, ran: u64, samples: u64, unseen: u64| {
            let mut stage = MergedStage::new(member(1, name, [1, 2], Vec::new()));
            stage.usage.ran = Duration::from_secs(ran);
            stage.member.chains.samples = samples;
            stage.member.weight_unseen = unseen;
            stage
        };
        let unseen = |samples: u64, used: u64| {
            let mut stages = [with("sh", 1, samples, 300), with("cat", 3, 10, 100)];
            add_unseen(stages.iter_mut(), Some(Duration::from_secs(used)));
            stages.map(|stage| stage.unseen.as_secs())
        };
        assert_eq!(unseen(1000, 12), [6, 2]);
        // It can't be negative, and a few samples divide nothing.
        assert_eq!(unseen(1000, 3), [0, 0]);
        assert_eq!(unseen(50, 12), [0, 0]);
    }

    #[test]
    fn a_stage_is_timed_if_little_of_its_time_is_unknown() {
        let is_timed = |wall: u64, missed: u64, guessed: u64, weight_unseen: u64| {
            let mut stage = MergedStage::new(member(1, "sh", [1, 2], Vec::new()));
            stage.usage.wall = Duration::from_millis(wall);
            stage.unseen = Duration::from_millis(guessed);
            stage.member.missed_time = Duration::from_millis(missed);
            (stage.member.weight_seen, stage.member.weight_unseen) = (1000, weight_unseen);
            let chains = Chains {
                samples: 1000,
                ..Chains::default()
            };
            profile(
                "1: sh",
                stage,
                chains,
                [[None; 2]; 3],
                EventScope::Processors,
            )
            .is_timed
        };
        assert!(is_timed(1000, 19, 0, 0));
        assert!(!is_timed(112, 19, 0, 0));
        // The time of unseen children, by 10 samples and by 500.
        assert!(!is_timed(1000, 19, 200, 10));
        assert!(is_timed(1000, 19, 200, 1000));
    }

    #[test]
    fn sendfile_counts_and_splice_does_not() {
        let splices = |chain: [&str; 3]| splices(&chain.map(str::to_owned));
        assert!(splices([
            "do_syscall_64",
            "do_splice",
            "splice_pipe_to_pipe"
        ]));
        assert!(!splices([
            "do_syscall_64",
            "do_sendfile",
            "splice_direct_to_actor"
        ]));
    }
}
