//! How often an end that has let the pipe's lock go gets it again although the
//! other end waits for it.
//!
//! Both spin, so that neither ever sleeps, and move a pipeful by each call: who
//! comes back too soon finds the pipe as it left it, and would block. An end
//! that may sleep would go to sleep then, and the other would have to wake it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::clock::now_ns;
use super::ends::{Receiver, Sender, Shared, ends, usual_pipe};
use super::processors::{joined, on_processor};
use super::through::Technique;
use super::{Group, Kind, Per, Prepared, Probe, Value, prepared};

/// One sample takes so long: some ten thousand times the lock is let go, of
/// which it is kept some ten times.
const SAMPLE_NS: u64 = 12_000_000;

/// The name of the share for a technique; which pages it uses makes no
/// difference to the lock.
pub fn name(technique: Technique) -> String {
    let technique = match technique {
        Technique::WriteRead | Technique::WriteReadHuge => Technique::WriteRead,
        Technique::VmspliceRead | Technique::VmspliceReadHuge => Technique::VmspliceRead,
        Technique::VmspliceSplice | Technique::VmspliceSpliceHuge => Technique::VmspliceSplice,
    };
    format!("lock_kept_{}", technique.name())
}

pub(super) fn probes(pair: Option<(usize, usize)>) -> Vec<Prepared> {
    let Some(cpus) = pair else {
        return Vec::new();
    };
    let techniques = [
        (Technique::WriteRead, "write, read"),
        (Technique::VmspliceRead, "vmsplice, read"),
        (Technique::VmspliceSplice, "vmsplice, splice"),
    ];
    let probe = |(technique, words): (Technique, &str)| {
        let what = format!("got again before the other end: {words}");
        let kinds = vec![Kind::new(Group::Lock, Per::Percent, name(technique), what)];
        let (way_in, way_out) = technique.ways();
        let ends =
            Shared::new(usual_pipe()).and_then(|pipe| ends(way_in, way_out, &pipe, pipe.bytes));
        let contended = ends.map(|(sender, receiver)| Contended {
            kinds: kinds.clone(),
            cpus,
            sender,
            receiver,
        });
        prepared(kinds.clone(), contended)
    };
    techniques.into_iter().map(probe).collect()
}

struct Contended {
    kinds: Vec<Kind>,
    cpus: (usize, usize),
    sender: Sender,
    receiver: Receiver,
}

impl Probe for Contended {
    fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    fn run(&mut self) -> io::Result<Vec<Value>> {
        let (here, there) = self.cpus;
        let (sender, receiver) = (&mut self.sender, &mut self.receiver);
        let over = &AtomicBool::new(false);
        let (ins, outs) = thread::scope(|scope| {
            let take = move || on_processor(there, || calls(over, || receiver.take_once()));
            let taking = thread::Builder::new().spawn_scoped(scope, take)?;
            let end = now_ns() + SAMPLE_NS;
            let put = || {
                if now_ns() > end {
                    over.store(true, Ordering::Relaxed);
                }
                sender.put_once()
            };
            let ins = on_processor(here, || calls(over, put));
            over.store(true, Ordering::Relaxed);
            let outs = joined(taking);
            Ok::<_, io::Error>((ins?, outs?))
        })?;
        let (moved, back) = (ins.moved + outs.moved, ins.back + outs.back);
        Ok(vec![(100.0 * back as f64 / moved.max(1) as f64).into()])
    }
}

/// What calls came to.
#[derive(Default)]
struct Calls {
    /// They moved something.
    moved: u64,
    /// They came right after one that did, and found nothing to move.
    back: u64,
}

fn calls(over: &AtomicBool, mut call: impl FnMut() -> io::Result<u64>) -> io::Result<Calls> {
    let mut calls = Calls::default();
    let mut has_moved = false;
    while !over.load(Ordering::Relaxed) {
        let moves = call()? > 0;
        calls.moved += u64::from(moves);
        calls.back += u64::from(has_moved && !moves);
        has_moved = moves;
    }
    Ok(calls)
}
