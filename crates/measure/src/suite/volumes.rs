//! The same copying of 64 KiB at a time over growing volumes: does the rate
//! depend on how much is moved?

use super::{Definition, FEW_ROUNDS, LADDER, Lengths, Overrides, Preparation};
use crate::spec::Case;
use pipespeed_base::size;

/// The default capacity of a pipe, and the size of a write and a read, in bytes.
const PIECE: usize = 64 << 10;

/// The published volumes but the largest, 250 GiB.
const VOLUMES: [u64; 3] = [1 << 28, 10 << 28, 100 << 28];
/// The volumes of a quick run.
const QUICK: [u64; 3] = [1 << 26, 1 << 28, 1 << 30];

pub(super) const SUITE: Definition = Definition {
    cases,
    // A volume ends a trial, not a time. A quick run has two comparisons.
    full: Lengths::new(0.015, 0.0, 170.0, FEW_ROUNDS),
    quick: Lengths::new(0.010, 0.0, 12.0, 7),
    quick_omits: |overrides| overrides.volumes.is_empty().then_some("smaller volumes"),
    prepare: |_| Preparation::Volumes,
    options: &["--volume"],
    ..LADDER
};

fn cases(overrides: &Overrides) -> Vec<Case> {
    let buffer = overrides.buffer_bytes.unwrap_or(PIECE);
    let pipe = overrides.pipe_bytes.unwrap_or(PIECE);
    let mut volumes = match &overrides.volumes[..] {
        [] if overrides.quick => QUICK.to_vec(),
        [] => VOLUMES.to_vec(),
        named => named.to_vec(),
    };
    volumes.sort_unstable();
    volumes.dedup();
    let smallest = volumes.first().map(|&bytes| name(bytes));
    let case = |bytes: u64| {
        let case = Case::new(&name(bytes), buffer, pipe)
            .of_volume(bytes)
            .described(&format!("write(2) and read(2), {}", shown(bytes)));
        match &smallest {
            Some(smallest) if *smallest != case.name => case.against(smallest, "volume"),
            _ => case,
        }
    };
    volumes.into_iter().map(case).collect()
}

/// A volume for people: `0.25 GiB`, `25 GiB`; smaller ones in a smaller unit.
pub fn shown(bytes: u64) -> String {
    const GIB: u64 = 1 << 30;
    if bytes >= GIB / 4 {
        format!(
            "{} GiB",
            (bytes as f64 * 100.0 / GIB as f64).round() / 100.0
        )
    } else {
        size::format(bytes)
    }
}

/// The name of a case: `volume_2.5g`, or with a smaller unit where GiB would need
/// many digits.
fn name(bytes: u64) -> String {
    let hundredth = bytes as f64 * 100.0 / (1u64 << 30) as f64;
    if hundredth.fract() == 0.0 && hundredth >= 10.0 {
        format!("volume_{}g", hundredth / 100.0)
    } else {
        format!("volume_{}", size::short(bytes as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(volumes: &[u64], quick: bool) -> Vec<String> {
        let overrides = Overrides {
            volumes: volumes.to_vec(),
            quick,
            ..Overrides::default()
        };
        cases(&overrides)
            .into_iter()
            .map(|case| case.name)
            .collect()
    }

    #[test]
    fn volumes_are_named_in_gib_where_that_is_short() {
        assert_eq!(
            names(&[], false),
            ["volume_0.25g", "volume_2.5g", "volume_25g"]
        );
        let named = [250 << 30, 64 << 20, 1 << 28, 64 << 20, 12_345];
        assert_eq!(
            names(&named, true),
            ["volume_12345", "volume_64m", "volume_0.25g", "volume_250g"]
        );
    }

    #[test]
    fn all_are_compared_with_the_smallest() {
        let cases = cases(&Overrides::default());
        assert_eq!(cases[0].compared_with, None);
        for case in &cases[1..] {
            assert_eq!(case.compared_with.as_ref().unwrap().0, "volume_0.25g");
        }
    }
}
