//! The colours and marks that lines are told apart by: a channel has the same in
//! every chart.

use plotters::prelude::RGBColor;

use pipespeed_base::Named;
use pipespeed_measure::latency::channels::Kind;
use pipespeed_measure::suite::channels::Transport;

/// Colours that can be told apart, with the marks, by any colour vision.
pub(super) const COLOURS: [RGBColor; 16] = [
    RGBColor(31, 35, 40),
    RGBColor(178, 84, 10),
    RGBColor(200, 30, 30),
    RGBColor(11, 105, 168),
    RGBColor(10, 122, 88),
    RGBColor(170, 40, 110),
    RGBColor(122, 79, 163),
    RGBColor(140, 106, 0),
    RGBColor(90, 130, 200),
    RGBColor(150, 150, 40),
    RGBColor(0, 128, 140),
    RGBColor(112, 72, 40),
    RGBColor(84, 104, 20),
    RGBColor(60, 60, 170),
    RGBColor(214, 110, 160),
    RGBColor(110, 120, 130),
];

fn names() -> impl Iterator<Item = &'static str> {
    Transport::VALUES.iter().map(|it| it.name())
}

/// The mark and the colour of a channel, by its name.
pub(super) fn look(channel: &str) -> (usize, RGBColor) {
    // Throughput has no eventfds, which carry no data.
    let mut all = names().chain([Kind::Eventfd.name()]);
    let at = all.position(|name| name == channel).unwrap_or(0);
    (at, COLOURS[at % COLOURS.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_channel_of_every_command_has_a_colour_of_its_own() {
        let of_latency = Kind::VALUES.iter().map(|kind| kind.name());
        let mut all: Vec<&str> = names().chain(of_latency).collect();
        all.sort_unstable();
        all.dedup();
        let mut colours: Vec<_> = all.iter().map(|name| look(name).1).collect();
        colours.sort_by_key(|colour| (colour.0, colour.1, colour.2));
        colours.dedup();
        assert_eq!(colours.len(), all.len());
    }
}
