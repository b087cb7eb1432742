//! The input of each run of a proof.

use std::fs::{File, FileType};
use std::io::{self, IsTerminal};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use anyhow::anyhow;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use pipespeed_base::failure::with_remedy;

/// Opens the input of a run. Refuses one that the next run would not find again: a file may have
/// become one since the first run.
pub(super) fn open(input: &Path) -> anyhow::Result<File> {
    let failed =
        |error: &io::Error| anyhow!("--input: {}: {}", input.display(), with_remedy(error));
    // A writer may wait for a reader of a FIFO: that is not opened.
    let about = std::fs::metadata(input).map_err(|error| failed(&error))?;
    check_kind(input, about.file_type())?;
    // Neither must opening what was put there since wait, nor a terminal become ours.
    let flags = OFlags::NOCTTY | OFlags::NONBLOCK;
    let mut options = File::options();
    options.read(true).custom_flags(flags.bits() as i32);
    let file = options.open(input).map_err(|error| failed(&error))?;
    let about = file.metadata().map_err(|error| failed(&error))?;
    check_kind(input, about.file_type())?;
    if file.is_terminal() {
        return Err(readable_once(input, "a terminal"));
    }
    let flags = fcntl_getfl(&file).map_err(|errno| failed(&errno.into()))?;
    fcntl_setfl(&file, flags - OFlags::NONBLOCK).map_err(|errno| failed(&errno.into()))?;
    Ok(file)
}

/// Refuses a kind of file that can be read only once, or not at all.
fn check_kind(input: &Path, kind: FileType) -> anyhow::Result<()> {
    if kind.is_fifo() {
        Err(readable_once(input, "a pipe"))
    } else if kind.is_socket() {
        Err(readable_once(input, "a socket"))
    } else if kind.is_dir() {
        let name = input.display();
        Err(anyhow!("--input: {name} is a directory: name a file"))
    } else {
        Ok(())
    }
}

fn readable_once(input: &Path, what: &str) -> anyhow::Error {
    anyhow!(
        "--input: {} is {what}, which only the first run could read: keep the input in a file first \
         (cat > FILE), and name that",
        input.display()
    )
}
