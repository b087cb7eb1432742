//! The call chains as other tools take them, and as a flame graph.

use std::fmt::Write;

use inferno::flamegraph::{Options, from_lines};

use super::perf::Event;
use super::pipeline::in_short;
use super::record::Profile;

/// Folded stacks: a line a call chain, its functions joined by semicolons from
/// the outermost on, and its weight. Case and end, or "pipeline" and stage, come
/// first.
pub fn folded(profile: &Profile) -> String {
    let mut text = String::new();
    for (name, end) in profile.ends() {
        // A command may hold anything.
        let role = end.role.replace(';', ",");
        for stack in &end.stacks {
            let frames = stack.frames.join(";");
            writeln!(text, "{name};{role};{frames} {}", stack.weight).expect("a string takes all");
        }
    }
    text
}

/// A flame graph as SVG: each case's ends, or the stages, side by side, as wide as they ran.
///
/// # Errors
/// Where there are no samples.
pub fn flame(profile: &Profile) -> anyhow::Result<Vec<u8>> {
    let text = folded(profile);
    let names: Vec<&str> = profile.cases.iter().map(|case| &*case.name).collect();
    let mut options = Options::default();
    options.title = match (names.as_slice(), &profile.pipeline) {
        (_, Some(pipeline)) => {
            format!(
                "pipespeed profile: running time of {}",
                in_short(&pipeline.command, 80)
            )
        }
        ([only], None) => format!("pipespeed profile {only}: running time of both ends"),
        _ => "pipespeed profile: running time of both ends".to_owned(),
    };
    options.count_name = match profile.settings.event {
        Event::Cycles => "cycles".to_owned(),
        Event::CpuClock => "ns".to_owned(),
    };
    options.hash = true;
    let mut svg = Vec::new();
    from_lines(&mut options, text.lines(), &mut svg)
        .map_err(|error| anyhow::anyhow!("--flame: {error}"))?;
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::sample;

    #[test]
    fn commands_of_any_kind_leave_the_formats_whole() {
        let mut profile = sample::pipeline();
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
