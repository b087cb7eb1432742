//! The relay's loop: move bytes, wait, call back, fall back.

use std::collections::VecDeque;
use std::io;
use std::time::Instant;

use rustix::fs::SeekFrom;

use super::copy::Copying;
use super::direct;
use super::ends::{Endpoint, FileKind};
use super::options::{self, Flow, Options};
use super::plan::Plan;
use super::private::{PrivatePipe, begins_with_packet};
use super::report::{
    Activity, End, PassedOver, Progress, Reason, RelayError, Relayed, Side, Technique,
};
use super::step::{Needs, Step};
use super::waiting::{Waited, Watch};
use crate::pipe;
use crate::transfer::is_refusal;
use crate::wait::{MAX_FUTILE_ATTEMPTS, STUCK_PAUSE, Wait};

type Callback<'c> = &'c mut dyn FnMut(&Progress<'_>) -> Flow;

/// What an attempt has achieved.
pub(super) enum Attempted {
    /// Something, perhaps only a change of the technique.
    Progress,
    /// Nothing: these ends have to become ready first.
    Blocked(Needs),
    /// The relay has ended.
    Ended(End),
}

/// A relay in progress. `Look` inspects the bytes given to the output.
pub(super) struct Engine<'a, Look> {
    input: Endpoint<'a>,
    output: Endpoint<'a>,
    options: Options,
    watch: Watch<'a>,

    technique: Technique,
    /// Techniques to try next, in this order.
    fallbacks: VecDeque<Technique>,
    passed_over: Vec<PassedOver>,
    private: Option<PrivatePipe>,
    copying: Copying<'a>,
    /// The technique reported the end of the input, and a read has to confirm it.
    end_unconfirmed: bool,
    /// The last pipeful of a file has been reached, which is copied.
    copies_last_pipeful: bool,
    /// The first bytes of the input may be packets, which must not be spliced on.
    may_be_packets: bool,
    futile: u32,

    taken: u64,
    given: u64,
    activity: Activity,
    started: Instant,
    next_call: Option<Instant>,
    /// Number of bytes that may be taken until the next call. Negative if a
    /// message exceeded the allowance.
    allowance: Option<i128>,
    /// Whether to call back as soon as the allowance is used up.
    call_when_used_up: bool,
    look: Option<Look>,
    /// The inspector has returned `Stop`.
    stopped_by_look: bool,
}

impl<'a, Look: FnMut(&[u8]) -> Flow> Engine<'a, Look> {
    /// Creates a relay. With a `look` it copies, whatever the options are.
    pub(super) fn new(
        input: Endpoint<'a>,
        output: Endpoint<'a>,
        options: &Options,
        look: Option<Look>,
    ) -> Self {
        let wish = match look {
            Some(_) => Some(Technique::Copy),
            None => options.technique,
        };
        let plan = Plan::new(&input, &output, wish);
        let mut fallbacks = VecDeque::from(plan.techniques);
        let started = Instant::now();
        if options.raise_capacity && output.is_pipe() {
            enlarge_pipe(&output);
        }
        if options.raise_input_capacity && input.is_pipe() {
            enlarge_pipe(&input);
        }
        Engine {
            watch: Watch::new(&input, &output, options.wait),
            technique: fallbacks.pop_front().unwrap_or(Technique::Copy),
            fallbacks,
            passed_over: plan.passed_over,
            private: None,
            copying: Copying::new(
                &input,
                &output,
                options.block.unwrap_or(options::MAX_COPIED),
                options.wait != Wait::Never,
            ),
            end_unconfirmed: false,
            copies_last_pipeful: false,
            may_be_packets: input.is_pipe() && output.is_pipe(),
            futile: 0,
            taken: 0,
            given: 0,
            activity: Activity::Moving,
            started,
            next_call: Some(started),
            allowance: None,
            call_when_used_up: false,
            look,
            stopped_by_look: false,
            input,
            output,
            options: *options,
        }
    }

    pub(super) fn run(mut self, progress: Callback<'_>) -> Result<Relayed, RelayError> {
        let outcome = self.run_loop(progress);
        self.conclude(outcome, progress)
    }

    /// Hands back what was taken and not given, and makes the last call.
    pub(super) fn conclude(
        mut self,
        outcome: Result<End, (Side, io::Error)>,
        progress: Callback<'_>,
    ) -> Result<Relayed, RelayError> {
        if let Ok(End::Stopped) = outcome {
            self.give_without_waiting();
        }
        let undelivered = self.hand_back();
        self.activity = Activity::Ended;
        self.call(progress);
        match outcome {
            Ok(end) => Ok(Relayed {
                end,
                taken: self.taken,
                given: self.given,
                undelivered,
                elapsed: self.started.elapsed(),
                technique: self.technique,
                passed_over: self.passed_over,
            }),
            Err((side, source)) => Err(RelayError {
                side,
                source,
                taken: self.taken,
                given: self.given,
                undelivered,
                technique: self.technique,
                passed_over: self.passed_over,
                output_has_reader: self.output.has_reader(),
            }),
        }
    }

    fn run_loop(&mut self, progress: Callback<'_>) -> Result<End, (Side, io::Error)> {
        loop {
            if self.next_call.is_some_and(|when| when <= Instant::now()) {
                let flow = self.call(progress);
                if flow == Flow::Stop {
                    return Ok(End::Stopped);
                }
                self.apply(flow);
            }
            // The rest of a message can't be left for later.
            let gives_message = self.input.kind == FileKind::Messages && self.held() > 0;
            if self.stopped_by_look && !gives_message {
                return Ok(End::Stopped);
            }
            let may_take = if self.stopped_by_look {
                0
            } else {
                self.may_take()
            };
            if self.held() == 0 && may_take == 0 {
                if self.options.limit.is_some_and(|limit| self.taken >= limit) {
                    return Ok(End::Limit);
                }
                self.wait_for_allowance()?;
                continue;
            }
            match self.advance(may_take)? {
                Attempted::Progress => {}
                Attempted::Blocked(needs) => self.wait(needs)?,
                Attempted::Ended(end) => return Ok(end),
            }
        }
    }

    /// Waits for these ends in poll(2).
    fn wait(&mut self, needs: Needs) -> Result<(), (Side, io::Error)> {
        let activity = &mut self.activity;
        let until = self.next_call;
        let waited = self.watch.wait(needs, until, |side| {
            *activity = Activity::WaitingFor(side);
        })?;
        if waited == Waited::Ready && self.is_futile() {
            let until = Instant::now() + STUCK_PAUSE;
            self.watch
                .pause(self.next_call.map_or(until, |next| next.min(until)))?;
        }
        Ok(())
    }

    /// Makes one attempt and handles its outcome.
    pub(super) fn advance(&mut self, may_take: u64) -> Result<Attempted, (Side, io::Error)> {
        match self.attempt_unless_failed(may_take) {
            Step::Moved { taken, given } => {
                self.taken += taken;
                self.given += given;
                if let Some(allowance) = &mut self.allowance {
                    *allowance -= i128::from(taken);
                    if *allowance <= 0 && taken > 0 && self.call_when_used_up {
                        self.call_by(Instant::now());
                    }
                }
                self.inspect(given);
                self.activity = Activity::Moving;
                self.futile = 0;
                self.watch.record_success();
                if self.end_unconfirmed {
                    let after = self.given;
                    self.fall_back_to_copying(Reason::EndedEarly { after });
                }
            }
            // Interrupted by a signal.
            Step::Blocked(needs) if !needs.input && !needs.output => {}
            Step::Blocked(needs) => return Ok(Attempted::Blocked(needs)),
            Step::End => {
                let is_end = self.is_copying()
                    || self
                        .input
                        .is_at_end()
                        .map_err(|errno| (Side::Input, errno.into()))?;
                if is_end {
                    return Ok(Attempted::Ended(End::EndOfData));
                }
                self.end_unconfirmed = true;
            }
            Step::Refused(errno) => {
                let reason = Reason::Refused {
                    errno: errno.raw_os_error(),
                    after: self.given,
                };
                self.fall_back(reason);
            }
            Step::Failed(side, error) => return Err((side, error)),
        }
        Ok(Attempted::Progress)
    }

    /// Whether the next attempt copies, whatever the technique is.
    pub(super) fn is_copying(&self) -> bool {
        self.technique == Technique::Copy || self.end_unconfirmed || self.copies_last_pipeful
    }

    /// Returns the number of bytes before the last pipeful of a file. The pages of a
    /// file change with it while they are in a pipe, so once copies fill the pipe, it
    /// holds nothing that can still change when the relay has ended.
    fn before_last_pipeful(&self) -> u64 {
        let Some(to_end) = self.input.bytes_to_end() else {
            return u64::MAX;
        };
        let limit = self
            .options
            .limit
            .map_or(u64::MAX, |limit| limit - self.taken);
        let capacity = pipe::capacity(self.output.fd).unwrap_or(0);
        // Others may enlarge the pipe meanwhile.
        let pipeful = capacity.max(options::TARGET_CAPACITY) as u64;
        to_end.min(limit).saturating_sub(pipeful)
    }

    /// Attempts again what was refused at a socket: there it may be the error of a broken
    /// connection, which is reported once and followed by the end of the data.
    fn attempt_unless_failed(&mut self, may_take: u64) -> Step {
        let step = self.attempt(may_take);
        let Step::Refused(errno) = step else {
            return step;
        };
        if !is_refusal(errno) || !self.input.is_socket() && !self.output.is_socket() {
            return step;
        }
        let side = if self.input.is_socket() && self.held() == 0 {
            Side::Input
        } else {
            Side::Output
        };
        match self.attempt(may_take) {
            again @ (Step::Refused(_) | Step::Moved { .. }) => again,
            _ => Step::Failed(side, errno.into()),
        }
    }

    fn attempt(&mut self, may_take: u64) -> Step {
        let mut most = may_take.min(self.options.block.unwrap_or(options::MAX_SPLICED) as u64);
        if self.technique == Technique::Splice && self.output.is_pipe() && !self.is_copying() {
            if self.may_be_packets
                && let Err(errno) = self.examine_packets()
            {
                // Both ends are pipes.
                return Step::of_error(errno, Needs::INPUT, None);
            }
            let before = self.before_last_pipeful();
            self.copies_last_pipeful = before == 0;
            most = most.min(before);
        }
        if self.is_copying() {
            return self.copying.step(may_take);
        }
        match self.technique {
            Technique::Splice => direct::step(&self.input, &self.output, most),
            Technique::Sendfile => direct::sendfile(&self.input, &self.output, most),
            Technique::CopyFileRange => direct::copy_file_range(&self.input, &self.output, most),
            Technique::SpliceThroughPipe => {
                let pipe = match &mut self.private {
                    Some(pipe) => pipe,
                    none => match PrivatePipe::new(self.options.raise_capacity) {
                        Ok(pipe) => none.insert(pipe),
                        Err(error) => return Step::refused(&error),
                    },
                };
                pipe.step(&self.input, &self.output, most)
            }
            Technique::Copy => self.copying.step(may_take),
        }
    }

    /// Copies if the first bytes are a packet (O_DIRECT; pipe(2)): splice(2) would pass
    /// it on as one, of which a short read at the output loses the rest.
    ///
    /// # Errors
    /// `AGAIN` if there are no bytes yet, and those of creating a pipe and of tee(2).
    fn examine_packets(&mut self) -> rustix::io::Result<()> {
        let is_packet = begins_with_packet(self.input.fd)?;
        self.may_be_packets = false;
        if is_packet {
            let reason = "packets would stay packets, of which a short read loses the rest";
            self.fall_back_to_copying(Reason::Unfit(reason));
        }
        Ok(())
    }

    /// Returns the number of bytes that may be taken from the input now.
    pub(super) fn may_take(&self) -> u64 {
        let limit = self
            .options
            .limit
            .map_or(u64::MAX, |limit| limit - self.taken);
        match self.allowance {
            Some(..=0) => 0,
            // A part of a message can't be left for later.
            Some(_) if self.input.kind == FileKind::Messages => limit,
            Some(allowance) => limit.min(u64::try_from(allowance).unwrap_or(u64::MAX)),
            None => limit,
        }
    }

    /// Lends it a pipe to splice through, if it needs one. It must be empty.
    #[cfg(feature = "tokio")]
    pub(super) fn lend_pipe(&mut self, spare: impl FnOnce() -> Option<PrivatePipe>) {
        if self.technique == Technique::SpliceThroughPipe && self.private.is_none() {
            self.private = spare();
        }
    }

    /// Takes its pipe away if it is empty.
    #[cfg(feature = "tokio")]
    pub(super) fn take_empty_pipe(&mut self) -> Option<PrivatePipe> {
        self.private.take_if(|pipe| pipe.held() == 0)
    }

    /// Returns the number of bytes taken and not given.
    pub(super) fn held(&self) -> u64 {
        self.copying.held() + self.private.as_ref().map_or(0, PrivatePipe::held)
    }

    fn fall_back(&mut self, reason: Reason) {
        // Only `Copying` can take bytes out of the private pipe.
        match self.fallbacks.pop_front() {
            Some(next) if next != Technique::Copy && self.held() == 0 => {
                self.pass_over(reason);
                self.technique = next;
            }
            _ => self.fall_back_to_copying(reason),
        }
    }

    fn fall_back_to_copying(&mut self, reason: Reason) {
        self.pass_over(reason);
        self.fallbacks.clear();
        self.technique = Technique::Copy;
        self.end_unconfirmed = false;
        if let Some(pipe) = self.private.take() {
            self.copying.adopt(pipe);
        }
    }

    fn pass_over(&mut self, reason: Reason) {
        self.futile = 0;
        self.passed_over.push(PassedOver {
            technique: self.technique,
            reason,
        });
    }

    /// Counts an attempt that moved nothing although the ends were ready. After too many of them
    /// falls back; returns true if there is nothing to fall back to, so that it has to pause.
    pub(super) fn is_futile(&mut self) -> bool {
        if self.watch.spins() {
            return false;
        }
        self.futile += 1;
        if self.futile < MAX_FUTILE_ATTEMPTS {
            return false;
        }
        if !self.is_copying() {
            let after = self.given;
            self.fall_back(Reason::Stuck { after });
            return false;
        }
        true
    }

    /// Waits for the next call without taking bytes.
    fn wait_for_allowance(&mut self) -> Result<(), (Side, io::Error)> {
        self.activity = Activity::HeldBack;
        // The callback has to lift the limit.
        let until = *self
            .next_call
            .get_or_insert_with(|| Instant::now() + options::INTERVAL);
        self.watch.pause(until)
    }

    fn apply(&mut self, flow: Flow) {
        let (allowance, within) = match flow {
            Flow::AtMost { bytes, within } | Flow::CallAfter { bytes, within } => {
                let beyond = self.allowance.unwrap_or(0).min(0);
                (Some(i128::from(bytes) + beyond), within)
            }
            Flow::Continue | Flow::Stop => (None, None),
        };
        self.allowance = allowance;
        self.call_when_used_up = matches!(flow, Flow::CallAfter { .. });
        let interval = self.options.interval;
        let delay = within.map_or(interval, |within| within.min(interval));
        // From now, not from the time it was due, so that calls never pile up.
        self.next_call = Instant::now().checked_add(delay);
    }

    /// Passes the last `given` bytes to the inspector.
    fn inspect(&mut self, given: u64) {
        let Some(look) = &mut self.look else {
            return;
        };
        if given == 0 {
            return;
        }
        let flow = look(self.copying.last_given(given as usize));
        match flow {
            Flow::Continue => {}
            Flow::Stop => self.stopped_by_look = true,
            Flow::AtMost { bytes, within } | Flow::CallAfter { bytes, within } => {
                self.allowance = Some(i128::from(bytes));
                self.call_when_used_up = matches!(flow, Flow::CallAfter { .. });
                if let Some(when) = within.and_then(|within| Instant::now().checked_add(within)) {
                    self.call_by(when);
                }
            }
        }
    }

    /// Schedules a call of the callback at `when`, unless an earlier one is due.
    fn call_by(&mut self, when: Instant) {
        self.next_call = Some(self.next_call.map_or(when, |next| next.min(when)));
    }

    fn call(&self, progress: Callback<'_>) -> Flow {
        let unread = self
            .output
            .is_pipe()
            .then(|| pipe::unread(self.output.fd).ok());
        progress(&Progress {
            taken: self.taken,
            given: self.given,
            unread: unread.flatten(),
            elapsed: self.started.elapsed(),
            activity: self.activity,
            technique: self.technique,
            passed_over: &self.passed_over,
        })
    }

    fn give_without_waiting(&mut self) {
        while self.held() > 0 {
            match self.attempt(0) {
                Step::Moved { given, .. } => {
                    self.given += given;
                    self.inspect(given);
                }
                _ => break,
            }
        }
    }

    /// Returns the bytes taken and not given: to the input if it has a position,
    /// otherwise to the caller.
    fn hand_back(&mut self) -> Vec<u8> {
        if let Some(pipe) = self.private.take() {
            self.copying.adopt(pipe);
        }
        self.taken += self.copying.ahead();
        let undelivered = self.copying.hand_back();
        if !undelivered.is_empty() && self.input.is_file() {
            let back = SeekFrom::Current(-(undelivered.len() as i64));
            if rustix::fs::seek(self.input.fd, back).is_ok() {
                self.taken -= undelivered.len() as u64;
                return Vec::new();
            }
        }
        undelivered
    }
}

fn enlarge_pipe(place: &Endpoint<'_>) {
    // Best effort: a smaller pipe is only slower.
    if pipe::capacity(place.fd).is_ok_and(|now| now < options::TARGET_CAPACITY) {
        let _ = pipe::set_capacity_up_to(place.fd, options::TARGET_CAPACITY);
    }
}
