//! Observations of real processes.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use pipespeed_host::Root;
use pipespeed_testing::conditions::few_descriptors;
use pipespeed_testing::procs::eventually;
use rustix::process::{Pid, Signal, kill_process_group};

use super::observer::is_replaced;
use super::*;
use crate::diagnosis::{Deadlock, DeadlockKind, Finding, TooShort, diagnose, observe};
use crate::graph::Scanner;
use crate::live::{Live, Moment};
use crate::others::OtherProcesses;
use crate::proc::ProcessId;
use crate::proc::files::FdBudget;
use crate::sample::Shares;
use crate::sample::tally::{self, Tally};
use crate::wait::{BlockedOn, ThreadState};

/// Processes in a group of their own, which are killed when this is dropped.
struct Group(Vec<Child>);

impl Group {
    fn pid(&self) -> i32 {
        self.0[0].id() as i32
    }

    fn add(&mut self, words: &[&str], stdin: impl Into<Stdio>, stdout: impl Into<Stdio>) {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).stdin(stdin).stdout(stdout);
        // Each pipe that it inherits would be one more that it may wait for.
        command.stderr(Stdio::null());
        few_descriptors(&mut command, 64);
        command.process_group(self.0.first().map_or(0, |first| first.id() as i32));
        self.0.push(command.spawn().unwrap());
    }

    fn plan(&self, millis: u64) -> ObservationPlan {
        ObservationPlan {
            scope: Scope::Pid(self.pid()),
            window: Duration::from_millis(millis),
            excluded: Vec::new(),
            others: OtherProcesses::default(),
            only_user: None,
            opens_pipes: false,
            with_arguments: false,
        }
    }

    fn observe(&self, proc: &Proc, millis: u64) -> Observation {
        let plan = self.plan(millis);
        let mut pause = |within| {
            std::thread::sleep(within);
            true
        };
        observe(proc, &plan, &mut pause)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let group = Pid::from_child(&self.0[0]);
        let _ = kill_process_group(group, Signal::KILL);
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}

#[test]
fn what_has_ended_keeps_its_ancestors_and_is_not_judged_alone() {
    let mut group = Group(Vec::new());
    let (stdin, open) = std::io::pipe().unwrap();
    let script = "sh -c 'cat; :'; exec sleep 1000";
    group.add(&["sh", "-c", script], stdin, Stdio::null());
    let (proc, outer) = (Proc::default(), group.pid());
    let child = |pid: i32| proc.children(pid).into_iter().next();
    let cat = eventually(|| child(child(outer)?)).unwrap();
    // It ends in the middle.
    let mut open = Some(open);
    let mut pauses = 0;
    let mut pause = |within| {
        std::thread::sleep(within);
        pauses += 1;
        open.take_if(|_| pauses == 3);
        true
    };
    let observation = observe(&proc, &group.plan(1000), &mut pause);
    let mut all = observation.processes.iter();
    let ended = all.find(|process| process.process.id.pid == cat).unwrap();
    assert!(ended.has_ended && ended.is_below(outer), "{ended:?}");
    assert_eq!(observation.too_short(), None);
    let mut none_left = observation.clone();
    // The tests write to `cat`, and something may read what they print.
    let is_in_group = |of: &Observed| of.process.id.pid == outer || of.is_below(outer);
    none_left.processes.retain(is_in_group);
    for process in &mut none_left.processes {
        process.has_ended = true;
    }
    assert_eq!(none_left.too_short(), Some(TooShort::Life));
}

/// Two programs that both write more than a pipe holds.
fn both_write() -> Group {
    let (to_second, from_first) = std::io::pipe().unwrap();
    let (to_first, from_second) = std::io::pipe().unwrap();
    let mut group = Group(Vec::new());
    let head = ["head", "-c", "1000000", "/dev/zero"];
    group.add(&head, to_first, from_first);
    group.add(&head, to_second, from_second);
    group
}

#[test]
fn a_deadlock_is_found_where_system_calls_are_hidden() {
    let group = both_write();
    let proc = Proc::default().without_calls();
    let found = eventually(|| {
        let observation = group.observe(&proc, 50);
        match diagnose(&observation).into_iter().next()? {
            // A program that another test starts has the same pipes until its execve(2).
            Finding::Deadlock(Deadlock { kind, members, .. }) if observation.hidden_calls == 2 => {
                Some((kind, members.len()))
            }
            _ => None,
        }
    });
    assert_eq!(found.unwrap(), (DeadlockKind::AllWrite, 2));
    let visible = group.observe(&Proc::default(), 50);
    assert_eq!(visible.hidden_calls, 0);
}

#[test]
fn a_poll_counts_as_elsewhere_where_system_calls_are_hidden() {
    if Command::new("bash").arg("--version").output().is_err() {
        return pipespeed_testing::skip("no bash");
    }
    let (reader, _writer) = std::io::pipe().unwrap();
    let mut group = Group(Vec::new());
    // It waits in select(2) or ppoll(2).
    group.add(&["bash", "-c", "read -t 1000 x"], reader, Stdio::null());
    let hidden = Proc::default().without_calls();
    let sees = |proc: &Proc, share: fn(&Shares) -> f64| {
        let seen = eventually(|| {
            let observation = group.observe(proc, 50);
            let bash = observation.find(group.pid()).unwrap();
            (share(&bash.shares) == 1.0).then_some(())
        });
        seen.unwrap();
    };
    // Without a helper process, which needs a single thread.
    sees(&Proc::below(Root::default()), |shares| shares.starved);
    sees(&hidden, |shares| shares.elsewhere);
}

#[test]
fn only_a_process_that_never_runs_is_frozen() {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut group = Group(Vec::new());
    group.add(&["sleep", "1000"], Stdio::null(), writer);
    group.add(&["cat"], reader, Stdio::null());
    group.add(&["yes"], Stdio::null(), Stdio::null());
    let frozen = eventually(|| {
        let observation = group.observe(&Proc::default(), 50);
        let frozen = observation
            .processes
            .iter()
            .filter(|observed| observed.is_frozen);
        let names: Vec<String> = frozen
            .map(|observed| observed.process.name.clone())
            .collect();
        (names.len() == 2).then_some(names)
    });
    assert_eq!(frozen.unwrap(), ["sleep", "cat"]);
}

#[test]
fn few_descriptors_change_nothing() {
    let group = both_write();
    let proc = Proc::default();
    let (first, second) = (group.pid(), group.0[1].id() as i32);
    let sample = |fd_budget: &FdBudget| {
        let mut scanner = Scanner::default();
        scanner.read_all(&proc, &[]);
        [first, second].map(|pid| {
            let process = scanner.graph.processes[&pid].clone();
            let mut tally = Tally::new(&proc, process, true, fd_budget);
            for _ in 0..3 {
                tally.sample(&proc, fd_budget);
            }
            (tally.counts.samples, tally.threads())
        })
    };
    let is_stuck = || {
        let states = sample(&FdBudget::new()).map(|(_, threads)| threads);
        let waits = |threads: &Vec<ThreadState>| matches!(threads[..], [ThreadState::Waiting(_)]);
        states.iter().all(waits).then_some(())
    };
    eventually(is_stuck).unwrap();
    assert_eq!(sample(&FdBudget::with_count(0)), sample(&FdBudget::new()));
}

#[test]
fn of_many_threads_only_some_are_examined_at_a_time() {
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let receiver = std::sync::Mutex::new(receiver);
    std::thread::scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|| {
                receiver
                    .lock()
                    .is_ok_and(|receiver| receiver.recv().is_ok())
            });
        }
        let (proc, fd_budget) = (Proc::default(), FdBudget::new());
        let mut scanner = Scanner::default();
        scanner.read_all(&proc, &[]);
        let own = std::process::id() as i32;
        let process = scanner.graph.processes[&own].clone();
        let mut tally = Tally::new(&proc, process, true, &fd_budget);
        assert!(tally.sample(&proc, &fd_budget) > 100);
        assert!(tally.threads().len() > 100);
        assert!(tally.sample(&proc, &fd_budget) <= tally::MAX_THREADS);
        assert!(tally.threads().len() > 100);
        drop(sender);
    });
}

/// A /proc with process 7, which sleeps, and these files of it.
fn sleeping_process(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let stat = "7 (x) S 1 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0";
    for (name, text) in [("stat", stat), ("task/7/stat", stat)].iter().chain(files) {
        let path = root.path().join("proc/7").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    root
}

#[test]
fn a_kernel_that_counts_no_turns_changes_nothing() {
    let root = sleeping_process(&[("task/7/wchan", "do_wait")]);
    let proc = Proc::below(pipespeed_host::Root(root.path().to_owned()));
    let process = crate::fixtures::process(7, "x", Vec::new());
    let fd_budget = FdBudget::new();
    let mut tally = Tally::new(&proc, process, true, &fd_budget);
    for _ in 0..2 {
        assert_eq!(tally.sample(&proc, &fd_budget), 1);
    }
    assert_eq!((tally.counts.samples, tally.has_ended), (2, false));
}

#[test]
fn a_sleeper_is_examined_again_once_a_new_end_is_known() {
    let root = sleeping_process(&[
        ("task/7/wchan", "anon_pipe_read"),
        ("task/7/schedstat", "10 10 3"),
    ]);
    let proc = Proc::below(pipespeed_host::Root(root.path().to_owned()));
    let process = crate::fixtures::process(7, "x", Vec::new());
    let fd_budget = FdBudget::new();
    let mut tally = Tally::new(&proc, process, true, &fd_budget);
    let waits_on_pipe = |tally: &mut Tally| {
        tally.sample(&proc, &fd_budget);
        let threads = tally.threads();
        let is_frozen = !tally.may_have_changed;
        let is_on_pipe = matches!(threads[..], [ThreadState::Waiting(BlockedOn::Pipes { .. })]);
        (is_on_pipe, is_frozen)
    };
    assert_eq!(waits_on_pipe(&mut tally), (false, true));
    tally.process.ends = vec![crate::fixtures::reads(0, 5)].into();
    assert_eq!(waits_on_pipe(&mut tally), (false, true));
    tally.reexamine();
    assert_eq!(waits_on_pipe(&mut tally), (true, true));
}

#[test]
fn only_the_last_process_with_a_number_has_it() {
    let id = |pid, start| ProcessId { pid, start };
    let all = [id(1, 5), id(1, 7), id(1, 9), id(2, 6)].map(|id| (id, ()));
    let all = BTreeMap::from(all);
    let replaced = all.keys().filter(|id| is_replaced(&all, **id));
    let replaced: Vec<&ProcessId> = replaced.collect();
    assert_eq!(replaced, [&id(1, 5), &id(1, 7)]);
}

/// The last moment of a group's pipelines, once this is true of it.
fn live(group: &Group, is_found: impl Fn(&Moment) -> bool) -> Option<Moment> {
    let (proc, plan) = (Proc::default(), group.plan(0));
    let mut live = Live::new(&proc, &plan);
    eventually(|| {
        std::thread::sleep(live.step());
        if Instant::now() < live.next_moment() {
            return None;
        }
        Some(live.moment()).filter(&is_found)
    })
}

#[test]
fn a_watched_pipeline_is_found_stuck_a_waiting_one_not() {
    let stuck = both_write();
    let found = live(&stuck, |moment| {
        let mut pipelines = moment.pipelines.iter();
        pipelines.any(|pipeline| pipeline.stuck.is_some())
    });
    let deadlock = found.unwrap().pipelines.remove(0).stuck.unwrap();
    assert_eq!(
        (deadlock.kind, deadlock.members.len()),
        (DeadlockKind::AllWrite, 2)
    );
    let (reader, writer) = std::io::pipe().unwrap();
    let mut waits = Group(Vec::new());
    waits.add(&["sleep", "1000"], Stdio::null(), writer);
    waits.add(&["cat"], reader, Stdio::null());
    let is_long = |moment: &Moment| {
        moment
            .pipelines
            .iter()
            .any(|pipeline| pipeline.still_s >= 6.0)
    };
    let moment = live(&waits, is_long).unwrap();
    assert_eq!(moment.pipelines[0].stuck, None);
}

/// Meanwhile the next stage would drain its pipe, and be seen to wait.
#[test]
fn children_are_examined_after_all_stages() {
    let (reader, _writer) = std::io::pipe().unwrap();
    let mut group = Group(Vec::new());
    group.add(&["sh", "-c", "cat; true"], reader, Stdio::null());
    let (proc, pid) = (Proc::default(), group.pid());
    assert!(eventually(|| (!proc.children(pid).is_empty()).then_some(())).is_some());
    let mut scanner = Scanner::default();
    scanner.read_all(&proc, &[]);
    let process = scanner.graph.processes[&pid].clone();
    let budget = FdBudget::beside_left_behind(&proc);
    let mut tally = Tally::new(&proc, process, true, &budget);
    let sampled = eventually(|| {
        tally.sample(&proc, &budget);
        assert!(tally.children.is_empty());
        tally.complete(&proc, &budget);
        (!tally.children.is_empty()).then_some(())
    });
    assert!(sampled.is_some());
}
