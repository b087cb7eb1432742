use super::super::record::Hidden;
use super::*;
use pipespeed_testing::says;

const PLAIN: PageFlags = PageFlags(1 << 3 | 1 << 12);

fn page(number: u64, frame: Option<u64>, huge: bool) -> Page {
    Page {
        address: 0x7f00_0020_0000 + number * 4096,
        state: PageState::Present,
        frame,
        follows: None,
        huge: Huge {
            backed: Some(huge),
            shown_by: Some(if frame.is_some() {
                HugePageSource::Kpageflags
            } else {
                HugePageSource::Smaps
            }),
            ..Huge::default()
        },
        flags: frame.map(|_| PLAIN),
    }
}

fn memory(mut pages: Vec<Page>, runs: Option<usize>) -> MemoryRange {
    for i in 1..pages.len() {
        let (before, own) = (pages[i - 1].frame, pages[i].frame);
        pages[i].follows = before.zip(own).map(|(before, own)| own == before + 1);
    }
    MemoryRange {
        pid: None,
        mappings: vec![MemoryMapping {
            start: 0x7f00_0020_0000,
            end: 0x7f00_0020_3000,
            permissions: "rw-p".to_owned(),
            name: String::new(),
            resident_bytes: Some(12_288),
            huge_bytes: Some(0),
            kernel_page_bytes: Some(4096),
        }],
        page_bytes: 4096,
        pages,
        runs,
        hidden: vec![],
    }
}

#[test]
fn contiguous_and_separate_pages_are_shown() {
    let frames = [0x1234, 0x1235, 0x99];
    let pages = (0..).zip(frames).map(|(i, f)| page(i, Some(f), false));
    insta::assert_snapshot!(table(&memory(pages.collect(), Some(2))), @r"
    page virtual address     state    frame       follows  huge page  flags
       0 0x00007f0000200000  present  0x1234      -        no         1
       1 0x00007f0000201000  present  0x1235      yes      no         1
       2 0x00007f0000202000  present  0x99        no       no         1
    flags 1: uptodate anon

    3 pages, in memory: not contiguous in physical memory, but in 2 pieces, though
      their addresses follow one another.
    Huge pages are known from /proc/kpageflags, frame by frame.
    Mapping 0x7f0000200000-0x7f0000203000 rw-p anonymous: 12KiB, 12KiB in memory,
      none of it mapped as huge pages (smaps)
    ");
}

#[test]
fn without_privileges_the_table_shows_less() {
    let mut memory = memory((0..2).map(|i| page(i, None, false)).collect(), None);
    memory.hidden = vec![Hidden::Frames];
    memory.pages[1].state = PageState::Absent;
    memory.pages[1].huge = Huge::default();
    insta::assert_snapshot!(table(&memory), @r"
    page virtual address     state    frame       follows  huge page  flags
       0 0x00007f0000200000  present  -           -        no         -
       1 0x00007f0000201000  absent   -           -        -          -

    2 pages, 1 of them in memory.
    Huge pages are known from smaps, for the mapping as a whole.
    Mapping 0x7f0000200000-0x7f0000203000 rw-p anonymous: 12KiB, 12KiB in memory,
      none of it mapped as huge pages (smaps)
    hidden: frame numbers and flags, and whether frames are contiguous; as root
      (with CAP_SYS_ADMIN) this command shows them
    ");
}

#[test]
fn many_pages_are_grouped_into_runs() {
    let mut pages: Vec<Page> = (0..512).map(|i| page(i, Some(0x800 + i), true)).collect();
    // The head differs from the tails only in its flags.
    pages[0].flags = Some(PageFlags(PLAIN.0 | 1 << 15));
    pages.push(page(512, Some(0x99), false));
    let text = table(&memory(pages, Some(2)));
    says(&text, &["0-511 0x00007f0000200000  present  0x800"]);
    says(&text, &["  512 0x00007f0000400000  present  0x99"]);
    assert_eq!(
        text.lines()
            .filter(|line| line.contains("0x00007f"))
            .count(),
        2
    );
}

#[test]
fn the_width_and_number_of_rows_are_limited() {
    let far = |i| page(i, Some(0xffff_ffff - 2 * i), false);
    let text = table(&memory((0..99_999).map(far).collect(), Some(99_999)));
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    says(&text, &["and 99935 more rows: --json has every page"]);
}

#[test]
fn zero_pages_are_explained() {
    let mut memory = memory((0..3).map(|i| page(i, Some(7), false)).collect(), Some(3));
    memory.pages[1].state = PageState::Absent;
    memory.pages[2].flags = Some(PageFlags(1 << 24));
    let text = table(&memory);
    assert!(text.contains("1 page never written, but read"), "{text}");
    // Addresses with a gap are not called contiguous.
    assert!(!text.contains("follow one another"), "{text}");
}

#[test]
fn huge_pages_mapped_by_base_entries_are_explained() {
    let text = table(&memory(
        (0..3).map(|i| page(i, Some(i), true)).collect(),
        Some(1),
    ));
    let text = text.replace("\n  ", " ");
    says(&text, &["as a huge page is", "According to smaps, not all"]);
}
