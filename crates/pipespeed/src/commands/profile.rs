//! `pipespeed profile`: sample, attribute, show.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::case::{Case, Durations};
use crate::cli::{ProfileArgs, ProfileOutput};
use crate::failure::{Interrupted, say, to_stdout, usage};
use crate::interrupt::Interrupt;
use crate::machine::placement::{self, Chosen};
use crate::machine::topology::Topology;
use crate::machine::{Machine, Root};
use crate::profile::collect::{Sampling, profile};
use crate::profile::record::{CaseProfile, Profile, SCHEMA_VERSION};
use crate::profile::refusal::{self, Facts};
use crate::profile::symbols::Symbols;
use crate::profile::{flame, notes, perf};
use crate::report;
use crate::results::{is_stdout, save};
use crate::runner::TrialError;
use crate::suite::{Overrides, Suite};
use crate::trial::ProcessRunner;

/// Long enough for a share to come out, short enough for the samples' memory.
const TRIAL: Durations = Durations {
    warm_up_s: 0.03,
    timed_s: 0.4,
};

/// Profiles a case or the ladder.
///
/// # Errors
/// What went wrong, or why sampling is refused.
pub fn run(args: &ProfileArgs) -> anyhow::Result<()> {
    let output = &args.output;
    let files = [&output.json, &output.folded, &output.flame, &output.chart];
    let on_stdout = |file: &&&Option<PathBuf>| file.as_deref().is_some_and(is_stdout);
    let taken = files.iter().filter(on_stdout).count();
    if taken > 1 {
        return Err(usage("only one file can go to standard output ('-')"));
    }
    // Not after all that measuring.
    for path in files.into_iter().flatten().filter(|path| !is_stdout(path)) {
        let place = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        rustix::fs::access(place, rustix::fs::Access::WRITE_OK)
            .map_err(|errno| usage(format!("cannot write {}: {errno}", path.display())))?;
    }
    let cases = cases(args)?;
    let root = Root::default();
    let topology = Topology::read(&root);
    let chosen = match args.cpus {
        Some((writer, reader)) => placement::explicit(writer, reader, &topology),
        None => placement::choose(args.placement, &topology),
    }
    .map_err(|error| usage(error.to_string()))?;
    let facts = Facts::read(&root);
    let event = perf::best_event(&facts)?;
    let symbols = Symbols::read(&root.path("proc/kallsyms"))
        .map_err(|error| refusal::symbols(error, &facts))?;
    let sampling = Sampling {
        event,
        symbols,
        facts,
        cpus: [chosen.writer, chosen.reader].map(|cpu| match cpu {
            Some(cpu) => vec![cpu],
            None => topology.allowed.as_slice().to_vec(),
        }),
    };
    let machine = Machine::read(chosen.writer, chosen.reader);
    let mut made = Profile {
        schema_version: SCHEMA_VERSION,
        pipespeed_version: env!("CARGO_PKG_VERSION").to_owned(),
        event: event.name().to_owned(),
        frequency: perf::FREQUENCY,
        kernel: machine.kernel.release.clone(),
        placement: places(&chosen),
        notes: notes::standing(&machine, event),
        cases: Vec::new(),
    };
    sample(args, &cases, &sampling, &chosen, &topology, &mut made)?;
    made.notes.extend(notes::of_samples(&made));
    save_files(output, &made)?;
    if taken == 0 {
        let style = report::Style::for_terminal(io::stdout().is_terminal());
        let text = match args.all {
            true => report::profile_ladder(&made, style),
            false => report::profile_case(&made, args.threshold / 100.0, style),
        };
        to_stdout(write!(io::stdout(), "{text}"))?;
    }
    Ok(())
}

fn sample(
    args: &ProfileArgs,
    cases: &[Case],
    sampling: &Sampling,
    chosen: &Chosen,
    topology: &Topology,
    made: &mut Profile,
) -> anyhow::Result<()> {
    let mut runner = ProcessRunner::new(
        ProcessRunner::this_program(),
        chosen.writer,
        chosen.reader,
        TRIAL,
        Interrupt::install()?,
    );
    let trials = (args.time / TRIAL.timed_s).ceil().max(1.0) as usize;
    let no_spinning = placement::spinning_refused(chosen, topology);
    for case in cases {
        if !args.output.quiet {
            say(&format!("pipespeed: sampling {}", case.name));
        }
        let refused = no_spinning.clone().filter(|_| case.spins_in_pairs());
        let outcome = match refused {
            Some(reason) => Err(TrialError::Refused(reason)),
            None => profile(&mut runner, case, sampling, trials),
        };
        made.cases.push(match outcome {
            Ok(case) => case,
            Err(TrialError::Refused(reason)) if args.all => CaseProfile::refused(case, reason),
            Err(TrialError::Refused(reason)) => {
                anyhow::bail!("{} is refused here: {reason}", case.name)
            }
            Err(TrialError::Interrupted(signal)) => return Err(Interrupted(signal).into()),
            Err(TrialError::Failed(error)) => return Err(error),
        });
    }
    Ok(())
}

fn cases(args: &ProfileArgs) -> anyhow::Result<Vec<Case>> {
    let overrides = Overrides {
        pipe_bytes: args.pipe_size,
        buffer_bytes: args.buffer_size,
        ..Overrides::default()
    };
    let Some(name) = &args.case else {
        return Ok(Suite::Ladder.rungs(&overrides));
    };
    let suites = match args.suite {
        Some(suite) => vec![suite],
        None => vec![Suite::Ladder, Suite::Touched],
    };
    let mut known = Vec::new();
    for suite in suites {
        let cases = suite.cases(&overrides);
        if let Some(case) = cases.iter().find(|case| case.name == *name) {
            return Ok(vec![case.clone()]);
        }
        known.extend(cases.into_iter().map(|case| case.name));
    }
    known.sort();
    known.dedup();
    Err(usage(format!(
        "no case is called {name:?}; there are {}",
        known.join(", ")
    )))
}

fn places(chosen: &Chosen) -> String {
    match (chosen.writer, chosen.reader) {
        (Some(writer), Some(reader)) => format!(
            "writer on processor {writer}, reader on {reader} ({})",
            chosen.relation
        ),
        _ => chosen.relation.clone(),
    }
}

fn save_files(output: &ProfileOutput, made: &Profile) -> anyhow::Result<()> {
    let put = |path: &Option<PathBuf>, make: &dyn Fn() -> anyhow::Result<Vec<u8>>| {
        let Some(path) = path else { return Ok(()) };
        save(path, &make()?).context("saving the profile")
    };
    put(&output.json, &|| {
        let mut text = serde_json::to_vec_pretty(made)?;
        text.push(b'\n');
        Ok(text)
    })?;
    put(&output.folded, &|| Ok(flame::folded(made).into_bytes()))?;
    put(&output.flame, &|| flame::flame(made))?;
    put(&output.chart, &|| {
        Ok(report::profile_chart(made).into_bytes())
    })
}
