//! Checks that buffers consist of the pages that their case asks for.

use std::os::fd::AsFd;

use anyhow::bail;
use fastpipe::buffer::{BufferError, huge_page_size};

use crate::channel::pipe::PipeSink;
use crate::record::NotRun;
use crate::spec::PageKind;
use pipespeed_host::process_memory::Backing;
use pipespeed_host::{Root, Transparent};

/// Converts an error of mapping a buffer. If a limit is the cause: [`NotRun`] with a
/// remedy.
pub(super) fn buffer_error(pages: PageKind, error: BufferError) -> anyhow::Error {
    let remedy = match &error {
        BufferError::NoHugeTlb { .. } if pages == PageKind::HugeTlb1G => {
            let reason = "not enough reserved huge pages of 1 GiB; as root, `echo 2 > \
                          /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages` reserves \
                          two, if the processor has them and memory is not fragmented";
            return NotRun::refused(reason).into();
        }
        BufferError::NoHugeTlb { .. } => "as root, `sysctl vm.nr_hugepages=8` reserves some",
        BufferError::Lock { .. } => "raise it by `ulimit -l`, or run as root",
        _ => return error.into(),
    };
    NotRun::refused(format!("{error}; {remedy}")).into()
}

/// Checks that memory consists of huge pages only.
pub(super) fn require_huge(backing: Backing) -> anyhow::Result<()> {
    if !backing.all_huge() {
        bail!(NotRun::refused(huge_pages_refused(
            backing.huge,
            backing.mapped
        )));
    }
    Ok(())
}

const THP: &str = "/sys/kernel/mm/transparent_hugepage";

/// Checks that transparent huge pages of this size are enabled.
pub(super) fn require_enabled(pages: PageKind) -> anyhow::Result<()> {
    let bytes = pages.bytes().unwrap_or_default();
    let kib = bytes / 1024;
    let settings = Transparent::read(&Root::default()).unwrap_or_default();
    let mut sizes = settings.sizes.iter();
    let own = sizes.find(|size| size.page_bytes == bytes as u64);
    let (setting, directory) = match own.and_then(|size| size.enabled.as_deref()) {
        None => bail!(NotRun::refused(format!(
            "this kernel has no transparent huge pages of {kib} KiB (Linux 6.8 has some)"
        ))),
        Some("inherit") => (settings.enabled.as_deref(), String::new()),
        own => (own, format!("/hugepages-{kib}kB")),
    };
    if setting == Some("never") {
        bail!(NotRun::refused(format!(
            "transparent huge pages of {kib} KiB are turned off; as root, `echo madvise > \
             {THP}{directory}/enabled` enables them"
        )));
    }
    Ok(())
}

/// Checks that the writer's buffers consist of pages of this size and, if they are to
/// be split, that no page-table entry maps a whole one.
pub(super) fn require_size<F: AsFd>(pages: PageKind, pipe: &PipeSink<F>) -> anyhow::Result<()> {
    let wanted = pages.bytes().unwrap_or_else(huge_page_size);
    let kib = |bytes: usize| bytes / 1024;
    let found = match pipe.page_bytes() {
        Ok(found) => found,
        Err(error) => bail!(NotRun::refused(format!(
            "whether the pages are of {} KiB can't be proven without root ({error})",
            kib(wanted)
        ))),
    };
    if found != Some(wanted) {
        let found = found.map_or_else(
            || "are of several sizes".to_owned(),
            |bytes| format!("are of {} KiB", kib(bytes)),
        );
        bail!(NotRun::refused(format!(
            "the pages {found} instead of {} KiB: memory may be too fragmented, or the process \
             is not allowed to use them",
            kib(wanted)
        )));
    }
    let whole = pipe.backing(Backing::from_smaps)?.huge;
    if pages == PageKind::Split && whole > 0 {
        bail!(NotRun::refused(format!(
            "{} KiB are still mapped by entries of whole huge pages",
            whole / 1024
        )));
    }
    Ok(())
}

/// A sentence on why a buffer does not consist of huge pages only.
pub fn huge_pages_refused(huge: u64, mapped: u64) -> String {
    let settings = Transparent::read(&Root::default());
    let why = match settings.and_then(|settings| settings.enabled).as_deref() {
        None => "this kernel has no transparent huge pages".to_owned(),
        Some("never") => format!("{THP}/enabled is 'never'; 'madvise' is enough"),
        _ if disabled_for_this_process() => {
            "they are turned off for this process (PR_SET_THP_DISABLE of prctl(2))".to_owned()
        }
        _ => "memory may be too fragmented, or the process is not allowed to use them".to_owned(),
    };
    format!(
        "only {} of {} KiB are in transparent huge pages: {why}",
        huge / 1024,
        mapped / 1024
    )
}

/// Whether transparent huge pages are turned off for this process
/// (proc_pid_status(5), `THP_enabled`).
fn disabled_for_this_process() -> bool {
    let enabled = Root::default().field("proc/self/status", "THP_enabled");
    enabled.as_deref() == Some("0")
}
