//! The stages of a command that has run: which of its processes they are, and what counts as theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pipespeed_pipeline::graph::{
    Adjacency, Edge, Holders, LinkSide, Node, Stages, links, pipelines,
};
use pipespeed_pipeline::proc::LinkId;

use super::member::Member;
use super::members::{Members, add_to_rest};
use super::usage::StageUsage;
use crate::profile::account::FEW_BYTES;

/// A process that was there for less than this share of the time of others at its link is too
/// short-lived to be a stage.
const MIN_PRESENT: f64 = 0.25;
/// The volume of a stage's pipe is unknown if more than this share of its bytes may have gone
/// through others.
const MAX_DOUBTFUL: f64 = 0.05;
/// The volume of a stage's pipe is unknown if bytes that nobody was seen to move exceed this share of
/// it.
const MAX_MISSED: f64 = 0.1;

/// A stage, or several equal ones that ran one after another, as in a loop.
#[derive(Debug)]
pub struct MergedStage {
    /// One of its processes, with all that counts as a part of it.
    pub member: Member,
    /// Usage in all phases.
    pub usage: StageUsage,
    /// Running time of processes that were not seen.
    pub unseen: Duration,
    /// Whether it moves bytes that the kernel does not count.
    pub splices: bool,
    /// The positions of the stages that write to its input.
    pub before: Vec<usize>,
    /// The positions of the stages that read its output.
    pub after: Vec<usize>,
}

impl MergedStage {
    /// A stage without neighbours.
    pub fn new(member: Member) -> Self {
        MergedStage {
            usage: member.sampled.and(&member.unsampled),
            member,
            unseen: Duration::ZERO,
            splices: false,
            before: Vec::new(),
            after: Vec::new(),
        }
    }

    /// Adds a later stage.
    fn add(&mut self, later: MergedStage) {
        self.member.add_repeat(later.member);
        self.usage = self.usage.and(&later.usage);
        self.unseen += later.unseen;
    }

    /// Its command, or the programs that a shell runs.
    pub fn command(&self) -> String {
        let member = &self.member;
        match (member.command.as_str(), member.names.as_slice()) {
            ("", []) => member.name.clone(),
            ("", names) => format!("{} ({})", member.name, names.join(", ")),
            (command, _) if member.repeats > 0 => {
                format!("{command} ({} times)", member.repeats + 1)
            }
            (command, _) => command.to_owned(),
        }
    }
}

/// The stages in the order of the flow, and what belongs to none, with its names.
pub fn find(members: Members) -> (Vec<MergedStage>, Member, BTreeMap<String, u64>) {
    let (all, mut rest, mut others) = members.into_all();
    let stages = find_among(all, &mut rest, &mut others);
    (stages, rest, others)
}

/// The stages among processes. What belongs to none is added to the rest.
fn find_among(
    all: Vec<Member>,
    rest: &mut Member,
    others: &mut BTreeMap<String, u64>,
) -> Vec<MergedStage> {
    let (known, hidden): (Vec<Member>, Vec<Member>) = all.into_iter().partition(Member::is_known);
    let edges = find_edges(&known);
    let numbers: BTreeSet<i32> = edges
        .iter()
        .flat_map(|(from, to, _)| [*from, *to])
        .collect();
    let (mut stages, parts): (Vec<Member>, Vec<Member>) = known
        .into_iter()
        .partition(|member| numbers.contains(&member.number()));
    for part in parts.into_iter().chain(hidden) {
        if let Some(whole) = find_whole(&mut stages, &part) {
            whole.absorb(part);
        } else if let Some(equal) = find_equal(&mut stages, &part) {
            equal.add_repeat(part);
        } else {
            add_to_rest(rest, others, part);
        }
    }
    let stages = stages.into_iter().map(|member| (member.number(), member));
    merge(stages.collect(), &edges)
}

/// The edges between the processes that use the ends of links.
fn find_edges(members: &[Member]) -> Vec<Edge> {
    let mut longest: BTreeMap<LinkId, Duration> = BTreeMap::new();
    for member in members {
        for pipe in member.process().pipes() {
            let life = longest.entry(pipe).or_default();
            *life = member.life().max(*life);
        }
    }
    let holders = Holders::new(members.iter().map(Node::process));
    let stages = Stages {
        nodes: members,
        holders: &holders,
        is_lasting: |member: &Member, link| member.life() >= longest[&link].mul_f64(MIN_PRESENT),
    };
    stages.edges(links(members.iter().map(Node::process)).into_keys())
}

const SIDES: [LinkSide; 2] = [LinkSide::Input, LinkSide::Room];

/// The stage of which a process is a part: its nearest ancestor among them, if it has no other pipe
/// than that.
fn find_whole<'a>(stages: &'a mut [Member], part: &Member) -> Option<&'a mut Member> {
    let position = |pid: &i32| stages.iter().rposition(|stage| stage.pid() == *pid);
    let whole = &mut stages[part.ancestors.iter().find_map(position)?];
    let is_within = SIDES.iter().all(|side| {
        let link = part.standard_link(*side);
        link.is_none() || link == whole.standard_link(*side)
    });
    is_within.then_some(whole)
}

/// The stage that a process is again, which was too short-lived to be one itself: that of the same
/// program, or else of the same pipes.
fn find_equal<'a>(stages: &'a mut [Member], part: &Member) -> Option<&'a mut Member> {
    let links = SIDES.map(|side| part.standard_link(side));
    if links == [None; 2] || part.only_waits_for_children() {
        return None;
    }
    let likeness = |stage: &Member| {
        let theirs = SIDES.map(|side| stage.standard_link(side));
        let has_sides = theirs.map(|link| link.is_some()) == links.map(|link| link.is_some());
        (stage.name == part.name && has_sides, theirs == links)
    };
    let most = stages.iter_mut().max_by_key(|stage| likeness(stage));
    most.filter(|stage| likeness(stage) != (false, false))
}

/// Merges stages of the same program, between the same programs, that ran one after another, and puts
/// all in the order of the flow.
fn merge(mut stages: BTreeMap<i32, Member>, edges: &[Edge]) -> Vec<MergedStage> {
    let numbers: Vec<i32> = stages.keys().copied().collect();
    let order: Vec<i32> = pipelines(numbers, edges).into_iter().flatten().collect();
    let adjacency = Adjacency::new(edges);
    let names = |neighbours: Option<&Vec<(i32, LinkId)>>| -> BTreeSet<String> {
        let neighbours = neighbours.into_iter().flatten();
        neighbours
            .map(|(number, _)| stages[number].name.clone())
            .collect()
    };
    let keys: BTreeMap<i32, _> = order
        .iter()
        .map(|number| {
            let (before, after) = (adjacency.before.get(number), adjacency.after.get(number));
            (
                *number,
                (stages[number].name.clone(), names(before), names(after)),
            )
        })
        .collect();
    let mut by_start = order;
    by_start.sort_by_key(|number| (stages[number].began, *number));
    // The number of the merged stage to which each belongs.
    let mut merged_in: BTreeMap<i32, i32> = BTreeMap::new();
    let mut merged: BTreeMap<i32, MergedStage> = BTreeMap::new();
    for number in by_start {
        let Some(member) = stages.remove(&number) else {
            continue;
        };
        let earlier = merged.iter_mut().find(|(earlier, stage)| {
            keys[*earlier] == keys[&number] && stage.member.seen <= member.began
        });
        let stage = MergedStage::new(member);
        match earlier {
            Some((earlier, whole)) => {
                merged_in.insert(number, *earlier);
                whole.add(stage);
            }
            None => {
                merged_in.insert(number, number);
                merged.insert(number, stage);
            }
        }
    }
    let mut edges: Vec<Edge> = edges
        .iter()
        .map(|(from, to, link)| (merged_in[from], merged_in[to], *link))
        .filter(|(from, to, _)| from != to)
        .collect();
    edges.sort_unstable();
    in_order(merged, &edges)
}

/// Stages in the order of the flow, each with the positions of its neighbours.
fn in_order(mut merged: BTreeMap<i32, MergedStage>, edges: &[Edge]) -> Vec<MergedStage> {
    let order = pipelines(merged.keys().copied(), edges);
    let order: Vec<i32> = order.into_iter().flatten().collect();
    let position = |number: i32| order.iter().position(|other| *other == number);
    for (from, to, _) in edges {
        let (Some(before), Some(after)) = (position(*from), position(*to)) else {
            continue;
        };
        if let Some(stage) = merged
            .get_mut(to)
            .filter(|stage| !stage.before.contains(&before))
        {
            stage.before.push(before);
        }
        if let Some(stage) = merged
            .get_mut(from)
            .filter(|stage| !stage.after.contains(&after))
        {
            stage.after.push(after);
        }
    }
    order
        .iter()
        .filter_map(|number| merged.remove(number))
        .collect()
}

/// The sides of a stage, as indices of its bytes.
const TAKEN: usize = 0;
const GIVEN: usize = 1;

/// For each stage the bytes that went through the pipes before and after it, if known, in the
/// phases that `of` selects.
pub fn volumes(
    stages: &[MergedStage],
    of: fn(&MergedStage) -> StageUsage,
) -> Vec<[Option<u64>; 2]> {
    // What a process itself counted, if it all went through the pipe.
    let own = |at: usize, side: usize| {
        let stage = &stages[at];
        let unseen = stage.member.unseen()[side] as f64;
        let is_doubtful = unseen > MAX_DOUBTFUL * stage.usage.bytes[side] as f64;
        let is_known = stage.member.has_bytes() && !is_doubtful && !stage.splices;
        is_known.then_some(of(stage).bytes[side])
    };
    // What the writers and the readers of a pipe may have moved unseen.
    let missed = |writers: &[usize], readers: &[usize]| {
        [(writers, GIVEN), (readers, TAKEN)].map(|(ends, side)| {
            let missed = ends.iter().map(|at| stages[*at].member.missed()[side]);
            missed.sum::<u64>()
        })
    };
    let is_sure = |at: usize, side: usize| !stages[at].member.uses_files(side);
    // A stage that was merged with later ones may have several neighbours.
    let taken = |at: usize| {
        let writers = &stages[at].before;
        let given = writers.iter().map(|writer| own(*writer, GIVEN)).sum();
        let is_given = writers.iter().all(|writer| is_sure(*writer, GIVEN));
        let ends = [(given, is_given), (own(at, TAKEN), is_sure(at, TAKEN))];
        between(ends, missed(writers, &[at])).filter(|_| !writers.is_empty())
    };
    let given = |at: usize| {
        let readers = &stages[at].after;
        // What a reader takes may come from another writer.
        let is_only = |reader: usize| stages[reader].before.len() == 1;
        let taken = readers
            .iter()
            .map(|reader| own(*reader, TAKEN).filter(|_| is_only(*reader)))
            .sum();
        let is_taken = readers.iter().all(|reader| is_sure(*reader, TAKEN));
        let ends = [(own(at, GIVEN), is_sure(at, GIVEN)), (taken, is_taken)];
        between(ends, missed(&[at], readers)).filter(|_| !readers.is_empty())
    };
    (0..stages.len()).map(|at| [taken(at), given(at)]).collect()
}

/// The volume of a pipe, from the bytes that its writer and its reader counted, and whether these
/// had no other files; `None` for a process that splices, since the kernel does not count these
/// bytes. Each may have moved some more unseen.
///
/// Processes read and write other files, too, so the smaller count is nearer. 0 means that a
/// process moved its bytes after it was last looked at, or that there were none. A few bytes of one
/// end only may as well be those of other files, or a part of the volume.
fn between(ends: [(Option<u64>, bool); 2], missed: [u64; 2]) -> Option<u64> {
    let [writer, reader] = ends;
    let is_whole = |bytes: u64, end: usize| missed[end] as f64 <= MAX_MISSED * bytes as f64;
    match (writer, reader) {
        ((Some(_), false), (Some(_), false)) => None,
        ((Some(written), _), (Some(read), _)) => {
            let (smaller, larger) = if written <= read { (0, 1) } else { (1, 0) };
            let [few, many] = [written.min(read), written.max(read)];
            if is_whole(few, smaller) {
                return Some(few).filter(|bytes| *bytes > 0);
            }
            let is_possible = many <= few + missed[smaller];
            let is_sure = ends[larger].1 && is_whole(many, larger);
            Some(many).filter(|_| is_possible && is_sure)
        }
        ((Some(bytes), true), (None, _)) => {
            Some(bytes).filter(|bytes| *bytes >= FEW_BYTES && is_whole(*bytes, 0))
        }
        ((None, _), (Some(bytes), true)) => {
            Some(bytes).filter(|bytes| *bytes >= FEW_BYTES && is_whole(*bytes, 1))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use pipespeed_pipeline::fixtures::{reads, writes};
    use pipespeed_pipeline::proc::LinkFd;

    use super::*;
    use crate::profile::pipeline::member::tests::{child, member, moving, reaping, waiting};

    /// A process between two pipes, by their inodes; 0 for none.
    fn between_pipes(pid: i32, name: &str, began: u64, [input, output]: [u64; 2]) -> Member {
        let input = (input > 0).then(|| reads(0, input));
        let output = (output > 0).then(|| writes(1, output));
        let ends: Vec<LinkFd> = input.into_iter().chain(output).collect();
        member(pid, name, [began, began + 1], ends)
    }

    fn stages(members: Vec<Member>) -> Vec<MergedStage> {
        find_among(members, &mut Member::default(), &mut BTreeMap::new())
    }

    fn commands(members: Vec<Member>) -> Vec<String> {
        stages(members).iter().map(MergedStage::command).collect()
    }

    /// `zcat | sort | wc`, then `zcat | sort | head`.
    #[test]
    fn a_merged_stage_has_the_bytes_of_all_its_pipes() {
        let mib = |count: u64| count << 20;
        let with =
            |member: Member, taken: u64, given: u64| moving(member, [mib(taken), mib(given)]);
        let found = stages(vec![
            with(between_pipes(1, "zcat", 1, [0, 1]), 0, 1000),
            with(between_pipes(2, "sort", 1, [1, 2]), 1010, 1000),
            with(between_pipes(3, "wc", 1, [2, 0]), 1000, 0),
            with(between_pipes(4, "zcat", 2, [0, 3]), 0, 500),
            with(between_pipes(5, "sort", 2, [3, 4]), 510, 500),
            with(between_pipes(6, "head", 2, [4, 0]), 70, 0),
        ]);
        let commands: Vec<String> = found.iter().map(MergedStage::command).collect();
        assert_eq!(commands, ["zcat (2 times)", "sort", "sort", "wc", "head"]);
        let volumes = volumes(&found, |stage| stage.usage);
        let expected = [
            [None, Some(1500)],
            [Some(1010), Some(1000)],
            [Some(510), Some(70)],
            [Some(1000), None],
            [Some(70), None],
        ];
        assert_eq!(
            volumes,
            expected.map(|sides| sides.map(|side| side.map(mib)))
        );
    }

    /// `(a; b) | c`, and a loop of short-lived programs before c.
    #[test]
    fn a_waiting_shell_is_a_stage_for_short_lived_children() {
        let shell = || waiting(member(1, "sh", [0, 100], vec![writes(1, 7)]), 99);
        let program = |pid: i32, name: &str, time: [u64; 2]| {
            child(member(pid, name, time, vec![writes(1, 7)]), 1)
        };
        let last = || child(member(9, "c", [0, 100], vec![reads(0, 7)]), 99);
        let list = vec![
            shell(),
            program(2, "a", [0, 50]),
            program(3, "b", [50, 100]),
            last(),
        ];
        assert_eq!(commands(list), ["a", "b", "c"]);
        let times = (0..50).map(|at| [2 * at, 2 * at + 2]);
        let mut members: Vec<Member> = times
            .map(|time| program(2 + time[0] as i32, "a", time))
            .collect();
        members.retain(|member| member.pid() != 9);
        members.extend([shell(), last()]);
        members[50].command.clear();
        assert_eq!(commands(members), ["sh (a)", "c"]);
    }

    /// `for i in 1 2 3; do a; done | c`
    #[test]
    fn a_shorter_repeat_counts_as_one_wherever_it_ran() {
        let a = |pid, time| child(member(pid, "a", time, vec![writes(1, 7)]), 1);
        for [first, second] in [[20, 60], [40, 60], [40, 80]] {
            let c = member(9, "c", [0, 100], vec![reads(0, 7)]);
            let members = vec![
                a(2, [0, first]),
                a(3, [first, second]),
                a(4, [second, 100]),
                c,
            ];
            assert_eq!(commands(members), ["a (3 times)", "c"], "{first} {second}");
        }
        // Two at a time are not one after the other.
        let c = member(9, "c", [0, 100], vec![reads(0, 7)]);
        let members = vec![a(2, [0, 10]), a(3, [0, 10]), a(4, [20, 100]), c];
        assert_eq!(commands(members), ["a (2 times)", "c"]);
    }

    #[test]
    fn bytes_of_unseen_reaped_children_are_not_a_stages() {
        // xargs, whose children moved a gigabyte through pipes of their own.
        let sort = || moving(between_pipes(2, "sort", 1, [1, 0]), [1 << 28, 0]);
        let bytes = |xargs: Member| {
            let volumes = volumes(&stages(vec![xargs, sort()]), |stage| stage.usage);
            [volumes[0][1], volumes[1][0]]
        };
        let xargs = || between_pipes(1, "xargs", 1, [0, 1]);
        let expected = [Some(1 << 28); 2];
        assert_eq!(bytes(reaping(xargs(), [0, 1 << 30])), expected);
        assert_eq!(bytes(reaping(xargs(), [0, 1 << 27])), expected);
        assert_eq!(bytes(moving(xargs(), [0, 1 << 27])), [Some(1 << 27); 2]);
    }

    #[test]
    fn bytes_that_nobody_was_seen_to_move_make_a_volume_doubtful() {
        const MIB: u64 = 1 << 20;
        let volume = |[written, read]: [u64; 2], missed: [u64; 2]| {
            let ends = [written, read].map(|mib| (Some(mib * MIB), true));
            let volume = between(ends, missed.map(|mib| mib * MIB));
            volume.map(|bytes| bytes / MIB)
        };
        assert_eq!(volume([100, 101], [10, 0]), Some(100));
        assert_eq!(volume([100, 100], [50, 50]), None);
        // The reader was last seen long before its end, its writer at the end.
        assert_eq!(volume([100, 30], [0, 70]), Some(100));
        // The writer wrote temporary files, too.
        assert_eq!(volume([300, 30], [0, 70]), None);
    }

    #[test]
    fn smaller_count_of_a_pipes_two_ends_is_its_volume() {
        let both = |writer, reader| between([(writer, true), (reader, true)], [0; 2]);
        assert_eq!(both(Some(1000), Some(1011)), Some(1000));
        assert_eq!(both(Some(5000), Some(1011)), Some(1011));
        assert_eq!(both(None, Some(FEW_BYTES)), Some(FEW_BYTES));
        assert_eq!(both(None, Some(7)), None);
        assert_eq!(both(Some(0), Some(7)), None);
        assert_eq!(both(None, None), None);
        // A reader that reads a file, too, as the only one that was counted, or beside tee(1).
        let shared = (Some(FEW_BYTES), false);
        assert_eq!(between([(None, true), shared], [0; 2]), None);
        assert_eq!(between([shared, shared], [0; 2]), None);
        let sure = [(Some(FEW_BYTES), true), shared];
        assert_eq!(between(sure, [0; 2]), Some(FEW_BYTES));
    }
}
