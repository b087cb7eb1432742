//! The callback's return values.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::common::pipe_of;
use crate::common::state::until;
use fastpipe::relay::{End, Flow, Options, Relayed, Technique, relay};

/// Longer than the watchdog waits.
const NEVER_SEEN: Duration = Duration::from_secs(3600);

/// Creates a pipe with this many bytes in it, and no writer.
fn holding(bytes: usize) -> OwnedFd {
    let (reader, writer) = pipe_of(65_536);
    File::from(writer).write_all(&vec![7; bytes]).unwrap();
    reader
}

/// Relays `bytes`. The callback returns `flows` in turn and then repeats the last one; its
/// regular interval is an hour.
fn answered(bytes: usize, flows: Vec<Flow>) -> Relayed {
    let relaying = std::thread::spawn(move || {
        let input = holding(bytes);
        let (_reader, output) = pipe_of(65_536);
        let mut calls = 0;
        let options = Options::new().interval(NEVER_SEEN);
        relay(&input, &output, &options, |_| {
            calls += 1;
            flows[(calls - 1).min(flows.len() - 1)]
        })
        .unwrap()
    });
    until("it ends", || relaying.is_finished());
    relaying.join().unwrap()
}

#[test]
fn the_callback_is_called_again_when_it_asks_for_that() {
    let at_most = |bytes, within| Flow::AtMost { bytes, within };
    let (bytes, within) = (1000, None);
    let held = at_most(0, Some(Duration::ZERO));
    for flows in [
        vec![at_most(1000, Some(Duration::from_micros(10)))],
        vec![Flow::CallAfter { bytes, within }],
        vec![held, held, Flow::Continue],
    ] {
        let done = answered(5500, flows.clone());
        assert_eq!((done.end, done.given), (End::EndOfData, 5500), "{flows:?}");
    }
}

#[test]
fn a_stopped_relay_gives_what_the_output_has_room_for() {
    let input = holding(5500);
    let (_reader, output) = pipe_of(65_536);
    let options = Options::new().copy().interval(Duration::ZERO);
    let done = relay(&input, &output, &options, |progress| {
        if progress.taken > progress.given {
            Flow::Stop
        } else {
            Flow::Continue
        }
    })
    .unwrap();
    assert_eq!((done.end, done.technique), (End::Stopped, Technique::Copy));
    assert_eq!((done.taken, done.given), (5500, 5500));
    assert!(done.undelivered.is_empty());
}
