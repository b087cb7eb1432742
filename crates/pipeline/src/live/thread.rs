//! Pipelines while they run, observed by a supervised thread.

use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use super::{Live, Moment};
use crate::observe::ObservationPlan;
use crate::supervise::{ReaderThread, Supervisor, Unanswered};

/// What the thread is asked to do.
#[derive(Debug, Clone, Copy)]
enum LiveRequest {
    /// To take a sample.
    Step,
    /// To end the current second.
    Moment,
}

#[derive(Debug)]
struct LiveAnswer {
    /// How long to wait before the next step.
    interval: Duration,
    moment: Option<Moment>,
    next_moment: Instant,
    has_processes: bool,
}

/// A [`Live`] in a thread of its own, so that a process that does not answer blocks only that. Where no
/// thread can be started, it is not.
#[allow(missing_debug_implementations)]
pub struct LiveThread {
    plan: ObservationPlan,
    thread: Option<(Sender<LiveRequest>, ReaderThread<LiveAnswer>)>,
    /// In place of a thread.
    own: Option<Live<'static>>,
    next_moment: Instant,
    has_processes: bool,
}

impl LiveThread {
    /// Observes these processes from the first [`step`](Self::step).
    pub fn new(plan: ObservationPlan) -> Self {
        LiveThread {
            plan,
            thread: None,
            own: None,
            next_moment: Instant::now(),
            has_processes: false,
        }
    }

    /// See [`Live::step`]. `None` if a process did not answer, so that the next step begins anew, without
    /// that process.
    ///
    /// # Errors
    /// As of [`Supervisor::receive`].
    pub fn step(&mut self, supervisor: &mut Supervisor) -> Result<Option<Duration>, Unanswered> {
        let answer = self.ask(supervisor, LiveRequest::Step)?;
        Ok(answer.map(|answer| answer.interval))
    }

    /// See [`Live::moment`]. `None` as of [`step`](Self::step).
    ///
    /// # Errors
    /// As of [`step`](Self::step).
    pub fn moment(&mut self, supervisor: &mut Supervisor) -> Result<Option<Moment>, Unanswered> {
        let answer = self.ask(supervisor, LiveRequest::Moment)?;
        let moment = answer.and_then(|answer| answer.moment);
        if moment.is_some() {
            supervisor.succeed();
        }
        Ok(moment)
    }

    /// See [`Live::next_moment`].
    pub fn next_moment(&self) -> Instant {
        self.next_moment
    }

    /// See [`Live::has_processes`].
    pub fn has_processes(&self) -> bool {
        self.has_processes
    }

    fn ask(
        &mut self,
        supervisor: &mut Supervisor,
        request: LiveRequest,
    ) -> Result<Option<LiveAnswer>, Unanswered> {
        let answer = match &mut self.own {
            Some(live) => answer_request(live, request),
            None => match self.ask_thread(supervisor, request)? {
                Some(answer) => answer,
                None => return Ok(None),
            },
        };
        self.next_moment = answer.next_moment;
        self.has_processes = answer.has_processes;
        Ok(Some(answer))
    }

    fn ask_thread(
        &mut self,
        supervisor: &mut Supervisor,
        request: LiveRequest,
    ) -> Result<Option<LiveAnswer>, Unanswered> {
        let started = match self.thread.take() {
            Some(thread) => Ok(thread),
            None => start(self.plan.clone(), supervisor),
        };
        let Ok((requests, reader)) = started else {
            // Both are needed until this process ends.
            let needed = Box::leak(Box::new((supervisor.own_proc(), self.plan.clone())));
            let live = self.own.insert(Live::new(&needed.0, &needed.1));
            return Ok(Some(answer_request(live, request)));
        };
        // If it has ended, it has panicked, which is noticed below.
        let _ = requests.send(request);
        let Some((answer, reader)) = supervisor.receive(reader)? else {
            return Ok(None);
        };
        self.thread = Some((requests, reader));
        Ok(Some(answer))
    }
}

fn answer_request(live: &mut Live<'_>, request: LiveRequest) -> LiveAnswer {
    let (interval, moment) = match request {
        LiveRequest::Step => (live.step(), None),
        LiveRequest::Moment => (Duration::ZERO, Some(live.moment())),
    };
    LiveAnswer {
        interval,
        moment,
        next_moment: live.next_moment(),
        has_processes: live.has_processes(),
    }
}

fn start(
    plan: ObservationPlan,
    supervisor: &Supervisor,
) -> std::io::Result<(Sender<LiveRequest>, ReaderThread<LiveAnswer>)> {
    let (requests, received) = channel();
    let reader = supervisor.start(move |proc, answers| {
        let mut live = Live::new(proc, &plan);
        for request in received {
            let answer = answer_request(&mut live, request);
            if answers.send(answer).is_err() {
                return;
            }
        }
    })?;
    Ok((requests, reader))
}
