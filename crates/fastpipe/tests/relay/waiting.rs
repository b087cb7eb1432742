//! A relay sleeps in poll(2) only, so the callback is called whatever the ends do.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::common;
use crate::common::ends::{
    Trace, file_that_reports_changes, going_on_while, idle_inputs, in_a_thread, outputs,
};
use crate::common::state::{until, until_asleep, until_unread};
use crate::common::{Directory, assert_same, pattern, pipe_of, read_rest};
use fastpipe::pipe;
use fastpipe::relay::{Activity, End, Flow, Options, Side, Technique, relay};
use fastpipe::wait::Wait;

const OFTEN: Duration = Duration::from_millis(1);

#[test]
fn the_callback_is_called_while_the_input_is_idle() {
    for wait in [Wait::Block, Wait::Adaptive, Wait::Spin] {
        for options in [Options::new(), Options::new().copy()] {
            let directory = Directory::new();
            for (from, input, _writer) in idle_inputs(&directory) {
                for (to, output, _reader) in outputs(&Directory::new()) {
                    let mut waiting = 0;
                    let options = options.interval(OFTEN).wait(wait);
                    let done = relay(&input, &output, &options, |progress| {
                        if progress.activity == Activity::WaitingFor(Side::Input) {
                            waiting += 1;
                        }
                        going_on_while(waiting < 3)
                    })
                    .unwrap();
                    assert_eq!((done.end, done.taken), (End::Stopped, 0), "{from} to {to}");
                }
            }
        }
    }
}

#[test]
fn a_blocked_output_delays_no_callback_and_stopping_loses_nothing() {
    let directory = Directory::new();
    // More than any output can hold.
    let bytes = pattern(48 << 20);
    let file = directory.file("in", &bytes);
    let asked = [
        Technique::Copy,
        Technique::Splice,
        Technique::SpliceThroughPipe,
    ];
    let asked = asked.map(|technique| Options::new().technique(technique));
    for options in asked.into_iter().chain([Options::new()]) {
        for from_pipe in [false, true] {
            for (to, output, reader) in outputs(&Directory::new()) {
                rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0)).unwrap();
                let (pipe_reader, pipe_writer) = pipe_of(65_536);
                let feeding = from_pipe.then(|| {
                    let bytes = bytes.clone();
                    std::thread::spawn(move || {
                        let fed = File::from(pipe_writer).write_all(&bytes);
                        assert_eq!(fed.unwrap_err().kind(), ErrorKind::BrokenPipe);
                    })
                });
                let input: OwnedFd = if from_pipe {
                    pipe_reader
                } else {
                    file.try_clone().unwrap().into()
                };
                let (mut waiting, mut given) = (0, 0);
                let options = options.interval(OFTEN);
                let done = relay(&input, &output, &options, |progress| {
                    let blocked = progress.activity == Activity::WaitingFor(Side::Output)
                        && progress.given == given;
                    waiting = if blocked { waiting + 1 } else { 0 };
                    given = progress.given;
                    going_on_while(waiting < 5)
                })
                .unwrap();
                assert_eq!(done.end, End::Stopped, "{to}");
                assert_eq!(done.taken, done.given + done.undelivered.len() as u64);
                if !from_pipe {
                    // The rest follows the file's position.
                    assert_eq!(done.taken, done.given);
                    assert_eq!(rustix::fs::tell(&file).unwrap(), done.given);
                }
                // The given bytes and the undelivered ones are the start of the data.
                let given = done.given as usize;
                let mut got = vec![0; given];
                File::from(reader).read_exact(&mut got).unwrap();
                got.extend_from_slice(&done.undelivered);
                assert_same(&got, &bytes[..got.len()]);
                drop((input, output));
                if let Some(thread) = feeding {
                    thread.join().unwrap();
                }
            }
        }
    }
}

#[test]
fn waiting_does_not_make_a_technique_count_as_stuck() {
    const WAITS: u64 = 300;
    let (input, input_writer) = pipe_of(65_536);
    let mut input_writer = File::from(input_writer);
    let seen = input.try_clone().unwrap();
    let output = File::options().write(true).open("/dev/null").unwrap();
    let (thread, relaying) = in_a_thread(input, output.into(), Options::new());
    for _ in 0..WAITS {
        until_asleep(thread);
        input_writer.write_all(b".").unwrap();
        until("it has gone", || pipe::unread(&seen).unwrap() == 0);
    }
    drop(input_writer);
    let done = relaying.join().unwrap().unwrap();
    assert_eq!((done.given, done.technique), (WAITS, Technique::Splice));
}

#[test]
fn a_relay_sleeps_while_only_one_end_is_ready() {
    for options in [Options::new(), Options::new().copy()] {
        let (input, input_writer) = pipe_of(4096);
        let (reader, output) = pipe_of(4096);
        let options = options.raise_capacity(false);
        let (thread, relaying) = in_a_thread(input, output, options);
        // The output has room, the input has no data.
        until_asleep(thread);
        // More bytes than both pipes can hold: the writer sleeps, and input and output
        // are full.
        let (tell, told) = channel();
        let bytes = pattern(1 << 20);
        let writing = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid()).unwrap();
            File::from(input_writer).write_all(&pattern(1 << 20))
        });
        let writer = told.recv().unwrap();
        until_unread(&reader, 4096);
        until_asleep(writer);
        until_asleep(thread);
        let got = read_rest(reader);
        assert_same(&got, &bytes);
        writing.join().unwrap().unwrap();
        relaying.join().unwrap().unwrap();
    }
}

/// Returns how often this thread went to sleep.
fn sleeps() -> i64 {
    // SAFETY: all of its fields may be zero.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer refers to a live value of the right type.
    let asked = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) };
    assert_eq!(asked, 0);
    usage.ru_nvcsw
}

#[test]
fn an_idle_relay_wakes_up_for_its_callback_only() {
    // In its own process: page faults of other threads make this one wait for the locks of
    // the address space, which counts as sleep.
    common::process::in_own_process(|| {
        for options in [Options::new(), Options::new().copy()] {
            let (input, _input_writer) = pipe_of(65_536);
            let (_reader, output) = pipe_of(65_536);
            let (mut calls, before) = (0, sleeps());
            let options = options.interval(OFTEN);
            relay(&input, &output, &options, |_| {
                calls += 1;
                going_on_while(calls < 100)
            })
            .unwrap();
            let slept = sleeps() - before;
            assert!(slept <= calls + 10, "{slept} sleeps for {calls} calls");
        }
    });
}

#[test]
fn a_stuck_relay_pauses_between_attempts() {
    use common::seccomp::{filters_work, refuse};
    common::process::in_own_process(|| {
        if !filters_work() {
            return;
        }
        let (input, input_writer) = pipe_of(65_536);
        let (_reader, output) = pipe_of(65_536);
        File::from(input_writer).write_all(b"stays").unwrap();
        assert!(refuse(&[libc::SYS_preadv2], libc::EAGAIN));
        let (mut calls, before) = (0, sleeps());
        let options = Options::new().copy().interval(OFTEN);
        relay(&input, &output, &options, |_| {
            calls += 1;
            // The thread may also be preempted.
            going_on_while(sleeps() - before < 500 && calls < 5000)
        })
        .unwrap();
        let slept = sleeps() - before;
        assert!(slept >= 500, "{slept} sleeps in {calls} calls");
    });
}

/// What poll(2) reports of regular files says little about what read(2) does.
#[test]
fn a_relay_from_a_regular_file_does_not_poll_it() {
    let (_reader, pipe) = pipe_of(65_536);
    let directory = Directory::new();
    let outputs = [pipe, directory.file("out", b"").into()];
    for output in &outputs {
        if let Some(file) = file_that_reports_changes() {
            fastpipe::copy(&file, output).unwrap();
        }
        let (Some(trace), Some(stopped)) = (Trace::new(), Trace::new()) else {
            continue;
        };
        let processor = trace.write("hello");
        let limit = Options::new().limit(5);
        let part = trace.open_part(processor);
        let done = relay(&part, output, &limit, |_| Flow::Continue).unwrap();
        assert_eq!(done.given, 5);
        // It ends after its entries.
        stopped.write("hello");
        stopped.stop();
        assert!(fastpipe::copy(stopped.open(), output).unwrap() > 0);
    }
}

#[test]
fn no_more_is_taken_between_two_calls_than_allowed() {
    for technique in [Technique::Splice, Technique::Copy] {
        for within in [None, Some(Duration::ZERO), Some(Duration::from_micros(100))] {
            let bytes = pattern(50_000);
            let (input, input_writer) = pipe_of(65_536);
            let (reader, output) = pipe_of(65_536);
            File::from(input_writer).write_all(&bytes).unwrap();
            let (mut before, mut held_back) = (0, 0);
            let options = Options::new().technique(technique).interval(OFTEN);
            let done = relay(&input, &output, &options, |progress| {
                assert!(progress.taken - before <= 1000);
                before = progress.taken;
                held_back += usize::from(progress.activity == Activity::HeldBack);
                let bytes = 1000;
                Flow::AtMost { bytes, within }
            })
            .unwrap();
            assert_eq!((done.end, done.given), (End::EndOfData, 50_000));
            assert!(within == Some(Duration::ZERO) || held_back > 0);
            let mut got = vec![0; 50_000];
            File::from(reader).read_exact(&mut got).unwrap();
            assert_same(&got, &bytes);
        }
    }
}

#[test]
fn the_callback_sees_unread_bytes_at_the_start_and_end() {
    let (input, input_writer) = pipe_of(65_536);
    let (reader, output) = pipe_of(65_536);
    File::from(input_writer).write_all(b"five.").unwrap();
    let mut calls = Vec::new();
    relay(&input, &output, &Options::new(), |progress| {
        let unread = progress.unread.unwrap();
        calls.push((progress.given, unread, progress.activity));
        Flow::Continue
    })
    .unwrap();
    assert_eq!(calls.first(), Some(&(0, 0, Activity::Moving)));
    assert_eq!(calls.last(), Some(&(5, 5, Activity::Ended)));
    drop(reader);
}
