//! `top`.

mod commands;
mod plain;
mod screen;

use crate::doctor::{Group, pipe};

/// Starts a pipeline whose second stage is the bottleneck: `yes`, sh that reads byte by byte, `cat`.
/// Returns their numbers.
fn slow_loop(group: &mut Group) -> [u32; 3] {
    let ((to_slow, from_fast), (to_last, from_slow)) = (pipe(), pipe());
    let fast = group.add("yes", [None, from_fast, None]);
    let mut slow = std::process::Command::new("sh");
    slow.args(["-c", "while read x; do :; done"]);
    let slow = group.start(slow, [to_slow, from_slow, None]);
    [fast, slow, group.add("cat", [to_last, None, None])]
}
