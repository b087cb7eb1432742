//! Pseudo-terminals, and who holds which side of them (pty(7)).

use std::path::Path;

use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, statx};

use super::files::ProcessFiles;
use super::{LinkFd, LinkId};

/// Major number of the terminals at pseudo-terminals (UNIX98_PTY_SLAVE_MAJOR in
/// include/uapi/linux/major.h).
const TERMINAL_MAJOR: u32 = 136;
/// The device by which most programs make a pseudo-terminal.
const MAKER: &str = "/dev/ptmx";
/// Where the pseudo-terminals of that device are.
const DEVPTS: &str = "/dev/pts";

/// A terminal, or the master of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TerminalId {
    /// Its file system: several of type devpts may have equal numbers.
    pub device: u64,
    /// Its number there.
    pub number: u64,
}

impl LinkId {
    /// The pseudo-terminal of which it is a direction.
    pub fn terminal(self) -> Option<TerminalId> {
        match self {
            LinkId::Terminal { device, number, .. } => Some(TerminalId { device, number }),
            LinkId::Pipe { .. } | LinkId::Fifo { .. } | LinkId::Socket { .. } => None,
        }
    }
}

/// A descriptor of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalFd {
    /// Its number.
    pub fd: i32,
    /// The terminal.
    pub terminal: TerminalId,
    /// Whether it is the master.
    pub is_master: bool,
}

impl TerminalFd {
    /// Its ends of both directions. A standard descriptor is used in one of them only, though it is
    /// mostly open for both.
    pub(crate) fn ends(self) -> impl Iterator<Item = LinkFd> {
        let TerminalId { device, number } = self.terminal;
        let end = move |is_output: bool| LinkFd {
            fd: self.fd,
            pipe: LinkId::Terminal {
                device,
                number,
                is_output,
            },
            reads: self.is_master == is_output,
            writes: self.is_master != is_output,
            path: None,
        };
        let is_used = move |end: &LinkFd| match self.fd {
            0 if !self.is_master => end.reads,
            1 | 2 if !self.is_master => end.writes,
            _ => true,
        };
        [end(true), end(false)].into_iter().filter(is_used)
    }
}

/// The terminal of a descriptor. `None` if it can't be told from one of another devpts, or if a terminal
/// of the same number may have followed it.
pub(crate) fn terminal(files: ProcessFiles<'_>, fd: i32, is_master: bool) -> Option<TerminalFd> {
    let link = files.linked(&format!("fd/{fd}"))?;
    let about = files.about(fd)?;
    let device =
        |about: Statx| u64::from(about.stx_dev_major) << 32 | u64::from(about.stx_dev_minor);
    let terminal = if is_master {
        let is_devpts = link != Path::new(MAKER);
        TerminalId {
            device: device(if is_devpts { about } else { devpts(files)? }),
            number: master_number(files, fd)?,
        }
    } else if link.to_string_lossy().ends_with(" (deleted)") {
        return None;
    } else {
        // Others, as /dev/tty, have no master that could be found.
        let is_known = about.stx_rdev_major == TERMINAL_MAJOR;
        TerminalId {
            device: if is_known { device(about) } else { 0 },
            number: about.stx_rdev_minor.into(),
        }
    };
    Some(TerminalFd {
        fd,
        terminal,
        is_master,
    })
}

/// The devpts of a master that was made by [`MAKER`], which is no file of it: that beside it
/// (Documentation/filesystems/devpts.rst), if the process has the mounts of this one.
fn devpts(files: ProcessFiles<'_>) -> Option<Statx> {
    let own = std::fs::read_link("/proc/self/ns/mnt").ok()?;
    if files.linked("ns/mnt")? != own {
        return None;
    }
    statx(CWD, DEVPTS, AtFlags::STATX_DONT_SYNC, StatxFlags::INO).ok()
}

/// The number of a master's terminal, where the kernel shows it (pty_show_fdinfo() in
/// drivers/tty/pty.c).
fn master_number(files: ProcessFiles<'_>, fd: i32) -> Option<u64> {
    let info = files.fdinfo(fd)?;
    let number = info
        .lines()
        .find_map(|line| line.strip_prefix("tty-index:"))?;
    number.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use pipespeed_host::Root;
    use pipespeed_testing::terminal::Terminal;
    use rustix::process::getpid;

    use super::*;
    use crate::proc::Proc;

    #[test]
    fn both_sides_of_a_pseudo_terminal_have_its_number() {
        let made = Terminal::new(80);
        let input = made.input();
        let proc = Proc::below(Root("/".into()));
        let files = ProcessFiles::new(&proc, getpid().as_raw_pid());
        let table = files.descriptor_table().unwrap().terminals;
        let all = table
            .iter()
            .filter_map(|(fd, is_master)| terminal(files, *fd, *is_master));
        let all: Vec<TerminalFd> = all.collect();
        let at_it = all.iter().find(|end| end.fd == input.as_raw_fd()).unwrap();
        assert!(!at_it.is_master);
        let mut masters = all.iter().filter(|end| end.is_master);
        let master = masters.find(|end| end.terminal == at_it.terminal).unwrap();
        for (end, other) in [(master, at_it), (at_it, master)] {
            let mut read = end.ends().filter(|end| end.reads);
            let read = read.next().unwrap().pipe;
            let written = other.ends().find(|end| end.writes).unwrap().pipe;
            assert_eq!((read, read.terminal()), (written, Some(at_it.terminal)));
        }
    }
}
