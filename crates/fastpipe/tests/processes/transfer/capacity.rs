//! Capacity of pipes, and the limits on it.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use crate::common;
use crate::common::process::{become_ordinary, in_own_process};
use crate::common::shapes::cases;
use crate::common::skip::skip;
use crate::common::vmsplice;
use crate::common::{Directory, pipe_of};
use fastpipe::buffer::Buffer;
use fastpipe::pipe::{self, Limits, page_size};
use fastpipe::transfer::{Input, Output};
use fastpipe::wait::Wait;
use proptest::prelude::*;

/// The largest capacity without privileges.
fn largest() -> usize {
    Limits::read().max_size.unwrap_or(1 << 20)
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn capacity_granted_is_the_next_power_of_two_of_pages(
        asked in prop_oneof![1..20_000_usize, 1..1_048_577_usize],
    ) {
        let (reader, writer) = pipe::create().unwrap();
        let asked = asked.min(largest());
        let granted = pipe::set_capacity(&writer, asked).unwrap();
        prop_assert_eq!(granted, asked.max(page_size()).next_power_of_two());
        // Both ends report the same.
        prop_assert_eq!(pipe::capacity(&reader).unwrap(), granted);
        prop_assert_eq!(pipe::slots(&writer).unwrap(), granted / page_size());
    }

    #[test]
    fn a_slice_returns_its_number_of_slots(
        pieces in prop::collection::vec((0..40_000_usize, 1..40_000_usize), 1..4),
    ) {
        if !vmsplice::is_allowed() || !vmsplice::is_by_reference() {
            return Ok(());
        }
        // The base is aligned, so only the offset determines the number.
        let pages = Buffer::builder().len(80_000).map().unwrap();
        let (reader, writer) = pipe_of(64 * page_size());
        let capacity = pipe::slots(&writer).unwrap();
        if capacity < 64 {
            skip("no pipe of 64 slots is available");
            return Ok(());
        }
        let mut out = Output::new(&writer, Wait::Never);
        let mut used = 0;
        for (start, len) in pieces {
            let piece = pages.slice(start..start + len);
            used += piece.slots();
            out.vmsplice(&[piece], Default::default()).unwrap();
        }
        // Each remaining slot takes one more piece of one byte.
        let byte = pages.slice(..1);
        prop_assert_eq!(byte.slots(), 1);
        for _ in used..capacity {
            out.vmsplice(&[byte], Default::default()).unwrap();
        }
        let full = out.vmsplice(&[byte], Default::default()).unwrap_err();
        prop_assert_eq!(full.kind(), ErrorKind::WouldBlock);
        drop(reader);
    }
}

#[test]
fn concurrent_calls_of_set_capacity_get_their_own_results() {
    let (_reader, writer) = pipe::create().unwrap();
    std::thread::scope(|scope| {
        for pages in [2, 4] {
            let (writer, asked) = (&writer, pages * page_size());
            scope.spawn(move || {
                for _ in 0..50_000 {
                    assert_eq!(pipe::set_capacity(writer, asked).unwrap(), asked);
                }
            });
        }
    });
}

#[test]
fn only_pipes_and_fifos_count_as_pipes() {
    let directory = Directory::new();
    let (reader, writer) = pipe::create().unwrap();
    let fifo = directory.fifo("fifo");
    let file = directory.file("file", b"");
    let (socket, _peer) = UnixStream::pair().unwrap();
    let null = File::open("/dev/null").unwrap();
    for fd in [
        reader.as_fd(),
        writer.as_fd(),
        fifo.0.as_fd(),
        fifo.1.as_fd(),
    ] {
        assert!(pipe::is_pipe(fd).unwrap());
    }
    for fd in [file.as_fd(), socket.as_fd(), null.as_fd()] {
        assert!(!pipe::is_pipe(fd).unwrap());
        pipe::capacity(fd).unwrap_err();
        pipe::slots(fd).unwrap_err();
        pipe::set_capacity(fd, 65_536).unwrap_err();
        pipe::set_capacity_up_to(fd, 65_536).unwrap_err();
    }
}

#[test]
fn pipes_are_closed_on_exec() {
    let (reader, writer) = pipe::create().unwrap();
    for fd in [reader, writer] {
        let flags = rustix::io::fcntl_getfd(fd).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    }
}

#[test]
fn a_capacity_of_zero_or_above_int_max_is_refused() {
    let (_reader, writer) = pipe::create().unwrap();
    let before = pipe::capacity(&writer).unwrap();
    for asked in [0, i32::MAX as usize + 1, usize::MAX] {
        let error = pipe::set_capacity(&writer, asked).unwrap_err();
        assert_eq!(error.asked, asked);
        assert_eq!(error.source.kind(), ErrorKind::InvalidInput);
    }
    // Rounding up the largest int exceeds an int.
    let _ = pipe::set_capacity(&writer, i32::MAX as usize);
    pipe::set_capacity(&writer, before).unwrap();
    assert_eq!(pipe::set_capacity_up_to(&writer, 0).unwrap(), before);
}

#[test]
fn an_error_above_the_limit_names_the_limit() {
    in_own_process(|| {
        let Some(limit) = Limits::read().max_size else {
            return skip("the limit can't be read");
        };
        if !become_ordinary() {
            return;
        }
        let (_reader, writer) = pipe::create().unwrap();
        let before = pipe::capacity(&writer).unwrap();
        let error = pipe::set_capacity(&writer, limit + 1).unwrap_err();
        assert_eq!(error.limit, Some(limit));
        assert_eq!(error.source.kind(), ErrorKind::PermissionDenied);
        let text = error.to_string();
        assert!(text.contains(&limit.to_string()), "{text}");
        assert!(text.contains("pipe-max-size"), "{text}");
        let general: std::io::Error = error.into();
        assert_eq!(general.kind(), ErrorKind::PermissionDenied);
        assert_eq!(pipe::capacity(&writer).unwrap(), before);

        // Halving arrives at the limit from any request.
        for wish in [limit + 1, 3 * limit, 1 << 40, usize::MAX] {
            let (_reader, writer) = pipe::create().unwrap();
            let granted = pipe::set_capacity_up_to(&writer, wish).unwrap();
            assert!(granted <= limit && granted > limit / 4, "{wish}: {granted}");
            assert_eq!(pipe::capacity(&writer).unwrap(), granted);
        }
    });
}

#[test]
fn only_a_smaller_request_shrinks_a_pipe() {
    in_own_process(|| {
        if !become_ordinary() {
            return;
        }
        let largest = largest();
        let (_reader, writer) = pipe::create().unwrap();
        pipe::set_capacity(&writer, largest).unwrap();
        for wish in [largest + 1, largest + largest / 2, 5 * largest, usize::MAX] {
            let granted = pipe::set_capacity_up_to(&writer, wish).unwrap();
            assert_eq!(granted, largest, "{wish}");
        }
        let granted = pipe::set_capacity_up_to(&writer, 2 * page_size()).unwrap();
        assert_eq!(granted, 2 * page_size());
    });
}

#[test]
fn shrinking_below_the_queued_bytes_is_refused_without_loss() {
    let (reader, writer) = pipe_of(65_536);
    let before = pipe::capacity(&writer).unwrap();
    let bytes = common::pattern(5 * page_size());
    File::from(writer.try_clone().unwrap())
        .write_all(&bytes)
        .unwrap();
    let error = pipe::set_capacity(&writer, page_size()).unwrap_err();
    assert_eq!(error.source.kind(), ErrorKind::ResourceBusy);
    assert!(error.to_string().contains("queued"), "{error}");
    // The result shows that the capacity is unchanged.
    let granted = pipe::set_capacity_up_to(&writer, page_size()).unwrap();
    assert_eq!(granted, before);
    let mut got = vec![0; bytes.len()];
    Input::new(reader, Wait::Block).read(&mut got).unwrap();
    common::assert_same(&got, &bytes);
}
