//! The output of a command: read to its end, or until nothing more comes from what the command
//! has left behind.

use std::hash::{DefaultHasher, Hasher};
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::getpid;

use crate::commands::child::is_over;
use pipespeed_base::interrupt::Interrupt;
use pipespeed_pipeline::others::OtherProcesses;
use pipespeed_pipeline::proc::{LinkId, Proc};

/// Bytes of the output read or hashed at once.
const CHUNK: usize = 256 << 10;
/// An output that is still open has ended once nobody has written or run for this long.
pub(super) const QUIET: Duration = Duration::from_secs(1);
/// Nor is it waited for longer without a byte, whatever the processes do that hold it: one may look for
/// something to do at all times.
pub(super) const MAX_SILENCE: Duration = Duration::from_secs(60);
/// Interval of looking whether anybody runs.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// A command's output, which a thread reads.
pub(super) struct CommandOutput {
    read: Arc<Mutex<Drained>>,
    /// Readable once the output has ended: the thread has the other end of this pipe.
    ended: OwnedFd,
    /// The descriptor of the output in this process, which the thread closes at the end.
    fd: i32,
}

/// What was read.
struct Drained {
    bytes: u64,
    hasher: DefaultHasher,
    /// What is hashed next: in whole chunks, however the reads were cut.
    tail: Vec<u8>,
    /// When the last bytes came, or the end.
    last: Instant,
    error: Option<io::Error>,
}

/// The whole output.
pub(super) struct Ended {
    pub(super) bytes: u64,
    pub(super) hash: u64,
    /// When its last bytes came, or its end.
    pub(super) at: Instant,
    /// Who held it open when it was taken to be over: `sleep (pid 4711)`.
    pub(super) held_by: Option<String>,
}

impl CommandOutput {
    /// Starts to read. Goes on to the end of the output, whether or not anybody waits for that:
    /// what was left behind must not be killed by SIGPIPE.
    ///
    /// # Errors
    /// Those of pipe(2) and of starting a thread.
    pub(super) fn read(output: PipeReader, is_hashed: bool) -> io::Result<Self> {
        let (ended, held) = io::pipe()?;
        let read = Arc::new(Mutex::new(Drained {
            bytes: 0,
            hasher: DefaultHasher::new(),
            tail: Vec::new(),
            last: Instant::now(),
            error: None,
        }));
        let (fd, filled) = (output.as_raw_fd(), Arc::clone(&read));
        thread::Builder::new().spawn(move || {
            drain(output, is_hashed, &filled);
            drop(held);
        })?;
        Ok(CommandOutput {
            read,
            ended: ended.into(),
            fd,
        })
    }

    /// Waits for the end of the output, after that of the command. `others` are processes that
    /// this one had before. If somebody else holds the output open, calls `say_held` with the
    /// name after [`QUIET`], and waits until the output is quiet for that long, or nothing came for
    /// [`MAX_SILENCE`]. `None` after a signal.
    ///
    /// # Errors
    /// Those of reading the output.
    pub(super) fn wait(
        self,
        interrupt: &Interrupt,
        proc: &Proc,
        others: &OtherProcesses,
        mut say_held: impl FnMut(&str),
    ) -> io::Result<Option<Ended>> {
        let start = Instant::now();
        let (mut quiet_since, mut held_by) = (start, None);
        let mut before = self.activity(proc, others);
        let mut written_at = start;
        while !is_over(interrupt, Some(&self.ended), Some(LOOK_INTERVAL)) {
            let now = self.activity(proc, others);
            if now.bytes != before.bytes {
                written_at = Instant::now();
            }
            if now != before || now.is_busy {
                (quiet_since, before) = (Instant::now(), now);
            }
            if start.elapsed() < QUIET {
                continue;
            }
            let name = held_by.get_or_insert_with(|| {
                let name = self.holders(proc);
                say_held(&name);
                name
            });
            if quiet_since.elapsed() >= QUIET || written_at.elapsed() >= MAX_SILENCE {
                return self.ended(Some(std::mem::take(name))).map(Some);
            }
        }
        if interrupt.signal().is_some() {
            return Ok(None);
        }
        self.ended(None).map(Some)
    }

    fn ended(&self, held_by: Option<String>) -> io::Result<Ended> {
        let mut drained = lock(&self.read);
        if let Some(error) = drained.error.take() {
            return Err(error);
        }
        let mut hasher = drained.hasher.clone();
        hasher.write(&drained.tail);
        Ok(Ended {
            bytes: drained.bytes,
            hash: hasher.finish(),
            at: drained.last,
            held_by,
        })
    }

    /// What changes as long as the command's processes work.
    fn activity(&self, proc: &Proc, others: &OtherProcesses) -> CommandActivity {
        let own = others.command_tree(proc).into_iter();
        let stats: Vec<_> = own.filter_map(|pid| proc.stat(pid)).collect();
        CommandActivity {
            bytes: lock(&self.read).bytes,
            ran_ticks: stats.iter().map(|stat| stat.ran_ticks).sum(),
            is_busy: stats.iter().any(|stat| matches!(stat.state, 'R' | 'D')),
        }
    }

    /// The processes that hold the output open for writing, by name and number.
    fn holders(&self, proc: &Proc) -> String {
        let own = getpid().as_raw_pid();
        let ends = |pid: i32| proc.ends(pid).unwrap_or_default();
        let pipe = ends(own).into_iter().find(|end| end.fd == self.fd);
        let pipe: Option<LinkId> = pipe.map(|end| end.pipe);
        let holds = |pid: &i32| {
            *pid != own
                && ends(*pid)
                    .iter()
                    .any(|end| end.writes && Some(end.pipe) == pipe)
        };
        let mut pids: Vec<i32> = proc.processes().into_iter().filter(holds).collect();
        pids.sort_unstable();
        let named = pids.into_iter().map(|pid| {
            let name = proc.name(pid).unwrap_or_default();
            format!("{name} (pid {pid})")
        });
        let names: Vec<String> = named.collect();
        if names.is_empty() {
            "a process that can't be seen".to_owned()
        } else {
            names.join(", ")
        }
    }
}

/// What the processes of a command have done.
#[derive(Debug, PartialEq, Eq)]
struct CommandActivity {
    bytes: u64,
    ran_ticks: u64,
    is_busy: bool,
}

fn lock(read: &Mutex<Drained>) -> MutexGuard<'_, Drained> {
    read.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads to the end.
fn drain(mut output: PipeReader, is_hashed: bool, read: &Mutex<Drained>) {
    let mut buffer = vec![0; CHUNK];
    loop {
        let len = match output.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other,
        };
        let mut drained = lock(read);
        drained.last = Instant::now();
        match len {
            Ok(0) => return,
            Ok(len) => drained.add(&buffer[..len], is_hashed),
            Err(error) => {
                drained.error = Some(error);
                return;
            }
        }
    }
}

impl Drained {
    fn add(&mut self, bytes: &[u8], is_hashed: bool) {
        self.bytes += bytes.len() as u64;
        if !is_hashed {
            return;
        }
        self.tail.extend_from_slice(bytes);
        let whole = self.tail.len() - self.tail.len() % CHUNK;
        for chunk in self.tail[..whole].chunks(CHUNK) {
            self.hasher.write(chunk);
        }
        self.tail.drain(..whole);
    }
}
