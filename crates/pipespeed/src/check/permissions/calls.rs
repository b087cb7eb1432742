//! System calls that filters like to refuse.

use std::io;
use std::os::fd::OwnedFd;

use anyhow::Context;
use fastpipe::buffer::Buffer;
use fastpipe::pipe::{self, page_size};
use fastpipe::transfer::{Incomplete, Input, Output, SpliceOptions, VmspliceOptions};
use fastpipe::wait::Wait;
use rustix::io::Errno;

use crate::channel::uring;
use crate::check::{Outcome, refusal};
use crate::machine::Root;

pub(super) fn splice() -> anyhow::Result<Outcome> {
    let ((from, _open), (_reader, to)) = (with_a_byte()?, new_pipe()?);
    let mut input = Input::new(&from, Wait::Never);
    allowed("splice(2)", input.splice(to, 1, SpliceOptions::default()))
}

pub(super) fn tee() -> anyhow::Result<Outcome> {
    let ((from, _open), (_reader, to)) = (with_a_byte()?, new_pipe()?);
    let mut input = Input::new(&from, Wait::Never);
    allowed("tee(2)", input.tee(to, 1))
}

pub(super) fn vmsplice() -> anyhow::Result<Outcome> {
    let page = Buffer::builder().len(page_size()).map()?;
    let (_reader, writer) = new_pipe()?;
    let mut output = Output::new(&writer, Wait::Never);
    let sent = output.vmsplice(&[page.slice(..)], VmspliceOptions::default());
    allowed("vmsplice(2)", sent)
}

fn new_pipe() -> anyhow::Result<(OwnedFd, OwnedFd)> {
    pipe::create().context("pipe2(2)")
}

/// A pipe with a byte in it. Its other end stays open, so that there is more to
/// come.
fn with_a_byte() -> anyhow::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = new_pipe()?;
    let mut output = Output::new(&writer, Wait::Never);
    output.write(&[0]).context("write(2)")?;
    Ok((reader, writer))
}

fn allowed<T>(call: &str, outcome: Result<T, Incomplete>) -> anyhow::Result<Outcome> {
    match outcome {
        Ok(_) => Ok(Outcome::pass("yes")),
        Err(incomplete) => refusal::or_error(call, incomplete.source),
    }
}

const DISABLED: &str = "proc/sys/kernel/io_uring_disabled";

pub(super) fn io_uring() -> anyhow::Result<Outcome> {
    let Err(error) = uring::try_out() else {
        return Ok(Outcome::pass("yes"));
    };
    match disabled(&error, Root::default().number(DISABLED)) {
        Some(refused) => Ok(refused),
        None => refusal::or_error("io_uring_setup(2) or io_uring_enter(2)", error),
    }
}

/// The setting, where it is what refuses.
pub(super) fn disabled(error: &io::Error, setting: Option<u32>) -> Option<Outcome> {
    let errno = Errno::from_io_error(error)?;
    match (errno, setting) {
        (Errno::PERM, Some(setting @ 1..)) => {
            let refused = Outcome::refused(format!(
                "refused by /{DISABLED}, which is {setting} (EPERM)"
            ));
            Some(refused.noting(match setting {
                1 => {
                    "only members of the group in /proc/sys/kernel/io_uring_group, and root, may; \
                     set it to 0"
                }
                _ => "nobody may; set it to 0",
            }))
        }
        // What a ring takes counts as locked memory, but for those who have
        // CAP_IPC_LOCK: seen on Linux 6.18, and so before 5.12.
        (Errno::NOMEM, _) => Some(
            Outcome::refused("refused by RLIMIT_MEMLOCK (ENOMEM)").noting(
                "the memory of a ring counts as locked; raise the limit (ulimit -l), or have \
                 CAP_IPC_LOCK",
            ),
        ),
        _ => None,
    }
}
