//! A user at the limit pipe-user-pages-soft: new pipes get two slots or fewer. This is a
//! separate test program, since the limit affects all processes of the user.

mod common;

use std::os::fd::OwnedFd;

use common::process::{become_ordinary, in_own_process};
use common::skip::skip;
use fastpipe::pipe::{self, Limits};

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
fn enlarging_beyond_the_soft_limit_is_refused_with_its_name() {
    in_own_process(|| {
        if !become_ordinary() {
            return;
        }
        let Some((_pipes, (_reader, writer))) = use_up_the_soft_limit() else {
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
    });
}
