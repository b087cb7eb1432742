//! Flags of splice and vmsplice that have not done anything for long.

use std::fmt;
use std::os::unix::fs::FileExt;

use fastpipe::transfer::{SpliceOptions, VmspliceOptions};

use super::held::memory_file;
use super::steps::{NEW, Pipe, Step, at, needs_references, old_page};
use crate::check::Outcome;

/// What readers find of a page that is changed after a flag could have had its
/// effect: whether it is that page, or a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) in_pipe: bool,
    pub(super) in_file: bool,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = |same| if same { "the page" } else { "a copy" };
        let (pipe, file) = (what(self.in_pipe), what(self.in_file));
        write!(f, "a pipe has {pipe}, a file {file}")
    }
}

pub(super) fn gift() -> anyhow::Result<Outcome> {
    needs_references(|| {
        // A gift is of use only to who wants to move it.
        let moving = SpliceOptions {
            move_pages: true,
            ..SpliceOptions::default()
        };
        let found = |gift| -> Step<Found> {
            let options = VmspliceOptions { gift };
            let mut page = old_page()?;
            let pipe = Pipe::holding(&page, options)?;
            page[0] = NEW;
            Ok(Found {
                in_pipe: pipe.first_byte()? == NEW,
                in_file: in_file(options, moving)?,
            })
        };
        Ok(compared(found(true)?, found(false)?))
    })
}

pub(super) fn moved() -> anyhow::Result<Outcome> {
    needs_references(|| {
        let found = |move_pages| -> Step<Found> {
            let options = SpliceOptions {
                move_pages,
                ..SpliceOptions::default()
            };
            let mut page = old_page()?;
            let (first, second) = (
                Pipe::holding(&page, VmspliceOptions::default())?,
                Pipe::new()?,
            );
            first.splice(&second.writer, options)?;
            page[0] = NEW;
            Ok(Found {
                in_pipe: second.first_byte()? == NEW,
                in_file: in_file(VmspliceOptions::default(), options)?,
            })
        };
        Ok(compared(found(true)?, found(false)?))
    })
}

/// Whether a file that a page was spliced to has it for its own.
fn in_file(vmsplice: VmspliceOptions, splice: SpliceOptions) -> Step<bool> {
    let mut page = old_page()?;
    let file = memory_file(&[])?;
    Pipe::holding(&page, vmsplice)?.splice(&file, splice)?;
    page[0] = NEW;
    let mut byte = [0];
    at("pread(2)", file.read_exact_at(&mut byte, 0))?;
    Ok(byte[0] == NEW)
}

pub(super) fn compared(with: Found, without: Found) -> Outcome {
    match with == without {
        true => Outcome::seen(format!("either way {with}")),
        false => Outcome::seen(format!("it does: with it {with}; without it {without}")),
    }
}
