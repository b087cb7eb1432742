//! How long a page is held, and by whom.

use std::fs::File;
use std::os::unix::fs::FileExt;

use fastpipe::pipe::page_size;
use fastpipe::transfer::{SpliceOptions, VmspliceOptions};
use fastpipe::writer::kernel_referees;
use rustix::fs::MemfdFlags;

use super::steps::{NEW, OLD, Pipe, Step, at, found, needs_references, old_page, spliced};
use crate::check::Outcome;

pub(super) fn behind_splice() -> anyhow::Result<Outcome> {
    behind(
        |first, second| first.splice(&second.writer, SpliceOptions::default()),
        |outcome| {
            outcome.noting(
                "so an empty pipe does not mean that its pages may be written again; fastpipe's \
                 Fresh and Refereed do not rest on it",
            )
        },
    )
}

pub(super) fn behind_tee() -> anyhow::Result<Outcome> {
    let passed_on = |first: &Pipe, second: &Pipe| {
        first.tee(second)?;
        first.first_byte().map(drop)
    };
    behind(passed_on, |outcome| outcome)
}

/// What the reader of a second pipe finds of a page that is changed after it has
/// left the first one. `noted` says what follows if it is the change.
fn behind(
    passed_on: impl FnOnce(&Pipe, &Pipe) -> Step<()>,
    noted: impl FnOnce(Outcome) -> Outcome,
) -> anyhow::Result<Outcome> {
    needs_references(|| {
        let mut page = old_page()?;
        let first = Pipe::holding(&page, VmspliceOptions::default())?;
        let second = Pipe::new()?;
        passed_on(&first, &second)?;
        let unread = first.unread()?;
        page[0] = NEW;
        Ok(match (unread, second.first_byte()?) {
            (0, NEW) => noted(Outcome::seen(
                "yes, a change after the drain is read downstream",
            )),
            (0, OLD) => Outcome::seen("no, downstream has a copy"),
            (0, _) => Outcome::fail("other bytes came out than were put in"),
            (unread, _) => Outcome::fail(format!("{unread} bytes are left in the first pipe")),
        })
    })
}

pub(super) fn let_go() -> anyhow::Result<Outcome> {
    found(|| {
        let mut page = old_page()?;
        let pipe = Pipe::holding(&page, VmspliceOptions::default())?;
        at("madvise(2)", page.renew())?;
        page.fill(NEW);
        Ok(match pipe.first_byte()? {
            OLD => Outcome::pass("yes, the old bytes are read"),
            _ => Outcome::fail("no, bytes written after it was let go are read").noting(
                "do not use vmsplice(2) on this system: no policy for writing pages again is safe",
            ),
        })
    })
}

pub(super) fn file() -> anyhow::Result<Outcome> {
    found(|| {
        let file = memory_file(&vec![OLD; page_size()])?;
        let pipe = Pipe::new()?;
        spliced(&file, &pipe.writer, SpliceOptions::default())?;
        at("pwrite(2)", file.write_all_at(&[NEW], 0))?;
        Ok(match pipe.first_byte()? {
            NEW => Outcome::seen("yes, a later write is read from the pipe"),
            OLD => Outcome::seen("no, the pipe has a copy"),
            _ => Outcome::fail("other bytes came out than are in the file"),
        })
    })
}

/// A file that is nowhere but in memory and goes with its descriptor.
pub(super) fn memory_file(bytes: &[u8]) -> Step<File> {
    let made = rustix::fs::memfd_create("pipespeed-check", MemfdFlags::CLOEXEC);
    let file = File::from(at("memfd_create(2)", made)?);
    at("pwrite(2)", file.write_all_at(bytes, 0))?;
    Ok(file)
}

pub(super) fn refereed() -> anyhow::Result<Outcome> {
    needs_references(|| {
        Ok(match at("clone(2)", kernel_referees())? {
            true => Outcome::seen("yes, a page that a pipe holds is copied when written"),
            false => Outcome::seen("no, a page that a pipe holds is written, or no fault is taken")
                .noting("fastpipe's Refereed is Fresh here; Linux 5.19 and later referee"),
        })
    })
}
