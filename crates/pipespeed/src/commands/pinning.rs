//! `pipespeed costs --pinning`, and the published `get-user-pages`.

use anyhow::{anyhow, bail};
use fastpipe::buffer::{Buffer, Pages};
use fastpipe::pipe::page_size;

use crate::cli::{CostsArgs, EndArgs, PinnedPages};
use crate::commands::files::{RECORD, SavedFiles};
use crate::commands::progress::ProgressDisplay;
use crate::commands::{
    UNFINISHED, costs, first_error, header, interrupted_by, load, memory_suffices,
    nothing_measured, seed,
};
use pipespeed_base::failure::{say, usage};
use pipespeed_base::interrupt::Interrupt;
use pipespeed_base::output::print;
use pipespeed_base::{signal_name, size};
use pipespeed_explain::costs::Probes;
use pipespeed_explain::costs::pinning::{
    GupBenchmark, Missing, PinningPlan, PinningRecord, PinningResults, PinningSettings,
};
use pipespeed_host::process_memory::Backing;
use pipespeed_host::{Machine, Root, available_memory};
use pipespeed_measure::record::{Kind, to_json};
use pipespeed_measure::rounds::{Rounds, Work, check};
use pipespeed_report as report;

/// Default memory that a call of the kernel's benchmark pins, in bytes.
const DEFAULT_SIZE: usize = 256 << 20;

const TWO_MIB: usize = 2 << 20;

/// Smallest memory to pin; the kernel's clock of whole microseconds is too coarse
/// for less.
const MIN_SIZE: usize = 1 << 20;

/// Measures and shows the cost of pinning; after a signal, the results so far.
///
/// # Errors
/// A trial failed, the record can't be saved, or a signal arrived.
pub fn run(args: &CostsArgs) -> anyhow::Result<()> {
    let budget = costs::budget(args);
    let files = SavedFiles::new([("--json", &args.json)])?;
    let plan = plan(args)?;
    let files = files.or_by_default(args.no_save, "pinning", RECORD);
    let (kernel, missing) = match GupBenchmark::find() {
        Ok(kernel) => (Some(kernel), None),
        Err(missing) => (None, Some(missing.to_string())),
    };
    let settings = PinningSettings {
        rounds: 0,
        seed: seed(args.seed),
        page_bytes: page_size(),
        pages_per_call: plan.pages_per_call,
        bytes_per_call: plan.size,
        untouched: plan.untouched,
    };
    let results = PinningResults {
        kernel,
        missing,
        figures: Vec::new(),
    };
    let header = header(Kind::Pinning, Machine::read(None, None));
    let mut record = PinningRecord::new(header, settings, results);
    let interrupt = Interrupt::install()?;
    let signal = || interrupt.signal();
    let probes = Probes::of_pinning(&plan, record.kernel.as_ref(), signal);
    let mut run = Rounds::begin(probes, settings.seed);
    record.warnings.extend(load::look(&[], args.quiet));
    let mut unfinished = record.clone();
    unfinished.interrupted = Some(UNFINISHED.to_owned());
    let mut progress = ProgressDisplay::new(args.quiet, |probes: &Probes<_, _>| {
        unfinished.figures = probes.figures();
        files.save_round(|_| Ok(to_json(&unfinished)));
    });
    let rounds = &mut record.settings.rounds;
    let outcome = costs::measure(&mut run, args, &budget, &mut progress, rounds);
    progress.finish();
    record.interrupted = interrupted_by(&outcome).map(signal_name);
    record.warnings.extend(run.missing());
    record.figures = run.work.figures();
    let has_results = run.work.record().is_some();
    if !has_results && outcome.is_err() {
        return Err(nothing_measured(outcome, &record.warnings));
    }
    let saved = if has_results {
        files.save(|_| Ok(to_json(&record)))
    } else {
        Ok(())
    };
    let missing = record.missing.as_deref().unwrap_or_default();
    let source = record.kernel.as_ref().ok_or(missing);
    let shown = files.print(args.verbose, |style| {
        report::pinning(source, &plan, &record.figures, &record.warnings, style)
    });
    files.say_saved(args.quiet || saved.is_err() || !has_results);
    if !has_results {
        return Err(nothing_measured(outcome, &record.warnings));
    }
    first_error([outcome, saved, check(&record.warnings), shown])
}

fn plan(args: &CostsArgs) -> anyhow::Result<PinningPlan> {
    let pinning = &args.pinning;
    let pages = match pinning.pages {
        PinnedPages::Both => vec![Pages::Base, Pages::Huge],
        PinnedPages::Base => vec![Pages::Base],
        PinnedPages::Huge => vec![Pages::Huge],
    };
    let size = match pinning.size {
        Some(bytes) if bytes < MIN_SIZE => {
            return Err(usage(format!(
                "--size {}: the kernel's clock counts whole microseconds, so a call must pin at \
                 least 1M",
                size::format(bytes as u64)
            )));
        }
        Some(bytes) => {
            if !pinning.untouched {
                let needed = (bytes as u64).saturating_mul(pages.len() as u64);
                memory_suffices("--size", bytes, needed)?;
            }
            bytes
        }
        None => default_size(available().map(|bytes| bytes / pages.len() as u64)),
    };
    Ok(PinningPlan {
        pages_per_call: pinning.pages_per_call,
        size: size.checked_next_multiple_of(page_size()).unwrap_or(size),
        pages,
        untouched: pinning.untouched,
    })
}

/// Returns the default size, limited to a quarter of the available memory.
fn default_size(available: Option<u64>) -> usize {
    let bound = available.map_or(DEFAULT_SIZE, |bytes| {
        usize::try_from(bytes / 4).unwrap_or(DEFAULT_SIZE)
    });
    // Whole huge pages of 2 MiB, so that both kinds of pages get the same size.
    DEFAULT_SIZE.min((bound / TWO_MIB * TWO_MIB).max(MIN_SIZE))
}

/// Returns the available memory in bytes.
fn available() -> Option<u64> {
    Some(available_memory(&Root::default())?.bytes)
}

/// The published `get-user-pages`: pins --bytes_to_pipe in total, half a buffer at a
/// time. Each run of the kernel's benchmark covers many MiB.
///
/// # Errors
/// The kernel has no such benchmark, or the benchmark fails.
pub(super) fn get_user_pages(end: &EndArgs) -> anyhow::Result<()> {
    let kernel = GupBenchmark::find().map_err(|missing: Missing| {
        anyhow!("{missing} (pipespeed costs --pinning estimates the cost without it)")
    })?;
    let page = page_size();
    let pages_per_call = u32::try_from((end.buf_size / 2 / page).max(1))
        .map_err(|_| usage("--buf_size: half a buffer has too many pages for one call"))?;
    let total = usize::try_from(end.bytes_to_pipe()).ok();
    let total = total.and_then(|bytes| bytes.checked_next_multiple_of(page));
    let total = total.ok_or_else(|| usage("--bytes_to_pipe: the number is too large"))?;
    let range = Buffer::builder()
        .len(default_size(available()).min(total).max(page))
        .pages(end.pages().into())
        .touched(!end.dont_touch_pages)
        .locked(end.lock_memory)
        .map()?;
    super::ends::check_huge_pages(end, || Backing::examine(&range))?;
    if end.verbose {
        say(&format!(
            "{}: {pages_per_call} pages at a time, {} per call, {} in total",
            kernel.file.display(),
            size::format(range.len() as u64),
            size::format(total as u64)
        ));
    }
    let (mut remaining, mut total_us) = (total, 0);
    while remaining > 0 {
        let len = remaining.min(range.len());
        let pinned = kernel.pin(&range[..len], pages_per_call)?;
        if pinned.bytes != len as u64 {
            bail!("the kernel pinned {} of {len} bytes", pinned.bytes);
        }
        total_us += pinned.get_us;
        remaining -= len;
    }
    print(format!("total get_user_pages_fast time: {total_us}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_size_is_limited_by_the_available_memory() {
        assert_eq!(default_size(None), 256 << 20);
        assert_eq!(default_size(Some(64 << 30)), 256 << 20);
        assert_eq!(default_size(Some(400 << 20)), 100 << 20);
        assert_eq!(default_size(Some(0)), 1 << 20);
    }
}
