//! The colours and marks of lines: a channel has the same in every chart.

use pipespeed_base::Named;
use pipespeed_measure::channel::transport::Transport;

use super::svg::Colour;

/// Colours that, together with the marks, any colour vision can distinguish.
pub(crate) const COLOURS: [Colour; 16] = [
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

/// The mark and the colour of a channel, by its name.
pub(crate) fn look(channel: &str) -> (usize, Colour) {
    let mut all = Transport::VALUES.iter();
    let at = all.position(|it| it.name() == channel).unwrap_or(0);
    (at, COLOURS[at % COLOURS.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_channel_of_every_command_has_a_colour_of_its_own() {
        let all = Transport::VALUES;
        let mut colours: Vec<_> = all.iter().map(|it| look(it.name()).1).collect();
        colours.sort();
        colours.dedup();
        assert_eq!(colours.len(), all.len());
    }
}
