//! The colours of all charts but the heat map, whose colours are computed.

use pipespeed_base::Named;
use pipespeed_explain::profile::group::CostGroup;
use pipespeed_measure::spec::{Channel, DataUse};
use pipespeed_stats::Verdict;

use super::svg::Colour;

/// The colour of a bar by the use of its data, and its text in the legend. Any colour
/// vision can distinguish them, and white text can be read on each.
pub(crate) fn of_data(data: DataUse) -> (Colour, &'static str) {
    match data {
        DataUse::Discard => (Colour(178, 84, 10), "data discarded unread"),
        DataUse::Read => (Colour(11, 105, 168), "read into memory"),
        DataUse::Touch => (Colour(10, 122, 88), "touched: produced and consumed"),
        DataUse::Verify => (Colour(122, 79, 163), "verified: every byte compared"),
    }
}

/// The colour of a bar by the verdict on its ratio.
pub(crate) fn of_verdict(verdict: Verdict) -> Colour {
    match verdict {
        Verdict::Faster => Colour(10, 122, 88),
        Verdict::Slower => Colour(178, 56, 40),
        Verdict::Same | Verdict::Undecided => Colour(110, 119, 129),
    }
}

/// The colour of a cost in a profile. Related costs have similar colours; white text can be
/// read on each.
pub(crate) fn of_cost(group: CostGroup) -> Colour {
    match group {
        CostGroup::Asleep => Colour(110, 119, 129),
        CostGroup::RunDelay => Colour(66, 74, 83),
        CostGroup::Spinning => Colour(145, 115, 60),
        CostGroup::CopyToKernel => Colour(11, 105, 168),
        CostGroup::CopyToUser => Colour(58, 138, 204),
        CostGroup::PageAllocation => Colour(178, 84, 10),
        CostGroup::MemoryCgroup => Colour(214, 120, 52),
        CostGroup::PagePinning => Colour(10, 122, 88),
        CostGroup::PageRelease => Colour(74, 160, 110),
        CostGroup::PipeLock => Colour(176, 42, 55),
        CostGroup::PipeSlots => Colour(122, 79, 163),
        CostGroup::Scheduling => Colour(190, 74, 130),
        CostGroup::EntryExit => Colour(84, 90, 160),
        CostGroup::PageFaults => Colour(130, 110, 20),
        CostGroup::PageZeroing => Colour(170, 140, 90),
        CostGroup::UserCode => Colour(20, 125, 135),
        CostGroup::Interrupts => Colour(100, 60, 50),
        CostGroup::Sampling => Colour(150, 90, 90),
        CostGroup::Other => Colour(31, 35, 40),
        CostGroup::Running => Colour(70, 120, 200),
    }
}

/// Colours of lines. Together with the marks, any colour vision can distinguish
/// them.
pub(crate) const LINES: [Colour; 16] = [
    Colour(31, 35, 40),
    Colour(178, 84, 10),
    Colour(200, 30, 30),
    Colour(11, 105, 168),
    Colour(10, 122, 88),
    Colour(170, 40, 110),
    Colour(122, 79, 163),
    Colour(140, 106, 0),
    Colour(90, 130, 200),
    Colour(150, 150, 40),
    Colour(0, 128, 140),
    Colour(112, 72, 40),
    Colour(84, 104, 20),
    Colour(60, 60, 170),
    Colour(214, 110, 160),
    Colour(110, 120, 130),
];

/// The mark and the colour of a channel's line, by the channel's name: the same in
/// every chart.
pub(crate) fn of_channel(channel: &str) -> (usize, Colour) {
    let mut all = Channel::VALUES.iter();
    let at = all.position(|known| known.name() == channel).unwrap_or(0);
    (at, LINES[at % LINES.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_channel_of_every_command_has_a_colour_of_its_own() {
        let all = Channel::VALUES;
        let mut colours: Vec<_> = all
            .iter()
            .map(|channel| of_channel(channel.name()).1)
            .collect();
        colours.sort();
        colours.dedup();
        assert_eq!(colours.len(), all.len());
    }
}
