//! `costs` beside a process that never waits: with nothing else beside them, so
//! this file has one test only.

mod common;

use std::process::Command;

use common::{conditions, json, pipespeed, run_alone, start};
use rustix::process::Signal;

/// Runs beside the same busy process. Whatever else the machine does, it is not
/// busy during all of them.
const TRIES: u32 = 20;

/// The processors that are looked at.
fn looked_at() -> Vec<usize> {
    let costs = pipespeed("costs --rounds 1 --no-model --quiet --json -");
    let record = json(&run_alone(costs).succeeded().out);
    let names = record["costs"].as_array().unwrap().iter();
    let names = names.map(|cost| cost["name"].as_str().unwrap());
    names
        .filter_map(|name| name.strip_prefix("taken_of_processor_")?.parse().ok())
        .collect()
}

/// Those of them that are said to be busy.
fn named(looked_at: &[usize]) -> Vec<usize> {
    let done = run_alone(pipespeed("costs --rounds 1 --no-model --quiet")).succeeded();
    let notes = done.out.lines().filter(|line| line.starts_with("note:"));
    let notes: String = notes.collect();
    let is_named = |cpu: &usize| notes.contains(&format!("% of processor {cpu}'s time"));
    looked_at.iter().copied().filter(is_named).collect()
}

#[test]
fn a_busy_processor_is_named_whichever_it_is() {
    let looked_at = looked_at();
    assert_eq!(looked_at.len(), conditions::processors().min(2) as usize);
    for cpu in looked_at.iter().copied() {
        let mut busy = Command::new("sh");
        busy.args(["-c", "while :; do :; done"]);
        conditions::on_processor(&mut busy, cpu);
        let busy = start(busy);
        let named_alone = (0..TRIES).any(|_| {
            let named = named(&looked_at);
            assert!(named.contains(&cpu), "{cpu}: {named:?}");
            named == [cpu]
        });
        busy.send(Signal::KILL);
        busy.finish();
        if !named_alone {
            let busy_anyway = (0..TRIES).any(|_| !named(&looked_at).is_empty());
            assert!(busy_anyway, "beside {cpu} others are named that are idle");
            eprintln!("skipped: others keep the processors busy here");
        }
    }
}
