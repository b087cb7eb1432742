//! The progress bar, or a moving indicator if the size is unknown.

/// Fewer columns show the percentage without a bar.
const MIN_COLUMNS: usize = 12;

/// Columns of a space and the percentage after the bar.
const PERCENT: usize = 5;

/// A bar with its percentage in exactly `width` columns. If they are too few, only
/// the percentage, or nothing.
pub fn known(share: f64, percent: u64, width: usize) -> String {
    let percent = format!("{percent:3}%");
    if width < MIN_COLUMNS.max(percent.len() + 4) {
        return if percent.len() <= width {
            format!("{percent:>width$}")
        } else {
            String::new()
        };
    }
    let inner = width - 2 - PERCENT.max(percent.len() + 1);
    let filled = (share.clamp(0.0, 1.0) * inner as f64) as usize;
    let mut bar = "=".repeat(filled);
    if filled < inner {
        bar.push('>');
    }
    format!("[{bar:<inner$}] {percent}")
}

/// A mark that moves back and forth, one step per beat, in exactly `width`
/// columns; nothing if they are too few.
pub fn indicator(beats: u64, width: usize) -> String {
    const MARK: &str = "<=>";
    if width < MARK.len() + 2 {
        return String::new();
    }
    let room = width - 2 - MARK.len();
    let place = match room {
        0 => 0,
        _ => {
            let place = (beats % (2 * room as u64)) as usize;
            place.min(2 * room - place)
        }
    };
    format!("[{:place$}{MARK}{:rest$}]", "", "", rest = room - place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_bar_fills_from_left_to_right() {
        assert_eq!(known(0.0, 0, 17), "[>         ]   0%");
        assert_eq!(known(0.5, 50, 17), "[=====>    ]  50%");
        assert_eq!(known(0.99, 99, 17), "[=========>]  99%");
        assert_eq!(known(1.0, 100, 17), "[==========] 100%");
        assert_eq!(known(2.0, 200, 17), "[==========] 200%");
        assert_eq!(known(0.5, 50, 5), "  50%");
        assert_eq!(known(0.5, 50, 3), "");
    }

    #[test]
    fn the_mark_moves_back_and_forth() {
        let at = |beats| indicator(beats, 8);
        assert_eq!(at(0), "[<=>   ]");
        assert_eq!(at(3), "[   <=>]");
        assert_eq!(at(4), "[  <=> ]");
        assert_eq!(at(6), "[<=>   ]");
        assert_eq!(indicator(7, 5), "[<=>]");
        assert_eq!(indicator(7, 4), "");
    }

    proptest! {
        #[test]
        fn a_bar_has_the_requested_width_or_none(
            share in 0.0..3.0_f64, percent in 0..100_000_u64, beats: u64, width in 0..300_usize,
        ) {
            for bar in [known(share, percent, width), indicator(beats, width)] {
                prop_assert!(bar.is_empty() || bar.len() == width, "{bar:?}");
            }
        }
    }
}
