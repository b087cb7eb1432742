//! `pipespeed profile`: samples cases or a pipeline, and shows where the time goes.

mod counted;

use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::anyhow;
use pipespeed_base::{Named, signal_name};

use crate::cli::ProfileArgs;
use crate::commands::child::{Started, start};
use crate::commands::files::{RECORD, SavedFiles};
use crate::commands::{
    MIN_ADDRESS_SPACE, MIN_PRIVATE, cases_fit, first_error, header, load, pipe_probe, place,
    require_processes, settle_pipe_size,
};
use pipespeed_base::failure::{require_memory, say, usage};
use pipespeed_base::interrupt::Interrupt;
use pipespeed_base::text::command_line;
use pipespeed_base::text::in_short;
use pipespeed_explain::profile::collect::profile;
use pipespeed_explain::profile::perf::{FREQUENCY, Sampling, SamplingError};
use pipespeed_explain::profile::pipeline::{self, PipelineRun, StartedCommand};
use pipespeed_explain::profile::record::{CaseProfile, Profile, ProfileSettings};
use pipespeed_explain::profile::{flame, notes};
use pipespeed_host::placement::{self, Chosen, Placement};
use pipespeed_host::topology::Topology;
use pipespeed_host::{Machine, Root, Warning, WarningKind};
use pipespeed_measure::failure::TrialError;
use pipespeed_measure::record::{Kind, NotRun, to_json};
use pipespeed_measure::spec::{Case, Durations, Suite};
use pipespeed_measure::suite::Overrides;
use pipespeed_measure::suite::channels::CaseId;
use pipespeed_measure::trial::ProcessRunner;
use pipespeed_pipeline::proc::Proc;
use pipespeed_pipeline::terminate::Survivor;
use pipespeed_report as report;

/// Durations of a trial: long enough for stable shares, short enough for the
/// sample buffer.
const TRIAL: Durations = Durations {
    warm_up_s: 0.03,
    timed_s: 0.4,
};

/// Default sampling time of a case, and time limit of a pipeline, in seconds; the second
/// with --quick.
const CASE_S: [f64; 2] = [2.0, 0.8];
const PIPELINE_S: [f64; 2] = [10.0, 2.0];

/// Profiles a case, the ladder or a pipeline.
///
/// # Errors
/// Wrong usage, sampling is refused, a trial failed, or a file can't be saved.
pub fn run(args: &ProfileArgs) -> anyhow::Result<()> {
    require_memory(MIN_ADDRESS_SPACE, MIN_PRIVATE)?;
    let output = &args.output;
    let files = SavedFiles::new([
        ("--json", &output.json),
        ("--folded", &output.folded),
        ("--flame", &output.flame),
        ("--chart", &output.chart),
    ])?;
    let mut args = args.clone();
    let rounded = settle_pipe_size(&mut args.setup.pipe_size);
    let args = &args;
    let subject = ProfileSubject::new(args)?;
    if let ProfileSubject::Command(_) = subject {
        files.check_beside_command(false)?;
        require_processes(&Proc::default())?;
    }
    let topology = Topology::read(&Root::default());
    let chosen = place(args.setup.cpus, subject.placement(args), &topology)?;
    let load = load::look(&load::processors(&chosen), args.output.quiet);
    let early: Vec<Warning> = rounded.into_iter().chain(load).collect();
    let setting = ProfileSetting {
        args,
        chosen: &chosen,
        topology: &topology,
    };
    let by_default = |files: SavedFiles| files.or_by_default(output.no_save, "profile", RECORD);
    let allowed = topology.allowed.as_slice();
    let cpus = [chosen.writer, chosen.reader].map(|cpu| match cpu {
        Some(cpu) => vec![cpu],
        None => allowed.to_vec(),
    });
    let found = match &subject {
        ProfileSubject::Cases(_) => Sampling::find_for(&cpus.each_ref().map(Vec::as_slice)),
        ProfileSubject::Command(_) => Sampling::find_for(&[allowed]),
    };
    let sampling = match (found, &subject) {
        (Ok(sampling), _) => Ok(sampling),
        (Err(error), ProfileSubject::Command(_)) => Err(error),
        (Err(error), ProfileSubject::Cases(cases)) => {
            let files = by_default(files);
            return counted::run(&setting, cases, error, &files, early);
        }
    };
    let files_of_samples = [&output.folded, &output.flame];
    let sampling = match sampling {
        Err(refusal) if refusal.is_final() || files_of_samples.into_iter().any(Option::is_some) => {
            return Err(refusal.into());
        }
        sampling => sampling,
    };
    let files = by_default(files);
    let mut record = new_record(&chosen, &sampling);
    let sampling = sampling.ok();
    let mut interrupted = None;
    match (&subject, &sampling) {
        (ProfileSubject::Cases(cases), Some(sampling)) => {
            let interrupt = Interrupt::install()?;
            let not_run = CaseProfile::not_run;
            record.cases =
                setting.each_case(cases, interrupt, "sampling", not_run, |runner, case| {
                    profile(runner, case, sampling, &cpus, trial_count(args))
                })?;
        }
        // They were counted.
        (ProfileSubject::Cases(_), None) => {}
        (ProfileSubject::Command(command), sampling) => {
            let run = profile_command(args, command, sampling.as_ref(), &topology)?;
            let survivors = run.survivors.iter();
            let warning =
                |survivor: &Survivor| Warning::new(WarningKind::Sampling, survivor.to_string());
            record.warnings.extend(survivors.map(warning));
            record.pipeline = Some(run.profile);
            interrupted = run.interrupted;
            record.interrupted = interrupted.as_ref().map(|signal| signal_name(signal.0));
        }
    }
    record.warnings.extend(early);
    record.warnings.extend(notes::of_samples(&record));
    let shown = show(&record, &files, args);
    // The results up to the signal have been shown.
    first_error([
        interrupted.map_or(Ok(()), |signal| Err(signal.into())),
        shown,
    ])
}

/// A record without samples.
fn new_record(chosen: &Chosen, sampling: &Result<Sampling, SamplingError>) -> Profile {
    let machine = Machine::read(chosen.writer, chosen.reader);
    Profile {
        warnings: match &sampling {
            Ok(sampling) => notes::of_setup(&machine, sampling.event, sampling.scope),
            Err(_) => notes::of_machine(&machine),
        },
        header: header(Kind::Profile, machine),
        settings: ProfileSettings {
            event: sampling.as_ref().ok().map(|sampling| sampling.event),
            scope: sampling.as_ref().ok().map(|sampling| sampling.scope),
            refusal: sampling.as_ref().err().map(SamplingError::reason),
            frequency: FREQUENCY,
            placement: chosen.to_string(),
        },
        interrupted: None,
        cases: Vec::new(),
        pipeline: None,
    }
}

/// Saves the record, and prints it.
fn show(record: &Profile, files: &SavedFiles, args: &ProfileArgs) -> anyhow::Result<()> {
    let saved = files.save(|option| {
        Ok(match option {
            "--json" => to_json(record),
            "--folded" => flame::folded(record),
            "--flame" => String::from_utf8(flame::flame(record)?)?,
            _ => report::profile_chart(record),
        })
    });
    let threshold = args.threshold / 100.0;
    let shown = files.print(args.output.verbose, |style| match &record.pipeline {
        Some(pipeline) => report::profile_pipeline(record, pipeline, threshold, style),
        None if args.all => report::profile_ladder(record, style),
        None => report::profile_case(record, threshold, style),
    });
    files.say_saved(args.output.quiet || saved.is_err());
    first_error([saved, shown])
}

/// The subject of a profile.
enum ProfileSubject {
    Cases(Vec<Case>),
    /// A command line.
    Command(String),
}

impl ProfileSubject {
    fn new(args: &ProfileArgs) -> anyhow::Result<Self> {
        if args.command.is_empty() {
            return Ok(ProfileSubject::Cases(cases(args)?));
        }
        let words = args.command.iter().map(|word| word.to_string_lossy());
        let words: Vec<_> = words.collect();
        if let [first, _, ..] = &words[..]
            && first.contains(|c: char| c == '|' || c.is_whitespace())
            && !Path::new(&args.command[0]).exists()
        {
            return Err(usage(format!(
                "-- {}: a pipeline is one quoted string after '--', and pipespeed's options, such \
                 as --time, go before '--'",
                in_short(&words.join(" "), 60)
            )));
        }
        let command = command_line(&words).trim().to_owned();
        if command.is_empty() {
            return Err(usage("-- the command is missing"));
        }
        Ok(ProfileSubject::Command(command))
    }

    fn placement(&self, args: &ProfileArgs) -> Placement {
        match self {
            ProfileSubject::Cases(_) => args.setup.placement.unwrap_or_default(),
            ProfileSubject::Command(_) => Placement::Free,
        }
    }
}

fn profile_command(
    args: &ProfileArgs,
    command: &str,
    sampling: Option<&Sampling>,
    topology: &Topology,
) -> anyhow::Result<PipelineRun> {
    let interrupt = Interrupt::install()?;
    if !args.output.quiet {
        let verb = match sampling {
            Some(_) => "sampling",
            None => "observing",
        };
        say(&format!("pipespeed: {verb} {}", in_short(command, 60)));
    }
    let limit = args.time.unwrap_or(PIPELINE_S[usize::from(args.quick)]);
    let limit = Duration::from_secs_f64(limit);
    let cpus = topology.allowed.as_slice();
    let start = || {
        let Started {
            child,
            ending,
            others,
        } = start(&args.command, |command| {
            command.stdout(discarding());
        })?;
        Ok(StartedCommand {
            child,
            ending,
            others,
        })
    };
    pipeline::profile(
        command,
        sampling,
        cpus,
        limit,
        &interrupt,
        pipe_probe(),
        start,
    )
}

/// What discards what is written there: /dev/zero, as /dev/null does (drivers/char/mem.c). With the latter grep
/// stops at its first match, and tar reads no files.
fn discarding() -> Stdio {
    let zero = File::options().write(true).open("/dev/zero");
    zero.map_or_else(|_| Stdio::null(), Stdio::from)
}

/// Processors and settings of the cases of a profile.
struct ProfileSetting<'a> {
    args: &'a ProfileArgs,
    chosen: &'a Chosen,
    topology: &'a Topology,
}

impl ProfileSetting<'_> {
    /// Runs `profile` for each case that can be run, and `not_run` for the others if the whole
    /// ladder is profiled. `verb` is shown before each case.
    fn each_case<T>(
        &self,
        cases: &[Case],
        interrupt: Interrupt,
        verb: &str,
        not_run: fn(&Case, NotRun) -> T,
        mut profile: impl FnMut(&mut ProcessRunner, &Case) -> Result<T, TrialError>,
    ) -> anyhow::Result<Vec<T>> {
        let mut runner = ProcessRunner::new(
            ProcessRunner::this_program(),
            self.chosen.writer,
            self.chosen.reader,
            TRIAL,
            interrupt,
        );
        let no_spinning = placement::spinning_refused(self.chosen, self.topology);
        // Why the first case was not run. `None` once one was run.
        let mut nothing = Some(String::new());
        let each = cases.iter().map(|case| {
            if !self.args.output.quiet {
                say(&format!("pipespeed: {verb} {}", case.name));
            }
            let outcome = match &no_spinning {
                Some(reason) if case.needs_two_processors() => Err(NotRun::refused(reason).into()),
                _ => profile(&mut runner, case),
            };
            match outcome {
                Ok(profiled) => {
                    nothing = None;
                    Ok(profiled)
                }
                Err(TrialError::NotRun(why)) if self.args.all => {
                    if let Some(first) = nothing.as_mut().filter(|first| first.is_empty()) {
                        *first = format!("{}: {why}", case.name);
                    }
                    Ok(not_run(case, why))
                }
                Err(TrialError::NotRun(why)) => anyhow::bail!("{}: {why}", case.name),
                Err(error) => Err(error.into_failure()),
            }
        });
        let profiles = each.collect::<anyhow::Result<_>>()?;
        match nothing {
            Some(first) => Err(anyhow!("nothing was measured: {first}")),
            None => Ok(profiles),
        }
    }
}

/// Returns the number of trials of a case.
fn trial_count(args: &ProfileArgs) -> usize {
    let seconds = args.time.unwrap_or(CASE_S[usize::from(args.quick)]);
    (seconds / TRIAL.timed_s).ceil().max(1.0) as usize
}

fn cases(args: &ProfileArgs) -> anyhow::Result<Vec<Case>> {
    let overrides = Overrides {
        pipe_bytes: args.setup.pipe_size,
        buffer_bytes: args.setup.buffer_size,
        ..Overrides::default()
    };
    let cases = named_cases(args, &overrides)?;
    let sizes = [
        ("--buffer-size", args.setup.buffer_size),
        ("--pipe-size", args.setup.pipe_size),
    ];
    cases_fit(&cases, &sizes)?;
    Ok(cases)
}

/// Returns the requested case, or the rungs of the ladder.
fn named_cases(args: &ProfileArgs, overrides: &Overrides) -> anyhow::Result<Vec<Case>> {
    let name = match &args.case {
        Some(name) => name,
        None if args.all => return Ok(Suite::rungs(overrides)),
        None => {
            return Err(usage(
                "name a case, such as write_read, or use --all, or give a pipeline: \
                 -- 'COMMAND | COMMAND' (see --help)",
            ));
        }
    };
    let suites = match &args.suite {
        Some(suite) => std::slice::from_ref(suite),
        None => Suite::VALUES,
    };
    // Channels and sizes beyond the default cases of the suite channels.
    let id = CaseId::parse(name).filter(|_| suites.contains(&Suite::Channels));
    let requested = id.into_iter().flat_map(|id| {
        Suite::Channels.cases(&Overrides {
            selection: id.selection(),
            ..overrides.clone()
        })
    });
    let default = suites.iter().flat_map(|suite| suite.cases(overrides));
    match default.chain(requested).find(|case| case.name == *name) {
        Some(case) => Ok(vec![case]),
        None => Err(usage(unknown_case(name, args.suite, overrides))),
    }
}

/// Returns the message for an unknown case, with a list of the known ones.
fn unknown_case(name: &str, suite: Option<Suite>, overrides: &Overrides) -> String {
    let cases_of = |suite: Suite| {
        let mut names: Vec<String> = suite
            .cases(overrides)
            .into_iter()
            .map(|case| case.name)
            .collect();
        names.dedup();
        names.join(", ")
    };
    match suite {
        _ if name.contains(['|', ' ']) => {
            format!("no suite has a case {name:?}; a pipeline goes after '--': -- {name:?}")
        }
        Some(suite) => format!(
            "the suite {} has no case {name:?}; its cases are {}{}",
            suite.name(),
            cases_of(suite),
            match suite {
                Suite::Channels => ", and those of bench channels --list --all",
                _ => "",
            }
        ),
        None => format!(
            "no suite has a case {name:?}; the ladder has {}; add --suite for a list of \
             another suite's cases",
            cases_of(Suite::Ladder)
        ),
    }
}
