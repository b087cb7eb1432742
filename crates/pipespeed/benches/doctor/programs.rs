//! Small programs in several languages.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;

/// The argument by which this program becomes one of those written in Rust.
pub(crate) const RUST: &str = "--planted";

/// The program of a source; `None` if what runs it is not installed.
pub(crate) fn program(source: &Path, directory: &Path) -> anyhow::Result<Option<Command>> {
    let stem = source.file_stem().context("a file")?;
    let interpreter = match source.extension().and_then(|text| text.to_str()) {
        Some("js") => "node",
        Some("py") => "python3",
        Some("pl") => "perl",
        Some("rb") => "ruby",
        Some("sh") => "sh",
        Some("bash") => "bash",
        Some("java") => "java",
        Some("go") => return build(source, &directory.join(stem)),
        _ => {
            let mut command = Command::new(std::env::current_exe()?);
            command.arg(RUST).arg(stem);
            return Ok(Some(command));
        }
    };
    let option = if interpreter == "sh" {
        "-c"
    } else {
        "--version"
    };
    if quiet(Command::new(interpreter).args([option, ":"]))
        .status()
        .is_err()
    {
        return Ok(None);
    }
    let mut command = Command::new(interpreter);
    command.arg(source);
    Ok(Some(command))
}

/// A program in Go, compiled; `None` without its compiler.
fn build(source: &Path, program: &Path) -> anyhow::Result<Option<Command>> {
    let built = Command::new("go")
        .args(["build", "-o"])
        .args([program, source])
        .status();
    Ok(match built {
        Ok(status) if status.success() => Some(Command::new(program)),
        Ok(status) => anyhow::bail!("go build {}: {status}", source.display()),
        Err(_) => None,
    })
}

/// Without input and output.
pub(crate) fn quiet(command: &mut Command) -> &mut Command {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
}
