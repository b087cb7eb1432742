//! Buffers, and their pages in a pipe.

use crate::common::skip::skip;
use std::error::Error;

use crate::common::{assert_same, buffer_with, pattern, pipe_of, read_rest};
use crate::common::{smaps, vmsplice};
use fastpipe::buffer::{Buffer, BufferError, Pages, huge_page_size};
use fastpipe::pipe::{page_size, slots};
use fastpipe::transfer::Output;
use fastpipe::wait::Wait;

/// Returns the entry of smaps that starts at this buffer.
fn smaps_entry(buffer: &Buffer) -> String {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let head = format!("{:x}-", buffer.as_ptr().addr());
    let mut lines = smaps.lines().skip_while(|line| !line.starts_with(&head));
    let mut entry = lines.next().expect("the buffer is in smaps").to_owned();
    for line in lines {
        entry.push('\n');
        entry.push_str(line);
        if line.starts_with("VmFlags") {
            break;
        }
    }
    entry
}

#[test]
fn a_buffer_is_aligned_zeroed_and_of_the_requested_length() {
    let page = page_size();
    for len in [1, page - 1, page, page + 1, 100_000] {
        for (pages, unit) in [(Pages::Base, page), (Pages::Huge, huge_page_size())] {
            let mut buffer = Buffer::builder().len(len).pages(pages).map().unwrap();
            assert_eq!((buffer.len(), buffer.pages()), (len, pages));
            assert_eq!(buffer.as_ptr().addr() % unit, 0);
            assert!(buffer.alignment() >= unit);
            assert_eq!(buffer.as_ptr().addr() % buffer.alignment(), 0);
            assert_same(&buffer, &vec![0; len]);
            buffer.fill(1);
            assert_eq!(buffer.mapped_len(), len.next_multiple_of(unit));
        }
    }
}

#[test]
fn slices_contain_the_requested_bytes() {
    let bytes = pattern(10_000);
    let buffer = buffer_with(&bytes, 0);
    let parts = [
        (buffer.slice(..), 0..10_000),
        (buffer.slice(3..), 3..10_000),
        (buffer.slice(..7), 0..7),
        (buffer.slice(..=7), 0..8),
        (buffer.slice(4095..4097), 4095..4097),
        (buffer.slice(10_000..), 10_000..10_000),
    ];
    for (part, range) in parts {
        assert_same(part.as_bytes(), &bytes[range]);
    }
}

#[test]
fn slices_beyond_the_buffer_panic() {
    type Cut = fn(&Buffer) -> usize;
    // Beyond the length, but within the page.
    let cuts: [Cut; 4] = [
        |b| b.slice(..101).slots(),
        |b| b.slice(101..).slots(),
        |b| b.slice(..=100).slots(),
        |b| b.slice(..=usize::MAX).slots(),
    ];
    for cut in cuts {
        let buffer = buffer_with(&[1; 100], 0);
        let cut = std::panic::AssertUnwindSafe(|| cut(&buffer));
        std::panic::catch_unwind(cut).unwrap_err();
    }
}

#[test]
fn only_touched_pages_are_resident() {
    let len = 64 * page_size();
    let untouched = Buffer::builder().len(len).touched(false).map().unwrap();
    assert_eq!(smaps::resident(&untouched), 0);
    let touched = Buffer::builder().len(len).map().unwrap();
    assert_eq!(
        (touched.mapped_len(), smaps::resident(&touched)),
        (len, len)
    );
    assert_eq!(smaps::huge(&touched), 0);
    // Base pages stay base pages where huge ones would fit.
    let large = Buffer::builder().len(4 * huge_page_size()).map().unwrap();
    assert_eq!(smaps::huge(&large), 0);
}

const fn is_send_and_sync<T: Send + Sync>() {}
const _: () = is_send_and_sync::<Buffer>();

/// Whole if they were asked for by size, one by one if they were split, also once renewed.
#[test]
fn huge_pages_are_mapped_as_requested() {
    let bytes = huge_page_size();
    let builder = Buffer::builder().len(2 * bytes).pages(Pages::Huge);
    let whole = builder.page_bytes(bytes);
    if smaps::huge(&whole.map().unwrap()) == 0 {
        return skip("this system grants no huge pages");
    }
    for (builder, huge) in [
        (whole, 2 * bytes),
        (whole.locked(true), 2 * bytes),
        (builder.split(true), 0),
    ] {
        let mut buffer = match builder.map() {
            Ok(buffer) => buffer,
            Err(error) => {
                skip(error);
                continue;
            }
        };
        buffer.fill(b'X');
        let found = (smaps::huge(&buffer), smaps::resident(&buffer));
        assert_eq!(found, (huge, 2 * bytes), "{builder:?}");
        assert_eq!(smaps::huge(&renewed(buffer)), huge, "{builder:?}");
    }
}

#[test]
fn pages_of_a_size_turned_off_are_aligned_and_populated() {
    for bytes in (14..=20).map(|bits| 1 << bits).chain([huge_page_size()]) {
        let builder = Buffer::builder().len(2 * bytes + 1).pages(Pages::Huge);
        let buffer = builder.page_bytes(bytes).map().unwrap();
        assert_eq!(buffer.as_ptr().addr() % bytes, 0);
        assert_eq!(smaps::resident(&buffer), 3 * bytes);
    }
}

#[test]
fn pages_of_impossible_sizes_are_errors() {
    for bytes in [0, 1, page_size() / 2, 3 * page_size()] {
        let builder = Buffer::builder().len(1).pages(Pages::Huge);
        let error = builder.page_bytes(bytes).map().unwrap_err();
        assert!(matches!(error, BufferError::PageSize { asked } if asked == bytes));
    }
}

#[test]
fn a_wiped_on_fork_buffer_is_zero_in_forked_children() {
    for pages in [Pages::Base, Pages::Huge] {
        for wiped in [false, true] {
            let builder = Buffer::builder().len(10_000).pages(pages);
            let mut buffer = builder.wiped_on_fork(wiped).map().unwrap();
            for _ in 0..2 {
                let entry = smaps_entry(&buffer);
                let flags = entry.lines().last().unwrap();
                assert!(flags.starts_with("VmFlags:"), "{entry}");
                assert_eq!(flags.split(' ').any(|flag| flag == "wf"), wiped, "{flags}");
                buffer.renew().unwrap();
            }
        }
    }
}

#[test]
fn a_buffer_has_guard_pages() {
    for pages in [Pages::Base, Pages::Huge] {
        let buffer = Buffer::builder().len(5000).pages(pages).map().unwrap();
        let start = buffer.as_ptr().addr();
        let end = start + buffer.mapped_len();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let before = maps.lines().find(|l| l.contains(&format!("-{start:x} ")));
        let after = maps.lines().find(|l| l.starts_with(&format!("{end:x}-")));
        for guard in [before, after] {
            assert!(guard.is_some_and(|l| l.contains(" ---p ")), "{guard:?}");
        }
    }
}

/// Sends a buffer by reference, drops or renews it with `part_with`, reuses the memory, and
/// checks that the bytes in the pipe are unchanged.
fn stays_in_the_pipe(mut buffer: Buffer, part_with: impl FnOnce(Buffer) -> Option<Buffer>) {
    let bytes = pattern(buffer.len());
    buffer.copy_from_slice(&bytes);
    let (reader, writer) = pipe_of(1 << 20);
    if slots(&writer).unwrap() < buffer.slice(..).slots() {
        return skip(format_args!(
            "no pipe for {} bytes is available",
            bytes.len()
        ));
    }
    if !vmsplice::is_allowed() {
        return;
    }
    let mut out = Output::new(writer, Wait::Never);
    out.vmsplice(&[buffer.slice(..)], Default::default())
        .unwrap();
    let mut kept = part_with(buffer);
    // These reuse the released memory, if anything does.
    let mut others: Vec<_> = (0..4)
        .map(|_| Buffer::builder().len(bytes.len()).map().unwrap())
        .collect();
    for other in others.iter_mut().chain(&mut kept) {
        other.fill(0xee);
    }
    drop(out);
    let got = read_rest(reader);
    assert_same(&got, &bytes);
}

#[test]
fn dropped_or_renewed_buffer_leaves_its_bytes_in_the_pipe() {
    for pages in [Pages::Base, Pages::Huge] {
        let buffer = || Buffer::builder().len(60_000).pages(pages).map().unwrap();
        stays_in_the_pipe(buffer(), |buffer| {
            drop(buffer);
            None
        });
        stays_in_the_pipe(buffer(), |buffer| Some(renewed(buffer)));
    }
}

/// Renews the buffer, and checks that it reads as zero.
fn renewed(mut buffer: Buffer) -> Buffer {
    buffer.renew().unwrap();
    assert_same(&buffer, &vec![0; buffer.len()]);
    buffer
}

#[test]
fn a_renewed_locked_buffer_stays_locked() {
    let builder = Buffer::builder().len(60_000).locked(true);
    let buffer = match builder.map() {
        Ok(buffer) => buffer,
        Err(error) => return skip(error),
    };
    assert!(smaps_entry(&buffer).contains(" lo"));
    stays_in_the_pipe(buffer, |buffer| {
        let buffer = renewed(buffer);
        assert!(smaps_entry(&buffer).contains(" lo"));
        Some(buffer)
    });
}

#[test]
fn impossible_lengths_are_errors() {
    for pages in [Pages::Base, Pages::Huge, Pages::HugeTlb] {
        let builder = Buffer::builder().pages(pages).touched(false);
        assert!(matches!(builder.map().unwrap_err(), BufferError::Empty));
        let error = builder.len(usize::MAX).map().unwrap_err();
        assert!(matches!(error, BufferError::TooLarge { asked: usize::MAX }));
        // Lengths that look like an error number, or exceed the maximum of a slice.
        for asked in [
            1 << 48,
            1 << 62,
            usize::MAX / 2 + 1,
            usize::MAX - (64 << 20),
        ] {
            let error = builder.len(asked).map().unwrap_err();
            assert!(error.to_string().contains(&asked.to_string()), "{error}");
            let general = std::io::Error::from(error);
            assert!(general.get_ref().is_some_and(|e| e.is::<BufferError>()));
        }
    }
}

#[test]
fn reserved_huge_pages_work_or_are_refused_with_a_reason() {
    let len = 60_000;
    match Buffer::builder().len(len).pages(Pages::HugeTlb).map() {
        Ok(buffer) => {
            assert_eq!(smaps::huge(&buffer), buffer.mapped_len());
            assert_eq!(buffer.len(), len);
            stays_in_the_pipe(buffer, |buffer| {
                drop(buffer);
                None
            });
        }
        Err(error) => {
            assert!(matches!(error, BufferError::NoHugeTlb { asked, .. } if asked == len));
            let text = error.to_string();
            assert!(text.contains("nr_hugepages"), "{text}");
            assert!(error.source().is_some());
            skip(text);
        }
    }
}
