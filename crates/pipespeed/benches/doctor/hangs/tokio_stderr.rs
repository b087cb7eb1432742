//! yes waits for room in its standard error: the parent waits for a line of its standard output.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

pub(crate) fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut child = Command::new("sh")
            .args(["-c", "yes >&2; echo done"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().expect("a pipe");
        println!("{:?}", BufReader::new(output).lines().next_line().await?);
        anyhow::Ok(())
    })
}
