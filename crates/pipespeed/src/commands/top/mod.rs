//! `pipespeed top`.

mod messages;
mod screen;

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, getpid};
use serde::Serialize;

use self::messages::TerminalMessages;
use self::screen::{Key, Screen};
use crate::cli::TopArgs;
use crate::commands::child::{Started, exit_as, is_over, reap, start, wait};
use crate::commands::doctor::{plan, scope};
use crate::commands::files;
use crate::commands::{now, require_answer, require_looks, supervisor, unanswered};
use crate::destination::Destination;
use pipespeed_base::failure::{
    AlreadyReported, Closed, Interrupted, full_message, is_reader_gone, say, usage,
};
use pipespeed_base::interrupt::{Interrupt, StopRequest};
use pipespeed_base::output::{print, print_on_stderr};
use pipespeed_base::process::is_any_ready;
use pipespeed_base::standard::has_colours;
use pipespeed_measure::record::{Kind, SCHEMA_VERSION};
use pipespeed_pipeline::graph::Scope;
use pipespeed_pipeline::live::{LiveThread, Moment, TICK};
use pipespeed_pipeline::proc::Proc;
use pipespeed_pipeline::supervise::Supervisor;
use pipespeed_report::{Style, TopView, top_once, top_screen};

/// How often a process in the background looks whether it is in the foreground, where it can't stop.
const BACKGROUND_INTERVAL: Duration = Duration::from_millis(100);
/// The duration of --once.
const ONCE: Duration = TICK.saturating_mul(2);
/// Its longest duration, if a pipeline stands still: then it may be stuck, which takes longer to
/// find.
const MAX_ONCE: Duration = TICK.saturating_mul(6);

/// Watches pipelines on a screen, or as text or JSON.
///
/// # Errors
/// The process or the command does not exist, there is no terminal, the records can't be
/// written, or a signal arrived. With a command, its exit status.
pub fn run(args: &TopArgs) -> anyhow::Result<()> {
    require_looks()?;
    let interrupt = Interrupt::install().context("signal handlers")?;
    let mut supervisor = supervisor(&interrupt);
    let words = &args.watched.command;
    let output = TopOutput::open(args)?;
    let (scope, command) = if words.is_empty() {
        (scope(&mut supervisor, &args.watched)?, None)
    } else {
        let command = WatchedCommand::start(words, matches!(output, TopOutput::Screen(_)))?;
        (Scope::Below(getpid().as_raw_pid()), Some(command))
    };
    let mut top = Top {
        args,
        interrupt,
        supervisor,
        output,
        command,
        moment: Moment::default(),
    };
    let mut plan = plan(scope, ONCE, &args.watched);
    if let Some(command) = &top.command {
        plan.others = command.started.others.clone();
        let messages = command.messages.iter();
        plan.excluded.extend(messages.map(|messages| messages.pid));
    }
    // The helper process ends with it: the command may go on for long.
    let watched = top.watch(LiveThread::new(plan));
    top.finish(watched)
}

impl TopArgs {
    /// What to say if there is no pipeline.
    fn if_none(&self) -> &'static str {
        let watched = &self.watched;
        if watched.pid.is_none() && !watched.all && watched.command.is_empty() {
            "No processes of this user are connected by a pipe (--all: of all users)."
        } else {
            "No processes are connected by a pipe."
        }
    }
}

/// Where pipelines are shown.
enum TopOutput {
    /// One frame of text.
    Once,
    /// A record a second, or only one.
    Records(Destination),
    Screen(Box<Shown>),
}

impl TopOutput {
    fn open(args: &TopArgs) -> anyhow::Result<Self> {
        let has_command = !args.watched.command.is_empty();
        match &args.json {
            Some(path) => {
                let destination = files::destination("--json", path)?;
                if has_command {
                    files::check_beside_command("--json", &destination, true)?;
                }
                Ok(TopOutput::Records(destination))
            }
            None if args.once => Ok(TopOutput::Once),
            None => {
                check_redirected(&args.watched.command)?;
                Ok(TopOutput::Screen(Box::new(Shown {
                    screen: Screen::open(has_command)?,
                    stop: StopRequest::install().context("signal handlers")?,
                    view: TopView {
                        colour: has_colours(),
                        sort: args.sort,
                        if_none: "Looking for pipelines ...",
                        ..TopView::default()
                    },
                    page: 0,
                })))
            }
        }
    }
}

/// Refuses a command that would write to the terminal of the screen. The text of a command for
/// sh may redirect its output itself.
fn check_redirected(words: &[OsString]) -> anyhow::Result<()> {
    let redirects = matches!(words, [text] if text.as_encoded_bytes().contains(&b'>'));
    if io::stdout().is_terminal() && !words.is_empty() && !redirects {
        return Err(usage(
            "the command's output would be the terminal, which shows the screen: redirect it, as \
             in pipespeed top -- 'COMMAND > FILE'",
        ));
    }
    Ok(())
}

/// A command that is watched.
struct WatchedCommand {
    started: Started,
    /// What it prints on the terminal.
    messages: Option<TerminalMessages>,
}

impl WatchedCommand {
    /// Starts it; if the terminal shows a screen, without input and output there.
    fn start(words: &[OsString], has_screen: bool) -> anyhow::Result<Self> {
        // Before this process adopts orphans, so that its process is none of the command's.
        let mut messages = has_screen.then(TerminalMessages::start).flatten();
        let started = start(words, |command| {
            if has_screen && io::stdin().is_terminal() {
                command.stdin(Stdio::null());
            }
            if let Some(messages) = &mut messages {
                // Without a descriptor for that, they disturb the screen.
                let _ = messages.take_from(command);
            }
        })?;
        Ok(WatchedCommand { started, messages })
    }

    fn has_ended(&self) -> io::Result<bool> {
        let mut fds = [PollFd::new(&self.started.ending, PollFlags::IN)];
        is_any_ready(&mut fds, Some(&Timespec::default()))
    }
}

struct Top<'a> {
    args: &'a TopArgs,
    interrupt: Interrupt,
    supervisor: Supervisor,
    output: TopOutput,
    command: Option<WatchedCommand>,
    /// What is shown.
    moment: Moment,
}

impl Top<'_> {
    /// Returns whether what was watched has ended.
    fn watch(&mut self, live: LiveThread) -> anyhow::Result<bool> {
        match self.watch_until_interrupted(live) {
            // The caller looks for signals.
            Err(error) if error.is::<Interrupted>() => Ok(false),
            watched => watched,
        }
    }

    fn watch_until_interrupted(&mut self, mut live: LiveThread) -> anyhow::Result<bool> {
        let proc = Proc::default();
        if let TopOutput::Screen(shown) = &mut self.output {
            shown.screen.enter().context("the terminal")?;
            shown.draw(&self.moment)?;
            shown.view.if_none = self.args.if_none();
        }
        let mut times = None;
        loop {
            let interval = live.step(&mut self.supervisor).map_err(unanswered)?;
            let Some(interval) = interval else {
                // The time until now does not count.
                times = None;
                continue;
            };
            let (start, end) = times.get_or_insert_with(|| {
                let start = Instant::now();
                (start, self.args.once.then(|| start + ONCE))
            });
            if let Some(pid) = self.args.watched.pid {
                require_answer(&self.supervisor, pid)?;
            }
            let has_ended = match &self.command {
                Some(command) => {
                    let Started { child, others, .. } = &command.started;
                    reap(&proc, Pid::from_child(child), others);
                    command.has_ended()?
                }
                None => self.args.watched.pid.is_some() && !live.has_processes(),
            };
            let next = next_moment(&live, *end);
            let mut is_last = has_ended;
            if has_ended || Instant::now() >= next {
                let moment = live.moment(&mut self.supervisor).map_err(unanswered)?;
                let Some(moment) = moment else {
                    times = None;
                    continue;
                };
                if end.is_some_and(|end| next >= end) {
                    let is_early = may_be_stuck(&moment) || moment.undersampled > 0;
                    let goes_on = is_early && start.elapsed() < MAX_ONCE;
                    is_last |= !goes_on;
                    *end = Some(Instant::now() + TICK);
                }
                self.show(moment, is_last)?;
            }
            if is_last || self.interrupt.signal().is_some() {
                return Ok(has_ended);
            }
            let next = next_moment(&live, *end);
            let until = next.saturating_duration_since(Instant::now());
            let has_key = self.pause(interval.min(until))?;
            if let TopOutput::Screen(shown) = &mut self.output
                && !shown.attend(has_key, &self.moment, &self.interrupt)?
            {
                return Ok(false);
            }
        }
    }

    /// Shows what is known now; with --once only if it is the last time.
    fn show(&mut self, moment: Moment, is_last: bool) -> anyhow::Result<()> {
        match &mut self.output {
            TopOutput::Screen(shown) if shown.view.is_paused && !is_last => return Ok(()),
            TopOutput::Screen(shown) => shown.draw(&moment)?,
            TopOutput::Records(destination) if is_last || !self.args.once => {
                record(&moment, destination)?;
            }
            TopOutput::Once if is_last => self.print(&moment)?,
            _ => {}
        }
        self.moment = moment;
        Ok(())
    }

    /// Prints the frame of --once: on standard error beside a command, which may use standard
    /// output.
    fn print(&self, moment: &Moment) -> anyhow::Result<()> {
        let text = |is_terminal: bool| {
            let style = Style::for_terminal(is_terminal, false);
            top_once(moment, self.args.sort, self.args.if_none(), style)
        };
        if self.command.is_some() {
            // A failure could not be reported anywhere.
            let _ = print_on_stderr(text(io::stderr().is_terminal()));
            return Ok(());
        }
        print(text(io::stdout().is_terminal()))
    }

    /// Waits for a signal, for the command's end, or for a key. Returns whether a key was
    /// pressed.
    fn pause(&self, within: Duration) -> io::Result<bool> {
        let keys = match &self.output {
            TopOutput::Screen(shown) => Some(shown.screen.as_fd()),
            _ => None,
        };
        let ending = self
            .command
            .as_ref()
            .map(|command| command.started.ending.as_fd());
        let fds = [keys, ending, Some(self.interrupt.as_fd())];
        let fds = fds.into_iter().flatten();
        let mut polled: Vec<PollFd<'_>> = fds
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let within = Timespec::try_from(within).ok();
        let is_ready = is_any_ready(&mut polled, within.as_ref())?;
        Ok(keys.is_some() && is_ready && !polled[0].revents().is_empty())
    }

    /// Leaves the screen, and waits for the command, whatever failed.
    fn finish(mut self, watched: anyhow::Result<bool>) -> anyhow::Result<()> {
        let has_ended = matches!(watched, Ok(true));
        let left = self.leave(has_ended);
        if let Some(command) = self.command.take() {
            return self.wait(command, watched.map(drop).and(left), has_ended);
        }
        watched?;
        left?;
        if let Some(pid) = self.args.watched.pid.filter(|_| has_ended) {
            say(&format!("pipespeed: process {pid} has ended"));
        }
        self.interrupt.check()?;
        self.check_records()
    }

    /// Whether all records were saved. What is lost was said.
    fn check_records(&self) -> anyhow::Result<()> {
        match &self.output {
            TopOutput::Records(destination) if destination.has_lost() => {
                Err(AlreadyReported(1).into())
            }
            _ => Ok(()),
        }
    }

    /// Leaves the screen. Prints its last content if what was watched has ended.
    fn leave(&mut self, has_ended: bool) -> anyhow::Result<()> {
        let TopOutput::Screen(shown) = &mut self.output else {
            return Ok(());
        };
        shown.screen.leave().context("the terminal")?;
        if has_ended {
            let style = Style {
                width: Some(shown.view.width),
                colour: shown.view.colour,
                verbose: false,
            };
            let text = top_once(&self.moment, shown.view.sort, shown.view.if_none, style);
            shown.screen.print(&text).context("the terminal")?;
        }
        Ok(())
    }

    /// Waits for the command, whose status counts for more than a screen that is gone.
    fn wait(
        &self,
        mut command: WatchedCommand,
        shown: anyhow::Result<()>,
        has_ended: bool,
    ) -> anyhow::Result<()> {
        let has_screen = matches!(self.output, TopOutput::Screen(_));
        if let Err(error) = &shown {
            say(&format!("pipespeed: {}", full_message(error)));
        }
        if !has_ended && (has_screen || shown.is_err()) && self.interrupt.signal().is_none() {
            say("pipespeed: the command goes on in the foreground");
        }
        // It stops with the command from now on.
        if let TopOutput::Screen(shown) = &self.output {
            shown.stop.end().context("SIGTSTP")?;
        }
        if let Some(messages) = &mut command.messages {
            messages.show(&self.interrupt);
        }
        let status = wait(&Proc::default(), &self.interrupt, &mut command.started)?;
        if let Some(messages) = &mut command.messages {
            messages.show(&self.interrupt);
        }
        // A command that handles the signal says by its status how it went.
        if status.code().is_none_or(|code| code == 0) {
            self.interrupt.check()?;
        }
        exit_as(status)?;
        if shown.is_err() && !has_screen {
            return Err(AlreadyReported(1).into());
        }
        self.check_records()
    }
}

/// When the next moment is due. The last one of --once does not come soon after another, as it tells
/// of the time since that.
fn next_moment(live: &LiveThread, end: Option<Instant>) -> Instant {
    let next = live.next_moment();
    end.filter(|end| next + TICK / 2 > *end).unwrap_or(next)
}

/// Whether a pipeline has stood still for the whole time, and is not known to be stuck.
fn may_be_stuck(moment: &Moment) -> bool {
    let mut pipelines = moment.pipelines.iter();
    pipelines.any(|pipeline| pipeline.stuck.is_none() && pipeline.still_s >= 0.9 * moment.seconds)
}

/// A line of --json.
#[derive(Serialize)]
struct TopRecord<'a> {
    kind: Kind,
    schema_version: u32,
    pipespeed_version: &'static str,
    at: String,
    #[serde(flatten)]
    moment: &'a Moment,
}

/// Writes a line of --json.
fn record(moment: &Moment, destination: &mut Destination) -> anyhow::Result<()> {
    let record = TopRecord {
        kind: Kind::Top,
        schema_version: SCHEMA_VERSION,
        pipespeed_version: env!("CARGO_PKG_VERSION"),
        at: now(),
        moment,
    };
    let mut line = serde_json::to_string(&record).context("--json")?;
    line.push('\n');
    match destination.append(line.as_bytes()) {
        Err(error) if destination.is_stdout() && is_reader_gone(&error, io::stdout()) => {
            Err(Closed.into())
        }
        appended => appended.context("--json"),
    }
}

/// The screen, and what the user chose to see.
struct Shown {
    screen: Screen,
    stop: StopRequest,
    view: TopView<'static>,
    page: usize,
}

impl Shown {
    fn draw(&mut self, moment: &Moment) -> anyhow::Result<()> {
        self.screen.is_resized();
        let (width, height) = self.screen.size;
        (self.view.width, self.view.height) = (width, Some(height));
        let drawn = top_screen(moment, &self.view);
        (self.view.skipped, self.page) = (drawn.skipped, drawn.page);
        self.screen.draw(drawn.lines).context("the terminal")
    }

    /// Does what keys and signals ask for. Returns whether to go on.
    fn attend(
        &mut self,
        has_key: bool,
        moment: &Moment,
        interrupt: &Interrupt,
    ) -> anyhow::Result<bool> {
        let mut is_changed = has_key || self.screen.is_resized();
        let stops = self.stop.is_requested();
        if stops {
            self.screen.leave().context("the terminal")?;
            self.stop.stop().context("SIGTSTP")?;
        }
        // SIGSTOP leaves the screen to the shell as it is.
        if self.stop.is_continued() || stops {
            // The shell may let it go on in the background, or end it there.
            while !self.screen.is_foreground() {
                if interrupt.signal().is_some() {
                    return Ok(false);
                }
                self.stop.stop().context("SIGTSTP")?;
                // It does not stop in an orphaned process group.
                is_over(interrupt, None, Some(BACKGROUND_INTERVAL));
            }
            self.screen.enter().context("the terminal")?;
            is_changed = true;
        }
        if has_key {
            // It fails at the end of a terminal that was closed.
            let keys = self
                .screen
                .keys()
                .unwrap_or_else(|_| vec![Key::Letter('q')]);
            if keys.into_iter().any(|key| !self.press(key)) {
                return Ok(false);
            }
        }
        if is_changed {
            self.draw(moment)?;
        }
        Ok(true)
    }

    /// Returns whether to go on.
    fn press(&mut self, key: Key) -> bool {
        let view = &mut self.view;
        match key {
            Key::Letter('q') => return false,
            Key::Letter('p' | ' ') => view.is_paused = !view.is_paused,
            Key::Letter('s') => view.sort = view.sort.next(),
            Key::Letter(_) => {}
            Key::Up => view.skipped = view.skipped.saturating_sub(1),
            Key::Down => view.skipped += 1,
            Key::PageUp => view.skipped = view.skipped.saturating_sub(self.page),
            Key::PageDown => view.skipped += self.page,
        }
        true
    }
}
