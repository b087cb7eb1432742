//! What a writer is doing with a pipe.

use libc::c_long;

use crate::proc::Proc;
use crate::raise::Exemption;

/// What a thread was doing with a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InCall {
    /// In vmsplice(2), to any pipe.
    Vmsplice,
    /// In a call that splices, which can't be read: vmsplice(2) or another one, to any pipe.
    Splice,
    /// In another call that writes to the pipe.
    WaitsForRoom,
}

impl InCall {
    /// Why the pipe is left alone.
    pub(super) fn exemption(self) -> Option<Exemption> {
        match self {
            InCall::Vmsplice => Some(Exemption::Vmsplice),
            InCall::Splice => Some(Exemption::MaybeVmsplice),
            InCall::WaitsForRoom => None,
        }
    }
}

/// What a thread is doing with a pipe, by its system call. Where that can't be read
/// (kernel.yama.ptrace_scope), by the kernel function in which it sleeps.
pub(super) fn examine_call(
    proc: &Proc,
    pid: i32,
    tid: i32,
    is_pipe: &dyn Fn(i32) -> bool,
) -> Option<InCall> {
    match proc.syscall(pid, tid) {
        Some(call) => parse_call(&call, is_pipe),
        None => parse_function(&proc.sleeps_in(pid, tid)?),
    }
}

/// Reads proc_pid_syscall(5): a thread in vmsplice(2), or one that sleeps in a call that
/// writes to the pipe.
fn parse_call(text: &str, is_pipe: &dyn Fn(i32) -> bool) -> Option<InCall> {
    let mut words = text.split_ascii_whitespace();
    let number: c_long = words.next()?.parse().ok()?;
    let output = match number {
        libc::SYS_vmsplice => return Some(InCall::Vmsplice),
        libc::SYS_write | libc::SYS_writev | libc::SYS_sendfile => 0,
        libc::SYS_splice => 2,
        _ => return None,
    };
    let word = words.nth(output)?.strip_prefix("0x")?;
    let fd = u64::from_str_radix(word, 16).ok()? as i32;
    is_pipe(fd).then_some(InCall::WaitsForRoom)
}

/// The functions of fs/pipe.c and fs/splice.c in which a thread waits for room: write(2) has
/// its own, splice(2), tee(2), vmsplice(2) and sendfile(2) share the others.
fn parse_function(function: &str) -> Option<InCall> {
    match function.split('.').next()? {
        "pipe_write" | "anon_pipe_write" => Some(InCall::WaitsForRoom),
        "pipe_wait_writable" | "wait_for_space" | "opipe_prep" => Some(InCall::Splice),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{self, PipeWriter, Write};
    use std::sync::mpsc;
    use std::thread;
    use std::time::{Duration, Instant};

    use rustix::pipe::{SpliceFlags, splice};
    use rustix::process::getpid;
    use rustix::thread::gettid;

    use super::*;

    #[test]
    fn call_that_writes_to_the_pipe_is_told_from_vmsplice() {
        let is_pipe = |fd: i32| fd == 1;
        let call = |number: c_long, args: &str| parse_call(&format!("{number} {args}"), &is_pipe);
        let waits = Some(InCall::WaitsForRoom);
        assert_eq!(call(libc::SYS_write, "0x1 0x7f00 0x10 0x0 0x0 0x0"), waits);
        assert_eq!(call(libc::SYS_write, "0x2 0x7f00 0x10 0x0 0x0 0x0"), None);
        assert_eq!(call(libc::SYS_splice, "0x0 0x0 0x1 0x0 0x10 0x0"), waits);
        assert_eq!(call(libc::SYS_splice, "0x1 0x0 0x2 0x0 0x10 0x0"), None);
        assert_eq!(call(libc::SYS_read, "0x1 0x7f00 0x10 0x0 0x0 0x0"), None);
        let vmsplice = Some(InCall::Vmsplice);
        assert_eq!(
            call(libc::SYS_vmsplice, "0x5 0x0 0x0 0x0 0x0 0x0"),
            vmsplice
        );
        assert_eq!(parse_call("running", &is_pipe), None);
    }

    /// What is seen of a thread that sends to a full pipe, where calls can't be read.
    fn examine_full_writer(send: fn(&PipeWriter) -> bool) -> Option<InCall> {
        let (reader, writer) = io::pipe().unwrap();
        let (sender, tid) = mpsc::channel();
        let thread = thread::spawn(move || {
            sender.send(gettid().as_raw_pid()).unwrap();
            while send(&writer) {}
        });
        let (tid, own) = (tid.recv().unwrap(), getpid().as_raw_pid());
        let proc = Proc::default().without_calls();
        let start = Instant::now();
        let seen = loop {
            let seen = examine_call(&proc, own, tid, &|_| true);
            if seen.is_some() || start.elapsed() > Duration::from_secs(60) {
                break seen;
            }
            thread::yield_now();
        };
        drop(reader);
        thread.join().unwrap();
        seen
    }

    #[test]
    fn writer_that_splices_is_seen_where_calls_cannot_be_read() {
        let write = |mut writer: &PipeWriter| writer.write_all(&[0; 4096]).is_ok();
        assert_eq!(examine_full_writer(write), Some(InCall::WaitsForRoom));
        let splice_in = |writer: &PipeWriter| {
            let zero = File::open("/dev/zero").unwrap();
            splice(&zero, None, writer, None, 4096, SpliceFlags::empty()).is_ok()
        };
        assert_eq!(examine_full_writer(splice_in), Some(InCall::Splice));
        assert_eq!(InCall::Splice.exemption(), Some(Exemption::MaybeVmsplice));
    }
}
