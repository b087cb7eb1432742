//! Buffers under limits of the process, and leaks of transfers and buffers.

use crate::common;
use crate::common::process::{become_ordinary, in_own_process, mappings_and_descriptors};
use crate::common::skip::skip;
use crate::common::vmsplice;
use crate::common::{assert_same, buffer_with, pattern, pipe_of};
use fastpipe::buffer::{Buffer, BufferError, Pages};
use fastpipe::transfer::{Input, Output};
use fastpipe::wait::Wait;
use rustix::mm::MlockAllFlags;
use rustix::process::{Resource, Rlimit, setrlimit};

#[test]
fn a_lock_beyond_the_limit_names_the_limit() {
    in_own_process(|| {
        if !become_ordinary() {
            return;
        }
        let limit = Some(64 * 1024);
        let low = Rlimit {
            current: limit,
            maximum: limit,
        };
        setrlimit(Resource::Memlock, low).unwrap();
        let asked = 128 * 1024;
        let builder = Buffer::builder().locked(true);
        let error = builder.len(asked).map().unwrap_err();
        assert!(
            matches!(
                error,
                BufferError::Lock {
                    limit: Some(65_536),
                    ..
                }
            ),
            "{error:?}"
        );
        let text = error.to_string();
        for word in ["65536", "RLIMIT_MEMLOCK"] {
            assert!(text.contains(word), "{text}");
        }
        // Failed buffers release their memory.
        for _ in 0..10 {
            builder.len(48 * 1024).map().unwrap();
        }

        // Renewing needs old and new pages at the same time. If the limit forbids that,
        // the old pages stay.
        let mut buffer = builder.len(48 * 1024).map().unwrap();
        buffer.fill(5);
        buffer.renew().unwrap_err();
        assert_same(&buffer, &[5; 48 * 1024]);
    });
}

#[test]
fn renewing_works_under_mlockall_of_future_memory() {
    in_own_process(|| {
        if let Err(error) = rustix::mm::mlockall(MlockAllFlags::FUTURE) {
            return skip(format_args!("mlockall: {error}"));
        }
        if !vmsplice::is_allowed() {
            return;
        }
        for pages in [Pages::Base, Pages::Huge] {
            let bytes = pattern(60_000);
            let mut buffer = match Buffer::builder().len(60_000).pages(pages).map() {
                Ok(buffer) => buffer,
                Err(error) => return skip(error),
            };
            buffer.copy_from_slice(&bytes);
            let (reader, writer) = pipe_of(65_536);
            let mut out = Output::new(&writer, Wait::Block);
            out.vmsplice(&[buffer.slice(..)], Default::default())
                .unwrap();
            // Old and new pages are locked at the same time.
            if let Err(error) = buffer.renew() {
                assert_same(&buffer, &bytes);
                return skip(format_args!("{pages:?}: {error}"));
            }
            assert_same(&buffer, &vec![0; 60_000]);
            buffer.fill(0xee);
            let mut got = vec![0; 60_000];
            Input::new(&reader, Wait::Block).read(&mut got).unwrap();
            assert_same(&got, &bytes);
        }
    });
}

#[test]
fn ten_thousand_buffers_leave_no_mapping_behind() {
    in_own_process(|| {
        let round = |n: usize| {
            let pages = [Pages::Base, Pages::Huge, Pages::HugeTlb][n % 3];
            let builder = Buffer::builder().len(1 + n % 9000).pages(pages);
            // Some are refused, which must leave nothing behind either.
            if let Ok(mut buffer) = builder.touched(n % 8 < 1).locked(n % 5 < 1).map() {
                // May be refused if there is not enough memory for old and new pages.
                let _ = buffer.renew();
            }
        };
        (0..100).for_each(round);
        let before = mappings_and_descriptors().0;
        (0..10_000).for_each(round);
        // The heap may have added one or two mappings.
        let after = mappings_and_descriptors().0;
        assert!(after <= before + 4, "{before} mappings, then {after}");
    });
}

#[test]
fn transfers_leave_no_descriptor_behind() {
    in_own_process(|| {
        if !vmsplice::is_allowed() {
            return;
        }
        let directory = common::Directory::new();
        let pages = buffer_with(b"abcdef", 0);
        let round = |n: usize, wait: Wait| {
            // Both ends open a FIFO a second time.
            let (fifo_reader, fifo_writer) = directory.fifo(&n.to_string());
            Output::new(&fifo_writer, wait).write(b"abc").unwrap();
            Input::new(&fifo_reader, wait).read(&mut [0; 3]).unwrap();
            let (reader, writer) = pipe_of(65_536);
            let (_out_reader, out_writer) = pipe_of(65_536);
            let mut out = Output::new(writer, wait);
            out.write(b"abc").unwrap();
            out.vmsplice(&[pages.slice(..)], Default::default())
                .unwrap();
            let mut input = Input::new(reader, wait);
            input
                .tee_and_splice(&out_writer, &fifo_writer, 3, Default::default())
                .unwrap();
            input.discard(3).unwrap();
            drop(out.into_inner());
        };
        round(0, Wait::Block);
        let before = mappings_and_descriptors().1;
        for n in 1..200 {
            round(n, common::ALL_WAITS[n % 5]);
        }
        assert_eq!(mappings_and_descriptors().1, before);
    });
}
