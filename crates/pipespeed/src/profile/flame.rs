//! The call chains as other tools take them, and as a flame graph.

use std::fmt::Write;

use inferno::flamegraph::{Options, from_lines};

use super::record::Profile;

/// Folded stacks: a line a call chain, its functions joined by semicolons from
/// the outermost on, and its weight. Case and end come first.
pub fn folded(profile: &Profile) -> String {
    let mut text = String::new();
    for case in &profile.cases {
        for end in &case.ends {
            for stack in &end.stacks {
                let frames = stack.frames.join(";");
                writeln!(text, "{};{};{frames} {}", case.name, end.role, stack.weight)
                    .expect("a string takes all");
            }
        }
    }
    text
}

/// A flame graph as SVG: each case's ends side by side, as wide as they ran.
///
/// # Errors
/// Where there are no samples.
pub fn flame(profile: &Profile) -> anyhow::Result<Vec<u8>> {
    let text = folded(profile);
    let names: Vec<&str> = profile.cases.iter().map(|case| &*case.name).collect();
    let mut options = Options::default();
    options.title = match names.as_slice() {
        [only] => format!("pipespeed profile {only}: running time of both ends"),
        _ => "pipespeed profile: running time of both ends".to_owned(),
    };
    options.count_name = match &*profile.event {
        "cycles" => "cycles".to_owned(),
        _ => "ns".to_owned(),
    };
    options.hash = true;
    let mut svg = Vec::new();
    from_lines(&mut options, text.lines(), &mut svg)
        .map_err(|error| anyhow::anyhow!("--flame: {error}"))?;
    Ok(svg)
}
