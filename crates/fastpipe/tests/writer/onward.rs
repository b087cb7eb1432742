//! Every policy with readers that pass pages onward, and read them only after the
//! writer has sent more than its region.

use std::thread::scope;

use crate::common::onward::{ONWARDS, Onward, hold_and_read_on};
use crate::common::pipe_of;
use crate::common::writers::{
    HOWS, How, KIB, MIB, Setting, drained_settings, safe_settings, said, send, uses_method,
};
use fastpipe::Method;

/// Returns how many of the held pieces were wrong, and whether the policy asked for
/// was in use.
fn wrong_pieces(setting: Setting, how: How, onward: Onward) -> (usize, bool) {
    const LEN: usize = 15 * MIB + 4321;
    const PIECE: usize = 300_000;
    let (read_end, write_end) = pipe_of(64 * KIB);
    scope(|scope| {
        let reading = scope.spawn(move || hold_and_read_on(read_end, onward));
        let mut out = setting.builder.open(write_end).unwrap();
        let sent = match setting.reuse {
            // Drained before each piece: unread pages would be replaced.
            Some(Method::Drained(_)) => (0..LEN).step_by(PIECE).try_for_each(|at| {
                send(&mut out, how, at as u64, PIECE.min(LEN - at))?;
                out.wait_drained()
            }),
            _ => send(&mut out, how, 0, LEN),
        };
        let path = out.report();
        let report = sent.and_then(|()| Ok(out.finish()?));
        let (bytes, wrong) = reading
            .join()
            .unwrap_or_else(|why| panic!("{setting:?}, {how:?}, {onward:?}: {}", said(&why)));
        assert_eq!(bytes, LEN as u64, "{setting:?}, {how:?}, {onward:?}");
        assert_eq!(report.unwrap().counts.bytes, LEN as u64);
        // Written bytes alone may be too few for vmsplice.
        let as_asked = how == How::Write
            || setting.reuse.is_none_or(|wish| {
                uses_method(&path, wish, &format!("{setting:?}, {how:?}, {onward:?}"))
            });
        (wrong, as_asked)
    })
}

#[test]
fn bytes_passed_onward_and_read_late_are_right() {
    for onward in ONWARDS {
        for setting in safe_settings() {
            for how in HOWS {
                let (wrong, _) = wrong_pieces(setting, how, onward);
                assert_eq!(wrong, 0, "{setting:?}, {how:?}, {onward:?}");
            }
        }
    }
}

/// The reason why [`AssertReaderCopies`] exists.
#[test]
fn drained_pages_change_under_readers_that_do_not_copy() {
    for setting in drained_settings() {
        for onward in ONWARDS {
            let (wrong, as_asked) = wrong_pieces(setting, How::Lend, onward);
            if as_asked {
                assert!(wrong > 0, "{setting:?}, {onward:?}: nothing went wrong");
            }
        }
    }
}
