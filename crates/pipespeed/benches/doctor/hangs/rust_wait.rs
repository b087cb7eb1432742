//! yes waits for room in its output: nothing reads it before the wait for its end.

use std::process::{Command, Stdio};

pub(crate) fn main() -> anyhow::Result<()> {
    let mut child = Command::new("yes").stdout(Stdio::piped()).spawn()?;
    println!("{}", child.wait()?);
    Ok(())
}
