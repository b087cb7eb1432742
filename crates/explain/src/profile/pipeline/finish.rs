//! A pipeline's record, from what was seen of its stages.

use rustix::process::WaitStatus;

use super::Pipeline;
use super::account::Account;
use super::running::{Ran, Seen};
use super::volume::{Side, between, splices};
use crate::profile::account::Usage;
use crate::profile::gathered::{Chains, end_profile};
use crate::profile::groups::Table;
use crate::profile::record::{Function, PipelineProfile, StageProfile, Status};
use crate::profile::symbols::Symbols;

/// The characters that a stage's role has of its command.
const ROLE: usize = 40;

/// Makes the record.
pub fn record(pipeline: &Pipeline, ran: Ran, symbols: &Symbols) -> PipelineProfile {
    let mut stages: Vec<(Seen, Chains<String>)> = Vec::new();
    for mut seen in ran.stages {
        let chains = std::mem::take(&mut seen.chains).named(symbols);
        stages.push((seen, chains));
    }
    let all = volumes(&stages, |seen| seen.sampled.and(&seen.unsampled));
    let unsampled = volumes(&stages, |seen| seen.unsampled);
    let sampled = volumes(&stages, |seen| seen.sampled);
    let stages = stages.into_iter().zip(&pipeline.stages).enumerate();
    PipelineProfile {
        command: pipeline.text.clone(),
        wall_s: ran.wall.as_secs_f64(),
        out_of_time: ran.out_of_time,
        interrupted: ran.interrupted,
        left: ran.left,
        stages: stages
            .map(|(at, ((seen, chains), stage))| {
                let role = format!("{}: {}", at + 1, in_short(&stage.text, ROLE));
                stage_profile(
                    &stage.text,
                    &role,
                    seen,
                    chains,
                    [all[at], unsampled[at], sampled[at]],
                )
            })
            .collect(),
    }
}

/// Unsampled phases that are a smaller part of a stage's time say nothing.
const ENOUGH: f64 = 0.2;
/// Nor does what was seen of its threads if it is less than this share of what
/// it used in all: short-lived children come and go between two looks.
const NEARLY_ALL: f64 = 0.9;

/// What a stage used, in all and without sampling.
struct Used {
    all: Usage,
    unsampled: Usage,
    sampled: Usage,
    by_phases: bool,
}

fn used(seen: &Seen, accounts: [Bytes; 3]) -> Used {
    let [all, unsampled, sampled] = accounts;
    let usage = |account: &Account, bytes: u64| Usage {
        bytes,
        wall_s: account.wall.as_secs_f64(),
        cpu_s: account.ran.as_secs_f64(),
        run_delay_s: account.delayed.as_secs_f64(),
        ..Usage::default()
    };
    let both = seen.sampled.and(&seen.unsampled);
    let mut whole = usage(&both, all.basis());
    let seen_cpu_s = whole.cpu_s;
    if let Some(ended) = seen.ended {
        whole.cpu_s = (ended.cpu + seen.orphans).as_secs_f64();
        whole.wall_s = ended.wall.as_secs_f64();
    }
    let part = usage(&seen.unsampled, unsampled.basis());
    if part.wall_s >= ENOUGH * whole.wall_s && seen_cpu_s >= NEARLY_ALL * whole.cpu_s {
        Used {
            all: whole,
            unsampled: part,
            sampled: usage(&seen.sampled, sampled.basis()),
            by_phases: true,
        }
    } else {
        Used {
            all: whole,
            unsampled: whole,
            sampled: whole,
            by_phases: false,
        }
    }
}

/// What went through the pipes before and behind a stage.
#[derive(Debug, Clone, Copy)]
struct Bytes {
    taken: Option<u64>,
    given: Option<u64>,
}

impl Bytes {
    /// What a stage's pages are: what it takes; of the first, what it gives.
    fn basis(self) -> u64 {
        self.taken.or(self.given).unwrap_or(0)
    }
}

/// The volumes at each stage, by the accounts that `of` picks.
fn volumes(stages: &[(Seen, Chains<String>)], of: fn(&Seen) -> Account) -> Vec<Bytes> {
    let splicing: Vec<bool> = stages
        .iter()
        .map(|(_, chains)| any_splice(chains))
        .collect();
    let side = |at: usize, count: fn(Account) -> Option<u64>| Side {
        counted: count(of(&stages[at].0)),
        splices: splicing[at],
    };
    let pipes: Vec<Option<u64>> = (1..stages.len())
        .map(|at| between(side(at - 1, |a| a.given), side(at, |a| a.taken)))
        .collect();
    (0..stages.len())
        .map(|at| Bytes {
            taken: at.checked_sub(1).and_then(|at| pipes[at]),
            given: pipes.get(at).copied().flatten(),
        })
        .collect()
}

fn any_splice(chains: &Chains<String>) -> bool {
    let mut all = chains.weights.keys();
    all.any(|chain| splices(chain.iter().map(String::as_str)))
}

fn stage_profile(
    command: &str,
    role: &str,
    seen: Seen,
    chains: Chains<String>,
    accounts: [Bytes; 3],
) -> StageProfile {
    let used = used(&seen, accounts);
    let shared_out = used.unsampled.within_wall_time();
    let mut end = end_profile(role, shared_out, used.sampled, chains, Table::built_in());
    end.usage = used.unsampled;
    let seen_asleep: u64 = seen.watch.waits.values().sum();
    let waits = seen.watch.waits.into_iter();
    let mut waits: Vec<Function> = waits
        .map(|(name, times)| Function {
            name,
            share: times as f64 / seen_asleep as f64,
        })
        .collect();
    waits.sort_by(|a, b| b.share.total_cmp(&a.share));
    let status = seen
        .ended
        .map_or(Status::Exited(0), |ended| status_of(ended.status));
    StageProfile {
        command: command.to_owned(),
        status,
        ran: !(seen.unchanged && status.says_not_run()),
        wall_s: used.all.wall_s,
        cpu_s: used.all.cpu_s,
        by_phases: used.by_phases,
        taken_bytes: accounts[0].taken,
        given_bytes: accounts[0].given,
        waits,
        seen_asleep,
        end,
    }
}

fn status_of(status: WaitStatus) -> Status {
    match (status.exit_status(), status.terminating_signal()) {
        (None, Some(signal)) => Status::Signal(signal),
        (code, _) => Status::Exited(code.unwrap_or(0)),
    }
}

/// A command on a line of so many characters.
pub fn in_short(command: &str, most: usize) -> String {
    let words = command.split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let line = words.join(" ");
    match line.char_indices().nth(most) {
        None => line,
        Some(_) => {
            let kept: String = line.chars().take(most - 1).collect();
            format!("{}…", kept.trim_end())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_command_gets_short_and_stays_on_its_line() {
        assert_eq!(in_short(" a\n\tb\u{1b}[0m ", 40), "a b [0m");
        assert_eq!(
            in_short(&"é".repeat(50), 40),
            format!("{}…", "é".repeat(39))
        );
        assert_eq!(in_short(&"x".repeat(40), 40), "x".repeat(40));
    }
}
