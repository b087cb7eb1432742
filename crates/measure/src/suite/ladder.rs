//! The published experiment's ladder, with one control more.
//!
//! As published, the write rungs run on a pipe of 64 KiB and the vmsplice
//! rungs on one of half the buffer, 128 KiB: that changes two things at once.
//! `write_read_128k` stands between them, so that every case has one to be
//! compared with that differs in one factor.

use super::{BUFFER, DEFAULT_PIPE, Overrides};
use crate::case::Case;
use crate::record::DataUse;
use pipespeed_base::size;

pub(super) fn cases(overrides: &Overrides) -> Vec<Case> {
    ladder(overrides, true)
}

/// The cases without the control.
pub(super) fn rungs(overrides: &Overrides) -> Vec<Case> {
    ladder(overrides, false)
}

fn ladder(overrides: &Overrides, has_control: bool) -> Vec<Case> {
    let buffer = overrides.buffer_bytes.unwrap_or(BUFFER);
    let small = overrides.pipe_bytes.unwrap_or(DEFAULT_PIPE);
    let large = overrides.pipe_bytes.unwrap_or(buffer / 2);
    let control = format!("write_read_{}", size::short(large));

    let mut cases =
        vec![Case::new("write_read", buffer, small).described("write(2) and read(2): two copies")];
    let (copying, vmsplice) = if large == small {
        ("write_read", "vmsplice")
    } else if has_control {
        cases.push(
            Case::new(&control, buffer, large)
                .described("the same on the pipe size of the vmsplice rungs")
                .against("write_read", "pipe size"),
        );
        (&*control, "vmsplice")
    } else {
        ("write_read", "vmsplice and a larger pipe")
    };
    // A reader that splices examines the data through a second pipe, whose pages
    // must not be written again: see `Case::with_data`.
    let splice = match overrides.data {
        None | Some(DataUse::Discard) => "splice",
        Some(DataUse::Read) => "splice and a second pipe",
        Some(DataUse::Touch | DataUse::Verify) => "splice and a second pipe, fresh pages",
    };
    cases.extend([
        Case::new("write_read_huge", buffer, small)
            .huge()
            .described("the same with both buffers in huge pages")
            .against("write_read", "huge pages"),
        Case::new("vmsplice_read", buffer, large)
            .vmsplice()
            .described("vmsplice(2): the pipe refers to the writer's pages")
            .against(copying, vmsplice),
        Case::new("vmsplice_read_huge", buffer, large)
            .vmsplice()
            .huge()
            .described("the same with huge pages")
            .against("vmsplice_read", "huge pages"),
        Case::new("vmsplice_splice", buffer, large)
            .vmsplice()
            .splice()
            .described("vmsplice(2), and splice(2) to /dev/null: no copy")
            .against("vmsplice_read", splice),
        Case::new("vmsplice_splice_huge", buffer, large)
            .vmsplice()
            .splice()
            .huge()
            .described("the same with huge pages")
            .against("vmsplice_splice", "huge pages"),
        Case::new("busy_loop_huge", buffer, large)
            .vmsplice()
            .splice()
            .huge()
            .spin()
            .described("the same, neither end ever sleeping")
            .against("vmsplice_splice_huge", "spinning instead of sleeping"),
    ]);
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factor_of_splice_names_the_second_pipe_if_data_is_examined() {
        let factor = |data| {
            let cases = cases(&Overrides {
                data,
                ..Overrides::default()
            });
            let mut spliced = cases.into_iter().filter(|it| it.name == "vmsplice_splice");
            spliced.next().unwrap().compared_with.unwrap().1
        };
        assert_eq!(factor(None), "splice");
        assert_eq!(factor(Some(DataUse::Discard)), "splice");
        assert_eq!(factor(Some(DataUse::Read)), "splice and a second pipe");
        let fresh = "splice and a second pipe, fresh pages";
        assert_eq!(factor(Some(DataUse::Verify)), fresh);
    }
}
