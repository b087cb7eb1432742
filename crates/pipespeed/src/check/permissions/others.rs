//! Another process's memory.

use std::io::{self, IoSliceMut, PipeReader, PipeWriter, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use fastpipe::memory::{Process, regions};
use nix::sys::uio::RemoteIoVec;
use nix::unistd::Pid;
use rustix::io::Errno;
use rustix::process::geteuid;
use rustix::thread::CapabilitySet;

use crate::check::limits::capabilities;
use crate::check::{Outcome, refusal};
use crate::costs::echo::{self, encode};
use crate::endpoint::process::SUBCOMMAND;
use crate::machine::Root;

pub(super) fn process_vm_readv() -> anyhow::Result<Outcome> {
    let other = match Other::start() {
        Ok(other) => other,
        Err(error) if refusal::out_of_descriptors(&error) => {
            return Err(anyhow::Error::new(error).context("pipe2(2)"));
        }
        Err(error) => {
            let refused = Outcome::refused(format!("no second process: {error}"));
            return Ok(refused.noting(match error.kind() {
                io::ErrorKind::WouldBlock => refusal::out_of_processes(),
                _ => "the program has to be able to start itself once more".to_owned(),
            }));
        }
    };
    let pid = other.child.id();
    let mappings = regions(Process::Other(pid)).unwrap_or_default();
    let first = mappings.first().map_or(0, |region| region.start);
    let mut byte = [0];
    let there = [RemoteIoVec {
        base: first as usize,
        len: byte.len(),
    }];
    let read = nix::sys::uio::process_vm_readv(
        Pid::from_raw(pid as i32),
        &mut [IoSliceMut::new(&mut byte)],
        &there,
    );
    match read.map_err(|errno| Errno::from_raw_os_error(errno as i32)) {
        Ok(_) => Ok(Outcome::pass("yes")),
        // Nothing to be read there, as where even the list of mappings is
        // closed; but whether it may be is asked first (mm/process_vm_access.c).
        Err(Errno::FAULT) => Ok(Outcome::pass("yes")),
        Err(errno) => refused(errno, pid, &Root::default()),
    }
}

fn refused(errno: Errno, pid: u32, root: &Root) -> anyhow::Result<Outcome> {
    let rules = Rules {
        yama: root.number("proc/sys/kernel/yama/ptrace_scope"),
        dumpable: is_dumpable(pid, root),
        capable: capabilities().contains(CapabilitySet::SYS_PTRACE),
        filtered: refusal::is_filtered(root),
    };
    match by_rules(errno, &rules) {
        Some(refused) => Ok(refused),
        None => refusal::or_error("process_vm_readv(2)", errno.into()),
    }
}

/// Whether a process of ours is dumpable: where it is not, most of its files in
/// /proc are root's (proc_pid(5)). Its being root's itself leaves that open.
fn is_dumpable(pid: u32, root: &Root) -> bool {
    let files = std::fs::metadata(root.path(format!("proc/{pid}/fd")));
    files.map_or(true, |files| files.uid() == geteuid().as_raw())
}

/// What ptrace(2)'s rules, "Ptrace access mode checking", go by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    /// The setting of the Yama module: at 1 a parent may.
    pub(super) yama: Option<u32>,
    /// Whether others of the user may look into it (PR_SET_DUMPABLE).
    pub(super) dumpable: bool,
    /// Whether we have CAP_SYS_PTRACE.
    pub(super) capable: bool,
    /// Whether a seccomp filter is in force.
    pub(super) filtered: bool,
}

/// The rule that refuses in any case, if there is one.
pub(super) fn by_rules(errno: Errno, rules: &Rules) -> Option<Outcome> {
    if errno != Errno::PERM {
        return None;
    }
    let (seen, note) = match rules.yama {
        Some(scope @ 3..) => (
            format!("refused by /proc/sys/kernel/yama/ptrace_scope, which is {scope} (EPERM)"),
            "nobody may, until the system is started anew with a lower one",
        ),
        _ if rules.capable => return None,
        Some(scope @ 2) => (
            format!("refused by /proc/sys/kernel/yama/ptrace_scope, which is {scope} (EPERM)"),
            "it takes CAP_SYS_PTRACE; at 1 a parent may read its children's memory",
        ),
        _ if !rules.dumpable => (
            "refused, as the program is not dumpable (EPERM)".to_owned(),
            "its file can't be read by this user, or gives privileges, which keeps its memory \
             private (ptrace(2)): have the file readable, or CAP_SYS_PTRACE",
        ),
        _ => return None,
    };
    let too = match rules.filtered {
        true => "; a seccomp filter is in force, too",
        false => "",
    };
    Some(Outcome::refused(seen).noting(format!("{note}{too}")))
}

/// This program once more, as the process that echoes. It ends with its input.
struct Other {
    child: Child,
    input: Option<PipeWriter>,
}

impl Other {
    /// Returns when it runs.
    fn start() -> io::Result<Self> {
        let (stdin, input): (PipeReader, PipeWriter) = io::pipe()?;
        let (mut output, stdout) = io::pipe()?;
        let child = Command::new(std::env::current_exe()?)
            .args([SUBCOMMAND, echo::ROLE])
            .stdin(stdin)
            .stdout(stdout)
            .stderr(Stdio::null())
            // A terminal's signals are for us.
            .process_group(0)
            .spawn()?;
        let mut other = Other {
            child,
            input: Some(input),
        };
        let mut message = encode(0, 0);
        if let Some(input) = &mut other.input {
            input.write_all(&message)?;
        }
        output.read_exact(&mut message)?;
        Ok(other)
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.wait();
    }
}
