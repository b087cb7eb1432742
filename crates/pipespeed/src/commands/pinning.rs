//! `pipespeed costs --pinning`, and the published `get-user-pages`.

use std::io::{self, IsTerminal, Write};

use anyhow::{Context, anyhow, bail};
use fastpipe::buffer::{Buffer, Pages};
use fastpipe::pipe::page_size;

use crate::cli::{CostsArgs, EndArgs, PinnedPages};
use crate::commands::header;
use pipespeed_base::failure::{say, to_stdout, usage};
use pipespeed_base::size;
use pipespeed_explain::costs::pinning::{self, Kernel, Missing, Plan, Record, Settings};
use pipespeed_host::Machine;
use pipespeed_measure::record::{Kind, is_stdout, save, to_json};
use pipespeed_report::{self as report, Style};

/// What a call of the kernel's benchmark pins unless told otherwise, in bytes.
const USUAL_SIZE: usize = 256 << 20;

const TWO_MIB: usize = 2 << 20;

/// Below that the kernel's clock of whole microseconds tells too little.
const MIN_SIZE: usize = 1 << 20;

/// Measures what pinning costs and shows it.
///
/// # Errors
/// When a step fails, or the record can't be saved.
pub fn run(args: &CostsArgs) -> anyhow::Result<()> {
    let plan = plan(args)?;
    let (kernel, missing) = match Kernel::find() {
        Ok(kernel) => (Some(kernel), None),
        Err(missing) => (None, Some(missing.to_string())),
    };
    let header = header(Kind::Pinning, Machine::read(None, None));
    let bar = super::costs::bar(args);
    let measured = pinning::measure(&plan, kernel, |done| bar.set_position(done.into()));
    bar.finish_and_clear();
    let (kernel, figures) = measured.context("pinning")?;
    if let Some(path) = &args.json {
        let record = Record {
            header,
            settings: Settings {
                rounds: plan.rounds,
                page_bytes: page_size(),
                pages_per_call: plan.pages_per_call,
                bytes_per_call: plan.size,
                untouched: plan.untouched,
            },
            kernel: kernel.as_ref(),
            missing: missing.as_deref(),
            figures: &figures,
        };
        save(path, to_json(&record).as_bytes())?;
        if is_stdout(path) {
            return Ok(());
        }
    }
    let style = Style::for_terminal(io::stdout().is_terminal(), args.verbose);
    let source = kernel
        .as_ref()
        .ok_or(missing.as_deref().unwrap_or_default());
    let text = report::pinning(source, &plan, &figures, style);
    to_stdout(io::stdout().write_all(text.as_bytes()))
}

fn plan(args: &CostsArgs) -> anyhow::Result<Plan> {
    let pinning = &args.pinning;
    let pages = match pinning.pages {
        PinnedPages::Both => vec![Pages::Base, Pages::Huge],
        PinnedPages::Base => vec![Pages::Base],
        PinnedPages::Huge => vec![Pages::Huge],
    };
    let share = available().map(|bytes| bytes / pages.len());
    let size = match pinning.size {
        Some(bytes) if bytes < MIN_SIZE => {
            return Err(usage(format!(
                "--size {}: the kernel's clock counts whole microseconds, so that a call must \
                 pin 1M at least",
                size::format(bytes as u64)
            )));
        }
        Some(bytes) if !pinning.untouched && share.is_some_and(|share| bytes > share) => {
            return Err(usage(format!(
                "--size {}: there are {} of memory to be had{}",
                size::format(bytes as u64),
                size::format(share.unwrap_or(0) as u64),
                if pages.len() > 1 {
                    " for each kind of pages"
                } else {
                    ""
                },
            )));
        }
        Some(bytes) => bytes,
        None => usual_size(share),
    };
    Ok(Plan {
        rounds: args.rounds(),
        pages_per_call: pinning.pages_per_call,
        size: size.checked_next_multiple_of(page_size()).unwrap_or(size),
        pages,
        untouched: pinning.untouched,
    })
}

/// A quarter of what there is, at most.
fn usual_size(available: Option<usize>) -> usize {
    let bound = available.map_or(USUAL_SIZE, |bytes| bytes / 4);
    // In whole huge pages of the usual size, so that both kinds get the same.
    USUAL_SIZE.min((bound / TWO_MIB * TWO_MIB).max(MIN_SIZE))
}

/// Memory to be had without swapping, in bytes (proc_meminfo(5)).
fn available() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The published `get-user-pages`: half a buffer's pages at a time, as many as
/// it says, by calls of many MiB.
///
/// # Errors
/// Where the kernel has no benchmark of its own, or it fails.
pub(super) fn get_user_pages(end: &EndArgs) -> anyhow::Result<()> {
    let mut kernel = Kernel::find().map_err(|missing: Missing| {
        anyhow!("{missing} (pipespeed costs --pinning estimates it without)")
    })?;
    let page = page_size();
    let pages_per_call = u32::try_from((end.buf_size / 2 / page).max(1))
        .map_err(|_| usage("--buf_size: half a buffer has too many pages for a call"))?;
    let all = end.bytes_to_pipe.checked_next_multiple_of(page);
    let all = all.ok_or_else(|| usage("--bytes_to_pipe: more than can be counted"))?;
    let range = Buffer::builder()
        .len(usual_size(available()).max(page).min(all))
        .pages(end.pages().into())
        .touched(!end.dont_touch_pages)
        .locked(end.lock_memory)
        .map()?;
    super::write::check_huge_pages(end, || range.backing())?;
    if end.verbose {
        say(&format!(
            "{}: {pages_per_call} pages at a time, {} by each call, {} in all",
            kernel.file.display(),
            size::format(range.len() as u64),
            size::format(all as u64)
        ));
    }
    let (mut left, mut total_us) = (all, 0);
    while left > 0 {
        let asked = left.min(range.len());
        let pinned = kernel.pin(&range[..asked], pages_per_call)?;
        if pinned.bytes != asked as u64 {
            bail!("the kernel pinned {} of {asked} bytes", pinned.bytes);
        }
        total_us += pinned.get_us;
        left -= asked;
    }
    let line = format!("total get_user_pages_fast time: {total_us}\n");
    to_stdout(io::stdout().write_all(line.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_size_is_bounded_by_the_memory_there_is() {
        assert_eq!(usual_size(None), 256 << 20);
        assert_eq!(usual_size(Some(64 << 30)), 256 << 20);
        assert_eq!(usual_size(Some(400 << 20)), 100 << 20);
        assert_eq!(usual_size(Some(0)), 1 << 20);
    }
}
