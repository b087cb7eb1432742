//! Observed processes as stages of pipelines.

use std::collections::{BTreeMap, BTreeSet};

use super::Who;
use super::bottleneck::{MIN_LACKING, MIN_LIKELY, MIN_NEEDED, MIN_THROUGH_CHILDREN, per_s};
use crate::graph::{Edge, Holders, LinkSide, Node, Process, STDIN, Stages, pipelines};
use crate::observe::{LinkIndex, Observation, ObservedLink};
use crate::proc::LinkId;
use crate::sample::{Children, Observed, OnLink};
use crate::wait::{Outside, ThreadState};

/// A process with fewer samples, as a share of those of others, is too short-lived to judge.
const MIN_PRESENT: f64 = 0.25;

/// A process that waits for its children for this share only waits for them.
const MIN_ONLY_WAITS: f64 = 0.9;

/// With fewer samples it can't be said which stage is the bottleneck.
const MIN_SAMPLES: u32 = 4;

impl Observed {
    /// The process, for a conclusion.
    pub fn who(&self) -> Who {
        Who {
            pid: self.process.id.pid,
            name: self.process.name.clone(),
        }
    }

    /// Whether both are workers of one process.
    pub(super) fn is_fellow(&self, other: &Observed) -> bool {
        let (a, b) = (&self.process, &other.process);
        (a.parent, &a.name) == (b.parent, &b.name)
    }

    /// What it waited for most, outside of pipes.
    pub fn mainly(&self) -> Option<Outside> {
        Outside::longest(&self.outside)
    }

    /// Whether it was there for long enough: see [`Observation::min_samples`].
    pub(super) fn is_lasting(&self, min_samples: f64) -> bool {
        self.samples > 0 && f64::from(self.samples) >= min_samples
    }

    /// The share of the time in which it waited on a pipe.
    pub(super) fn share_on(&self, pipe: LinkId, side: LinkSide) -> f64 {
        let on = self.on.iter();
        on.filter(|on| on.pipe == pipe && on.side == side)
            .map(|on| on.share)
            .sum()
    }

    /// Whether many of its calls on this side may have moved nothing.
    pub(super) fn tries(&self, side: LinkSide) -> bool {
        self.tried.iter().any(|(_, tried)| *tried == side)
    }

    /// The share of the time in which it waits for a child or for a signal: timeout(1), and `wait` in
    /// some shells, wait for their signal.
    pub(super) fn waits_for_children(&self) -> f64 {
        let share = |outside: Outside| self.outside.get(&outside).copied().unwrap_or(0.0);
        share(Outside::Child) + share(Outside::Signal)
    }

    /// The same, with the time in which it polls for the end of children, as GNU parallel does.
    pub(super) fn waits_or_polls_for_children(&self) -> f64 {
        self.waits_for_children() + self.polls_for_children()
    }

    /// The share of the time in which it waits for a timer while its children work, if it looks after them: it has
    /// noticed the end of one, or it sleeps and handles the signal of that. Or in which it waits for an event, as the end
    /// of a child is in Node.js and for `make -O`, and hardly runs.
    pub(super) fn polls_for_children(&self) -> f64 {
        let handles_ends = self.handles_ends_of_children();
        let moves_nothing = self.io.is_some() && self.moves_nothing();
        // Else a wrapper may have, which has become this program.
        let has_reaped = self.has_reaped_late || self.has_reaped && handles_ends;
        let timers = if has_reaped && self.children_run() {
            self.timers()
        } else if handles_ends && (has_reaped || moves_nothing) && !self.is_frozen {
            self.outside.get(&Outside::Timer).copied().unwrap_or(0.0)
        } else {
            0.0
        };
        let hardly_runs = self.shares.runs < MIN_NEEDED && !self.splices;
        let events = self.outside.get(&Outside::Event).filter(|_| hardly_runs);
        (timers + events.copied().unwrap_or(0.0)).min(self.beside_working_children())
    }

    fn handles_ends_of_children(&self) -> bool {
        self.handles(libc::SIGCHLD)
    }

    /// Whether it reads and writes nothing but files, if that is known.
    fn moves_nothing(&self) -> bool {
        // As to look whether there is room.
        let writes_files = self.process.others.writes;
        self.io
            .is_none_or(|io| io.reads == 0 && (io.writes == 0 || writes_files))
    }

    /// Its children, if it may poll for their end: it mainly waits for a timer, and moves nothing.
    pub fn polled_children(&self) -> Option<&Children> {
        self.children
            .as_ref()
            .filter(|_| self.may_poll_for_children())
    }

    /// Whether it mainly waits for a timer while its children work, or wait for anything but a timer, and moves
    /// nothing: it may look after them without waiting for their signal, as Python does for a wait with a
    /// timeout, or for something else.
    pub(super) fn may_poll_for_children(&self) -> bool {
        let wait_by_timer = |children: &Children| {
            let timer = children.outside.get(&Outside::Timer);
            timer.is_some_and(|share| *share >= MIN_THROUGH_CHILDREN)
        };
        let children = self
            .children
            .as_ref()
            .filter(|children| !wait_by_timer(children));
        let beside = self.beside(children);
        // It may have passed on what one has left that has ended.
        let has_noticed_end = self.has_reaped_late && self.handles_ends_of_children();
        // Of a process that waits for a processor as well, both are less.
        let timers = self.timers();
        timers >= MIN_LACKING
            && timers.min(beside) >= timers * MIN_THROUGH_CHILDREN
            && (self.moves_nothing() || has_noticed_end)
            && !self.splices
            && !self.is_frozen
            && self.polls_for_children() == 0.0
    }

    /// The children that were seen, if it may wait for them: one that sleeps by itself has them beside that.
    pub(super) fn awaited_children(&self) -> Option<&Children> {
        let waits = self.waits_or_polls_for_children() > 0.0;
        let is_on_pipes = self.shares.blocked + self.shares.starved > 0.0;
        // Else they wait for it, perhaps.
        let waits_for_output = is_on_pipes && self.has_busy_children();
        let may_wait =
            waits || waits_for_output || self.has_reaped_late || self.may_poll_for_children();
        self.children.as_ref().filter(|_| may_wait)
    }

    /// The share of the time in which it waits for a timer, or for something else with a timeout.
    fn timers(&self) -> f64 {
        let timers = [
            Outside::Timer,
            Outside::EventOrTimer,
            Outside::SocketOrTimer,
        ];
        let timers = timers.iter().filter_map(|timer| self.outside.get(timer));
        timers.sum()
    }

    /// Whether children of it were seen to work for most of the time.
    pub(super) fn has_busy_children(&self) -> bool {
        let children = self.children.as_ref();
        children.is_some_and(|children| children.awake() >= MIN_LIKELY)
    }

    fn children_run(&self) -> bool {
        per_s(self, self.children_ran_s) >= MIN_LACKING
    }

    /// Whether another process may be one for which it waits when it waits for a child, or may serve that one.
    pub(super) fn may_wait_for(&self, other: &Observed) -> bool {
        let children = self.children.as_ref();
        let awaited = children.map_or(&[][..], |children| &children.awaited);
        let is_line = |pid: &i32| *pid == other.process.id.pid || other.ancestors.contains(pid);
        let descends = other.process.parent == self.process.id.pid
            || other.ancestors.contains(&self.process.id.pid);
        descends && (awaited.is_empty() || awaited.iter().any(is_line))
    }

    /// The share of the time in which its children were seen while it did not wait for them, if they work.
    fn beside_working_children(&self) -> f64 {
        let works = |children: &&Children| self.children_run() || children.are_mostly_awake();
        self.beside(self.children.as_ref().filter(works))
    }

    /// The share of the time in which these children were seen while it did not wait for them.
    fn beside(&self, children: Option<&Children>) -> f64 {
        let seen = children.map_or(0.0, |children| children.shares.sum());
        (seen - self.waits_for_children()).max(0.0)
    }

    /// How often the children for which it waits wait on its pipes.
    pub(super) fn children_on(&self) -> impl Iterator<Item = &OnLink> {
        let children = self.children.iter().flat_map(|children| &children.on);
        children.filter(|on| self.process.holds(on.pipe, on.side))
    }
}

impl Node for Observed {
    fn process(&self) -> &Process {
        &self.process
    }

    fn ancestors(&self) -> &[i32] {
        &self.ancestors
    }

    fn waited_on(&self, link: LinkId, side: LinkSide) -> bool {
        self.share_on(link, side) > 0.0
    }

    fn only_waits_for_children(&self) -> bool {
        self.waits_for_children() >= MIN_ONLY_WAITS
    }

    fn is_idle(&self, side: LinkSide) -> bool {
        let has_none = self.io.is_some_and(|io| match side {
            LinkSide::Input => io.reads == 0,
            LinkSide::Room => io.writes == 0,
        });
        !self.splices && (self.is_frozen || has_none)
    }

    fn is_frozen(&self) -> bool {
        self.is_frozen
    }

    fn waits_for_other_children(&self, than: &Self) -> bool {
        self.has_reaped && self.only_waits_for_children() && !self.may_wait_for(than)
    }
}

/// What was too short to say which stage is the bottleneck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TooShort {
    /// Each of the pipelines that were seen.
    Pipelines {
        /// The number of pipes that were seen in them, at least.
        pipes: usize,
    },
    /// The look.
    Look,
    /// The part of the look before all that was asked for had ended.
    Life,
}

impl Observation {
    /// The processes that still ran at the end.
    pub fn living(&self) -> impl Iterator<Item = &Observed> {
        self.processes.iter().filter(|process| !process.has_ended)
    }

    /// The processes that held an end of a pipe, also those that have ended.
    pub(crate) fn holders(&self, pipe: LinkId, side: LinkSide) -> impl Iterator<Item = &Observed> {
        let positions = self.index().holders.of_link(pipe).iter();
        positions
            .filter_map(|position| self.processes.get(*position))
            .filter(move |process| process.process.holds(pipe, side))
    }

    /// Whether this process runs below another one.
    pub(super) fn is_above_observer(&self, process: &Observed) -> bool {
        let pid = process.process.id.pid;
        self.own_parent.is_some_and(|parent| {
            let parent = self.find(parent);
            self.own_parent == Some(pid) || parent.is_some_and(|parent| parent.is_below(pid))
        })
    }

    /// Whether every process that can write to a pipe can also read from it, and has below it the others that only
    /// read: mostly they are told by the end of the pipe that the writer has ended, as the workers of PostgreSQL.
    pub(super) fn is_sign_of_life(&self, pipe: LinkId) -> bool {
        let reads = |holder: &Observed| holder.process.holds(pipe, LinkSide::Input);
        let writes = |holder: &Observed| holder.process.holds(pipe, LinkSide::Room);
        let writers: Vec<&Observed> = self.holders(pipe, LinkSide::Room).collect();
        let readers = self.holders(pipe, LinkSide::Input);
        let mut only_read = readers.filter(|reader| !writes(reader)).peekable();
        let is_told = |reader: &Observed| {
            let mut writers = writers.iter();
            writers.all(|writer| reader.is_below(writer.process.id.pid))
                && !reader.has_as(pipe, STDIN)
        };
        pipe.is_pipe()
            && !writers.is_empty()
            && writers.iter().all(|writer| reads(writer))
            && only_read.peek().is_some()
            && only_read.all(is_told)
    }

    /// A link by its identity.
    pub fn link(&self, id: LinkId) -> Option<&ObservedLink> {
        let position = *self.index().links.get(&id)?;
        self.pipes.get(position)
    }

    fn index(&self) -> &LinkIndex {
        self.index.0.get_or_init(|| LinkIndex {
            holders: Holders::new(self.processes.iter().map(|observed| &observed.process)),
            links: self
                .pipes
                .iter()
                .enumerate()
                .map(|(position, link)| (link.id, position))
                .collect(),
        })
    }

    pub(super) fn stages(&self) -> Stages<'_, Observed, impl Fn(&Observed, LinkId) -> bool> {
        let min = self.min_samples();
        Stages {
            nodes: &self.processes,
            holders: &self.index().holders,
            is_lasting: move |process: &Observed, _| process.is_lasting(min),
        }
    }

    /// The processes that use an end of a pipe for most of the time.
    pub fn users(&self, pipe: LinkId, side: LinkSide) -> Vec<&Observed> {
        self.stages().users(pipe, side)
    }

    /// A process with fewer samples was not there for long enough to judge it.
    pub(super) fn min_samples(&self) -> f64 {
        let most = self.processes.iter().map(|process| process.samples).max();
        MIN_PRESENT * f64::from(most.unwrap_or(0))
    }

    /// What there was too little of to say which stage is the bottleneck, if anything.
    pub fn too_short(&self) -> Option<TooShort> {
        let has_pipelines = !self.pipelines().is_empty();
        let is_alone = !self.is_survey && self.living().any(|process| process.is_asked);
        match self.short_lived_pipes() {
            count @ 1.. if !has_pipelines => Some(TooShort::Pipelines { pipes: count }),
            _ if (has_pipelines || is_alone) && self.is_too_short() => Some(TooShort::Look),
            _ if !has_pipelines && !is_alone && self.has_ended() => Some(TooShort::Life),
            _ => None,
        }
    }

    /// Whether a pipeline stood still in a look at all of them: most of a system wait for something to do, and
    /// nothing is said of these.
    pub fn is_idle(&self, stages: &[&Observed]) -> bool {
        self.is_survey && stages.iter().all(|stage| stage.is_frozen)
    }

    /// Whether all that was asked for has ended.
    fn has_ended(&self) -> bool {
        let mut asked = self.processes.iter().filter(|process| process.is_asked);
        !self.is_survey && asked.next().is_some() && self.living().all(|living| !living.is_asked)
    }

    /// The number of pipes that were seen between short-lived processes, as in a loop of short
    /// pipelines.
    pub fn short_lived_pipes(&self) -> usize {
        let min = self.min_samples();
        let is_short = |process: &&Observed| process.is_asked && !process.is_lasting(min);
        let between = |pipe: &&ObservedLink| {
            let mut readers = self.holders(pipe.id, LinkSide::Input).filter(is_short);
            readers.any(|reader| {
                let mut writers = self.holders(pipe.id, LinkSide::Room).filter(is_short);
                writers.any(|writer| writer.process.id != reader.process.id)
            })
        };
        self.pipes.iter().filter(between).count()
    }

    /// Whether there were too few samples to say which stage is the bottleneck.
    pub fn is_too_short(&self) -> bool {
        self.samples < MIN_SAMPLES
    }

    /// Whether nothing worked in the last sample, so that a longer observation may show
    /// that nothing will.
    pub fn is_still(&self) -> bool {
        let mut states = self.living().flat_map(|process| &process.threads);
        states.all(|state| !matches!(state, ThreadState::Working | ThreadState::Disk))
    }

    /// Pairs of a writer and a reader that were asked for, with the pipe between them.
    pub fn edges(&self) -> Vec<Edge> {
        let asked = self.processes.iter().filter(|process| process.is_asked);
        let asked: BTreeSet<i32> = asked.map(|process| process.process.id.pid).collect();
        let mut edges = self.stages().edges(self.pipes.iter().map(|pipe| pipe.id));
        edges.retain(|(from, to, _)| asked.contains(from) && asked.contains(to));
        edges
    }

    /// The pipelines: groups of processes with pipes between them, each in the order of the
    /// flow.
    pub fn pipelines(&self) -> Vec<Vec<&Observed>> {
        self.in_order(&self.edges())
    }

    /// The groups of processes that are connected by edges, each in the order of the flow.
    pub(super) fn in_order(&self, edges: &[Edge]) -> Vec<Vec<&Observed>> {
        let min = self.min_samples();
        let lasting = self
            .processes
            .iter()
            .filter(|process| process.is_lasting(min));
        let by_number: BTreeMap<i32, &Observed> =
            lasting.map(|process| (process.number(), process)).collect();
        let groups = pipelines(by_number.keys().copied(), edges).into_iter();
        let members = |group: Vec<i32>| group.iter().map(|number| by_number[number]).collect();
        groups.map(members).collect()
    }

    /// A process by its number.
    pub fn find(&self, pid: i32) -> Option<&Observed> {
        self.living().find(|process| process.process.id.pid == pid)
    }
}
