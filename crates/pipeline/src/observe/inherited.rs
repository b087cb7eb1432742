//! Read ends that a process inherited and does not use, as of a program that a stage has started in the background.

use std::collections::BTreeSet;

use super::rate::{UsedLinks, slack};
use super::{CachedIndex, Observation};
use crate::graph::{LinkSide, Node, STDERR};
use crate::proc::{LinkId, ProcessId};
use crate::sample::Observed;

impl Observation {
    /// Removes the read ends that are known to be unused.
    pub(super) fn leave_inherited_inputs(&mut self) {
        let mut used = self.used_links();
        let pipes = self.pipes.iter().filter(|pipe| !pipe.id.is_direction());
        let unused: BTreeSet<(ProcessId, LinkId)> = pipes
            .flat_map(|pipe| {
                let unused = self.inherited_inputs(pipe.id, &mut used);
                unused.into_iter().map(|id| (id, pipe.id))
            })
            .collect();
        if unused.is_empty() {
            return;
        }
        for process in &mut self.processes {
            let id = process.process.id;
            let ends = &mut process.process.ends;
            ends.retain(|end| !end.reads || end.writes || !unused.contains(&(id, end.pipe)));
        }
        self.index = CachedIndex::default();
    }

    /// Those who can read from this pipe, and read something else, while another one reads from it.
    fn inherited_inputs(&self, pipe: LinkId, used: &mut UsedLinks) -> Vec<ProcessId> {
        let holders = self.holders(pipe, LinkSide::Input);
        let holders: Vec<&Observed> = holders.filter(|holder| !holder.is_frozen).collect();
        if holders.len() < 2 {
            return Vec::new();
        }
        let written = self.written_per_s(pipe, used);
        let mut reads = |holder: &Observed| {
            let is_read_by_it = written.is_some_and(|per_s| has_read_all(holder, per_s));
            let has_read = holder
                .io
                .is_some_and(|io| holder.splices || io.read_bytes > slack(holder.start.read_bytes));
            holder.waited_on(pipe, LinkSide::Input)
                || is_read_by_it
                || has_read
                    && !holder.process.others.reads
                    && !self.uses_others(holder, pipe, LinkSide::Input, used)
        };
        let readers = holders.iter().copied();
        let readers: Vec<&Observed> = readers.filter(|holder| reads(holder)).collect();
        let fds = |holder: &Observed| -> BTreeSet<i32> {
            let ends = holder.process.ends.of_link(pipe);
            ends.map(|end| end.fd).collect()
        };
        let is_unused = |holder: &&Observed| {
            let has_read = holder.io.is_some_and(|io| io.reads > 0);
            let reads_files = holder.process.others.reads && has_read;
            // Workers share a pipe.
            let is_other = |other: &&Observed| {
                other.process.id != holder.process.id && other.process.name != holder.process.name
            };
            let left_to_it = |above: &&Observed| {
                let own = fds(holder);
                own.iter().all(|fd| *fd > STDERR)
                    && holder.ancestors.contains(&above.process.id.pid)
                    && own.is_subset(&fds(above))
            };
            let mut others = holders.iter().copied().filter(is_other);
            reads_files
                && !holder.waited_on(pipe, LinkSide::Input)
                && !holder.tried.contains(&(pipe, LinkSide::Input))
                && (readers.iter().any(is_other) || others.any(|other| left_to_it(&other)))
        };
        let unused = holders.iter().copied().filter(|holder| is_unused(holder));
        unused.map(|holder| holder.process.id).collect()
    }
}

/// Whether a process has read what was written to a pipe, at this rate.
fn has_read_all(process: &Observed, written_per_s: f64) -> bool {
    let written = (written_per_s * process.counted_s) as u64;
    let io = process.io.filter(|_| !process.has_reaped);
    io.is_some_and(|io| io.read_bytes.abs_diff(written) <= written / 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{busy, observation, process, reads, writes};
    use crate::proc::{Io, OtherFiles};
    use crate::sample::OnLink;

    /// `yes | tr | (sha256sum big & exec python3)`, and whether sha256sum keeps its end.
    fn keeps(change: impl Fn(&mut Observed, &mut Observed)) -> bool {
        let counted = |read_bytes: u64, written_bytes: u64| Io {
            read_bytes,
            reads: read_bytes / 4096,
            written_bytes,
            writes: written_bytes / 4096,
        };
        let mut tr = busy(process(1, "tr", vec![writes(1, 1)]), 0.1, 0.9, 0.0);
        let mut python = busy(process(2, "python3", vec![reads(0, 1)]), 0.1, 0.0, 0.0);
        let mut beside = busy(process(3, "sha256sum", vec![reads(0, 1)]), 1.0, 0.0, 0.0);
        tr.io = Some(counted(0, 8 << 20));
        python.io = Some(counted(8 << 20, 0));
        beside.io = Some(counted(900 << 20, 0));
        beside.process.others = OtherFiles {
            reads: true,
            ..OtherFiles::default()
        };
        change(&mut python, &mut beside);
        let mut observation = observation(vec![tr, python, beside]);
        observation.leave_inherited_inputs();
        !observation.processes[2].process.ends.is_empty()
    }

    #[test]
    fn who_reads_files_beside_the_reader_of_its_input_does_not_use_it() {
        let waits = OnLink {
            pipe: LinkId::pipe(1),
            side: LinkSide::Input,
            share: 0.1,
            thread_share: 0.0,
        };
        assert!(!keeps(|_, _| {}));
        // The reader has a file open, and has read all that was written.
        assert!(!keeps(|python, _| python.process.others.reads = true));
        assert!(keeps(|python, _| {
            python.process.others.reads = true;
            python.io = Some(Io {
                read_bytes: 1 << 20,
                ..python.io.unwrap()
            });
        }));
        assert!(keeps(|_, beside| beside.process.others.reads = false));
        assert!(keeps(|_, beside| beside.on = vec![waits]));
        // Two workers.
        assert!(keeps(|_, beside| beside.process.name = "python3".to_owned()));
    }

    #[test]
    fn a_child_does_not_read_what_was_left_to_it_under_a_high_number() {
        let left = |fd: i32, ancestors: Vec<i32>| {
            keeps(|shell, beside| {
                shell.process.name = "bash".to_owned();
                shell.process.ends = vec![reads(3, 1)].into();
                shell.process.others.reads = true;
                shell.io = None;
                beside.process.ends = vec![reads(fd, 1)].into();
                beside.ancestors.clone_from(&ancestors);
            })
        };
        assert!(!left(3, vec![2, 9]));
        assert!(left(0, vec![2, 9]));
        assert!(left(3, vec![9]));
    }
}
