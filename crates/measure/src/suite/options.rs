//! The published side experiments, each beside the case without it.
//!
//! All on the ladder's largest step: vmsplice and splice through a pipe of half
//! a buffer, with base pages and with huge ones, both ends spinning, so that
//! wake-ups don't drown what is looked for. Two need a partner of their own:
//! `same_buffer` sends pieces of half the size too, so it is compared with two
//! buffers of that size; poll(2) is a way to sleep, so it is compared with
//! sleeping in the transfer itself. Unaligned buffers are measured where data
//! is copied as well.

use super::{BUFFER, Definition, LADDER, Lengths, Overrides};
use crate::spec::{Case, PageKind, Waiting};

/// The offset from a page boundary of large blocks from glibc's malloc(3), in
/// bytes.
const MALLOC_OFFSET: usize = 16;

pub(super) const SUITE: Definition = Definition {
    cases,
    // Twice as many cases as the ladder, with more comparisons. They spin, so they are less
    // noisy.
    full: Lengths {
        min_rounds_in_time: ROUNDS,
        ..Lengths::new(0.015, 0.150, 60.0, ROUNDS)
    },
    quick: Lengths {
        min_rounds_in_time: ROUNDS,
        ..Lengths::new(0.006, 0.030, 14.0, ROUNDS)
    },
    ..LADDER
};

/// Minimum number of rounds.
const ROUNDS: usize = 10;

fn cases(overrides: &Overrides) -> Vec<Case> {
    let buffer = overrides.buffer_bytes.unwrap_or(BUFFER);
    let pipe = overrides.pipe_bytes.unwrap_or(buffer / 2);
    let base = |name| Case::new(name, buffer, pipe).vmsplice().splice();
    let copying = |name| Case::new(name, buffer, pipe).spin();

    let mut cases = of_pages("vmsplice_splice_spin", "", "base pages", || base("").spin());
    let mut huge = of_pages("busy_loop_huge", "_huge", "huge pages", || {
        base("").huge().spin()
    });
    huge[0] = huge[0]
        .clone()
        .against("vmsplice_splice_spin", "huge pages");
    cases.append(&mut huge);
    cases.extend([
        base("hugetlb")
            .spin()
            .pages(PageKind::HugeTlb)
            .described("reserved huge pages (hugetlb)")
            .against(
                "busy_loop_huge",
                "reserved instead of transparent huge pages",
            ),
        base("pause_huge")
            .huge()
            .waiting(Waiting::Pause)
            .described("huge pages, a pause instruction between attempts")
            .against("busy_loop_huge", "a pause between attempts"),
        base("backoff_huge")
            .huge()
            .waiting(Waiting::Backoff)
            .described("huge pages, pauses of 125 ns to 4 us between attempts, each twice as long")
            .against("busy_loop_huge", "backoff between attempts"),
        base("vmsplice_splice_huge")
            .huge()
            .described("vmsplice(2) and splice(2), huge pages, the ends sleeping in them")
            .against("busy_loop_huge", "sleeping instead of spinning"),
        base("poll_huge")
            .huge()
            .waiting(Waiting::Poll)
            .described("the same, asking poll(2) before each transfer")
            .against("vmsplice_splice_huge", "poll(2) before each transfer"),
        copying("write_read_spin").described("write(2) and read(2), spinning"),
        copying("unaligned_write_read")
            .unaligned_by(MALLOC_OFFSET)
            .described("the same, both buffers 16 bytes off a page")
            .against("write_read_spin", "unaligned buffers"),
    ]);
    cases
}

/// The cases for one kind of page: one without any option, and one per option.
fn of_pages(plain: &str, suffix: &str, pages: &str, make: impl Fn() -> Case) -> Vec<Case> {
    let case = |name: &str, description: &str| Case {
        name: format!("{name}{suffix}"),
        ..make().described(&format!("{description}, {pages}"))
    };
    let half = format!("half_pieces{suffix}");
    vec![
        Case {
            name: plain.to_owned(),
            ..make().described(&format!("vmsplice(2) and splice(2), spinning, {pages}"))
        },
        case("untouched", "buffers never written before")
            .change_writer(|writer| writer.touched = false)
            .against(plain, "untouched buffers"),
        case("gift", "pages gifted to the kernel")
            .change_writer(|writer| writer.gift = true)
            .against(plain, "gifted pages"),
        case("locked", "buffers locked in memory")
            .change_writer(|writer| writer.locked = true)
            .against(plain, "locked memory"),
        case(
            "unaligned",
            "buffers 16 bytes off a page, a slot more a piece",
        )
        .unaligned_by(MALLOC_OFFSET)
        .against(plain, "unaligned buffers"),
        case("half_pieces", "two buffers of half the size")
            .change_writer(|writer| writer.buffer_bytes /= 2)
            .against(plain, "pieces of half the size"),
        case("same_buffer", "one buffer, sent in halves")
            .change_writer(|writer| writer.same_buffer = true)
            .against(&half, "one buffer in halves instead of two"),
    ]
}
