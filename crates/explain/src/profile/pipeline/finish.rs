//! The record of a command, made from the observations of its stages.

use std::time::Duration;

use super::account::Account;
use super::running::Ran;
use super::stages::{Origin, Stage};
use crate::profile::account::{FEW_BYTES, Usage};
use crate::profile::gathered::{Chains, MIN_SAMPLES, end_profile};
use crate::profile::perf::{EventScope, Sampling};
use crate::profile::record::{Function, PipelineProfile, StageProfile, Status};
use pipespeed_base::text::in_short;
use pipespeed_pipeline::graph::Flow;
use pipespeed_pipeline::proc::ProcessId;

/// A stage's role contains at most this many characters of its command.
const MAX_ROLE: usize = 40;
/// Of the processes outside of pipelines at most this many are named.
const MAX_OTHERS: usize = 3;
/// Minimum share of the phases without sampling in a stage's time to compare them with the others.
const MIN_UNSAMPLED: f64 = 0.2;
/// Minimum share of a stage's samples whose processes were seen, to compare phases: short-lived
/// processes may start and end unseen.
const MIN_SEEN: f64 = 0.9;

/// A stage, or several equal ones that ran one after another, as in a loop.
struct Whole {
    stage: Stage,
    /// The pipes of all of them.
    flows: Vec<Flow>,
    account: Account,
    /// Running time of processes that were not seen.
    unseen: Duration,
    chains: Chains<String>,
}

impl Whole {
    fn first(&self) -> Option<(u64, i32)> {
        self.stage
            .first
            .map(|ProcessId { pid, start }| (start, pid))
    }

    /// Adds a later stage.
    fn add(&mut self, more: Whole) {
        let (own, more_of) = (&mut self.stage, more.stage);
        if own.command != more_of.command {
            own.command.clone_from(&own.name);
        }
        own.seen = more_of.seen;
        own.weight_seen += more_of.weight_seen;
        own.weight_unseen += more_of.weight_unseen;
        for side in [TAKEN, GIVEN] {
            own.foreign[side] += more_of.foreign[side];
            own.unseen[side] += more_of.unseen[side];
        }
        own.sampled = own.sampled.and(&more_of.sampled);
        own.unsampled = own.unsampled.and(&more_of.unsampled);
        for (wait, count) in more_of.waits {
            *own.waits.entry(wait).or_default() += count;
        }
        own.status = match own.status {
            None | Some(Status::Exited(0)) => more_of.status,
            failed => failed,
        };
        self.account = self.account.and(&more.account);
        self.unseen += more.unseen;
        self.flows.extend(more.flows);
        self.chains.append(more.chains);
    }

    /// Its command, or the programs that a shell runs.
    fn command(&self) -> String {
        let stage = &self.stage;
        match (stage.command.as_str(), stage.names.as_slice()) {
            ("", []) => stage.name.clone(),
            ("", names) => format!("{} ({})", stage.name, names.join(", ")),
            (command, _) if self.flows.len() > 1 => {
                format!("{command} ({} times)", self.flows.len())
            }
            (command, _) => command.to_owned(),
        }
    }
}

/// Makes the record.
pub fn record(command: &str, ran: Ran, sampling: Option<&Sampling>) -> PipelineProfile {
    let wholes = ran.stages.all.into_iter().map(|mut stage| Whole {
        flows: vec![stage.flow],
        account: stage.sampled.and(&stage.unsampled),
        unseen: Duration::ZERO,
        chains: match sampling {
            Some(sampling) => std::mem::take(&mut stage.chains).named(&sampling.symbols),
            None => Chains::default(),
        },
        stage,
    });
    let mut wholes: Vec<Whole> = wholes.collect();
    add_unseen(&mut wholes, ran.used);
    let mut wholes = wholes.into_iter();
    let scope = sampling.map_or(EventScope::Processors, |sampling| sampling.scope);
    let mut rest = wholes.next();
    let (mut stages, others): (Vec<_>, Vec<_>) = wholes
        .filter(|it| !it.stage.is_empty())
        .partition(|it| !it.stage.only_waits());
    stages.sort_by_key(Whole::first);
    let mut stages = in_order(joined(stages));
    let mut other = None;
    if let Some(mut rest) = rest.take() {
        if stages.is_empty() {
            command.clone_into(&mut rest.stage.command);
            rest.stage.status = ran.status;
            stages.push(rest);
        } else {
            for more in others {
                rest.chains.append(more.chains);
            }
            let weight: u64 = ran.stages.others.values().sum();
            let names = Function::shares(ran.stages.others, weight).into_iter();
            let names: Vec<String> = names.take(MAX_OTHERS).map(|it| it.name).collect();
            rest.stage.command = names.join(", ");
            other = Some(rest);
        }
    }
    let links = links(&stages);
    let all = accounts(&stages, &links, |whole| whole.account);
    let unsampled = accounts(&stages, &links, |whole| whole.stage.unsampled);
    let sampled = accounts(&stages, &links, |whole| whole.stage.sampled);
    let stages = stages.into_iter().enumerate().map(|(at, whole)| {
        let role = format!("{}: {}", at + 1, in_short(&whole.command(), MAX_ROLE));
        let from = links.iter().find(|(_, to)| *to == at);
        let to = links.iter().find(|(from, _)| *from == at);
        StageProfile {
            reads_from: from.map(|(from, _)| from + 1),
            writes_to: to.map(|(_, to)| to + 1),
            ..profile(&role, whole, [all[at], unsampled[at], sampled[at]], scope)
        }
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
        other: other.map(|whole| {
            let role = format!("other: {}", in_short(&whole.stage.command, MAX_ROLE));
            let accounts = [whole.account, whole.stage.unsampled, whole.stage.sampled];
            let accounts = accounts.map(|account| Account {
                taken: None,
                given: None,
                ..account
            });
            profile(&role, whole, accounts, scope)
        }),
    }
}

/// Divides the running time of processes that were not seen, i.e. the rest of the `used` time of
/// all, among the stages by their samples in such processes.
fn add_unseen(stages: &mut [Whole], used: Option<Duration>) {
    let seen: Duration = stages.iter().map(|whole| whole.account.ran).sum();
    let samples: u64 = stages.iter().map(|whole| whole.chains.samples).sum();
    let weight: u64 = stages.iter().map(|whole| whole.stage.weight_unseen).sum();
    let Some(used) = used.filter(|_| samples >= MIN_SAMPLES && weight > 0) else {
        return;
    };
    let unseen = used.saturating_sub(seen);
    for whole in stages {
        whole.unseen = unseen.mul_f64(whole.stage.weight_unseen as f64 / weight as f64);
    }
}

/// Joins stages of the same program, between the same programs, that ran one after another.
fn joined(stages: Vec<Whole>) -> Vec<Whole> {
    let name = |at: Option<usize>| at.map(|at| stages[at].stage.name.clone());
    let links = links(&stages);
    let keys = (0..stages.len()).map(|at| {
        let before = links.iter().find(|(_, to)| *to == at);
        let after = links.iter().find(|(from, _)| *from == at);
        let neighbours = [before.map(|it| it.0), after.map(|it| it.1)];
        (stages[at].stage.name.clone(), neighbours.map(name))
    });
    let keys: Vec<_> = keys.collect();
    let mut all: Vec<(_, Whole)> = Vec::new();
    for (key, whole) in keys.into_iter().zip(stages) {
        let earlier = all
            .iter_mut()
            .find(|(its, earlier)| *its == key && earlier.stage.seen <= whole.stage.began);
        match earlier {
            Some((_, earlier)) => earlier.add(whole),
            None => all.push((key, whole)),
        }
    }
    all.into_iter().map(|(_, whole)| whole).collect()
}

/// The stages in the order of the flow, and of their start.
fn in_order(mut stages: Vec<Whole>) -> Vec<Whole> {
    let mut ordered = Vec::new();
    while !stages.is_empty() {
        let links = links(&stages);
        let is_first = |at: &usize| links.iter().all(|(_, to)| to != at);
        // They may form a circle.
        let next = (0..stages.len()).find(is_first).unwrap_or(0);
        ordered.push(stages.remove(next));
    }
    ordered
}

/// Pairs of a stage that writes to a pipe and one that reads from it.
fn links(stages: &[Whole]) -> Vec<(usize, usize)> {
    let mut links = Vec::new();
    for (to, reader) in stages.iter().enumerate() {
        let inputs: Vec<_> = reader.flows.iter().filter_map(|it| it.input).collect();
        for (from, writer) in stages.iter().enumerate() {
            let mut outputs = writer.flows.iter().filter_map(|it| it.output);
            if from != to && outputs.any(|pipe| inputs.contains(&pipe)) {
                links.push((from, to));
            }
        }
    }
    links
}

/// The sides of a stage, as indices of its bytes.
const TAKEN: usize = 0;
const GIVEN: usize = 1;

/// The accounts of the stages that `of` selects. Their bytes are those that went
/// through the pipes before and after the stage, if known.
fn accounts(stages: &[Whole], links: &[(usize, usize)], of: fn(&Whole) -> Account) -> Vec<Account> {
    let origin = |at: usize, side: usize| {
        let Whole { stage, account, .. } = &stages[at];
        stage.origin(side, account.bytes(side).unwrap_or(0))
    };
    // What a process itself counted, if it all went through the pipe.
    let side = |at: usize, side: usize| {
        let mut chains = stages[at].chains.weights.keys();
        let is_known = origin(at, side) == Origin::Pipe && !chains.any(|chain| splices(chain));
        of(&stages[at]).bytes(side).filter(|_| is_known)
    };
    let is_foreign = |at: usize, side: usize| origin(at, side) == Origin::OtherPipes;
    // A stage that was joined with later ones may have several neighbours.
    let taken = |at: usize| {
        let writers = || links.iter().filter(|(_, to)| *to == at);
        let is_unknown = writers().any(|(from, _)| is_foreign(*from, GIVEN));
        if writers().count() == 0 || is_unknown || is_foreign(at, TAKEN) {
            return None;
        }
        let given = writers().map(|(from, _)| side(*from, GIVEN)).sum();
        between(given, side(at, TAKEN))
    };
    let given = |at: usize| {
        let readers = || links.iter().filter(|(from, _)| *from == at);
        let is_unknown = readers().any(|(_, to)| is_foreign(*to, TAKEN));
        if readers().count() == 0 || is_unknown || is_foreign(at, GIVEN) {
            return None;
        }
        // What a reader takes may come from another writer.
        let is_only = |to: usize| links.iter().filter(|(_, reader)| *reader == to).count() == 1;
        let taken: Option<u64> = readers()
            .map(|(_, to)| side(*to, TAKEN).filter(|_| is_only(*to)))
            .sum();
        between(side(at, GIVEN), taken)
    };
    let stages = stages.iter().enumerate();
    stages
        .map(|(at, whole)| Account {
            taken: taken(at),
            given: given(at),
            ..of(whole)
        })
        .collect()
}

/// The record of a stage, except for its neighbours; the accounts are those of all phases, and
/// of the phases without and with sampling.
fn profile(role: &str, whole: Whole, accounts: [Account; 3], scope: EventScope) -> StageProfile {
    let command = whole.command();
    let stage = whole.stage;
    let weight = stage.weight_seen + stage.weight_unseen;
    let seen = stage.weight_seen as f64 / weight.max(1) as f64;
    let wall = accounts[0].wall.as_secs_f64();
    let [all, unsampled, sampled] = accounts.map(|account| {
        let wall_s = account.wall.as_secs_f64();
        let unseen = whole.unseen.as_secs_f64() * wall_s / wall.max(f64::MIN_POSITIVE);
        Usage {
            bytes: account.taken.or(account.given).unwrap_or(0),
            wall_s,
            cpu_s: account.ran.as_secs_f64() + unseen,
            run_delay_s: account.delayed.as_secs_f64(),
            ..Usage::default()
        }
    });
    let is_comparable =
        unsampled.wall_s >= MIN_UNSAMPLED * all.wall_s && sampled.wall_s > 0.0 && seen >= MIN_SEEN;
    let mut end = end_profile(role, scope, all.within_wall_time(), sampled, whole.chains);
    end.usage = all;
    let seen_asleep: u64 = stage.waits.values().sum();
    StageProfile {
        command,
        status: stage.status,
        reads_from: None,
        writes_to: None,
        wall_s: all.wall_s,
        cpu_s: all.cpu_s,
        usage_unsampled: is_comparable.then_some(unsampled),
        taken_bytes: accounts[0].taken,
        given_bytes: accounts[0].given,
        waits: Function::shares(stage.waits, seen_asleep),
        seen_asleep,
        end,
    }
}

/// The volume of a pipe, from the bytes that its writer and its reader counted;
/// `None` for a process that splices, since the kernel does not count these bytes.
///
/// Processes read and write other files, too, so the smaller count is nearer. 0 means that a
/// process moved its bytes after it was last looked at, or that there were none. A few bytes of one
/// end only may as well be those of other files, or a part of the volume.
fn between(writer: Option<u64>, reader: Option<u64>) -> Option<u64> {
    match (writer, reader) {
        (Some(writer), Some(reader)) => Some(writer.min(reader)).filter(|bytes| *bytes > 0),
        (one, other) => one.or(other).filter(|bytes| *bytes >= FEW_BYTES),
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
    use pipespeed_pipeline::proc::PipeId;
    /// A stage that was seen from the second `began` for a second, with these pipes.
    fn whole(name: &str, began: u64, input: u64, output: u64) -> Whole {
        let pipe = |inode: u64| (inode > 0).then(|| PipeId::pipe(inode));
        let flow = Flow {
            input: pipe(input),
            output: pipe(output),
        };
        let mut stage = Stage::default();
        stage.name = name.to_owned();
        stage.command = name.to_owned();
        stage.began = Duration::from_secs(began);
        stage.seen = Duration::from_secs(began + 1);
        Whole {
            stage,
            flows: vec![flow],
            account: Account::default(),
            unseen: Duration::ZERO,
            chains: Chains::default(),
        }
    }

    fn commands(stages: Vec<Whole>) -> Vec<String> {
        stages.iter().map(Whole::command).collect()
    }

    #[test]
    fn equal_pipelines_that_ran_one_after_another_are_one() {
        let pipeline = |began: u64, pipe: u64, last: &str| {
            [whole("zcat", began, 0, pipe), whole(last, began, pipe, 0)]
        };
        let two = |one: [Whole; 2], other: [Whole; 2]| one.into_iter().chain(other).collect();
        let loops = || two(pipeline(1, 1, "wc"), pipeline(2, 2, "wc"));
        assert_eq!(
            commands(joined(loops())),
            ["zcat (2 times)", "wc (2 times)"]
        );
        assert_eq!(links(&joined(loops())), [(0, 1)]);
        // At the same time, or with another neighbour.
        let parallel = two(pipeline(1, 1, "wc"), pipeline(1, 2, "wc"));
        assert_eq!(commands(joined(parallel)), ["zcat", "wc", "zcat", "wc"]);
        let others = two(pipeline(1, 1, "wc"), pipeline(2, 2, "sort"));
        assert_eq!(commands(joined(others)), ["zcat", "wc", "zcat", "sort"]);
    }

    /// `zcat | sort | wc`, then `zcat | sort | head`.
    #[test]
    fn a_joined_stage_has_the_bytes_of_all_its_pipes() {
        let with = |whole: Whole, taken: u64, given: u64| Whole {
            account: Account {
                taken: Some(taken),
                given: Some(given),
                ..Account::default()
            },
            ..whole
        };
        let stages = vec![
            with(whole("zcat", 1, 0, 1), 0, 1000),
            with(whole("sort", 1, 1, 2), 1010, 1000),
            with(whole("wc", 1, 2, 0), 1000, 0),
            with(whole("zcat", 2, 0, 3), 0, 500),
            with(whole("sort", 2, 3, 4), 510, 500),
            with(whole("head", 2, 4, 0), 70, 0),
        ];
        let stages = in_order(joined(stages));
        let commands: Vec<String> = stages.iter().map(Whole::command).collect();
        assert_eq!(commands, ["zcat (2 times)", "sort", "wc", "sort", "head"]);
        let accounts = accounts(&stages, &links(&stages), |whole| whole.account);
        let bytes = accounts.iter().map(|it| (it.taken, it.given));
        assert_eq!(
            bytes.collect::<Vec<_>>(),
            [
                (None, Some(1500)),
                (Some(1010), Some(1000)),
                (Some(1000), None),
                (Some(510), Some(70)),
                (Some(70), None),
            ]
        );
    }

    /// Those of `(a | b) | c` start in the order c, a, b; each of a circle follows another.
    #[test]
    fn stages_are_in_the_order_of_the_flow() {
        let nested = vec![
            whole("c", 1, 1, 0),
            whole("a", 2, 0, 2),
            whole("b", 3, 2, 1),
        ];
        assert_eq!(commands(in_order(nested)), ["a", "b", "c"]);
        let circle = vec![whole("a", 1, 1, 2), whole("b", 1, 2, 1)];
        assert_eq!(commands(in_order(circle)), ["a", "b"]);
    }

    #[test]
    fn the_time_of_unseen_processes_is_divided_by_their_samples() {
        let with = |name: &str, ran: u64, samples: u64, unseen: u64| {
            let mut whole = whole(name, 1, 0, 0);
            whole.account.ran = Duration::from_secs(ran);
            whole.chains.samples = samples;
            whole.stage.weight_unseen = unseen;
            whole
        };
        let unseen = |samples: u64, used: u64| {
            let mut stages = [with("sh", 1, samples, 300), with("cat", 3, 10, 100)];
            add_unseen(&mut stages, Some(Duration::from_secs(used)));
            stages.map(|whole| whole.unseen.as_secs())
        };
        assert_eq!(unseen(1000, 12), [6, 2]);
        // It can't be negative, and a few samples divide nothing.
        assert_eq!(unseen(1000, 3), [0, 0]);
        assert_eq!(unseen(50, 12), [0, 0]);
    }

    #[test]
    fn bytes_of_reaped_children_with_other_pipes_are_not_a_stages() {
        // xargs, whose children moved a gigabyte through pipes of their own, and a reader that
        // also read a large file.
        let with = |whole: Whole, taken: u64, given: u64| Whole {
            account: Account {
                taken: Some(taken),
                given: Some(given),
                ..Account::default()
            },
            ..whole
        };
        let mut stages = vec![
            with(whole("xargs", 1, 0, 1), 0, 1 << 30),
            with(whole("sort", 1, 1, 0), 1 << 28, 0),
        ];
        let bytes = |stages: &[Whole]| {
            let accounts = accounts(stages, &links(stages), |whole| whole.account);
            [accounts[0].given, accounts[1].taken]
        };
        assert_eq!(bytes(&stages), [Some(1 << 28); 2]);
        stages[0].stage.foreign[GIVEN] = 1 << 20;
        assert_eq!(bytes(&stages), [Some(1 << 28); 2]);
        stages[0].stage.foreign[GIVEN] = 1 << 29;
        assert_eq!(bytes(&stages), [None; 2]);
        // Children that were not seen may have had the same pipes.
        stages[0].stage.foreign[GIVEN] = 0;
        stages[0].stage.unseen[GIVEN] = 1 << 29;
        assert_eq!(bytes(&stages), [Some(1 << 28); 2]);
    }

    #[test]
    fn the_smaller_count_of_a_pipes_two_ends_is_its_volume() {
        assert_eq!(between(Some(1000), Some(1011)), Some(1000));
        assert_eq!(between(Some(5000), Some(1011)), Some(1011));
        assert_eq!(between(None, Some(FEW_BYTES)), Some(FEW_BYTES));
        assert_eq!(between(None, Some(7)), None);
        assert_eq!(between(Some(0), Some(7)), None);
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
