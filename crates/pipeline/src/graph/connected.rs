//! Which processes form a pipeline: those between which data flows through pipes.

use std::collections::BTreeMap;

use super::{Process, Side};
use crate::proc::{End, PipeId, ProcessId};

/// The processes that hold each pipe.
pub(crate) fn holders<'a>(
    processes: impl Iterator<Item = &'a Process>,
) -> BTreeMap<PipeId, Vec<&'a Process>> {
    let mut holders: BTreeMap<PipeId, Vec<&Process>> = BTreeMap::new();
    for process in processes {
        for pipe in process.pipes() {
            holders.entry(pipe).or_default().push(process);
        }
    }
    holders
}

/// A process with those of its pipes through which data probably flows: standard input and
/// output, pipes on which it waited, and pipes that no other process has. Others are mostly
/// inherited by accident, and standard error is often collected from all stages.
pub(crate) fn with_flow(
    process: &Process,
    used: &BTreeMap<(PipeId, Side), u32>,
    holders: &BTreeMap<PipeId, Vec<&Process>>,
) -> Option<Process> {
    let flows = |end: &End, side: Side, standard: i32| {
        let is_own = || {
            let mut all = holders[&end.pipe]
                .iter()
                .filter(|it| it.holds(end.pipe, side));
            end.fd > 2 && all.nth(1).is_none()
        };
        end.fd == standard || used.contains_key(&(end.pipe, side)) || is_own()
    };
    let ends = process.ends.iter().filter_map(|end| {
        let mut end = end.clone();
        end.reads &= flows(&end, Side::Input, 0);
        end.writes &= flows(&end, Side::Room, 1);
        (end.reads || end.writes).then_some(end)
    });
    let ends: Vec<End> = ends.collect();
    let name = || process.name.clone();
    (!ends.is_empty()).then(|| Process {
        ends,
        name: name(),
        ..*process
    })
}

/// Groups of processes that are connected by pipes: one writes and another one reads. Where
/// all do both, as with the tokens of make, nothing flows.
pub(crate) fn connected<'a>(
    processes: impl Iterator<Item = &'a Process> + Clone,
) -> Vec<Vec<ProcessId>> {
    let mut holders = holders(processes.clone());
    holders.retain(|pipe, all| {
        let reads = |it: &&Process| it.holds(*pipe, Side::Input);
        let writes = |it: &&Process| it.holds(*pipe, Side::Room);
        all.iter().any(reads)
            && all.iter().any(writes)
            && all.iter().any(|it| reads(it) != writes(it))
    });
    let mut left: BTreeMap<ProcessId, &Process> = processes.map(|it| (it.id, it)).collect();
    let mut groups = Vec::new();
    while let Some((id, first)) = left.pop_first() {
        let mut group = vec![id];
        let mut open = first.pipes();
        while let Some(pipe) = open.pop_first() {
            for process in holders.remove(&pipe).unwrap_or_default() {
                if left.remove(&process.id).is_some() {
                    group.push(process.id);
                    open.extend(process.pipes());
                }
            }
        }
        if group.len() > 1 {
            groups.push(group);
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{process, reads, writes};

    #[test]
    fn inherited_ends_and_standard_error_connect_nothing_unless_they_are_used() {
        let stage = |pid| process(pid, "a", vec![writes(1, 7), writes(2, 9), writes(251, 8)]);
        let all = [stage(1), stage(2), process(3, "b", vec![reads(5, 8)])];
        let holders = holders(all.iter());
        let unused = BTreeMap::new();
        let flowing = with_flow(&all[0], &unused, &holders).unwrap();
        assert_eq!(flowing.ends, [writes(1, 7)]);
        assert_eq!(with_flow(&all[2], &unused, &holders), Some(all[2].clone()));
        let inherits = process(4, "c", vec![writes(2, 9)]);
        assert_eq!(with_flow(&inherits, &unused, &holders), None);
        let used = [9, 8].map(|inode| ((PipeId::pipe(inode), Side::Room), 1));
        let flowing = with_flow(&all[0], &used.into(), &holders);
        assert_eq!(flowing, Some(all[0].clone()));
    }

    #[test]
    fn processes_are_connected_by_pipes_with_a_writer_and_another_reader() {
        let processes = [
            process(1, "a", vec![writes(1, 7)]),
            process(2, "b", vec![reads(0, 7), writes(1, 8)]),
            process(3, "c", vec![reads(0, 8)]),
            // Wakes itself.
            process(4, "d", vec![reads(3, 9), writes(4, 9)]),
            // Tokens.
            process(7, "make", vec![reads(3, 11), writes(4, 11)]),
            process(8, "sh", vec![reads(3, 11), writes(4, 11)]),
            // Two writers without a reader.
            process(5, "e", vec![writes(1, 10)]),
            process(6, "f", vec![writes(1, 10)]),
        ];
        let groups = connected(processes.iter());
        let pids = |group: &Vec<ProcessId>| group.iter().map(|id| id.pid).collect();
        let groups: Vec<Vec<i32>> = groups.iter().map(pids).collect();
        assert_eq!(groups, [[1, 2, 3]]);
    }
}
