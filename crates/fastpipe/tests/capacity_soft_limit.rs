//! A user at the limit pipe-user-pages-soft: new pipes get two slots or fewer. This is a
//! separate test program, since the limit affects all processes of the user.

mod common;

use std::os::fd::OwnedFd;

use common::process::{become_ordinary, in_own_process};
use common::skip::skip;
use common::vmsplice;
use common::{WAITS, assert_same, buffer_with, pattern, read_all, write_all};
use fastpipe::pipe::{self, Limits, page_size};
use fastpipe::transfer::{Input, Output};

/// The read end and the write end of a pipe.
type Ends = (OwnedFd, OwnedFd);

/// Creates pipes of the largest permitted size until a new one is small. Returns the
/// large pipes, and the small one.
fn use_up_the_soft_limit() -> Option<(Vec<Ends>, Ends)> {
    let limits = Limits::read();
    let large = limits.max_size?;
    let mut pipes = Vec::new();
    for _ in 0..100 {
        let ends = match pipe::create() {
            Ok(ends) => ends,
            Err(error) => {
                skip(format_args!("no more pipes before the soft limit: {error}"));
                return None;
            }
        };
        if pipe::slots(&ends.0).unwrap() <= 2 {
            return Some((pipes, ends));
        }
        pipe::set_capacity_up_to(&ends.0, large).unwrap();
        pipes.push(ends);
    }
    skip(format_args!(
        "a hundred pipes do not reach the soft limit: {limits:?}"
    ));
    None
}

#[test]
fn every_byte_passes_through_few_slots_beyond_the_soft_limit() {
    in_own_process(|| {
        if !become_ordinary() {
            return;
        }
        let Some((_pipes, (reader, writer))) = use_up_the_soft_limit() else {
            return;
        };

        // Enlarging is refused, and the error names the limit.
        let before = pipe::capacity(&writer).unwrap();
        let error = pipe::set_capacity(&writer, 65_536).unwrap_err();
        assert!(
            error.to_string().contains("pipe-user-pages-soft"),
            "{error}"
        );
        let granted = pipe::set_capacity_up_to(&writer, 1 << 20).unwrap();
        assert_eq!(granted, before);

        let bytes = pattern(20 * page_size() + 5);
        let pages = buffer_with(&bytes, 0);
        for wait in WAITS {
            for slots in [before / page_size(), 1] {
                let small = || {
                    let ends = pipe::create().unwrap();
                    pipe::set_capacity(&ends.0, slots * page_size()).unwrap();
                    ends
                };
                let (reader, writer) = small();
                let reading = read_all(reader, vec![3000, 20_000]);
                Output::new(writer, wait).write(&bytes).unwrap();
                assert_same(&reading.join().unwrap(), &bytes);

                if vmsplice::is_allowed() {
                    let (reader, writer) = small();
                    let reading = read_all(reader, vec![3000, 20_000]);
                    let pieces = [pages.slice(..5001), pages.slice(5001..)];
                    Output::new(writer, wait)
                        .vmsplice(&pieces, Default::default())
                        .unwrap();
                    assert_same(&reading.join().unwrap(), &bytes);
                }

                let (reader, writer) = small();
                let (out_reader, out_writer) = small();
                let writing = write_all(writer, bytes.clone(), vec![]);
                let reading = read_all(out_reader, vec![3000, 20_000]);
                Input::new(reader, wait)
                    .splice(out_writer, u64::MAX, Default::default())
                    .unwrap();
                assert_same(&reading.join().unwrap(), &bytes);
                writing.join().unwrap();
            }
        }
        drop((reader, writer));
    });
}
