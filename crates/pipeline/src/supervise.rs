//! Reads processes in a thread of its own, which is left behind where a read blocks for good.
//!
//! Any user can block the reader of a process in /proc, where no signal that this program handles reaches it
//! (see [`silent`](crate::proc::silent)). Only the end of the whole process ends such a read. So the thread that
//! reads is supervised by the main one, which never reads such files: it keeps an eye on signals, leaves a
//! blocked reader behind, and starts another one that leaves out the process that does not answer. Once that
//! answers or ends, the old reader ends, too, and the process is examined again.

use std::any::Any;
use std::panic::resume_unwind;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use std::{fmt, io};

use pipespeed_base::interrupt::Interrupt;
use rustix::process::getpid;
use rustix::thread::gettid;

use crate::proc::Proc;
use crate::proc::pipe_probe::PipeProbe;
use crate::proc::silent::{CurrentRead, ENDED, ReadWatch, SilentList, SilentProcess};

/// Interval of looking at signals, and whether the reader is blocked.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// A reader that is found blocked in the same read by this many checks in a row is left behind.
const MAX_BLOCKED_CHECKS: u32 = 6;
/// After a signal, a reader that is found blocked this often is left behind.
const MAX_BLOCKED_CHECKS_AT_END: u32 = 2;
/// How long a reader may take to end after a signal.
const END_PATIENCE: Duration = Duration::from_millis(1500);
/// Readers left behind in a row, after which nothing more is tried.
const MAX_LEFT_BEHIND: u32 = 16;

/// Why there is no answer.
#[derive(Debug)]
pub enum Unanswered {
    /// A signal arrived.
    Interrupted(i32),
    /// Too many processes did not answer: the last one.
    Silent(SilentProcess),
}

impl fmt::Display for Unanswered {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unanswered::Interrupted(signal) => {
                write!(
                    out,
                    "interrupted by {}",
                    pipespeed_base::signal_name(*signal)
                )
            }
            Unanswered::Silent(SilentProcess { pid, name }) => write!(
                out,
                "too many processes do not answer, as {name} (pid {pid}): reading them in /proc blocks, so \
                 nothing was examined"
            ),
        }
    }
}

impl std::error::Error for Unanswered {}

/// Supervises threads that read processes.
#[derive(Debug)]
pub struct Supervisor {
    interrupt: Interrupt,
    /// The helper process's program.
    program: fn() -> Command,
    silent: SilentList,
    /// Readers left behind since the last success.
    left_behind: u32,
}

/// A thread that reads processes, and sends answers.
#[derive(Debug)]
pub struct ReaderThread<A> {
    answers: Receiver<A>,
    thread: JoinHandle<()>,
    current: Arc<CurrentRead>,
}

/// Takes a process off the list when the thread ends that it has blocked.
struct TakesBack {
    current: Arc<CurrentRead>,
    silent: SilentList,
}

impl Drop for TakesBack {
    fn drop(&mut self) {
        let pid = self.current.blocked_by.swap(ENDED, Ordering::AcqRel);
        if pid != 0 {
            self.silent.take_back(pid);
        }
    }
}

impl Supervisor {
    /// Reads until a signal arrives, with helper processes that `program` starts (see
    /// [`PipeProbe::new`]).
    pub fn new(interrupt: Interrupt, program: fn() -> Command) -> Self {
        Supervisor {
            interrupt,
            program,
            silent: SilentList::default(),
            left_behind: 0,
        }
    }

    /// What did not answer.
    pub fn silent(&self) -> &SilentList {
        &self.silent
    }

    /// The helper processes, without reading any other.
    pub fn helpers(&self) -> Vec<i32> {
        self.silent.helper_pids()
    }

    /// Reads processes in this thread, where one that does not answer blocks everything.
    pub(crate) fn own_proc(&self) -> Proc {
        Self::proc(self.program, self.silent.clone())
    }

    fn proc(program: fn() -> Command, silent: SilentList) -> Proc {
        Proc::with_pipe_probe(PipeProbe::sharing(program, silent))
    }

    /// Starts a thread that reads processes, and sends answers.
    ///
    /// # Errors
    /// Those of starting a thread.
    pub fn start<A: Send + 'static>(
        &self,
        read: impl FnOnce(&Proc, &Sender<A>) + Send + 'static,
    ) -> io::Result<ReaderThread<A>> {
        let (sender, answers) = channel();
        let (program, silent) = (self.program, self.silent.clone());
        let current = Arc::new(CurrentRead::default());
        let watched = Arc::clone(&current);
        let thread = Builder::new().name("reader".to_owned()).spawn(move || {
            watched.tid.store(gettid().as_raw_pid(), Ordering::Relaxed);
            let _takes_back = TakesBack {
                current: Arc::clone(&watched),
                silent: silent.clone(),
            };
            let watch = ReadWatch {
                current: watched,
                silent: silent.clone(),
            };
            let proc = Supervisor::proc(program, silent).watched_by(watch);
            read(&proc, &sender);
        })?;
        Ok(ReaderThread {
            answers,
            thread,
            current,
        })
    }

    /// Waits for the next answer of a reader. `None` if it was left behind, so that another one has to be
    /// started.
    ///
    /// # Errors
    /// A signal arrived and the reader does not end, or too many processes do not answer.
    ///
    /// # Panics
    /// The reader did.
    pub fn receive<A>(
        &mut self,
        reader: ReaderThread<A>,
    ) -> Result<Option<(A, ReaderThread<A>)>, Unanswered> {
        let mut blocked = Blocked::default();
        let mut signalled: Option<Instant> = None;
        loop {
            match reader.answers.recv_timeout(CHECK_INTERVAL) {
                Ok(answer) => return Ok(Some((answer, reader))),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => resume_unwind(why_ended(reader.thread)),
            }
            let checks = blocked.check(&reader.current);
            if let Some(signal) = self.interrupt.signal() {
                let since = *signalled.get_or_insert_with(Instant::now);
                if checks >= MAX_BLOCKED_CHECKS_AT_END || since.elapsed() >= END_PATIENCE {
                    reader.current.is_abandoned.store(true, Ordering::Relaxed);
                    return Err(Unanswered::Interrupted(signal));
                }
            } else if checks >= MAX_BLOCKED_CHECKS {
                return self.leave_behind(&reader, blocked.pid).map(|()| None);
            }
        }
    }

    /// Leaves a reader behind that is blocked by a process.
    fn leave_behind<A>(&mut self, reader: &ReaderThread<A>, pid: i32) -> Result<(), Unanswered> {
        let name = Proc::default().name(pid).unwrap_or_else(|| "?".to_owned());
        let process = SilentProcess { pid, name };
        self.silent.leave_out(process.clone());
        let current = &reader.current;
        current.is_abandoned.store(true, Ordering::Relaxed);
        // It may have ended just before.
        if current.blocked_by.swap(pid, Ordering::AcqRel) == ENDED {
            self.silent.take_back(pid);
        }
        self.left_behind += 1;
        if self.left_behind >= MAX_LEFT_BEHIND {
            return Err(Unanswered::Silent(process));
        }
        Ok(())
    }

    /// Notes that something was read to the end.
    pub fn succeed(&mut self) {
        self.left_behind = 0;
    }

    /// Does something that reads processes: again without a process that does not answer, until there is
    /// none. Where no thread can be started, this one reads.
    ///
    /// # Errors
    /// As of [`receive`](Self::receive).
    pub fn run<T: Send + 'static>(
        &mut self,
        task: impl Fn(&Proc) -> T + Clone + Send + 'static,
    ) -> Result<T, Unanswered> {
        loop {
            let again = task.clone();
            let reader = self.start(move |proc, answers| {
                // Nobody waits for it any more.
                let _ = answers.send(again(proc));
            });
            let Ok(reader) = reader else {
                return Ok(task(&Supervisor::proc(self.program, self.silent.clone())));
            };
            if let Some((answer, _)) = self.receive(reader)? {
                self.succeed();
                return Ok(answer);
            }
        }
    }
}

/// Why a thread has ended without an answer: it has panicked.
fn why_ended(thread: JoinHandle<()>) -> Box<dyn Any + Send> {
    let ended = thread.join();
    ended.map_or_else(|panic| panic, |()| Box::new("a reader ended early"))
}

/// The read in which a reader was found, and how often in a row it was blocked there.
#[derive(Debug, Default)]
struct Blocked {
    mark: u64,
    pid: i32,
    checks: u32,
}

impl Blocked {
    /// Returns by how many checks in a row the reader was found blocked in the same read.
    fn check(&mut self, current: &CurrentRead) -> u32 {
        let Some((mark, pid)) = current.get() else {
            *self = Blocked::default();
            return 0;
        };
        if mark != self.mark {
            *self = Blocked {
                mark,
                pid,
                checks: 0,
            };
        } else if sleeps(current.tid.load(Ordering::Relaxed)) {
            self.checks += 1;
        } else {
            // It only waits for a processor.
            self.checks = 0;
        }
        self.checks
    }
}

/// Whether a thread of this process sleeps.
fn sleeps(tid: i32) -> bool {
    let state = Proc::default().thread_state(getpid().as_raw_pid(), tid);
    state.is_some_and(|state| state != 'R')
}

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, Read, pipe};
    use std::sync::Mutex;

    use super::*;

    fn supervisor() -> Supervisor {
        Supervisor::new(Interrupt::never().unwrap(), || Command::new("false"))
    }

    /// Waits for the end of a pipe, as if process 7 did not answer.
    fn read_as(proc: &Proc, pid: i32, pipe: &Mutex<PipeReader>) -> Option<()> {
        let _reading = proc.reading(pid)?;
        let _ = pipe.lock().unwrap().read(&mut [0]);
        Some(())
    }

    #[test]
    fn a_blocked_reader_is_left_behind_until_its_read_returns() {
        let (reader, writer) = pipe().unwrap();
        let pipe = Arc::new(Mutex::new(reader));
        let mut supervisor = supervisor();
        let seen = supervisor.run(move |proc| {
            let seen = read_as(proc, 7, &pipe);
            (seen, proc.left_out().len())
        });
        assert!(matches!(seen, Ok((None, 1))), "{seen:?}");
        assert!(supervisor.silent().find(7).is_some());
        drop(writer);
        let start = Instant::now();
        while supervisor.silent().find(7).is_some() {
            assert!(start.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn readers_are_not_left_behind_for_ever() {
        let (reader, _writer) = pipe().unwrap();
        let pipe = Arc::new(Mutex::new(reader));
        let mut supervisor = supervisor();
        supervisor.left_behind = MAX_LEFT_BEHIND - 1;
        let seen = supervisor.run(move |proc| read_as(proc, 7, &pipe));
        assert!(matches!(seen, Err(Unanswered::Silent(process)) if process.pid == 7));
    }

    #[test]
    fn a_reader_that_works_is_waited_for() {
        let mut supervisor = supervisor();
        let long = CHECK_INTERVAL * (MAX_BLOCKED_CHECKS + 3);
        let done = supervisor.run(move |proc| {
            let start = Instant::now();
            while start.elapsed() < long {
                let _reading = proc.reading(7);
                std::thread::sleep(Duration::from_millis(50));
            }
            proc.left_out().len()
        });
        assert!(matches!(done, Ok(0)), "{done:?}");
    }
}
