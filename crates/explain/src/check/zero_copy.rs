//! Checks of pages that are moved rather than copied.
//!
//! What a slot of a pipe refers to is not visible. So a page with a known byte is put
//! into a pipe and the byte is changed; the byte that is read shows whether the pipe
//! had the page or a copy.

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use fastpipe::buffer::{Buffer, PageSlice};
use fastpipe::pipe::{self, page_size};
use fastpipe::probe::cow_check_works;
use fastpipe::transfer::{Input, Output, SpliceOptions, VmspliceOptions};
use fastpipe::wait::Wait;

use pipespeed_base::memory_file;
use pipespeed_host::refusals::RefusableCall;

use super::pipes::{CallError, PipePair, at, frame, page, splice_page};
use super::{CheckGroup, CheckResult};

checks! {
    CHECKS, CheckGroup::ZeroCopy;

    /// Adds a page to a pipe by vmsplice(2), then changes the page. If the reader gets the
    /// changed byte, the pipe refers to the page. If not, the kernel has copied it, and
    /// vmsplice(2) has no advantage over write(2). Copying was proposed in 2026, after
    /// CVE-2026-31431 and CVE-2026-43284.
    "vmsplice-refers" => vmsplice_refers {
        statement: "vmsplice(2) puts references to the caller's pages into a pipe",
        reference: "vmsplice(2); fs/splice.c, iter_to_pipe",
    }

    /// Takes a page out of a pipe by vmsplice(2) on the read end, then changes the original page.
    /// If the destination does not change, the page was copied, as read(2) does. The page frames
    /// are compared as well if this process may see them.
    "vmsplice-to-memory" => vmsplice_to_memory {
        statement: "vmsplice(2) from a pipe to memory copies",
        reference: "vmsplice(2); fs/splice.c, vmsplice_to_user",
    }

    /// Fills the slots of a pipe with one byte each, then with one page each, and times the
    /// splice to /dev/null. If both take the same time, the bytes are not accessed; the same
    /// measurement with read(2) shows the cost of access. This is evidence, not proof. It
    /// explains why the splice rungs of the ladder are so fast; a reader that uses its data is
    /// slower.
    "splice-to-null" => splice_to_null {
        statement: "splice(2) to /dev/null does not access pages",
        reference: "null(4); drivers/char/mem.c, splice_write_null and pipe_to_null",
    }

    /// Moves a page that was vmspliced into one pipe on to a second pipe, once by splice(2), as
    /// pv and cat do, and once by tee(2). The page is changed when the first pipe is empty
    /// (FIONREAD). If the reader of the second pipe gets the change, an empty pipe does not mean
    /// that its pages may be reused.
    "outlives-drain" => outlives_drain {
        statement: "a page outlives an empty pipe if the reader splices or tees",
        reference: "splice(2); tee(2); fs/splice.c, splice_pipe_to_pipe and link_pipe; uutils/coreutils#7625",
    }

    /// Adds a page by vmsplice(2), discards it (MADV_DONTNEED) and writes new bytes at its
    /// address. The reader must get the old bytes. fastpipe's default policy, Fresh, relies on
    /// this.
    "let-go-page-kept" => discarded_page {
        statement: "a pipe keeps a page that its owner has discarded",
        reference: "madvise(2); fs/splice.c, iter_to_pipe: the pipe holds a reference of its own",
    }

    /// Splices a page of a file in memory (memfd_create) into a pipe, then writes to the file. If
    /// the reader gets the new bytes, the pipe refers to the page cache.
    "spliced-file-is-live" => spliced_file_is_live {
        statement: "later writes to a file show in what was spliced from it",
        reference: "splice(2); mm/shmem.c, shmem_file_splice_read; mm/filemap.c, filemap_splice_read",
    }

    /// Moves a page by vmsplice(2) and splice(2) to a pipe and to a file in memory, with and
    /// without these flags, and changes it afterwards. Compares what the readers get with and
    /// without the flags.
    "gift-and-move" => gift_and_move {
        statement: "SPLICE_F_GIFT and SPLICE_F_MOVE change nothing for a pipe or a file in memory",
        reference: "splice(2), vmsplice(2); fs/splice.c, user_page_pipe_buf_try_steal and iter_file_splice_write",
    }

    /// Adds a page by vmsplice(2), then duplicates the memory by a clone(2) whose child ends at
    /// once. If the next write to the page faults and the reader gets the old byte, the kernel
    /// has copied the page because the pipe holds it. fastpipe's policy CowChecked relies on
    /// this, and tests it before each use.
    "cow-check" => cow_check {
        statement: "after a clone(2) the kernel decides if a page may be written",
        reference: "mm/memory.c, do_wp_page (Linux 5.19 on)",
    }
}

/// The byte of a page when it is put into a pipe, and after the change.
const OLD: u8 = b'o';
const NEW: u8 = b'n';

/// A base page, all of it [`OLD`].
fn old_page() -> Result<Buffer, CallError> {
    let mut page = page()?;
    page.fill(OLD);
    Ok(page)
}

/// Whether the kernel refers to vmspliced pages.
fn refers() -> Result<bool, CallError> {
    let mut page = old_page()?;
    let pipe = PipePair::holding(&page, VmspliceOptions::default())?;
    page[0] = NEW;
    Ok(pipe.first_byte()? == NEW)
}

/// Runs an experiment that shows something only if vmsplice refers to pages.
fn if_refers(experiment: fn() -> Result<CheckResult, CallError>) -> anyhow::Result<CheckResult> {
    if refers()? {
        Ok(experiment()?)
    } else {
        Ok(CheckResult::seen("not applicable: vmsplice(2) copies here"))
    }
}

fn vmsplice_refers() -> anyhow::Result<CheckResult> {
    Ok(if refers()? {
        CheckResult::seen("yes, a later change is read")
    } else {
        CheckResult::seen("no, it copies: a later change is not read")
            .with_note("vmsplice(2) gains nothing over write(2) on this kernel")
    })
}

fn vmsplice_to_memory() -> anyhow::Result<CheckResult> {
    if_refers(|| {
        let mut from = old_page()?;
        let mut to = page()?;
        let pipe = PipePair::holding(&from, VmspliceOptions::default())?;
        let mut input = Input::new(&pipe.read, Wait::Never);
        at("vmsplice(2)", input.vmsplice(&mut to))?;
        if to[0] != OLD {
            return Ok(CheckResult::fail("other bytes were read"));
        }
        let frames = [&from, &to].map(|page| frame(page).ok().flatten());
        from[0] = NEW;
        // The compiler doesn't know that both may be the same memory.
        let shared = black_box(&to)[0] == NEW;
        Ok(CheckResult::seen(match frames {
            _ if shared => "no, memory and pipe share the page",
            [Some(from), Some(to)] if from == to => "no, memory and pipe share the page",
            [Some(_), Some(_)] => "yes, into another page frame",
            _ => "yes, a later change does not show",
        }))
    })
}

fn outlives_drain() -> anyhow::Result<CheckResult> {
    if_refers(|| {
        Ok(
            match (changed_after_drain(true)?, changed_after_drain(false)?) {
                (true, true) => CheckResult::seen(
                    "yes, a change after the drain is read downstream",
                )
                .with_note("an empty pipe's pages must not be written; fastpipe's Fresh does not"),
                (false, false) => CheckResult::seen("no, downstream has a copy"),
                (true, false) => CheckResult::seen("yes if it splices, no if it tees"),
                (false, true) => CheckResult::seen("yes if it tees, no if it splices"),
            },
        )
    })
}

/// Whether the reader of a second pipe finds the change of a page that has left
/// the first pipe by splice or by tee.
fn changed_after_drain(splices: bool) -> Result<bool, CallError> {
    let mut page = old_page()?;
    let first = PipePair::holding(&page, VmspliceOptions::default())?;
    let second = PipePair::new()?;
    if splices {
        first.splice(&second.write, SpliceOptions::default())?;
    } else {
        first.tee(&second)?;
        first.first_byte()?;
    }
    let drained = first.unread()? == 0;
    page[0] = NEW;
    Ok(drained && second.first_byte()? == NEW)
}

fn discarded_page() -> anyhow::Result<CheckResult> {
    let mut page = old_page()?;
    let pipe = PipePair::holding(&page, VmspliceOptions::default())?;
    at("madvise(2)", page.renew())?;
    page.fill(NEW);
    Ok(if pipe.first_byte()? == OLD {
        CheckResult::pass("yes, the old bytes are read")
    } else {
        CheckResult::fail("no, bytes written after it was discarded are read")
            .with_note("don't use vmsplice(2) on this system: no policy of reusing memory is safe")
    })
}

/// A file in memory, which is deleted with its descriptor.
fn memory_file(bytes: &[u8]) -> Result<File, CallError> {
    let made = memory_file::create("pipespeed-check");
    let file = at("memfd_create(2)", made)?;
    at("pwrite(2)", file.write_all_at(bytes, 0))?;
    Ok(file)
}

fn spliced_file_is_live() -> anyhow::Result<CheckResult> {
    let file = memory_file(&vec![OLD; page_size()])?;
    let pipe = PipePair::new()?;
    splice_page(&file, &pipe.write, SpliceOptions::default())?;
    at("pwrite(2)", file.write_all_at(&[NEW], 0))?;
    Ok(CheckResult::seen(if pipe.first_byte()? == NEW {
        "yes, a later write is read from the pipe"
    } else {
        "no, the pipe has a copy"
    }))
}

fn gift_and_move() -> anyhow::Result<CheckResult> {
    if_refers(|| {
        let (with, without) = (shared(true)?, shared(false)?);
        Ok(CheckResult::seen(if with == without {
            let what = |same| if same { "the page" } else { "a copy" };
            let (pipe, file) = (what(with.0), what(with.1));
            format!("yes, either way a pipe has {pipe}, a file {file}")
        } else {
            format!("no: (pipe, file) share the page: {with:?} with the flags, {without:?} without")
        }))
    })
}

/// Whether a pipe, and a file that a page is moved to, share it with its owner.
fn shared(flags: bool) -> Result<(bool, bool), CallError> {
    let vmsplice = VmspliceOptions { gift: flags };
    let splice = SpliceOptions {
        move_pages: flags,
        ..SpliceOptions::default()
    };
    let mut page = old_page()?;
    let (first, second) = (PipePair::holding(&page, vmsplice)?, PipePair::new()?);
    first.splice(&second.write, splice)?;
    page[0] = NEW;
    let in_pipe = second.first_byte()? == NEW;

    let mut page = old_page()?;
    let file = memory_file(&[])?;
    PipePair::holding(&page, vmsplice)?.splice(&file, splice)?;
    page[0] = NEW;
    let mut byte = [0];
    at("pread(2)", file.read_exact_at(&mut byte, 0))?;
    Ok((in_pipe, byte[0] == NEW))
}

fn cow_check() -> anyhow::Result<CheckResult> {
    if_refers(|| {
        Ok(if at(RefusableCall::Clone, cow_check_works())? {
            CheckResult::seen("yes, a page that a pipe holds is copied before it is written")
        } else {
            CheckResult::seen("no: a page that a pipe holds is written, or no huge page is free")
                .with_note("fastpipe's CowChecked acts as Fresh here; it needs Linux 5.19")
        })
    })
}

/// Maximum number of slots that are filled and emptied at a time.
const MAX_SLOTS: usize = 256;

/// Number of repetitions. The fastest counts, since other load only slows it down.
const REPETITIONS: usize = 100;

/// The time of a page divided by that of a byte.
#[derive(Debug, Clone, Copy)]
struct Ratios {
    /// By splice to /dev/null.
    splice: f64,
    /// By read.
    read: f64,
}

fn splice_to_null() -> anyhow::Result<CheckResult> {
    let null = File::options().write(true).open("/dev/null");
    let null = at("/dev/null", null)?;
    Ok(CheckResult::seen(judge(measure(&null)?)))
}

fn judge(ratios: Ratios) -> String {
    /// Below this ratio of read(2) nothing can be decided: in a pipe of few slots the
    /// calls themselves take most time.
    const MIN_READ_RATIO: f64 = 1.3;
    let Ratios { splice, read } = ratios;
    let answer = if read < MIN_READ_RATIO {
        "undecided (a small pipe, or a busy machine)"
    } else if splice - 1.0 < (read - 1.0) / 3.0 {
        "yes"
    } else {
        "no"
    };
    format!("{answer}, a page takes {splice:.2} times as long as a byte (read: {read:.2})")
}

fn measure(null: &File) -> Result<Ratios, CallError> {
    let pipe = PipePair::new()?;
    let granted = pipe::set_capacity_up_to(&pipe.write, MAX_SLOTS * page_size());
    let slots = (at(RefusableCall::SetPipeSize, granted)? / page_size()).min(MAX_SLOTS);
    let len = slots * page_size();
    let from = at("mmap(2)", Buffer::builder().len(len).map())?;
    let mut to = at("mmap(2)", Buffer::builder().len(len).map())?;
    // The shortest times of splice and of read, with pieces of these bytes.
    let mut shortest_of = |bytes: usize| -> Result<[f64; 2], CallError> {
        let pieces: Vec<PageSlice<'_>> = (0..slots)
            .map(|slot| slot * page_size())
            .map(|start| from.slice(start..start + bytes))
            .collect();
        let total = slots * bytes;
        let mut shortest = [Duration::MAX; 2];
        for _ in 0..REPETITIONS {
            for (by_read, shortest) in [false, true].into_iter().zip(&mut shortest) {
                let mut output = Output::new(&pipe.write, Wait::Never);
                at(
                    "vmsplice(2)",
                    output.vmsplice(&pieces, VmspliceOptions::default()),
                )?;
                let mut input = Input::new(&pipe.read, Wait::Never);
                let start = Instant::now();
                if by_read {
                    at("read(2)", input.read(&mut to[..total])).map(drop)?;
                } else {
                    let spliced = input.splice(null, total as u64, SpliceOptions::default());
                    at("splice(2)", spliced).map(drop)?;
                }
                *shortest = start.elapsed().min(*shortest);
            }
        }
        Ok(shortest.map(|time| time.as_secs_f64()))
    };
    let [splice_byte, read_byte] = shortest_of(1)?;
    let [splice_page, read_page] = shortest_of(page_size())?;
    Ok(Ratios {
        splice: splice_page / splice_byte,
        read: read_page / read_byte,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_shared_if_vmsplice_refers_to_them() {
        match refers() {
            Ok(true) => {}
            other => {
                let reason = format_args!("vmsplice refers to pages: {other:?}");
                return pipespeed_testing::skip(reason);
            }
        }
        for name in [
            "vmsplice-to-memory",
            "outlives-drain",
            "let-go-page-kept",
            "spliced-file-is-live",
            "gift-and-move",
        ] {
            let check = CHECKS.iter().find(|check| check.name == name).unwrap();
            let outcome = (check.run)().unwrap();
            assert!(outcome.seen.starts_with("yes"), "{name}: {outcome:?}");
        }
    }

    #[test]
    fn ratio_is_judged_only_if_reading_a_page_is_slower() {
        let answer = |splice, read| judge(Ratios { splice, read });
        assert!(answer(1.02, 2.4).starts_with("yes"));
        assert!(answer(2.1, 2.4).starts_with("no"));
        assert!(answer(1.02, 1.1).starts_with("undecided"));
    }
}
