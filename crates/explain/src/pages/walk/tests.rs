use super::*;
use pipespeed_base::Named;
use proptest::prelude::*;

fn scheme(architecture: Architecture, levels: u32) -> Scheme {
    Scheme::find(architecture, Some(levels)).unwrap()
}

/// The published example.
const EXAMPLE: u64 = 0x0000_f270_5af9_53c0;

#[test]
fn the_published_example_is_canonical_with_five_levels_only() {
    let four = Walk::new(EXAMPLE, scheme(Architecture::X86_64, 4));
    assert_eq!(four.half, Half::NonCanonical);
    let five = Walk::new(EXAMPLE, scheme(Architecture::X86_64, 5));
    assert_eq!(five.half, Half::User);
    assert_eq!((five.levels[0].name, five.levels[0].index), ("PGD", 0));
    assert_eq!((five.levels[1].name, five.levels[1].index), ("P4D", 484));
    // aarch64 has a table for each half, and no sign bit.
    let arm = Walk::new(EXAMPLE, scheme(Architecture::Aarch64, 4));
    assert_eq!(arm.half, Half::User);
}

#[test]
fn an_entry_covers_the_tables_below_it() {
    let walk = Walk::new(0, scheme(Architecture::X86_64, 5));
    let covers: Vec<u64> = walk.levels.iter().map(WalkLevel::covers).collect();
    assert_eq!(covers, [1 << 48, 512 << 30, 1 << 30, 2 << 20, 4096]);
}

#[test]
fn the_upper_bits_decide_the_half() {
    let x86 = scheme(Architecture::X86_64, 4);
    let half = |address, scheme| Walk::new(address, scheme).half;
    assert_eq!(half(0x7fff_ffff_ffff, x86), Half::User);
    assert_eq!(half(0x8000_0000_0000, x86), Half::NonCanonical);
    assert_eq!(half(0xffff_7fff_ffff_ffff, x86), Half::NonCanonical);
    assert_eq!(half(0xffff_8000_0000_0000, x86), Half::Kernel);
    assert_eq!(half(u64::MAX, x86), Half::Kernel);
    assert_eq!(half(0, x86), Half::User);

    let arm = scheme(Architecture::Aarch64, 4);
    assert_eq!(half(0xffff_ffff_ffff, arm), Half::User);
    assert_eq!(half(0x1_0000_0000_0000, arm), Half::NonCanonical);
    assert_eq!(half(0xffff_0000_0000_0000, arm), Half::Kernel);
}

#[test]
fn aarch64_ignores_a_tag_in_the_top_byte() {
    let scheme = scheme(Architecture::Aarch64, 4);
    let tagged = Walk::new(0xb400_f270_5af9_53c0, scheme);
    assert_eq!((tagged.half, tagged.tag), (Half::User, Some(0xb4)));
    assert_eq!(tagged.levels, Walk::new(EXAMPLE, scheme).levels);
    assert_eq!(Walk::new(EXAMPLE, scheme).tag, None);
}

fn any_scheme() -> impl Strategy<Value = Scheme> {
    let all: Vec<Scheme> = Architecture::VALUES
        .iter()
        .flat_map(|architecture| Scheme::all(*architecture))
        .collect();
    prop::sample::select(all)
}

proptest! {
    #[test]
    fn indices_and_offset_are_all_translated_bits(address: u64, scheme in any_scheme()) {
        let walk = Walk::new(address, scheme);
        let mut again = walk.offset;
        for level in &walk.levels {
            prop_assert!(level.index < level.entries);
            prop_assert_eq!(level.entries, 1 << level.bits);
            again |= level.index << level.lowest_bit;
        }
        prop_assert_eq!(again, address & (u64::MAX >> (64 - scheme.address_bits)));
        prop_assert_eq!(walk.page() + walk.offset, address);
    }

    #[test]
    fn all_addresses_of_a_page_are_in_the_same_half(
        address: u64, scheme in any_scheme()
    ) {
        let page = Walk::new(address, scheme);
        prop_assert_eq!(Walk::new(page.page(), scheme).half, page.half);
    }
}
