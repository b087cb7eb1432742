//! The output's reader goes away while the relay waits for something else.

use std::fs::File;
use std::io::{Read, Write};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use crate::common::ends::{in_a_thread, noticed, outputs, tcp};
use crate::common::skip::skip;
use crate::common::state::{until, until_asleep};
use crate::common::{Directory, pipe_of};
use fastpipe::pipe;
use fastpipe::relay::{Activity, End, Flow, Options, Side, relay};
use fastpipe::wait::Wait;

const OFTEN: Duration = Duration::from_millis(1);

#[test]
fn the_death_of_the_outputs_reader_ends_an_idle_relay() {
    for options in [Options::new(), Options::new().copy()] {
        for wait in [Wait::Block, Wait::Spin] {
            for (to, output, reader) in outputs(&Directory::new()) {
                if to == "terminal" {
                    continue;
                }
                let (input, input_writer) = pipe_of(65_536);
                let mut input_writer = File::from(input_writer);
                let (thread, relaying) = in_a_thread(input, output, options.wait(wait));
                // With unread bytes, TCP reports the closed reader at once.
                input_writer.write_all(b"ten bytes.").unwrap();
                until("they have arrived", || {
                    rustix::io::ioctl_fionread(&reader).is_ok_and(|n| n == 10)
                });
                if wait == Wait::Block {
                    until_asleep(thread);
                }
                drop(reader);
                until("the relay ends", || relaying.is_finished());
                let error = relaying.join().unwrap().unwrap_err();
                assert_eq!(error.side, Side::Output, "{to}");
                assert!(error.reader_is_gone(), "{to}: {}", error.source);
                assert_eq!((error.taken, error.given), (10, 10));
            }
        }
    }
}

#[test]
fn message_in_the_outputs_error_queue_is_not_its_end() {
    for wait in [Wait::Block, Wait::Spin] {
        let (output, reader) = tcp();
        if !noticed(&output) {
            return;
        }
        let (input, input_writer) = pipe_of(65_536);
        let mut input_writer = Some(File::from(input_writer));
        let mut waiting = 0;
        // While it spins, the callback counts the spins.
        let options = Options::new().wait(wait).interval(match wait {
            Wait::Spin => Duration::ZERO,
            _ => OFTEN,
        });
        let done = relay(&input, &output, &options, |progress| {
            waiting += usize::from(progress.activity == Activity::WaitingFor(Side::Input));
            // After some checks of the output.
            if waiting == 5000 || waiting == 5 && wait == Wait::Block {
                input_writer.take().unwrap().write_all(b"?").unwrap();
                waiting += 1;
            }
            Flow::Continue
        })
        .unwrap();
        assert_eq!((done.end, done.given), (End::EndOfData, 1));
        let mut got = [0; 2];
        File::from(reader).read_exact(&mut got).unwrap();
        assert_eq!(&got, b"!?");
    }
}

#[test]
fn the_end_of_an_output_with_an_error_queue_is_noticed() {
    for wait in [Wait::Block, Wait::Spin] {
        let (output, reader) = tcp();
        if !noticed(&output) {
            return;
        }
        let (input, _input_writer) = pipe_of(65_536);
        let (thread, relaying) = in_a_thread(input, output, Options::new().wait(wait));
        if wait == Wait::Block {
            // It has looked at the output.
            until_asleep(thread);
        }
        // With an unread byte.
        drop(reader);
        until("the relay ends", || relaying.is_finished());
        assert!(relaying.join().unwrap().unwrap_err().reader_is_gone());
    }
}

/// A relay that takes bytes from the log would keep them from its usual reader.
fn idle_log_of_the_kernel() -> Option<File> {
    let is_idle = |log: &File| {
        let mut fds = [PollFd::new(log, PollFlags::IN)];
        // Containers hide it behind /dev/null.
        log.metadata().unwrap().is_file() && poll(&mut fds, Some(&Default::default())) == Ok(0)
    };
    let log = File::open("/proc/kmsg").ok().filter(is_idle);
    if log.is_none() {
        skip("no idle /proc/kmsg here");
    }
    log
}

#[test]
fn the_log_of_the_kernel_does_not_block_a_relay() {
    let Some(log) = idle_log_of_the_kernel() else {
        return;
    };
    let (reader, output) = pipe_of(65_536);
    drop(reader);
    let (_, relaying) = in_a_thread(log.into(), output, Options::new());
    until("the relay ends", || relaying.is_finished());
    assert!(relaying.join().unwrap().unwrap_err().reader_is_gone());
}

#[test]
fn a_throttled_relay_notices_that_its_reader_is_gone() {
    let (input, input_writer) = pipe_of(65_536);
    let (reader, output) = pipe_of(65_536);
    File::from(input_writer).write_all(b"kept").unwrap();
    let mut reader = Some(reader);
    let options = Options::new().interval(OFTEN);
    let error = relay(&input, &output, &options, |progress| {
        if progress.activity == Activity::HeldBack {
            reader = None;
        }
        let (bytes, within) = (0, None);
        Flow::AtMost { bytes, within }
    })
    .unwrap_err();
    assert!(error.reader_is_gone());
    assert_eq!((error.taken, error.given), (0, 0));
    assert_eq!(pipe::unread(&input).unwrap(), 4);
}
