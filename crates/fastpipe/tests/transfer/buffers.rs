//! Buffers, and their pages in a pipe.

use crate::common::skip::skip;
use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::sync::atomic::Ordering;

use crate::common::vmsplice;
use crate::common::{assert_same, buffer_with, pattern, pipe_of};
use fastpipe::buffer::{
    Backing, Buffer, BufferBuilder, BufferError, Pages, ShownBy, huge_page_size,
};
use fastpipe::pipe::{page_size, slots};
use fastpipe::transfer::{Input, Output};
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

/// Returns the backing by smaps and, for root, checks that pagemap agrees.
fn backing(buffer: &Buffer) -> Backing {
    let smaps = buffer.backing_from_smaps().unwrap();
    assert_eq!(smaps.shown_by, ShownBy::Smaps);
    let best = buffer.backing().unwrap();
    if best.shown_by == ShownBy::Pagemap {
        let shown_by = ShownBy::Smaps;
        assert_eq!(Backing { shown_by, ..best }, smaps);
    } else {
        skip("this process may not read page frame numbers");
    }
    assert_ne!(smaps.shown_by.name(), ShownBy::Pagemap.name());
    smaps
}

#[test]
fn words_are_the_bytes_without_an_incomplete_one() {
    let mut buffer = Buffer::builder().len(8 * 5 + 3).map().unwrap();
    let words = buffer.words();
    assert_eq!(words.len(), 5);
    words[4].store(u64::MAX, Ordering::Relaxed);
    let mut expected = [0; 43];
    expected[32..40].fill(0xff);
    assert_same(&buffer, &expected);
    assert_eq!(Buffer::builder().len(7).map().unwrap().words().len(), 0);
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
            let mapped = backing(&buffer).mapped as usize;
            assert_eq!(mapped, len.next_multiple_of(unit));
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
    assert_eq!(backing(&untouched).resident, 0);
    let touched = Buffer::builder().len(len).map().unwrap();
    let backing = backing(&touched);
    assert_eq!((backing.mapped, backing.resident), (len as u64, len as u64));
    assert_eq!(backing.huge, 0);
    assert!(!backing.all_huge());
}

#[test]
fn base_pages_stay_base_pages_where_huge_ones_would_fit() {
    let len = 4 * huge_page_size();
    let buffer = Buffer::builder().len(len).map().unwrap();
    assert_eq!(backing(&buffer).huge, 0);
}

#[test]
fn smaps_and_pagemap_both_show_huge_pages() {
    let len = 2 * huge_page_size();
    let buffer = Buffer::builder().len(len).pages(Pages::Huge).map().unwrap();
    let backing = backing(&buffer);
    assert_eq!(backing.resident, len as u64);
    if backing.huge == 0 {
        return skip("this system grants no huge pages");
    }
    assert_eq!(backing.all_huge(), backing.huge == len as u64);
}

/// Returns the size of the pages, if this process may know it.
fn page_bytes(buffer: &Buffer) -> Option<usize> {
    match buffer.page_bytes() {
        Ok(bytes) => Some(bytes.expect("pages of one size")),
        Err(error) => {
            skip(error);
            None
        }
    }
}

#[test]
fn split_huge_pages_stay_whole_in_memory_but_not_in_the_page_table() {
    let len = 2 * huge_page_size();
    let builder = Buffer::builder().len(len).pages(Pages::Huge);
    let whole = builder.map().unwrap();
    if whole.backing_from_smaps().unwrap().huge == 0 {
        return skip("this system grants no huge pages");
    }
    let mut split = builder.split(true).map().unwrap();
    split.fill(b'X');
    assert_eq!(split.backing_from_smaps().unwrap().huge, 0);
    assert_eq!(split.backing_from_smaps().unwrap().resident, len as u64);
    for (buffer, expected) in [
        (&whole, huge_page_size()),
        (&split, huge_page_size()),
        (&Buffer::builder().len(len).map().unwrap(), page_size()),
    ] {
        let Some(bytes) = page_bytes(buffer) else {
            return;
        };
        assert_eq!(bytes, expected);
    }
}

/// Whether transparent huge pages of this size are granted to those who ask.
fn is_enabled(bytes: usize) -> bool {
    const DIRECTORY: &str = "/sys/kernel/mm/transparent_hugepage";
    let read = |file: String| std::fs::read_to_string(file).unwrap_or_default();
    let own = read(format!("{DIRECTORY}/hugepages-{}kB/enabled", bytes / 1024));
    // Before Linux 6.8 there is no setting for each size, nor pages of other sizes.
    let is_common = own.is_empty() && bytes == huge_page_size();
    let setting = if own.contains("[inherit]") || is_common {
        read(format!("{DIRECTORY}/enabled"))
    } else {
        own
    };
    setting.contains("[always]") || setting.contains("[madvise]")
}

#[test]
fn huge_pages_have_the_requested_size_where_it_is_enabled() {
    // The usual size is granted in the same way as the smaller ones.
    for bytes in (14..=20).map(|bits| 1 << bits).chain([huge_page_size()]) {
        let builder = Buffer::builder().len(2 * bytes + 1).pages(Pages::Huge);
        let buffer = builder.page_bytes(bytes).map().unwrap();
        assert_eq!(buffer.as_ptr().addr() % bytes, 0);
        let backing = buffer.backing_from_smaps().unwrap();
        assert_eq!(backing.resident, 3 * bytes as u64);
        if !is_enabled(bytes) {
            skip(format_args!("pages of {bytes} bytes are not enabled"));
            assert_eq!(backing.huge, 0);
        } else if bytes == huge_page_size() {
            assert!(backing.all_huge(), "{backing:?}");
        }
        match page_bytes(&buffer) {
            Some(found) => assert_eq!(found == bytes, is_enabled(bytes), "{bytes}"),
            None => return,
        }
    }
}

/// A builder of huge pages that were asked for by size; `None` if there are none.
fn of_one_size() -> Option<BufferBuilder> {
    let bytes = huge_page_size();
    let builder = Buffer::builder().len(2 * bytes).pages(Pages::Huge);
    let builder = builder.page_bytes(bytes);
    if builder.map().unwrap().backing_from_smaps().unwrap().huge == 0 {
        skip("this system grants no huge pages");
        return None;
    }
    Some(builder)
}

#[test]
fn locked_pages_have_the_requested_size() {
    let Some(builder) = of_one_size() else {
        return;
    };
    match builder.locked(true).map() {
        Ok(buffer) => {
            assert!(smaps_entry(&buffer).contains(" lo"));
            assert!(buffer.backing_from_smaps().unwrap().all_huge());
        }
        Err(error) => skip(error),
    }
}

#[test]
fn renewed_pages_have_the_requested_size() {
    let Some(builder) = of_one_size() else {
        return;
    };
    let buffer = renewed(builder.map().unwrap());
    assert!(buffer.backing_from_smaps().unwrap().all_huge());
}

#[test]
fn renewed_split_pages_are_split_huge_pages_again() {
    let Some(_) = of_one_size() else {
        return;
    };
    let len = 2 * huge_page_size();
    let builder = Buffer::builder().len(len).pages(Pages::Huge).split(true);
    let buffer = renewed(builder.map().unwrap());
    assert_eq!(buffer.backing_from_smaps().unwrap().huge, 0);
    if let Some(bytes) = page_bytes(&buffer) {
        assert_eq!(bytes, huge_page_size());
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
        let end = start + backing(&buffer).mapped as usize;
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
    let mut got = Vec::new();
    File::from(reader).read_to_end(&mut got).unwrap();
    assert_same(&got, &bytes);
}

#[test]
fn a_dropped_buffer_leaves_its_bytes_in_the_pipe() {
    for pages in [Pages::Base, Pages::Huge] {
        let buffer = Buffer::builder().len(60_000).pages(pages).map().unwrap();
        stays_in_the_pipe(buffer, |buffer| {
            drop(buffer);
            None
        });
    }
}

/// Renews the buffer, and checks that it reads as zero.
fn renewed(mut buffer: Buffer) -> Buffer {
    buffer.renew().unwrap();
    assert_same(&buffer, &vec![0; buffer.len()]);
    buffer
}

#[test]
fn a_renewed_buffer_reads_as_zero_and_the_pipe_keeps_the_old_bytes() {
    for pages in [Pages::Base, Pages::Huge] {
        let buffer = Buffer::builder().len(60_000).pages(pages).map().unwrap();
        stays_in_the_pipe(buffer, |buffer| Some(renewed(buffer)));
    }
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
            let backing = backing(&buffer);
            assert!(backing.all_huge(), "{backing:?}");
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

#[test]
fn a_buffer_may_be_sent_to_and_shared_with_other_threads() {
    if !vmsplice::is_allowed() {
        return;
    }
    let mut buffer = Buffer::builder().len(10).map().unwrap();
    let (reader, writer) = pipe_of(65_536);
    std::thread::spawn(move || {
        buffer.copy_from_slice(b"0123456789");
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| {
                let mut out = Output::new(writer, Wait::Block);
                out.vmsplice(&[buffer.slice(..)], Default::default())
            });
            sending.join().unwrap().unwrap();
        });
    })
    .join()
    .unwrap();
    let mut got = [0; 10];
    Input::new(reader, Wait::Block).read(&mut got).unwrap();
    assert_eq!(&got, b"0123456789");
}
