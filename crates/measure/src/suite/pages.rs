//! Why huge pages help: the spinning vmsplice and splice with pages of every size.
//!
//! A huge page differs from as many base pages in two ways: it is contiguous in
//! memory, and one page-table entry maps it. `huge_pages_split` has the first without
//! the second. Pages that the system does not grant are refused: its settings are
//! never changed.

use super::{BUFFER, DataRule, Definition, Overrides, options};
use crate::spec::{Case, PageKind};
use pipespeed_base::{Named, size};

pub(super) const SUITE: Definition = Definition {
    cases,
    data_rule: DataRule::Constant,
    ..options::SUITE
};

fn cases(overrides: &Overrides) -> Vec<Case> {
    let buffer = overrides.buffer_bytes.unwrap_or(BUFFER);
    let pipe = overrides.pipe_bytes.unwrap_or(buffer / 2);
    let of = |name: &str, pages: PageKind| {
        let case = Case::new(name, buffer, pipe).vmsplice().splice().spin();
        case.pages(pages).described(pages.about())
    };
    let mut cases = vec![of("base_pages", PageKind::Base)];
    cases.extend(PageKind::THP.map(|pages| {
        let bytes = size::format(pages.bytes().unwrap_or_default() as u64);
        of(pages.name(), pages).against("base_pages", &format!("transparent pages of {bytes}"))
    }));
    cases.extend([
        of("huge_pages_split", PageKind::Split).against("base_pages", "contiguous pages"),
        of("huge_pages", PageKind::Huge)
            .against("huge_pages_split", "one table entry for a whole huge page"),
        of("hugetlb1g", PageKind::HugeTlb1G).against("huge_pages", "reserved pages of 1GiB"),
    ]);
    cases
}
