//! What benchmarks have in common: their options, and how they end.

use std::process::ExitCode;

use anyhow::Context;

/// Hands each option to `take`, with what gets its value.
pub fn each(
    mut take: impl FnMut(&str, &mut dyn FnMut() -> anyhow::Result<String>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || {
            let value = words.next();
            value.with_context(|| format!("{word}: a value is missing"))
        };
        // cargo bench says that it is one.
        if word != "--bench" {
            take(&word, &mut value)?;
        }
    }
    Ok(())
}

/// What the benchmark `name` exits with, and says of an error.
pub fn exit_code(name: &str, outcome: anyhow::Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}
