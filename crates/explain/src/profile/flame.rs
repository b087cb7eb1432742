//! The call chains as folded stacks and as a flame graph.

use std::fmt::Write;

use inferno::flamegraph::{Options, from_lines};

use super::perf::Event;
use super::record::{CaseProfile, Profile};
use pipespeed_base::text::in_short;

/// Folded stacks: one line per call chain with its weight, the functions separated by
/// semicolons, the outermost first. The first two frames are the case and the end, or
/// "pipeline" and the stage.
pub fn folded(profile: &Profile) -> String {
    let mut text = String::new();
    for (name, end) in profile.ends() {
        // A command may contain semicolons.
        let role = end.role.replace(';', ",");
        for stack in &end.stacks {
            let frames = stack.frames.join(";");
            writeln!(text, "{name};{role};{frames} {}", stack.weight).expect("a string takes all");
        }
    }
    text
}

/// A flame graph of all ends or stages as SVG; widths are running times.
///
/// # Errors
/// There are no samples.
pub fn flame(profile: &Profile) -> anyhow::Result<Vec<u8>> {
    let names: Vec<&str> = profile.cases.iter().map(|case| &*case.name).collect();
    let title = match (names.as_slice(), &profile.pipeline) {
        (_, Some(pipeline)) => {
            let command = in_short(&pipeline.command, 80);
            format!("pipespeed profile: running time of {command}")
        }
        ([only], None) => format!("pipespeed profile {only}: running time of both ends"),
        _ => "pipespeed profile: running time of both ends".to_owned(),
    };
    let mut options = Options::default();
    options.title = title;
    draw(&folded(profile), profile.settings.event, options)
}

/// A flame graph of one case.
pub struct FlameGraph {
    /// The picture.
    pub svg: String,
    /// Its height in pixels.
    pub height: usize,
}

/// A flame graph of one case of a profile, as wide as its window.
///
/// # Errors
/// There are no samples.
pub fn of_case(profile: &Profile, case: &CaseProfile) -> anyhow::Result<FlameGraph> {
    let only = Profile {
        cases: vec![case.clone()],
        ..profile.clone()
    };
    let mut options = Options::default();
    options.title = format!("{}: running time of both ends", case.name);
    options.font_size = 11;
    let svg = String::from_utf8(draw(&folded(&only), profile.settings.event, options)?)?;
    let height = svg
        .split_once(" height=\"")
        .and_then(|(_, rest)| rest.split('"').next());
    let height = height.and_then(|height| height.parse().ok()).unwrap_or(600);
    Ok(FlameGraph { svg, height })
}

fn draw(folded: &str, event: Option<Event>, mut options: Options<'_>) -> anyhow::Result<Vec<u8>> {
    options.count_name = match event {
        Some(Event::Cycles) => "cycles".to_owned(),
        Some(Event::CpuClock) | None => "ns".to_owned(),
    };
    options.hash = true;
    let mut svg = Vec::new();
    from_lines(&mut options, folded.lines(), &mut svg)
        .map_err(|error| anyhow::anyhow!("--flame: {error}"))?;
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::fixtures;

    #[test]
    fn special_characters_of_commands_are_escaped() {
        let mut profile = fixtures::pipeline();
        let pipeline = profile.pipeline.as_mut().unwrap();
        pipeline.command = "sed 's/<&>/;/' | wc".to_owned();
        pipeline.stages[0].end.role = "1: sed 's/<&>/;/'".to_owned();
        let text = folded(&profile);
        for line in text.lines() {
            let (chain, weight) = line.rsplit_once(' ').unwrap();
            assert!(weight.parse::<u64>().is_ok(), "{line}");
            assert_eq!(chain.split(';').next(), Some("pipeline"), "{line}");
        }
        assert!(text.starts_with("pipeline;1: sed 's/<&>/,/';"), "{text}");
        let svg = String::from_utf8(flame(&profile).unwrap()).unwrap();
        assert!(svg.contains("s/&lt;&amp;&gt;/,/"), "{svg}");
        assert!(!svg.contains("s/<&>"), "{svg}");
    }
}
