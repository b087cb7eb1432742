//! Detection of huge pages.

use fastpipe::buffer::huge_page_size;
use fastpipe::pipe::page_size;
use pipespeed_host::process_memory::{FrameFlags, MappedRegion, PageFlags};

use super::record::{Huge, HugePageSource};

/// By the flags of the frame.
///
/// The kernel marks compound pages of all sizes as transparent huge pages. Only those
/// of the size of a PMD entry are considered huge.
pub(super) fn from_flags(flags: PageFlags, compound_bytes: Option<u64>) -> Huge {
    let whole = compound_bytes.is_some_and(|bytes| bytes >= huge_page_size() as u64);
    let reserved = flags.is_hugetlb();
    Huge {
        backed: Some(reserved || flags.is_transparent_huge() && whole),
        shown_by: Some(HugePageSource::Kpageflags),
        reserved,
        compound_bytes,
    }
}

/// By the sums of the mapping: known only if all or none of it is in huge pages.
pub(super) fn from_sums(region: Option<&MappedRegion>) -> Huge {
    let Some(amounts) = region.and_then(|region| region.amounts) else {
        return Huge::default();
    };
    let reserved = amounts.page > page_size() as u64;
    let backed = match amounts.transparent_huge {
        _ if reserved => Some(true),
        0 => Some(false),
        huge if huge == amounts.resident => Some(true),
        _ => None,
    };
    Huge {
        backed,
        shown_by: backed.map(|_| HugePageSource::Smaps),
        reserved,
        compound_bytes: None,
    }
}

/// Sizes of the compound pages that contain frames.
pub(super) struct Compounds<'a> {
    flags: &'a FrameFlags,
    /// The first frame of the block read last, and its flags.
    block: (u64, Vec<PageFlags>),
}

impl<'a> Compounds<'a> {
    pub(super) fn new(flags: &'a FrameFlags) -> Self {
        Compounds {
            flags,
            block: (0, Vec::new()),
        }
    }

    /// The size in bytes, up to that of a transparent huge page; `None` for a frame
    /// outside of compound pages. These are aligned to their size, so each lies within
    /// one block.
    pub(super) fn bytes_around(&mut self, frame: u64) -> Option<u64> {
        let frames = (huge_page_size() / page_size()) as u64;
        let first = frame / frames * frames;
        if self.block.0 != first || self.block.1.is_empty() {
            let flags = self.flags.of_run(first, frames as usize).ok()?;
            self.block = (first, flags);
        }
        let count = compound_around(&self.block.1, (frame - first) as usize)?;
        Some((count * page_size()) as u64)
    }
}

/// The number of these frames in the same compound page as the one at `at`.
fn compound_around(flags: &[PageFlags], at: usize) -> Option<usize> {
    let own = flags.get(at)?;
    if !own.is_compound_head() && !own.is_compound_tail() {
        return None;
    }
    let before = flags[..=at].iter().rposition(|f| f.is_compound_head());
    let rest = flags[at + 1..].iter();
    let after = rest.take_while(|f| f.is_compound_tail()).count();
    // Without a head it started in an earlier block.
    Some(at - before.unwrap_or(0) + 1 + after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipespeed_host::process_memory::Amounts;

    const HEAD: PageFlags = PageFlags(1 << 15 | 1 << 22);
    const TAIL: PageFlags = PageFlags(1 << 16 | 1 << 22);
    const ALONE: PageFlags = PageFlags(1 << 12);

    #[test]
    fn compound_page_reaches_from_its_head_to_its_last_tail() {
        let flags = [ALONE, HEAD, TAIL, TAIL, HEAD, TAIL, ALONE];
        let sizes: Vec<_> = (0..8).map(|at| compound_around(&flags, at)).collect();
        let expected = [
            None,
            Some(3),
            Some(3),
            Some(3),
            Some(2),
            Some(2),
            None,
            None,
        ];
        assert_eq!(sizes, expected);
        // The head of a gigantic page is in an earlier block.
        assert_eq!(compound_around(&[TAIL, TAIL], 1), Some(2));
    }

    #[test]
    fn compound_page_smaller_than_a_huge_page_is_not_huge() {
        let huge = huge_page_size() as u64;
        assert_eq!(from_flags(TAIL, Some(huge)).backed, Some(true));
        assert_eq!(from_flags(TAIL, Some(65_536)).backed, Some(false));
        assert_eq!(from_flags(ALONE, None).backed, Some(false));
        let reserved = from_flags(PageFlags(1 << 16 | 1 << 17), Some(huge));
        assert_eq!((reserved.backed, reserved.reserved), (Some(true), true));
    }

    #[test]
    fn a_mappings_sums_decide_if_all_or_none_is_huge() {
        let backed = |transparent_huge, page| {
            let amounts = Amounts {
                resident: 4 << 20,
                transparent_huge,
                page,
                ..Amounts::default()
            };
            let region = MappedRegion {
                amounts: Some(amounts),
                ..MappedRegion::default()
            };
            from_sums(Some(&region)).backed
        };
        let base = page_size() as u64;
        assert_eq!(backed(0, base), Some(false));
        assert_eq!(backed(2 << 20, base), None);
        assert_eq!(backed(4 << 20, base), Some(true));
        assert_eq!(backed(0, 512 * base), Some(true));
        assert_eq!(from_sums(None), Huge::default());
    }
}
