//! Relays under frequent signals.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::common::ends::{going_on_while, nonblocking, tcp, unix};
use crate::common::process::in_own_process;
use crate::common::state::until;
use crate::common::storm::{Storm, handled, until_interrupted};
use crate::common::{Directory, WAITS, assert_same, pattern, pipe_of};
use fastpipe::relay::{End, Flow, Options, Technique, relay, relay_inspecting};
use fastpipe::wait::Wait;

const CAPACITY: usize = 4 * 4096;
const BYTES: usize = 12 * CAPACITY;

/// Relays under frequent signals, between a slow writer and a slow reader, so that signals
/// arrive while the relay waits for either. Without a technique the bytes are inspected, too.
fn relayed(
    input: (OwnedFd, OwnedFd),
    output: (OwnedFd, OwnedFd),
    options: &Options,
    technique: Option<Technique>,
) {
    let storm = Storm::begin();
    let writing = std::thread::spawn(move || {
        let mut file = File::from(input.1);
        for piece in pattern(BYTES).chunks(CAPACITY / 2 + 1) {
            until_interrupted();
            file.write_all(piece).unwrap();
        }
    });
    let reading = std::thread::spawn(move || {
        let mut file = File::from(output.0);
        let mut got = Vec::new();
        let mut chunk = [0; CAPACITY / 2 + 1];
        loop {
            if got.len() + CAPACITY < BYTES {
                until_interrupted();
            }
            match file.read(&mut chunk).unwrap() {
                0 => return got,
                n => got.extend_from_slice(&chunk[..n]),
            }
        }
    });
    let mut seen = Vec::new();
    let done = match technique {
        Some(technique) => {
            let options = options.technique(technique);
            relay(&input.0, &output.1, &options, |_| Flow::Continue)
        }
        None => {
            let inspect = |bytes: &[u8]| {
                seen.extend_from_slice(bytes);
                Flow::Continue
            };
            relay_inspecting(&input.0, &output.1, options, inspect, |_| Flow::Continue)
        }
    };
    let done = done.unwrap();
    drop(output.1);
    // The reader may still wait for signals.
    let got = reading.join().unwrap();
    drop(storm);
    writing.join().unwrap();
    assert_eq!((done.end, done.given), (End::EndOfData, BYTES as u64));
    assert_same(&got, &pattern(BYTES));
    if technique.is_none() {
        assert_same(&seen, &pattern(BYTES));
    }
}

#[test]
fn a_relay_loses_no_byte_in_a_storm_of_signals() {
    let to_nonblocking = || {
        let (writer, reader) = nonblocking(unix());
        (reader, writer)
    };
    for wait in WAITS {
        let options = Options::new().wait(wait).interval(Duration::MAX);
        let options = options.raise_capacity(false);
        let pipes = || (pipe_of(CAPACITY), pipe_of(CAPACITY));
        for ((input, output), technique) in [
            (pipes(), Some(Technique::Splice)),
            (pipes(), Some(Technique::Copy)),
            (pipes(), None),
            ((unix(), unix()), Some(Technique::Copy)),
            (
                (tcp(), to_nonblocking()),
                Some(Technique::SpliceThroughPipe),
            ),
        ] {
            relayed(input, output, &options, technique);
        }
    }
}

#[test]
fn a_signal_never_makes_a_relay_sleep_in_a_call() {
    // In its own process, since a sleeping relay would never end the storm.
    in_own_process(|| {
        let directory = Directory::new();
        let (_reader, pipe) = pipe_of(CAPACITY);
        let file: OwnedFd = directory.file("out", b"").into();
        for (technique, output) in [
            (Technique::Splice, pipe),
            (Technique::SpliceThroughPipe, file),
        ] {
            for (input, _idle_peer) in [unix(), tcp()] {
                let output = output.try_clone().unwrap();
                let relaying = std::thread::spawn(move || {
                    let _storm = Storm::restarting();
                    let enough = handled() + 1000;
                    // Spinning, so that most signals arrive during a call.
                    let options = Options::new().technique(technique).wait(Wait::Spin);
                    let options = options.interval(Duration::from_millis(1));
                    relay(input, output, &options, |_| {
                        going_on_while(handled() < enough)
                    })
                });
                until("the callback is called", || relaying.is_finished());
                let done = relaying.join().unwrap().unwrap();
                assert_eq!((done.end, done.technique), (End::Stopped, technique));
            }
        }
    });
}
