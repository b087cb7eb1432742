//! `pipespeed doctor`.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use rustix::process::{Pid, geteuid, getpid, getuid};
use serde::Serialize;

use crate::cli::{DoctorArgs, WatchedArgs};
use crate::commands::child::{Started, end, exit_as, is_over, reap, start, wait};
use crate::commands::files::SavedFiles;
use crate::commands::{
    first_error, header, require_answer, require_looks, require_process, supervisor, unanswered,
};
use pipespeed_base::failure::{
    AlreadyReported, Closed, Interrupted, is_reader_gone, message_with_remedy, say, usage,
};
use pipespeed_base::interrupt::{EndTime, Interrupt};
use pipespeed_base::output::{print, print_on_stderr};
use pipespeed_base::text::{pluralize, significant};
use pipespeed_host::Machine;
use pipespeed_measure::record::{Kind, RecordHeader, to_json};
use pipespeed_pipeline::diagnosis::{Finding, Severity, Who, diagnose, observe, verdict};
use pipespeed_pipeline::graph::Scope;
use pipespeed_pipeline::observe::{Observation, ObservationPlan};
use pipespeed_pipeline::others::OtherProcesses;
use pipespeed_pipeline::proc::Proc;
use pipespeed_pipeline::proc::ProcessId;
use pipespeed_pipeline::sample::Observed;
use pipespeed_pipeline::supervise::Supervisor;
use pipespeed_report::{Style, doctor as report, prometheus_of_doctor, slow_scans};

/// Why even root may not read descriptors.
const SANDBOX: &str = "a sandbox (Landlock, say) or the lack of CAP_SYS_PTRACE forbids it";

/// The saved record.
#[derive(Serialize)]
struct DoctorRecord<'a> {
    #[serde(flatten)]
    header: RecordHeader,
    is_stuck: bool,
    verdict: Severity,
    findings: &'a [Finding],
    pipelines: Vec<Vec<Who>>,
    #[serde(flatten)]
    observation: &'a Observation,
}

/// Observes pipelines and prints what was found.
///
/// # Errors
/// Something is stuck (status 1), or a signal arrived. Everything else counts as wrong usage
/// (status 2), as in diff(1): the process does not exist, say, or the record can't be saved.
pub fn run(args: &DoctorArgs) -> anyhow::Result<()> {
    examine(args).map_err(|error| {
        if error.is::<AlreadyReported>() || error.is::<Interrupted>() || error.is::<Closed>() {
            error
        } else {
            usage(message_with_remedy(&error))
        }
    })
}

fn examine(args: &DoctorArgs) -> anyhow::Result<()> {
    let files = SavedFiles::new([("--json", &args.json), ("--prometheus", &args.prometheus)])?;
    if !args.watched.command.is_empty() {
        files.check_beside_command(true)?;
    }
    require_looks()?;
    let interrupt = Interrupt::install().context("signal handlers")?;
    let mut doctor = Doctor {
        args,
        files,
        supervisor: supervisor(&interrupt),
        interrupt,
        is_lost: false,
    };
    if args.watched.command.is_empty() {
        doctor.attend()
    } else {
        doctor.run_command()
    }
}

/// The running processes to watch.
///
/// # Errors
/// The process does not exist, or may not be examined.
pub(super) fn scope(supervisor: &mut Supervisor, args: &WatchedArgs) -> anyhow::Result<Scope> {
    Ok(match (args.pid, args.all) {
        (Some(pid), _) => {
            let required = supervisor.run(move |proc| require_process(proc, pid).map(drop));
            let required = required.map_err(unanswered)?;
            require_answer(supervisor, pid)?;
            required?;
            Scope::Pid(pid)
        }
        (None, true) => Scope::All,
        (None, false) => Scope::User(getuid().as_raw()),
    })
}

/// What to observe: all but this process.
pub(super) fn plan(scope: Scope, window: Duration, args: &WatchedArgs) -> ObservationPlan {
    let only_user = match scope {
        Scope::User(user) => Some(user),
        _ => None,
    };
    ObservationPlan {
        scope,
        window,
        excluded: vec![getpid().as_raw_pid()],
        only_user,
        opens_pipes: !args.no_open,
        with_arguments: args.arguments,
        others: OtherProcesses::default(),
    }
}

/// What was found, without the bottleneck if there are too few samples.
fn conclude(observation: &Observation) -> Vec<Finding> {
    let mut findings = diagnose(observation);
    if observation.is_too_short() {
        findings.retain(|finding| {
            !matches!(
                finding,
                Finding::Bottleneck(_) | Finding::PingPong { .. } | Finding::Unclear { .. }
            )
        });
    }
    findings
}

struct Doctor<'a> {
    args: &'a DoctorArgs,
    files: SavedFiles,
    supervisor: Supervisor,
    interrupt: Interrupt,
    /// The report on a command could not be written on standard error.
    is_lost: bool,
}

impl Doctor<'_> {
    /// Examines running processes.
    fn attend(&mut self) -> anyhow::Result<()> {
        let scope = scope(&mut self.supervisor, &self.args.watched)?;
        let observation = self.observe(scope, self.args.time)?;
        if let Some(pid) = self.args.watched.pid {
            require_answer(&self.supervisor, pid)?;
            if observation.samples == 0 && !Proc::default().runs(pid) {
                return Err(anyhow!(
                    "process {pid} ended before it could be examined: give the number of another process of \
                     its pipeline"
                ));
            }
        }
        let hidden = self.describe_hidden(&observation);
        if let Some(text) = &hidden
            && !observation.reads_any
            && !observation.is_cut_short
        {
            return Err(anyhow!("{text}"));
        }
        let findings = conclude(&observation);
        let style = Style::for_terminal(io::stdout().is_terminal(), self.args.verbose);
        let text = report(&observation, &findings, style);
        let shown = if self.files.use_stdout() {
            Ok(())
        } else {
            print(text)
        };
        if let Some(text) = hidden {
            say(&format!("pipespeed: {text}"));
        }
        first_error([shown, self.save(&observation, &findings)])?;
        self.outcome(&findings)
    }

    /// How many of the processes asked for can't be examined, if that may be why there is no pipeline.
    fn describe_hidden(&self, observation: &Observation) -> Option<String> {
        let count = observation.hidden_asked;
        let is_all = self.args.watched.all;
        if count == 0 || !is_all && !observation.pipelines().is_empty() {
            return None;
        }
        Some(match (is_all, geteuid().is_root()) {
            (true, false) => format!(
                "--all: without privileges {count} of all processes can't be examined; try as root"
            ),
            (true, true) => format!("--all: {count} of all processes can't be examined: {SANDBOX}"),
            (false, _) => format!(
                "the descriptors of {} of this user can't be read: {SANDBOX}",
                pluralize(count, "process")
            ),
        })
    }

    /// Fails if a signal arrived, if anything is stuck, or if the report could not be written.
    fn outcome(&self, findings: &[Finding]) -> anyhow::Result<()> {
        match self.interrupt.signal() {
            Some(signal) => Err(Interrupted(signal).into()),
            None if self.is_lost => Err(AlreadyReported(2).into()),
            None if findings.iter().any(Finding::is_stuck) => Err(AlreadyReported(1).into()),
            None => Ok(()),
        }
    }

    /// Observes until a signal arrives, at most for `window`.
    fn observe(&mut self, scope: Scope, window: Duration) -> anyhow::Result<Observation> {
        let plan = plan(scope, window, &self.args.watched);
        let interrupt = self.interrupt.clone();
        let observed = self.supervisor.run(move |proc| {
            let mut pause =
                |within: Duration| !proc.is_abandoned() && !is_over(&interrupt, None, Some(within));
            observe(proc, &plan, &mut pause)
        });
        observed.map_err(unanswered)
    }

    /// Observes a command until a signal arrives or it ends, at most for `window`.
    fn observe_command(
        &mut self,
        command: &Started,
        window: Duration,
    ) -> anyhow::Result<Observation> {
        let scope = Scope::Below(getpid().as_raw_pid());
        let mut plan = plan(scope, window, &self.args.watched);
        plan.others = command.others.clone();
        let (child, interrupt) = (Pid::from_child(&command.child), self.interrupt.clone());
        let ending = Arc::new(command.ending.try_clone().context("the command")?);
        let observed = self.supervisor.run(move |proc| {
            let mut pause = |within: Duration| {
                if proc.is_abandoned() {
                    return false;
                }
                reap(proc, child, &plan.others);
                !is_over(&interrupt, Some(&ending), Some(within))
            };
            observe(proc, &plan, &mut pause)
        });
        observed.map_err(unanswered)
    }

    /// Waits for a command that can't be examined.
    fn leave_unexamined(
        &mut self,
        mut command: Started,
        error: anyhow::Error,
    ) -> anyhow::Result<()> {
        let is_interrupted = error.is::<Interrupted>();
        if !is_interrupted {
            say(&format!("pipespeed: {}", message_with_remedy(&error)));
        }
        let status = wait(&Proc::default(), &self.interrupt, &mut command)?;
        match self.args.if_stuck {
            Some(_) if is_interrupted => exit_as(status),
            _ if is_interrupted => Err(error),
            _ => Err(AlreadyReported(2).into()),
        }
    }

    fn save(&self, observation: &Observation, findings: &[Finding]) -> anyhow::Result<()> {
        // A signal before the first sample must not cost an old record.
        if observation.samples == 0 && self.interrupt.signal().is_some() {
            return Ok(());
        }
        let stages = |stages: Vec<&Observed>| stages.into_iter().map(Observed::who).collect();
        let record = DoctorRecord {
            header: header(Kind::Doctor, Machine::read(None, None)),
            is_stuck: findings.iter().any(Finding::is_stuck),
            verdict: verdict(observation, findings).0,
            findings,
            pipelines: observation.pipelines().into_iter().map(stages).collect(),
            observation,
        };
        self.files.save(|option| {
            Ok(match option {
                "--prometheus" => {
                    let is_complete = self.interrupt.signal().is_none();
                    prometheus_of_doctor(&record.header, observation, findings, is_complete)
                }
                _ => to_json(&record),
            })
        })
    }

    /// Runs a command and examines it.
    fn run_command(&mut self) -> anyhow::Result<()> {
        let ended = EndTime::install().context("signal handlers")?;
        let command = start(&self.args.watched.command, |_| {})?;
        ended.watch(&command.child);
        match self.args.if_stuck {
            Some(limit) => self.guard(command, limit),
            None => self.examine(command, &ended),
        }
    }

    /// Reports on a command once, and lets it go on.
    fn examine(&mut self, mut command: Started, ended: &EndTime) -> anyhow::Result<()> {
        let start = Instant::now();
        let mut observation = match self.observe_command(&command, self.args.time) {
            Ok(observation) => observation,
            Err(error) => return self.leave_unexamined(command, error),
        };
        // The start of the programs is part of the first observation: stuck is what does not
        // run for the whole of one.
        let mut findings = conclude(&observation);
        if observation.is_still() && !self.is_over(&command) {
            let second = match self.observe_command(&command, self.args.time) {
                Ok(observation) => observation,
                Err(error) => return self.leave_unexamined(command, error),
            };
            if !self.is_over(&command) {
                findings = conclude(&second);
                observation = second;
            } else if self.interrupt.signal().is_none() {
                // It ended by itself, so it was not stuck.
                findings.retain(|finding| !finding.is_stuck());
            }
        }
        let is_short = observation.seconds < MIN_TIME.as_secs_f64() || observation.is_too_short();
        if is_short && self.is_over(&command) && self.interrupt.signal().is_none() {
            let status = wait(&Proc::default(), &self.interrupt, &mut command)?;
            // Not that of the observation, which may have failed earlier, nor when its end was
            // noticed: reading many descriptors takes a while.
            let ended = ended.at().unwrap_or_else(Instant::now);
            let seconds = significant(ended.saturating_duration_since(start).as_secs_f64());
            let how = match status.code() {
                Some(0) => String::new(),
                _ => format!(" ({status})"),
            };
            self.print(&format!(
                "pipespeed: the command ended after {seconds} s{how}, too soon to be examined\n{}",
                slow_scans(&observation)
                    .map_or(String::new(), |line| format!("pipespeed: {line}\n"))
            ));
            self.save(&observation, &[])?;
            return self.outcome(&[]);
        }
        self.conclude(command, &observation, &findings)
    }

    /// Reports on a command. Ends it or leaves it alone if it is stuck; waits for it if not, or
    /// if a signal has arrived, which is passed on.
    fn conclude(
        &mut self,
        mut command: Started,
        observation: &Observation,
        findings: &[Finding],
    ) -> anyhow::Result<()> {
        // A report that can't be saved is no reason to leave the command alone.
        let reported = self.report(observation, findings);
        let is_stuck = findings.iter().any(Finding::is_stuck);
        if is_stuck && self.interrupt.signal().is_none() {
            if self.args.kill && findings.iter().any(Finding::is_certainly_stuck) {
                self.kill(&command);
                return reported.and_then(|()| self.outcome(findings));
            }
            self.say_left(&command, findings);
        }
        if !is_stuck || self.interrupt.signal().is_some() {
            wait(&Proc::default(), &self.interrupt, &mut command)?;
        }
        reported.and_then(|()| self.outcome(findings))
    }

    /// Whether a signal arrived or the command has ended.
    fn is_over(&self, command: &Started) -> bool {
        is_over(&self.interrupt, Some(&command.ending), Some(Duration::ZERO))
    }

    /// Reports on a command only if the same process is stuck for this long, or waits as long to write
    /// what nobody reads. If that may go on by itself, the command is waited for all the same.
    fn guard(&mut self, mut command: Started, limit: Duration) -> anyhow::Result<()> {
        let window = (limit / 4).clamp(MIN_WINDOW, MAX_WINDOW).min(limit);
        let (mut waiting, mut certain) = (Stuck::default(), Stuck::default());
        let mut reported: Option<anyhow::Result<()>> = None;
        loop {
            let observation = match self.observe_command(&command, window) {
                Ok(observation) => observation,
                Err(error) => return self.leave_unexamined(command, error),
            };
            if self.is_over(&command) {
                let status = wait(&Proc::default(), &self.interrupt, &mut command)?;
                return reported.unwrap_or(Ok(())).and_then(|()| exit_as(status));
            }
            let mut findings = conclude(&observation);
            let members = |is_certain: bool| {
                let members = findings
                    .iter()
                    .flat_map(|finding| finding.waiting(is_certain));
                let members = members.filter_map(|who| observation.find(who.pid));
                members.map(|member| member.process.id).collect()
            };
            let time = waiting.during(window, members(false));
            let certain_time = certain.during(window, members(true));
            if time >= limit {
                for finding in &mut findings {
                    finding.has_lasted(certain_time >= limit);
                }
                let may_go_on = findings.iter().all(Finding::may_go_on);
                if may_go_on && reported.is_some() {
                    continue;
                }
                let seconds = significant(time.as_secs_f64());
                let has_been = if may_go_on {
                    "may have been"
                } else {
                    "has been"
                };
                say(&format!(
                    "pipespeed: the command {has_been} stuck for {seconds} s"
                ));
                if !may_go_on {
                    return self.conclude(command, &observation, &findings);
                }
                reported = Some(self.report(&observation, &findings));
                say("pipespeed: it may go on by itself: waiting for the command");
            }
        }
    }

    fn report(&mut self, observation: &Observation, findings: &[Finding]) -> anyhow::Result<()> {
        let style = Style::for_terminal(io::stderr().is_terminal(), self.args.verbose);
        self.print(&report(observation, findings, style));
        self.save(observation, findings)
    }

    /// Prints a report on a command on standard error, since the command may use standard
    /// output.
    fn print(&mut self, text: &str) {
        // Not `say`, which would wrap it again.
        let written = print_on_stderr(text);
        self.is_lost |= written.is_err_and(|error| !is_reader_gone(&error, io::stderr()));
    }

    fn say_left(&self, command: &Started, findings: &[Finding]) {
        let why = if findings.iter().any(Finding::is_certainly_stuck) {
            "--kill ends it"
        } else {
            "something else may wake or end it"
        };
        let pid = command.child.id();
        say(&format!(
            "pipespeed: the command (pid {pid}) is left running ({why})"
        ));
    }

    /// Ends all processes of a stuck command.
    fn kill(&mut self, command: &Started) {
        let count = self.count_processes(&command.others);
        if end(&Proc::default(), command) {
            let processes = pluralize(count, "process");
            say(&format!(
                "pipespeed: --kill ended {processes} of the command"
            ));
        }
    }

    /// The number of processes of the command.
    fn count_processes(&self, others: &OtherProcesses) -> usize {
        let (proc, helpers) = (Proc::default(), self.supervisor.helpers());
        let tree = others.command_tree(&proc).into_iter();
        let own = tree.filter(|pid| !helpers.contains(pid));
        own.filter(|pid| proc.runs(*pid)).count()
    }
}

/// A command that ends sooner is not reported on.
const MIN_TIME: Duration = Duration::from_millis(100);
/// Bounds for how long each observation of a guarded command takes.
const MIN_WINDOW: Duration = Duration::from_secs(1);
const MAX_WINDOW: Duration = Duration::from_secs(30);

/// For how long the same processes have been stuck.
#[derive(Debug, Default)]
struct Stuck {
    members: BTreeSet<ProcessId>,
    time: Duration,
}

impl Stuck {
    /// Counts a window in which these were stuck. Returns the time for which one of them has been.
    fn during(&mut self, window: Duration, members: BTreeSet<ProcessId>) -> Duration {
        let still: BTreeSet<ProcessId> = self.members.intersection(&members).copied().collect();
        if still.is_empty() {
            self.time = Duration::ZERO;
            self.members = members;
        } else {
            self.members = still;
        }
        if !self.members.is_empty() {
            self.time += window;
        }
        self.time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_counts_as_long_as_one_process_stays_stuck() {
        let ids = |pids: &[i32]| {
            pids.iter()
                .map(|pid| ProcessId {
                    pid: *pid,
                    start: 1,
                })
                .collect()
        };
        let mut stuck = Stuck::default();
        let windows: [(&[i32], u64); 7] = [
            (&[], 0),
            (&[1, 2], 1),
            (&[2, 3], 2),
            // Other processes than those that were stuck from the beginning.
            (&[3, 4], 1),
            (&[3, 4], 2),
            (&[], 0),
            (&[3, 4], 1),
        ];
        for (pids, seconds) in windows {
            let time = stuck.during(Duration::from_secs(1), ids(pids));
            assert_eq!(time, Duration::from_secs(seconds), "{pids:?}");
        }
    }
}
