//! A stage that may be the bottleneck.

use std::collections::{BTreeMap, BTreeSet};

use super::{FillLevel, MAX_EMPTY, MIN_THROUGH_CHILDREN, MIN_TURNS};
use crate::diagnosis::Who;
use crate::graph::{Adjacency, LinkSide, reach};
use crate::observe::Observation;
use crate::proc::LinkId;
use crate::sample::{Children, Observed, OnLink, Shares};
use crate::wait::Outside;

/// A stage that may be the bottleneck, and the pipes before and after it, near or far.
pub(super) struct Candidate<'a> {
    pub(super) stage: &'a Observed,
    pub(super) before: BTreeSet<i32>,
    pub(super) after: BTreeSet<i32>,
    pub(super) inputs: BTreeSet<LinkId>,
    pub(super) outputs: BTreeSet<LinkId>,
    /// The share of the time in which it waited on pipes of the pipeline, itself or its children.
    pub(super) waits: f64,
    /// The share in which it waited on other pipes, as to a child of its own.
    pub(super) private_waits: f64,
    /// The part of that in which it waited on sockets.
    pub(super) socket_waits: f64,
}

impl<'a> Candidate<'a> {
    pub(super) fn new(
        observation: &Observation,
        stage: &'a Observed,
        flow: &Adjacency,
        levels: &BTreeMap<LinkId, FillLevel>,
    ) -> Self {
        let pid = stage.process.id.pid;
        let (before, inputs) = reach(pid, &flow.before);
        let (after, outputs) = reach(pid, &flow.after);
        let all = stage.shares.blocked + stage.shares.starved;
        let (own, others): (Vec<&OnLink>, Vec<&OnLink>) = stage
            .on
            .iter()
            .partition(|on| inputs.contains(&on.pipe) || outputs.contains(&on.pipe));
        let sum = |waits: &[&OnLink]| waits.iter().map(|on| on.share).sum::<f64>();
        // One of its threads may move the data while another one runs for something else. One of a runtime
        // that polls waits for ends that nobody needs at the time.
        let of_thread = |on: &&OnLink| {
            let fill = observation.link(on.pipe)?.pressure()?;
            let agrees = match on.side {
                LinkSide::Input => fill <= MAX_EMPTY,
                LinkSide::Room => fill >= 1.0 - MAX_EMPTY,
            };
            agrees.then_some(on.thread_share)
        };
        let has_others = stage.threads.len() > 1;
        let of_a_thread = own.iter().filter(|_| has_others).filter_map(of_thread);
        let of_a_thread = of_a_thread.fold(0.0, f64::max);
        // A poll waits on several pipes at once.
        let private_waits = sum(&others).min((all - sum(&own)).max(0.0));
        let through_children: f64 = stage.children_on().map(|on| on.share).sum();
        let is_socket = |on: &&&OnLink| on.pipe.is_direction();
        let sockets: Vec<&OnLink> = others.iter().filter(is_socket).copied().collect();
        // Who asks again and again for what is not there waits for it.
        let in_vain = stage.tried.iter().filter_map(|(pipe, side)| {
            let level = levels
                .get(pipe)
                .filter(|_| inputs.contains(pipe) || outputs.contains(pipe))?;
            Some(match side {
                LinkSide::Input => level.empty,
                LinkSide::Room => level.full,
            })
        });
        let tries = in_vain.fold(0.0, f64::max) * (stage.shares.runs + stage.shares.queued);
        Candidate {
            socket_waits: sum(&sockets).min(private_waits),
            waits: (all - private_waits + through_children + tries)
                .max(of_a_thread)
                .min(1.0),
            private_waits,
            stage,
            before,
            after,
            inputs,
            outputs,
        }
    }

    /// The share of the time in which it, or its children, waited on this side of its pipes.
    pub(super) fn waits_on(&self, side: LinkSide) -> f64 {
        let on = self.stage.on.iter().chain(self.stage.children_on());
        on.filter(|on| on.side == side).map(|on| on.share).sum()
    }

    /// Its shares. A socket whose other side is not part of the pipeline is outside of it.
    pub(super) fn shares(&self) -> Shares {
        let shares = self.stage.shares;
        let starved = self.socket_waits.min(shares.starved);
        Shares {
            starved: shares.starved - starved,
            blocked: (shares.blocked - (self.socket_waits - starved)).max(0.0),
            elsewhere: shares.elsewhere + self.socket_waits,
            ..shares
        }
    }

    /// The shares of its waits outside of the pipeline.
    pub(super) fn outside(&self) -> BTreeMap<Outside, f64> {
        let mut outside = self.stage.outside.clone();
        if self.socket_waits > 0.0 {
            *outside.entry(Outside::Socket).or_default() += self.socket_waits;
        }
        outside
    }

    /// The only process that has the other end of the socket on which it mainly waits outside of the pipeline.
    pub(super) fn peer(&self, observation: &Observation) -> Option<Who> {
        let on = self.stage.on.iter().filter(|on| {
            let is_own = self.inputs.contains(&on.pipe) || self.outputs.contains(&on.pipe);
            on.pipe.is_direction() && !is_own && on.share >= self.socket_waits / 2.0
        });
        let longest = on.max_by(|a, b| a.share.total_cmp(&b.share))?;
        let mut peers = observation.holders(longest.pipe, longest.side.other());
        let peer = peers.next().filter(|_| peers.next().is_none())?;
        (peer.process.id != self.stage.process.id).then(|| peer.who())
    }

    /// What its children did, if it mainly waits for them.
    pub(super) fn awaited_children(&self) -> Option<&'a Children> {
        let stage = self.stage;
        let for_children = stage.waits_or_polls_for_children() + self.private_waits;
        let own = [stage.shares.runs, stage.shares.queued, stage.shares.disk];
        // GNU parallel sleeps between two looks at its jobs.
        let by_turns = stage.polls_for_children() >= MIN_TURNS;
        let is_mainly = (stage.mainly() == Some(Outside::Child) || by_turns)
            && own.into_iter().all(|share| for_children >= share);
        let children = stage.children.as_ref();
        children.filter(|_| is_mainly || for_children >= MIN_THROUGH_CHILDREN)
    }

    /// What its children did, if it waits for them for a smaller part of the time.
    pub(super) fn also_awaited(&self) -> Option<&'a Children> {
        let children = self.stage.children.as_ref();
        let is_mainly = self.awaited_children().is_some();
        children.filter(|_| !is_mainly && self.stage.waits_for_children() >= MIN_TURNS)
    }

    /// The mean of the share of time in which the stage does not wait for pipes, of how full
    /// each pipe before it was, and of how empty each one after it.
    pub(super) fn evidence(&self, levels: &BTreeMap<LinkId, FillLevel>) -> f64 {
        self.evidence_if(1.0 - self.waits, levels)
    }

    /// The same if it ran for as little as is possible, and waited for pipes for the rest.
    pub(super) fn least_evidence(&self, levels: &BTreeMap<LinkId, FillLevel>) -> f64 {
        self.evidence_if(self.least_own(), levels)
    }

    /// The share of the time for which it at least does not wait for pipes.
    pub(super) fn least_own(&self) -> f64 {
        let between = self.stage.runs_between;
        let doubtful = between.map_or(0.0, |[least, _]| self.stage.shares.runs - least);
        1.0 - self.waits - doubtful
    }

    /// How full its inputs are, or how empty its outputs, whichever is less.
    pub(super) fn weakest_evidence(&self, levels: &BTreeMap<LinkId, FillLevel>) -> f64 {
        let level = |pipe| levels.get(pipe).copied().unwrap_or_default();
        let mean = |levels: Vec<f64>| {
            let sum: f64 = levels.iter().sum();
            (!levels.is_empty()).then_some(sum / levels.len() as f64)
        };
        let inputs = mean(self.inputs.iter().map(|pipe| level(pipe).full).collect());
        let outputs = mean(self.outputs.iter().map(|pipe| level(pipe).empty).collect());
        inputs.into_iter().chain(outputs).fold(1.0, f64::min)
    }

    fn evidence_if(&self, own: f64, levels: &BTreeMap<LinkId, FillLevel>) -> f64 {
        let level = |pipe| levels.get(pipe).copied().unwrap_or_default();
        let inputs = self.inputs.iter().map(|pipe| level(pipe).full);
        let outputs = self.outputs.iter().map(|pipe| level(pipe).empty);
        let count = 1 + self.inputs.len() + self.outputs.len();
        (own + inputs.chain(outputs).sum::<f64>()) / count as f64
    }
}
