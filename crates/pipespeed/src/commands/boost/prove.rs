//! `pipespeed boost --prove`: plain and boosted runs of a pipeline.

use std::io::{self, BufRead, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use rustix::fs::FileType;
use rustix::process::{WaitOptions, getpid, wait};

use super::input;
use super::output::{CommandOutput, MAX_SILENCE, QUIET};
use super::proof::{
    MAX_WINDOW, Proof, ProofRecord, ProofSettings, ProofWay, Sameness, TimedRun, WayRuns, portable,
};
use super::text;
use super::{AccountReceiver, boosted_command, plain_command, program, shell};
use crate::cli::BoostArgs;
use crate::commands::child::{Started, adopt_orphans, is_over, say_survivors, spawn};
use crate::commands::files::SavedFiles;
use crate::commands::progress::ProgressDisplay;
use crate::commands::{
    UNFINISHED, first_error, header, interrupted_by, load, nothing_measured, pipe_probe,
    require_processes, seed,
};
use pipespeed_base::failure::{AlreadyReported, Interrupted, fork_error, say, start_error, usage};
use pipespeed_base::interrupt::Interrupt;
use pipespeed_base::signal_name;
use pipespeed_base::text::command_line;
use pipespeed_host::Machine;
use pipespeed_measure::failure::TrialError;
use pipespeed_measure::record::{Kind, NotRun, to_json};
use pipespeed_measure::rounds::{Rounds, RunObserver, TimeBudget, TrialPlace, Work, check};
use pipespeed_measure::session::reaped_processor_time;
use pipespeed_pipeline::boost::{Account, find_other};
use pipespeed_pipeline::diagnosis::{Bottleneck, Finding, diagnose, observe};
use pipespeed_pipeline::graph::Scope;
use pipespeed_pipeline::observe::ObservationPlan;
use pipespeed_pipeline::others::OtherProcesses;
use pipespeed_pipeline::proc::Proc;
use pipespeed_pipeline::terminate;

/// Runs that are not timed: a plain one and a boosted one.
const UNTIMED: u32 = 2;
/// More runs of each kind if the outputs of these differ.
const REPEATS: u32 = 2;
/// At most this many pipes are left out in turn.
const MAX_EACH: usize = 8;
/// With fewer samples of a run the bottleneck is not named.
const MIN_SAMPLES: u32 = 10;
/// The sidecar, and what the command leaves behind, are waited for at most this long.
const END_TIMEOUT: Duration = Duration::from_millis(500);

/// Runs the command in both ways and shows what was gained; after a signal, the results so
/// far.
///
/// # Errors
/// Another process would boost the plain runs, the command can't be started, its outputs
/// differ, the record can't be saved, or a signal arrived.
pub(super) fn run(args: &BoostArgs, pairs: u32) -> anyhow::Result<()> {
    let first = args.command.first().and_then(|word| word.to_str());
    if let Some(number) = first.filter(|word| word.parse::<u64>().is_ok()) {
        return Err(usage(format!(
            "the command is {number}: if that is the number of pairs, write --prove={number}"
        )));
    }
    let files = SavedFiles::beside(
        args.proof.input.as_slice(),
        "the input of each run",
        [("--json", &args.proof.json)],
    )?;
    check_input(args)?;
    // Before there are other processes.
    let interrupt = Interrupt::install().context("signal handlers")?;
    let pipe_probe = pipe_probe();
    let proc = Proc::with_pipe_probe(pipe_probe.clone());
    require_processes(&proc)?;
    if let Some(other) = find_other(&proc) {
        return Err(anyhow!(
            "the plain runs would be boosted, too: process {other} raises the pipes of this session; \
             end it (kill {other}), or run this elsewhere"
        ));
    }
    if !consent(args, pairs, &interrupt)? {
        return Err(AlreadyReported(1).into());
    }
    let header = header(Kind::Boost, Machine::read(None, None));
    let busy = load::look(&[], args.proof.quiet);
    // Its processor time would count as the command's if it were a child of this process.
    pipe_probe.prepare(&proc);
    // What the command leaves behind, and the sidecars, become children of this process.
    adopt_orphans()?;
    let settings = ProofSettings {
        seed: seed(args.proof.seed),
        rounds_planned: pairs as usize,
        ..ProofSettings::default()
    };
    let mut runner = ProofRunner {
        args,
        interrupt,
        others: OtherProcesses::find(&proc),
        proc,
        record: ProofRecord::new(header, settings, Proof::of_command(args)),
    };
    runner.record.warnings.extend(busy);
    let mut progress = ProgressDisplay::new(args.proof.quiet, |record: &ProofRecord| {
        let mut record = record.clone();
        record.interrupted = Some(UNFINISHED.to_owned());
        files.save_round(|_| Ok(to_json(&record)));
    });
    if let Err(error) = runner.compare_outputs(&mut progress) {
        progress.finish();
        return Err(error.into_failure());
    }
    progress.start();
    let seed = runner.record.settings.seed;
    let mut rounds = Rounds::begin(runner, seed);
    // No rounds in place of incomplete ones: it runs as often as was announced.
    let budget = TimeBudget::new(0.0, true);
    let outcome = rounds.rounds(pairs as usize, Some(&budget), &mut progress);
    progress.finish();
    let outcome = outcome.map_err(Into::into);
    let missing = rounds.missing();
    let mut record = rounds.work.record;
    record.evaluate();
    record.interrupted = interrupted_by(&outcome).map(signal_name);
    record.warnings.extend(missing);
    if !record.has_results() {
        return Err(nothing_measured(outcome, &record.warnings));
    }
    let saved = files.save(|_| Ok(to_json(&record)));
    let shown = files.print(false, |style| text::describe_proof(&record, style));
    files.say_saved(args.proof.quiet || saved.is_err());
    let differs = if record.output == Some(Sameness::Differs) {
        Err(anyhow!("boosted, the command had a different output"))
    } else {
        Ok(())
    };
    first_error([outcome, saved, differs, check(&record.warnings), shown])
}

impl Proof {
    /// The proof of the command, before its first run.
    fn of_command(args: &BoostArgs) -> Self {
        let words: Vec<_> = args
            .command
            .iter()
            .map(|word| word.to_string_lossy())
            .collect();
        let shell = (words.len() == 1).then(|| shell(args).to_string_lossy().into_owned());
        let input = args.proof.input.as_ref();
        let input = input.map(|path| path.display().to_string());
        Proof::new(command_line(&words), shell, input)
    }
}

/// Checks that each run can read the same input.
fn check_input(args: &BoostArgs) -> anyhow::Result<()> {
    if let Some(input) = &args.proof.input {
        input::open(input).map_err(|error| usage(error.to_string()))?;
        return Ok(());
    }
    let kind = rustix::fs::fstat(io::stdin())
        .map(|stat| (FileType::from_raw_mode(stat.st_mode), stat.st_size));
    match kind {
        Ok((FileType::RegularFile, 1..)) => Err(usage(
            "standard input is a file, but each run needs it from its beginning: name it by --input",
        )),
        Ok((FileType::Fifo | FileType::Socket, _)) => {
            if !args.proof.quiet {
                say(
                    "pipespeed: standard input is not read: each run has an empty one (--input FILE)",
                );
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Says what will be done. On a terminal, asks whether to do it.
fn consent(args: &BoostArgs, pairs: u32, interrupt: &Interrupt) -> anyhow::Result<bool> {
    let runs = UNTIMED + 2 * pairs;
    let each = if args.proof.each {
        format!(", {pairs} times more for each pipe")
    } else {
        String::new()
    };
    let asks = !args.proof.yes && io::stdin().is_terminal();
    if asks || !args.proof.quiet {
        say(&format!(
            "pipespeed: the command will run {runs} times{each} (and up to {} times more if its \
             output differs), with all its side effects",
            2 * REPEATS
        ));
    }
    if !asks {
        return Ok(true);
    }
    say("Go on? [y/N]");
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    while !is_over(interrupt, Some(&input), None) {}
    interrupt.check()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// The cases in which the pipes of one of several names are left out, in the order of the
/// pipeline.
fn each_left_out(proof: &Proof) -> Vec<WayRuns> {
    let mut names = Vec::new();
    for pipe in proof.raised_pipes() {
        if !names.contains(&pipe.name) {
            names.push(pipe.name.clone());
        }
    }
    if names.len() < 2 {
        return Vec::new();
    }
    let ways = names.into_iter().take(MAX_EACH).map(ProofWay::Without);
    ways.map(WayRuns::new).collect()
}

/// Says who holds the output of a command that has ended.
fn say_held(holders: &str) {
    say(&format!(
        "pipespeed: the command has ended, but its output is held open by {holders}: each run counts \
         as over once nothing more comes ({} s without output and without processor time, or {} s without output)",
        QUIET.as_secs(),
        MAX_SILENCE.as_secs()
    ));
}

/// Whether a word is an executable file, as it is or in PATH.
fn is_program(word: &str) -> bool {
    use rustix::fs::{Access, access};
    let is_executable = |path: &Path| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    if word.contains('/') {
        return is_executable(Path::new(word));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| is_executable(&directory.join(word)))
}

/// What a run is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunPurpose {
    /// Its output is compared, and what it prints on standard error is shown.
    FirstOutput,
    /// Its output is compared.
    Output,
    /// Its output is compared, and its stages are observed.
    Observation,
    /// It is timed.
    Time,
}

/// A run.
struct ProofRun {
    exit: ExitStatus,
    wall: Duration,
    cpu: Duration,
    bytes: u64,
    hash: u64,
    /// Who still held its output open.
    held_by: Option<String>,
    account: Option<Account>,
    bottleneck: Option<Bottleneck>,
}

impl ProofRun {
    /// The exit status, as shells show it.
    fn status(&self) -> i32 {
        let signal = self.exit.signal().map(|signal| 128 + signal);
        self.exit.code().or(signal).unwrap_or(-1)
    }

    /// The number of pipes raised, if it is known that the run was one of this way.
    fn count_raised(&self, way: &ProofWay) -> Option<u64> {
        let account = self.account.as_ref();
        let is_so =
            |account: &&Account| !matches!(way, ProofWay::Without(_)) || account.has_excluded();
        account.filter(is_so).map(Account::count_raised)
    }
}

/// The ways of running a command as the cases of a run in rounds.
struct ProofRunner<'a> {
    args: &'a BoostArgs,
    interrupt: Interrupt,
    proc: Proc,
    /// What this process had before the first run.
    others: OtherProcesses,
    record: ProofRecord,
}

impl Work for ProofRunner<'_> {
    type Record = ProofRecord;

    fn record(&self) -> Option<&ProofRecord> {
        self.record.has_results().then_some(&self.record)
    }

    fn names(&self) -> Vec<String> {
        let cases = self.record.cases.iter();
        cases.map(|case| case.way.name()).collect()
    }

    fn is_open(&self, case: usize) -> bool {
        self.record.cases[case].not_run.is_none()
    }

    fn close(&mut self, case: usize, why: NotRun) {
        self.record.cases[case].not_run = Some(why);
    }

    fn trial(&mut self, case: usize, place: TrialPlace) -> Result<(), TrialError> {
        let way = self.record.cases[case].way.clone();
        let run = self.run(&way, RunPurpose::Time)?;
        self.record.cases[case].samples.push(TimedRun {
            round: place.round,
            position: place.position,
            seconds: run.wall.as_secs_f64(),
            cpu_s: run.cpu.as_secs_f64(),
            bytes: run.bytes,
            status: run.status(),
            raised: run.count_raised(&way),
        });
        Ok(())
    }

    fn record_plan(&mut self, _: usize, order: String) {
        self.record.settings.order = order;
    }

    fn summarise(&mut self, complete: usize) {
        self.record.settings.rounds_done = complete;
        self.record.evaluate();
    }
}

impl ProofRunner<'_> {
    /// Runs the command in both ways without timing it, which shows whether its output stays the
    /// same and which pipes are raised. With --each, adds a case for each of them.
    ///
    /// # Errors
    /// The command can't be run, or a signal arrived.
    fn compare_outputs(
        &mut self,
        progress: &mut ProgressDisplay<impl FnMut(&ProofRecord)>,
    ) -> Result<(), TrialError> {
        progress.set_purpose("comparing outputs");
        progress.before_trial("plain", 0, UNTIMED as usize);
        let start = Instant::now();
        let plain = self.run(&ProofWay::Plain, RunPurpose::FirstOutput)?;
        let status = plain.status();
        // One that has printed something has run.
        if matches!(status, 126 | 127) && plain.bytes == 0 {
            let message =
                anyhow!("the command ended with exit status {status}, as if it could not be run");
            return Err(TrialError::Failed(message));
        }
        let pairs = self.record.settings.rounds_planned as u32;
        progress.start_lines(start.elapsed(), UNTIMED - 1 + 2 * pairs);
        progress.before_trial("boosted", 1, UNTIMED as usize);
        let boosted = self.run(&ProofWay::Boosted, RunPurpose::Observation)?;
        let proof = &mut self.record.results;
        proof.status = status;
        proof.held_by.clone_from(&plain.held_by);
        let account = boosted.account.as_ref();
        proof.pipes = account.map(|account| account.pipes.clone());
        proof.bottleneck.clone_from(&boosted.bottleneck);
        // With a program and its arguments, another program has made the pipes.
        if proof.shell.is_some() {
            let pipes = proof.pipes.as_deref().unwrap_or_default();
            proof.portable = portable(&proof.pipeline, pipes, &is_program);
        }
        self.record.output = Some(self.sameness(&plain, boosted)?);
        if self.args.proof.each {
            let cases = each_left_out(&self.record);
            if cases.is_empty() {
                progress.say(
                    "pipespeed: --each: fewer than two pipes between different programs were \
                     raised in the untimed run: none is left out in turn",
                );
            }
            self.record.cases.extend(cases);
        }
        Ok(())
    }

    /// Compares the outputs. If they differ, more runs of both kinds show which differ from each
    /// other.
    fn sameness(&mut self, plain: &ProofRun, boosted: ProofRun) -> Result<Sameness, TrialError> {
        let has_bytes = |run: &ProofRun| (run.bytes, run.hash) == (plain.bytes, plain.hash);
        let is_same = |run: &ProofRun| has_bytes(run) && run.status() == plain.status();
        if is_same(&boosted) {
            return Ok(Sameness::Same);
        }
        let mut all = vec![boosted];
        for _ in 0..REPEATS {
            if !is_same(&self.run(&ProofWay::Plain, RunPurpose::Output)?) {
                return Ok(Sameness::PlainDiffers);
            }
            all.push(self.run(&ProofWay::Boosted, RunPurpose::Output)?);
        }
        Ok(if all.iter().any(is_same) {
            Sameness::BoostedVaries
        } else if all.iter().all(has_bytes) {
            Sameness::StatusDiffers
        } else {
            Sameness::Differs
        })
    }

    /// Runs the command once.
    ///
    /// # Errors
    /// It can't be started, or a signal arrived.
    fn run(&mut self, way: &ProofWay, purpose: RunPurpose) -> Result<ProofRun, TrialError> {
        self.interrupt.check()?;
        let mut receiver = (*way != ProofWay::Plain)
            .then(AccountReceiver::new)
            .transpose()?;
        let except = match way {
            ProofWay::Without(pipe) => Some(pipe),
            _ => None,
        };
        let mut command = match &receiver {
            Some(receiver) => boosted_command(self.args, receiver, except),
            None => plain_command(self.args),
        };
        command.stdin(match &self.args.proof.input {
            Some(input) => Stdio::from(input::open(input)?),
            None => Stdio::null(),
        });
        let (output, writer) = io::pipe().context("pipe")?;
        command.stdout(writer);
        if purpose != RunPurpose::FirstOutput {
            command.stderr(Stdio::null());
        }
        let output = CommandOutput::read(output, purpose != RunPurpose::Time)
            .map_err(fork_error)
            .context("a thread for the command's output")?;
        let before = reaped_processor_time();
        let start = Instant::now();
        let child = spawn(&mut command);
        // It holds the write end of the output.
        drop(command);
        let mut command = child.map_err(|error| {
            let name = program(self.args)[0].to_string_lossy().into_owned();
            start_error(&format!("command {name}"), Path::new(&name), error)
        })?;
        self.others.set_command(command.child.id() as i32);
        let bottleneck = if purpose == RunPurpose::Observation {
            let sidecar = receiver.as_mut().and_then(AccountReceiver::sidecar);
            self.bottleneck(&command, sidecar)
        } else {
            None
        };
        while !is_over(&self.interrupt, Some(&command.ending), None) {}
        let exited = Instant::now();
        if let Some(signal) = self.interrupt.signal() {
            return Err(self.end(signal));
        }
        let exit = command.child.wait().context("the command")?;
        let ended = output.wait(&self.interrupt, &self.proc, &command.others, |holders| {
            if purpose == RunPurpose::FirstOutput {
                say_held(holders);
            }
        });
        let Some(output) = ended.context("the command's output")? else {
            return Err(self.end(self.interrupt.signal().unwrap_or_default()));
        };
        let account = receiver.as_mut().and_then(AccountReceiver::account);
        reap(&self.proc, &self.others);
        let cpu = reaped_processor_time().saturating_sub(before);
        Ok(ProofRun {
            exit,
            wall: output.at.max(exited).duration_since(start),
            cpu,
            bytes: output.bytes,
            hash: output.hash,
            held_by: output.held_by,
            account,
            bottleneck,
        })
    }

    /// Ends what is left of all runs after a signal.
    fn end(&self, signal: i32) -> TrialError {
        say_survivors(&terminate::end_descendants(
            &self.proc,
            &self.others,
            Duration::ZERO,
        ));
        Interrupted(signal).into()
    }

    /// The bottleneck of the running command.
    fn bottleneck(&self, command: &Started, sidecar: Option<i32>) -> Option<Bottleneck> {
        let own = getpid().as_raw_pid();
        let plan = ObservationPlan {
            scope: Scope::Below(own),
            window: MAX_WINDOW,
            excluded: [own]
                .into_iter()
                .chain(sidecar)
                .chain(command.others.pids())
                .collect(),
            only_user: None,
            opens_pipes: false,
            with_arguments: false,
            others: OtherProcesses::default(),
        };
        let mut pause = |within| !is_over(&self.interrupt, Some(&command.ending), Some(within));
        let observation = observe(&self.proc, &plan, &mut pause);
        if observation.samples < MIN_SAMPLES {
            return None;
        }
        let bottlenecks = diagnose(&observation).into_iter();
        let bottlenecks = bottlenecks.filter_map(|finding| match finding {
            Finding::Bottleneck(bottleneck) => Some(*bottleneck),
            _ => None,
        });
        bottlenecks.max_by_key(|bottleneck| bottleneck.before.len() + bottleneck.after.len())
    }
}

/// Reaps what the command has left behind, the sidecar and its helper, so that their processor
/// time is known and they don't run during the next run.
fn reap(proc: &Proc, others: &OtherProcesses) {
    let start = Instant::now();
    while start.elapsed() < END_TIMEOUT {
        others.update(proc);
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) if !others.is_empty() && others.command_children(proc).is_empty() => return,
            Ok(None) => thread::sleep(Duration::from_millis(1)),
            Err(_) => return,
        }
    }
}
