//! The pipes through which a process takes part in a pipeline.

use std::collections::BTreeSet;

use super::{Graph, Process, Side};
use crate::proc::PipeId;

/// The pipes that are standard input and standard output of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Where it reads from.
    pub input: Option<PipeId>,
    /// Where it writes to.
    pub output: Option<PipeId>,
}

impl Flow {
    /// Whether it has no pipe that `other` has not.
    pub fn is_within(self, other: Flow) -> bool {
        (self.input.is_none() || self.input == other.input)
            && (self.output.is_none() || self.output == other.output)
    }

    /// Its pipes, and those of an earlier flow in their place where it has none.
    pub fn or(self, earlier: Flow) -> Flow {
        Flow {
            input: self.input.or(earlier.input),
            output: self.output.or(earlier.output),
        }
    }
}

impl Graph {
    /// The flow of a process. It is without `outer` pipes, and without those at whose other
    /// side are only its ancestors: a command substitution, or a filter that a program starts
    /// for itself, is part of what started it. A process substitution is not: `is_argument` says
    /// whether a process has a descriptor among its arguments, as `tee /dev/fd/63` has.
    pub fn flow(
        &self,
        process: &Process,
        outer: &BTreeSet<PipeId>,
        is_argument: &dyn Fn(i32, i32) -> bool,
    ) -> Flow {
        let ancestors = self.ancestors(process.id.pid);
        let is_own = |pid: i32| pid == process.id.pid || ancestors.contains(&pid);
        let standard = |fd: i32, side: Side| {
            let pipe = process.ends.iter().find(|end| end.fd == fd)?.pipe;
            if outer.contains(&pipe) || !process.holds(pipe, side) {
                return None;
            }
            let all = self.processes.values();
            let others = all.filter(|it| it.holds(pipe, side.other()));
            let mut others = others.peekable();
            // A pipe may outlive those at its other side.
            let is_alone = others.peek().is_none();
            let is_other = |it: &Process| {
                let mut ends = it.ends.iter().filter(|end| end.pipe == pipe);
                !is_own(it.id.pid) || ends.any(|end| is_argument(it.id.pid, end.fd))
            };
            (is_alone || others.any(is_other)).then_some(pipe)
        };
        Flow {
            input: standard(0, Side::Input),
            output: standard(1, Side::Room),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use crate::fixtures::{process, reads, writes};

    fn flows(processes: &[Process]) -> Vec<(Option<u64>, Option<u64>)> {
        let all = processes.iter().map(|it| (it.id.pid, it.clone()));
        let graph = Graph {
            processes: all.collect(),
            hidden: BTreeMap::new(),
        };
        let outer = BTreeSet::from([PipeId::pipe(1)]);
        let is_argument = |pid, fd| (pid, fd) == (30, 63);
        let flows = processes
            .iter()
            .map(|it| graph.flow(it, &outer, &is_argument));
        let inode = |pipe: Option<PipeId>| Some(pipe?.inode);
        flows
            .map(|flow| (inode(flow.input), inode(flow.output)))
            .collect()
    }

    fn child(pid: i32, parent: i32, ends: Vec<crate::proc::End>) -> Process {
        Process {
            parent,
            ..process(pid, "a", ends)
        }
    }

    #[test]
    fn the_stages_of_a_pipeline_share_its_pipes() {
        let all = [
            child(10, 1, vec![reads(0, 1), writes(2, 9)]),
            child(11, 10, vec![reads(0, 1), writes(1, 7), writes(2, 9)]),
            child(12, 10, vec![reads(0, 7), writes(1, 8)]),
            child(13, 10, vec![reads(0, 8)]),
        ];
        let expected = [
            (None, None),
            (None, Some(7)),
            (Some(7), Some(8)),
            (Some(8), None),
        ];
        assert_eq!(flows(&all), expected);
        // The first stage has ended.
        assert_eq!(flows(&all[2..])[0], (Some(7), Some(8)));
    }

    #[test]
    fn a_substitution_and_a_programs_own_filter_are_no_stages() {
        let all = [
            // A shell reads what a command prints; tar writes to its gzip.
            child(10, 1, vec![reads(3, 7)]),
            child(11, 10, vec![writes(1, 7)]),
            child(20, 1, vec![writes(5, 8)]),
            child(21, 20, vec![reads(0, 8)]),
        ];
        assert_eq!(flows(&all), [(None, None); 4]);
    }

    /// `tee >(wc) | cat`: the shell has made the pipe in the process that became tee.
    #[test]
    fn a_process_substitution_is_a_stage() {
        let all = [
            child(30, 1, vec![writes(1, 8), writes(63, 7)]),
            child(31, 30, vec![reads(0, 7), writes(1, 8)]),
            child(32, 1, vec![reads(0, 8)]),
        ];
        let expected = [(None, Some(8)), (Some(7), Some(8)), (Some(8), None)];
        assert_eq!(flows(&all), expected);
    }

    #[test]
    fn a_flow_within_another_has_no_pipe_of_its_own() {
        let flow = |input: Option<u64>, output: Option<u64>| Flow {
            input: input.map(PipeId::pipe),
            output: output.map(PipeId::pipe),
        };
        let stage = flow(Some(1), Some(2));
        for part in [flow(None, None), flow(Some(1), None), stage] {
            assert!(part.is_within(stage), "{part:?}");
        }
        assert!(!flow(Some(2), None).is_within(stage));
        assert!(!stage.is_within(flow(None, Some(2))));
        assert_eq!(flow(None, Some(3)).or(stage), flow(Some(1), Some(3)));
    }
}
