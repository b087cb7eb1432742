//! The record of a pipeline, made from the observations of its stages.

use rustix::process::WaitStatus;

use super::Pipeline;
use super::account::Account;
use super::running::{Ran, Seen};
use crate::profile::account::Usage;
use crate::profile::gathered::{Chains, end_profile};
use crate::profile::perf::{EventScope, Sampling};
use crate::profile::record::{Function, PipelineProfile, StageProfile, Status};
use pipespeed_base::text::in_short;

/// A stage's role contains at most this many characters of its command.
const MAX_ROLE: usize = 40;

/// Makes the record.
pub fn record(pipeline: &Pipeline, ran: Ran, sampling: &Sampling) -> PipelineProfile {
    let mut stages: Vec<(Seen, Chains<String>)> = Vec::new();
    for mut seen in ran.stages {
        let chains = std::mem::take(&mut seen.chains).named(&sampling.symbols);
        stages.push((seen, chains));
    }
    let all = accounts(&stages, Seen::account);
    let unsampled = accounts(&stages, |seen| seen.unsampled);
    let sampled = accounts(&stages, |seen| seen.sampled);
    let stages = stages.into_iter().zip(&pipeline.stages).enumerate();
    let stages = stages.map(|(at, ((seen, chains), stage))| {
        let accounts = [all[at], unsampled[at], sampled[at]];
        stage_profile(at + 1, &stage.text, sampling.scope, seen, chains, accounts)
    });
    PipelineProfile {
        command: pipeline.text.clone(),
        wall_s: ran.wall.as_secs_f64(),
        out_of_time: ran.out_of_time,
        left: ran.left,
        losses: ran.losses,
        stages: stages.collect(),
    }
}

/// Minimum share of the phases without sampling in a stage's time; with less, the costs
/// are those of all phases.
const MIN_UNSAMPLED: f64 = 0.2;
/// Minimum share of a stage's processor time that was seen in its threads; with less, the
/// costs are those of all phases. Short-lived children may start and end unseen.
const MIN_SEEN: f64 = 0.9;

/// The record of the stage with this number; the accounts are those of all phases, and
/// of the phases without and with sampling.
fn stage_profile(
    number: usize,
    command: &str,
    scope: EventScope,
    seen: Seen,
    chains: Chains<String>,
    accounts: [Account; 3],
) -> StageProfile {
    let [mut all, unsampled, sampled] = accounts.map(|account| Usage {
        bytes: account.taken.or(account.given).unwrap_or(0),
        wall_s: account.wall.as_secs_f64(),
        cpu_s: account.ran.as_secs_f64(),
        run_delay_s: account.delayed.as_secs_f64(),
        ..Usage::default()
    });
    let seen_cpu_s = all.cpu_s;
    if let Some(ended) = seen.ended {
        all.cpu_s = (ended.cpu + seen.orphans).as_secs_f64();
        all.wall_s = ended.wall.as_secs_f64();
    }
    let by_phases =
        unsampled.wall_s >= MIN_UNSAMPLED * all.wall_s && seen_cpu_s >= MIN_SEEN * all.cpu_s;
    let (unsampled, sampled) = if by_phases {
        (unsampled, sampled)
    } else {
        (all, all)
    };
    let role = format!("{number}: {}", in_short(command, MAX_ROLE));
    let mut end = end_profile(&role, scope, unsampled.within_wall_time(), sampled, chains);
    end.usage = unsampled;
    let seen_asleep: u64 = seen.watch.waits.values().sum();
    let status = seen
        .ended
        .map_or(Status::Exited(0), |ended| status_of(ended.status));
    StageProfile {
        command: command.to_owned(),
        status,
        ran: !(seen.unchanged && status.says_not_run()),
        wall_s: all.wall_s,
        cpu_s: all.cpu_s,
        by_phases,
        taken_bytes: accounts[0].taken,
        given_bytes: accounts[0].given,
        waits: Function::shares(seen.watch.waits, seen_asleep),
        seen_asleep,
        end,
    }
}

/// The accounts of the stages that `of` selects. Their bytes are those that went
/// through the pipes before and after the stage, if known.
fn accounts(stages: &[(Seen, Chains<String>)], of: fn(&Seen) -> Account) -> Vec<Account> {
    let side = |at: usize, count: fn(Account) -> Option<u64>| {
        let (seen, chains) = &stages[at];
        let mut chains = chains.weights.keys();
        count(of(seen)).filter(|_| !chains.any(|chain| splices(chain)))
    };
    let pipes: Vec<Option<u64>> = (1..stages.len())
        .map(|at| between(side(at - 1, |a| a.given), side(at, |a| a.taken)))
        .collect();
    (0..stages.len())
        .map(|at| Account {
            taken: at.checked_sub(1).and_then(|at| pipes[at]),
            given: pipes.get(at).copied().flatten(),
            ..of(&stages[at].0)
        })
        .collect()
}

/// The volume of a pipe, from the bytes that its writer and its reader counted;
/// `None` for a process that splices, since the kernel does not count these bytes.
///
/// Processes read and write other files, too, so each count is at least the pipe's
/// volume, and the smaller one is nearer.
fn between(writer: Option<u64>, reader: Option<u64>) -> Option<u64> {
    writer.into_iter().chain(reader).min()
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

fn status_of(status: WaitStatus) -> Status {
    match (status.exit_status(), status.terminating_signal()) {
        (None, Some(signal)) => Status::Signal(signal),
        (code, _) => Status::Exited(code.unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_count_of_a_pipes_two_ends_is_its_volume() {
        assert_eq!(between(Some(1000), Some(1011)), Some(1000));
        assert_eq!(between(Some(5000), Some(1011)), Some(1011));
        assert_eq!(between(None, Some(7)), Some(7));
        assert_eq!(between(None, None), None);
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
