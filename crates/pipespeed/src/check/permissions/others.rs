//! Another process's memory.

use std::io::{self, IoSliceMut, PipeReader, PipeWriter, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use fastpipe::memory::{Process, regions};
use nix::sys::uio::RemoteIoVec;
use nix::unistd::Pid;
use rustix::io::Errno;

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
            return Ok(Outcome::refused(format!("no second process: {error}"))
                .noting("the program has to be able to start itself once more"));
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
        Err(errno) => refused(errno, &Root::default()),
    }
}

fn refused(errno: Errno, root: &Root) -> anyhow::Result<Outcome> {
    let scope = root.number("proc/sys/kernel/yama/ptrace_scope");
    match by_yama(errno, scope, refusal::is_filtered(root)) {
        Some(refused) => Ok(refused),
        None => refusal::or_error("process_vm_readv(2)", errno.into()),
    }
}

/// The setting of the Yama module, where it is what refuses: at 1 a parent may.
pub(super) fn by_yama(errno: Errno, scope: Option<u32>, filtered: bool) -> Option<Outcome> {
    let scope = scope.filter(|scope| *scope >= 2)?;
    (errno == Errno::PERM && !filtered).then(|| {
        Outcome::refused(format!(
            "refused by /proc/sys/kernel/yama/ptrace_scope, which is {scope} (EPERM)"
        ))
        .noting(match scope {
            2 => "it takes CAP_SYS_PTRACE; at 1 a parent may read its children's memory",
            _ => "nobody may, until the system is started anew with a lower one",
        })
    })
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
