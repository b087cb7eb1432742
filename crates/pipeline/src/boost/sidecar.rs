//! The process that raises the pipes beside a pipeline.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use pipespeed_base::orphan::{leave_all_but, run_orphan};
use pipespeed_base::process::ProcessHandle;
use rustix::process::{Pid, geteuid, getpid};

use super::{Booster, RaiseScope};
use crate::proc::Proc;
use crate::proc::pipe_probe::PipeProbe;
use crate::raise;

/// Name of the process, for ps(1) and [`find_other`]: it has the arguments of the process that was copied.
const NAME: &CStr = c"pipespeed-boost";

/// Starts a sidecar that raises the pipes of a process until that ends. It is an orphan with a
/// session of its own and no descriptor of this process, which must have only one thread. It
/// writes its [`Account`](super::Account) as JSON to the file `account`, and before that a line with its
/// process id.
///
/// Does not wait until the sidecar looks at the process, whose pipes it finds whenever they
/// were made.
///
/// # Errors
/// The process does not exist, its end can't be waited for, the file can't be opened, or no process
/// can be started.
pub fn start(subject: RaiseScope, account: Option<&str>) -> io::Result<()> {
    // Opened here, since both may be gone when the sidecar runs.
    let root = open_process(subject.pid)?;
    root.ends_within(Duration::ZERO)?;
    let account = account.map(|path| File::options().write(true).open(path));
    let account = account.transpose()?;
    run_orphan(|| {
        let kept = account.iter().map(AsFd::as_fd).chain([root.as_fd()]);
        leave_all_but(&kept.collect::<Vec<_>>(), NAME)?;
        Ok(|| drop(attend(subject, root, account)))
    })
}

/// In the sidecar.
fn attend(
    subject: RaiseScope,
    root: ProcessHandle,
    mut account_file: Option<File>,
) -> io::Result<()> {
    if let Some(file) = &mut account_file {
        file.write_all(format!("{}\n", getpid().as_raw_pid()).as_bytes())?;
    }
    let mut booster = Booster::new(subject, PipeProbe::forking(raise::answer));
    // It must not outlive the process if the end can't be noticed.
    let account = booster.run(&mut |interval| !root.ends_within(interval).unwrap_or(true));
    if let Some(mut file) = account_file {
        let text = serde_json::to_string(&account)?;
        // In one call.
        file.write_all(format!("{text}\n").as_bytes())?;
    }
    Ok(())
}

/// Finds another process that raises the pipes of this process's descendants. Not found are those
/// of another PID namespace, and those that /proc hides (mount option `hidepid`).
pub fn find_other(proc: &Proc) -> Option<i32> {
    let own = getpid().as_raw_pid();
    let line: Vec<i32> = [own].into_iter().chain(proc.ancestors(own)).collect();
    let is_other = |pid: &i32| {
        let name = proc.name(*pid);
        name.is_some_and(|name| name.as_bytes() == NAME.to_bytes())
            // It leaves the pipes of other users alone.
            && proc.user(*pid) == Some(geteuid().as_raw())
            && proc.opened_processes(*pid).iter().any(|subject| line.contains(subject))
    };
    proc.processes().into_iter().find(is_other)
}

/// Refers to a running process, even if its number is reused.
///
/// # Errors
/// ESRCH if there is no such process.
pub fn open_process(pid: i32) -> io::Result<ProcessHandle> {
    ProcessHandle::open(Pid::from_raw(pid).ok_or(rustix::io::Errno::SRCH)?)
}
