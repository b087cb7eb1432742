//! A child that waits for work, whose both output streams are awaited.

use std::process::Stdio;

use tokio::process::Command;

pub(crate) fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let _input = child.stdin.take();
        child.wait_with_output().await?;
        anyhow::Ok(())
    })
}
