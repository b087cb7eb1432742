//! What a search is going to do, made from the command line and the machine.

use fastpipe::buffer::{Buffer, Pages};
use fastpipe::pipe;

use crate::cli::BenchArgs;
use crate::endpoint::spec::PageKind;
use crate::failure::usage;
use crate::machine::placement::{self, Placement};
use crate::machine::topology::Topology;
use crate::machine::{Machine, Root, warnings};
use crate::report::counted;
use crate::results::{Run, SCHEMA_VERSION, Search, Settings, Warning, WarningKind};
use crate::search::budget::SEARCH;
use crate::search::halving;
use crate::search::{Axes, Budget, Panel};
use crate::suite::Suite;
use crate::suite::sizes::{Place, panels};

use super::super::lengths::Lengths;
use super::super::plan::{CONFIDENCE, RESERVE, RESERVE_S, command_line, new_seed};
use super::axes::{axes, pipe_refused, refused_pipes};

/// What a search is going to do.
pub(super) struct Plan {
    pub(super) panels: Vec<Panel>,
    pub(super) axes: Axes,
    pub(super) lengths: Lengths,
    /// Rounds of the measurement, where they were asked for.
    rounds: Option<usize>,
    budget_s: f64,
    settings: Settings,
    machine: Machine,
    pub(super) warnings: Vec<Warning>,
}

impl Plan {
    pub(super) fn new(args: &BenchArgs) -> anyhow::Result<Self> {
        let measure = &args.measure;
        check(args)?;
        let topology = Topology::read(&Root::default());
        let places = places(args, &topology)?;
        let pages = vmspliced_pages();
        let panels = selected(panels(&places, pages), &args.case)?;
        let lengths = Lengths::of(Suite::Sizes, measure.quick);
        let budget_s = measure.time.unwrap_or(lengths.budget_s);
        let axes = axes(args, &panels, (budget_s, usable_s(budget_s)), &lengths)?;

        let places = of_panels(&places, &panels);
        let first = &places[0].chosen;
        let machine = Machine::read(first.writer, first.reader);
        let mut warnings = warnings::standing(&machine);
        warnings.extend(refused_pipes(&axes));
        if pages == PageKind::Base {
            warnings.push(standing(
                WarningKind::Configuration,
                "there are no huge pages for this process: buffers that are vmspliced are made of \
                 base pages, unlike the published ones",
            ));
        }
        if measure.quick {
            warnings.push(standing(
                WarningKind::Quick,
                "a quick run: every second power of two, shorter and fewer trials: the search \
                 may miss the best sizes, and small differences stay undecided",
            ));
        }
        let mut relations: Vec<&str> = places.iter().map(|place| &*place.chosen.relation).collect();
        relations.dedup();
        let names: Vec<&str> = places.iter().map(|place| &*place.name).collect();
        let alone = places.len() == 1;
        Ok(Plan {
            rounds: measure.rounds.map(|rounds| rounds as usize),
            budget_s,
            settings: Settings {
                seed: measure.seed.unwrap_or_else(new_seed),
                rounds_planned: 0,
                rounds_done: 0,
                order: String::new(),
                timed_s: lengths.durations.timed_s,
                warm_up_s: lengths.durations.warm_up_s,
                placement: names.join(", "),
                writer_cpu: first.writer.filter(|_| alone),
                reader_cpu: first.reader.filter(|_| alone),
                cpu_relation: relations.join("; "),
                pipe_size: measure.setup.pipe_size,
                buffer_size: measure.setup.buffer_size,
                data: None,
                work: 0,
                quick: measure.quick,
                confidence: CONFIDENCE,
            },
            panels,
            axes,
            lengths,
            machine,
            warnings,
        })
    }

    /// The time there is, and what the rounds take of it.
    pub(super) fn budget(&self) -> Budget {
        Budget {
            whole_s: usable_s(self.budget_s),
            rounds: self.rounds,
            least_rounds: self.lengths.least_in_time,
            durations: self.lengths.durations,
        }
    }

    /// What is about to happen, in a line.
    pub(super) fn announcement(&self) -> String {
        let runnable = self.panels.iter().filter(|panel| panel.refused.is_none());
        let time = match self.rounds {
            Some(rounds) => format!(
                "at most {:.0} s, then {}",
                SEARCH * usable_s(self.budget_s),
                counted(rounds, "round")
            ),
            None => format!("at most {:.0} s with the rounds after it", self.budget_s),
        };
        format!(
            "pipespeed: sizes, a search of {} of buffer and pipe sizes in each of {}, {time}",
            counted(self.axes.runnable(), "pair"),
            counted(runnable.count(), "panel")
        )
    }

    /// The record, nothing tried yet.
    pub(super) fn empty_run(&self) -> Run {
        let results = self.panels.iter();
        Run {
            schema_version: SCHEMA_VERSION,
            pipespeed_version: env!("CARGO_PKG_VERSION").to_owned(),
            command: command_line(),
            suite: Suite::Sizes.name().to_owned(),
            started_at: jiff::Timestamp::now()
                .strftime("%Y-%m-%dT%H:%M:%SZ")
                .to_string(),
            interrupted: None,
            machine: self.machine.clone(),
            settings: self.settings.clone(),
            warnings: self.warnings.clone(),
            null_control: None,
            cases: Vec::new(),
            findings: Vec::new(),
            search: Some(Search {
                rule: halving::rule(),
                seed: self.settings.seed,
                budget_s: SEARCH * usable_s(self.budget_s),
                buffers: self.axes.buffers.clone(),
                pipes: self.axes.pipes.clone(),
                panels: results
                    .map(|panel| panel.empty_result(&self.axes))
                    .collect(),
                ..Search::default()
            }),
        }
    }
}

/// The time there is, less what is kept for start, report and surprises.
fn usable_s(budget_s: f64) -> f64 {
    budget_s * (1.0 - RESERVE) - RESERVE_S
}

pub(super) fn standing(kind: WarningKind, message: &str) -> Warning {
    Warning {
        kind,
        case: None,
        message: message.to_owned(),
    }
}

/// Whether the options make sense for a search.
fn check(args: &BenchArgs) -> anyhow::Result<()> {
    let measure = &args.measure;
    if let Some(option) = args.channels.given() {
        return Err(usage(format!(
            "{option}: the suite sizes has no channels to choose from: say `bench channels`"
        )));
    }
    if !args.volumes.volume.is_empty() {
        return Err(usage(
            "--volume: trials of the suite sizes last by time: say `bench volumes`",
        ));
    }
    if args.memory.pages.is_some() {
        return Err(usage(
            "--pages: the suite sizes takes huge pages for what is vmspliced, where there are \
             any: say `bench memory`",
        ));
    }
    if measure.data.is_some() {
        return Err(usage(
            "--data: the suite sizes sends constant data, as the ladder does; for data that is \
             used say `bench touched --pipe-size SIZE --buffer-size SIZE` with the sizes it finds",
        ));
    }
    if args.work > 0 {
        return Err(usage(
            "--work: the suite sizes only moves data: take the suite touched",
        ));
    }
    let page = pipe::page_size();
    if let Some(bytes) = measure.setup.buffer_size
        && !bytes.is_multiple_of(page)
    {
        return Err(usage(format!(
            "--buffer-size {bytes}: vmsplice needs a multiple of {page} bytes (a page)"
        )));
    }
    if let Some(bytes) = measure.setup.pipe_size
        && let Some(reason) = pipe_refused(bytes)
    {
        return Err(usage(format!("--pipe-size: {reason}")));
    }
    Ok(())
}

/// Where ends run: both ways unless told otherwise.
fn places(args: &BenchArgs, topology: &Topology) -> anyhow::Result<Vec<Place>> {
    let setup = &args.measure.setup;
    let place = |name: &str, chosen| {
        let chosen: placement::Chosen = chosen;
        Place {
            name: name.to_owned(),
            spinning_refused: placement::spinning_refused(&chosen, topology),
            refused: None,
            chosen,
        }
    };
    let places = match (setup.cpus, setup.placement) {
        (Some((writer, reader)), _) => placement::explicit(writer, reader, topology)
            .map(|chosen| vec![place("explicit", chosen)]),
        (None, Some(asked)) => {
            placement::choose(asked, topology).map(|chosen| vec![place(asked.name(), chosen)])
        }
        (None, None) => [Placement::Different, Placement::Same]
            .into_iter()
            .map(|asked| Ok(place(asked.name(), placement::choose(asked, topology)?)))
            .collect(),
    };
    let mut places = places.map_err(|error| usage(error.to_string()))?;
    for place in &mut places {
        // With one processor there is nothing different to be had.
        if place.name == "different" && place.chosen.writer == place.chosen.reader {
            place.refused = Some("there is only one processor for this process".to_owned());
        }
    }
    Ok(places)
}

/// Where the panels run that are not refused; there are some.
fn of_panels<'a>(places: &'a [Place], panels: &[Panel]) -> Vec<&'a Place> {
    let runs = |place: &&Place| {
        let mut here = panels.iter().filter(|it| it.placement == place.name);
        here.any(|panel| panel.refused.is_none())
    };
    places.iter().filter(runs).collect()
}

/// Huge pages, as published, where this process gets them.
fn vmspliced_pages() -> PageKind {
    let built = Buffer::builder()
        .len(2 << 20)
        .pages(Pages::Huge)
        .touched(true)
        .map();
    let huge = built.is_ok_and(|buffer| buffer.backing().is_ok_and(|backing| backing.all_huge()));
    match huge {
        true => PageKind::Huge,
        false => PageKind::Base,
    }
}

/// The panels named.
fn selected(panels: Vec<Panel>, names: &[String]) -> anyhow::Result<Vec<Panel>> {
    if names.is_empty() {
        return Ok(panels);
    }
    let known: Vec<String> = panels.iter().map(Panel::name).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
        return Err(usage(format!(
            "--case {unknown}: no such panel here; there are {}",
            known.join(", ")
        )));
    }
    let named = |panel: &Panel| names.contains(&panel.name());
    Ok(panels.into_iter().filter(named).collect())
}
