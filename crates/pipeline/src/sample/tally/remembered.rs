//! What of a process can't be read any more once it has ended, and is remembered.

use std::collections::BTreeSet;
use std::time::Duration;

use pipespeed_host::CpuList;

use super::{Tally, states};
use crate::graph::LinkSide;
use crate::proc::files::{FdBudget, ProcessFiles};
use crate::proc::{Io, LinkId, Proc};
use crate::processors::Quotas;
use crate::sample::Start;
use crate::sample::counts::{SampledActivity, activity};

/// A program that is not seen to wait on a pipe by then may have started long before.
pub(super) const MAX_START: Duration = Duration::from_millis(500);
/// The processors that a process may use are looked up once it ran or was delayed for this share.
const MIN_AWAKE: f64 = 0.03;

impl Tally {
    /// Reads all that can't be read any more once it has ended.
    pub(crate) fn read_all(&mut self, proc: &Proc, fd_budget: &FdBudget, quotas: &mut Quotas) {
        self.update(proc, fd_budget);
        self.read_allowed(proc);
        self.read_groups(proc, quotas);
        self.find_tried(proc);
    }

    /// Whether it may matter which processors it may use: it is often ready to run, or its children may be.
    fn needs_processors(&self) -> bool {
        self.awake_share() >= MIN_AWAKE || !self.children.is_empty()
    }

    /// Forgets the children of a wrapper that has become another program, as those of pyenv and npm do: the program
    /// has waited for none of them.
    pub(super) fn forget_wrapper(&mut self) {
        let (first, last) = (&mut self.first.1, &self.last.1);
        (first.children_faults, first.children_ran) = (last.children_faults, last.children_ran);
        self.faults_before = last.children_faults;
        self.has_children = false;
    }

    /// Notes what it read while it started, once its counters were read.
    pub(super) fn note_start(&mut self) {
        if self.has_started() {
            self.is_starting = false;
            let start = self.own_io().map(|io| Start {
                time: self.last.0.duration_since(self.first.0),
                read_bytes: io.read_bytes,
            });
            let start = start.filter(|start| start.time <= MAX_START);
            self.start = start.unwrap_or_default();
        }
    }

    /// Whether it had only just started, and is seen to wait on a pipe for the first time.
    pub(super) fn has_started(&self) -> bool {
        let waits = || activity(&states(&self.watches));
        self.is_starting && matches!(waits(), SampledActivity::Blocked | SampledActivity::Starved)
    }

    /// The children for which it waits, if these work more than it does itself.
    pub(crate) fn busy_children(&self) -> &[i32] {
        self.children.busy(self.counts.samples, self.awake_share())
    }

    /// Reads the processors that it may use, or the children that work for it, if that matters. Once it has ended
    /// they can't be read any more.
    pub(crate) fn read_allowed(&mut self, proc: &Proc) {
        let id = self.process.id;
        if self.has_ended || !self.needs_processors() {
            return;
        }
        let children = self.busy_children().iter();
        let of_children: Vec<CpuList> = children
            .filter_map(|pid| proc.allowed_processors(*pid))
            .collect();
        let allowed = if of_children.is_empty() {
            proc.allowed_processors(id.pid)
        } else {
            let all = of_children.iter().flat_map(|cpus| cpus.as_slice());
            Some(all.copied().collect())
        };
        // It may have ended meanwhile, and its number may be another one's.
        if allowed.is_some() && id.is_running(proc) {
            self.allowed = allowed;
        }
    }

    /// Reads its control groups again, and those of the children that work for it, if that matters: a launcher may
    /// enter them after its start. Begins to count for those that it was not in before.
    pub(crate) fn read_groups(&mut self, proc: &Proc, quotas: &mut Quotas) {
        let id = self.process.id;
        if self.has_ended || !self.needs_processors() {
            return;
        }
        let all = std::iter::once(&id.pid).chain(self.busy_children());
        let mut now: Vec<String> = all.filter_map(|pid| proc.control_groups(*pid)).collect();
        if now.is_empty() || !id.is_running(proc) {
            return;
        }
        for groups in &now {
            quotas.add(proc, groups);
        }
        self.groups.retain(|groups| !now.contains(groups));
        now.dedup();
        self.groups.append(&mut now);
    }

    /// The processors that it may use, or the children that work for it, as last seen, if that matters.
    pub(crate) fn allowed(&self) -> Option<CpuList> {
        self.allowed.clone().filter(|_| self.needs_processors())
    }

    /// Looks which ends are non-blocking, of those on which it moves little a call. A program may set that long
    /// after its start, and once it has ended it can't be read any more.
    fn find_tried(&mut self, proc: &Proc) {
        let files = ProcessFiles::new(proc, self.process.id.pid);
        let io = self.own_io();
        let sides = [LinkSide::Input, LinkSide::Room];
        for side in sides.into_iter().filter(|side| moves_little(io, *side)) {
            for end in &self.process.ends {
                let is_new = side.has(end) && !self.tried.contains(&(end.pipe, side));
                if is_new && !self.has_ended && files.is_nonblocking(end.fd) {
                    self.tried.insert((end.pipe, side));
                }
            }
        }
    }

    /// The ends that were found by [`find_tried`](Self::find_tried), where it has moved this much.
    pub(crate) fn tried(&self, io: Option<Io>) -> BTreeSet<(LinkId, LinkSide)> {
        let tried = self.tried.iter().copied();
        tried.filter(|(_, side)| moves_little(io, *side)).collect()
    }
}

/// Whether a process moves few bytes a call on this side, in many calls.
fn moves_little(io: Option<Io>, side: LinkSide) -> bool {
    const MANY: u64 = 1000;
    const LITTLE: u64 = 4096;
    io.is_some_and(|io| {
        let (bytes, calls) = match side {
            LinkSide::Input => (io.read_bytes, io.reads),
            LinkSide::Room => (io.written_bytes, io.writes),
        };
        calls >= MANY && bytes < LITTLE * calls
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use pipespeed_host::Root;
    use pipespeed_testing::procs::eventually;
    use rustix::process::{Pid, Signal, kill_process};

    use super::super::MAX_BIRTH_ERROR;
    use super::*;
    use crate::graph::Scanner;
    use crate::wait::{BlockedOn, ThreadState};

    fn tally_of(proc: &Proc, pid: u32, name: &str, fd_budget: &FdBudget) -> Tally {
        let found = eventually(|| {
            let mut scanner = Scanner::default();
            scanner.read_all(proc, &[]);
            let process = scanner.graph.processes.get(&(pid as i32))?;
            (process.name == name).then(|| process.clone())
        });
        Tally::new(proc, found.unwrap(), true, fd_budget)
    }

    #[test]
    fn an_end_made_non_blocking_later_is_remembered_of_an_ended_process() {
        let script = "use Fcntl; $SIG{USR1} = sub { fcntl(STDOUT, F_SETFL, O_NONBLOCK) }; \
                      while (1) { syswrite(STDOUT, 'x') or syswrite(STDOUT, 'x' x 65536) }";
        let mut perl = Command::new("perl");
        let perl = perl.args(["-e", script]).stdout(Stdio::piped());
        let Ok(mut perl) = perl.spawn() else {
            return pipespeed_testing::skip("no perl");
        };
        // Without a helper process, which needs a single thread.
        let (proc, fd_budget) = (Proc::below(Root::default()), FdBudget::new());
        let mut tally = tally_of(&proc, perl.id(), "perl", &fd_budget);
        let mut try_until = |is_done: fn(&Tally) -> bool| {
            let found = eventually(|| {
                tally.sample(&proc, &fd_budget);
                tally.update(&proc, &fd_budget);
                tally.find_tried(&proc);
                let tried = tally.tried(tally.own_io());
                is_done(&tally).then_some(tried)
            });
            found.unwrap()
        };
        let is_full = |tally: &Tally| {
            let threads = tally.threads();
            let waits_for_room = |thread: &ThreadState| {
                matches!(thread, ThreadState::Waiting(BlockedOn::Pipes { .. }))
            };
            threads.iter().any(waits_for_room)
        };
        let before = try_until(is_full);
        kill_process(Pid::from_child(&perl), Signal::USR1).unwrap();
        // Long enough for what it moved to be known once it has ended.
        let after = try_until(|tally| {
            let counted = tally.last.0.duration_since(tally.first.0);
            !tally.tried.is_empty() && counted >= MAX_BIRTH_ERROR
        });
        perl.kill().unwrap();
        perl.wait().unwrap();
        let ended = try_until(|tally| tally.has_ended);
        assert_eq!((before.len(), after.len()), (0, 1));
        assert_eq!(ended, after);
    }

    #[test]
    fn the_processors_that_an_ended_process_might_use_are_remembered() {
        let proc = Proc::default();
        let own = proc.allowed_processors(std::process::id() as i32);
        let Some(first) = own.and_then(|own| own.as_slice().first().copied()) else {
            return pipespeed_testing::skip("/proc/PID/status shows no processors");
        };
        let bound = ["-c", &first.to_string(), "sh", "-c", "while :; do :; done"];
        let Ok(mut shell) = Command::new("taskset").args(bound).spawn() else {
            return pipespeed_testing::skip("no taskset");
        };
        let fd_budget = FdBudget::new();
        let mut tally = tally_of(&proc, shell.id(), "sh", &fd_budget);
        let mut sample = |is_done: fn(&Tally) -> bool| {
            let sampled = eventually(|| {
                tally.sample(&proc, &fd_budget);
                tally.complete(&proc, &fd_budget);
                is_done(&tally).then(|| tally.allowed())
            });
            sampled.unwrap()
        };
        let runs = sample(|tally| tally.awake_share() >= MIN_AWAKE);
        shell.kill().unwrap();
        shell.wait().unwrap();
        let ended = sample(|tally| tally.has_ended);
        let only = CpuList::parse(&first.to_string());
        assert_eq!((&runs, &ended), (&only, &only));
    }

    #[test]
    fn of_who_waits_for_a_child_its_processors_count() {
        let proc = Proc::default();
        let own = proc.allowed_processors(std::process::id() as i32);
        let Some([first, _, ..]) = own.as_ref().map(CpuList::as_slice) else {
            return pipespeed_testing::skip("one processor");
        };
        if Command::new("taskset").arg("--version").output().is_err() {
            return pipespeed_testing::skip("no taskset");
        }
        let script = format!("taskset -c {first} sh -c 'while :; do :; done'; :");
        let mut shell = Command::new("sh").args(["-c", &script]).spawn().unwrap();
        let fd_budget = FdBudget::new();
        let mut quotas = Quotas::default();
        let mut tally = tally_of(&proc, shell.id(), "sh", &fd_budget);
        let only = CpuList::parse(&first.to_string());
        let found = eventually(|| {
            tally.sample(&proc, &fd_budget);
            tally.complete(&proc, &fd_budget);
            tally.read_all(&proc, &fd_budget, &mut quotas);
            (tally.allowed() == only).then(|| tally.busy_children().to_vec())
        });
        let children = proc.children(shell.id() as i32);
        for child in &children {
            kill_process(Pid::from_raw(*child).unwrap(), Signal::KILL).unwrap();
        }
        shell.kill().unwrap();
        shell.wait().unwrap();
        assert_eq!(found, Some(children.into_iter().collect()));
    }
}
