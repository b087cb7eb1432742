//! The published experiment's ladder, with two controls.
//!
//! As published, the write rungs run on a pipe of 64 KiB and the vmsplice
//! rungs on one of half the buffer, 128 KiB: that changes two things at once.
//! `write_read_128k` stands between them, so that every case has one to be
//! compared with that differs in one factor.
//!
//! `write_splice` completes the four pairs of write or vmsplice with read or
//! splice. It shows what a reader that splices saves while the writer copies,
//! as in `program | pv > /dev/null`.

use super::{BUFFER, DEFAULT_PIPE, Overrides};
use crate::spec::{Case, DataUse};
use pipespeed_base::size;

pub(super) fn cases(overrides: &Overrides) -> Vec<Case> {
    ladder(overrides, true)
}

/// The cases without the controls.
pub(super) fn rungs(overrides: &Overrides) -> Vec<Case> {
    ladder(overrides, false)
}

fn ladder(overrides: &Overrides, has_controls: bool) -> Vec<Case> {
    let buffer = overrides.buffer_bytes.unwrap_or(BUFFER);
    let small = overrides.pipe_bytes.unwrap_or(DEFAULT_PIPE);
    let large = overrides.pipe_bytes.unwrap_or(buffer / 2);
    let large_pipe = format!("write_read_{}", size::short(large));

    let mut cases =
        vec![Case::new("write_read", buffer, small).described("write(2) and read(2): two copies")];
    let (copying, vmsplice) = if large == small {
        ("write_read", "vmsplice")
    } else if has_controls {
        cases.push(
            Case::new(&large_pipe, buffer, large)
                .described("the same on the pipe size of the vmsplice rungs")
                .against("write_read", "pipe size"),
        );
        (&*large_pipe, "vmsplice")
    } else {
        ("write_read", "vmsplice and a larger pipe")
    };
    // A reader that splices examines the data through a second pipe. The pages in it
    // must not be written again, which concerns vmsplice only: see `Case::with_data`.
    let (splice, splice_of_copies) = match overrides.data {
        None | Some(DataUse::Discard) => ("splice", "splice"),
        Some(DataUse::Read) => ("splice and a second pipe", "splice and a second pipe"),
        Some(DataUse::Touch | DataUse::Verify) => (
            "splice and a second pipe, fresh pages",
            "splice and a second pipe",
        ),
    };
    cases.push(
        Case::new("write_read_huge", buffer, small)
            .huge()
            .described("the same with both buffers in huge pages")
            .against("write_read", "huge pages"),
    );
    cases.extend(has_controls.then(|| {
        Case::new("write_splice", buffer, small)
            .splice()
            .described("write(2), and splice(2) to /dev/null: one copy, as into pv")
            .against("write_read", splice_of_copies)
    }));
    cases.extend([
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
    use crate::fixtures::overrides;

    #[test]
    fn factor_of_splice_names_second_pipe_if_data_is_examined() {
        let factors = |data| {
            let cases = cases(&overrides(|asked| asked.data = data));
            ["write_splice", "vmsplice_splice"].map(|name| {
                let spliced = cases.iter().find(|case| case.name == name).unwrap();
                spliced.compared_with.clone().unwrap().1
            })
        };
        assert_eq!(factors(None), ["splice"; 2]);
        assert_eq!(factors(Some(DataUse::Discard)), ["splice"; 2]);
        let second = "splice and a second pipe";
        assert_eq!(factors(Some(DataUse::Read)), [second; 2]);
        let fresh = "splice and a second pipe, fresh pages";
        assert_eq!(factors(Some(DataUse::Verify)), [second, fresh]);
    }

    #[test]
    fn write_and_vmsplice_are_each_paired_with_read_and_splice() {
        let cases = cases(&Overrides::default());
        let ends = |name: &str| {
            let case = cases.iter().find(|case| case.name == name).unwrap();
            case.subject.channel().unwrap().pipe_ends().unwrap()
        };
        let [wr, ws, vr, vs] = [
            "write_read",
            "write_splice",
            "vmsplice_read",
            "vmsplice_splice",
        ]
        .map(ends);
        assert_eq!((wr.0, vr.0), (ws.0, vs.0));
        assert_eq!((wr.1, ws.1), (vr.1, vs.1));
        assert!(wr.0 != vr.0 && wr.1 != ws.1);
        let sizes = |name: &str| {
            let case = cases.iter().find(|case| case.name == name).unwrap();
            (case.subject.buffer_bytes(), case.subject.pipe_bytes())
        };
        assert_eq!(sizes("write_splice"), sizes("write_read"));
        // The controls are no rungs of the published ladder.
        let rungs = rungs(&Overrides::default());
        assert!(rungs.iter().all(|rung| rung.name != "write_splice"));
    }
}
