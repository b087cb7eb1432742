//! A run as JSON, which is saved, and loaded again for comparisons.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Kind, Run, SCHEMA_VERSION};
use pipespeed_base::{size, standard};

/// Files are read up to this size, so that an endless one can't fill memory. The largest
/// records have a few MiB; parsed, a file may take sixteen times its size.
const MAX_BYTES: u64 = 32 << 20;

/// Why a saved run could not be loaded: one line with the file and a remedy.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", shown(.path))]
pub struct LoadError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a file that should be a saved run.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// Reading it failed.
    #[error("cannot be read: {0}; give a file made by --json")]
    Unreadable(io::Error),
    /// It is larger than any record.
    #[error(
        "larger than {}, so no record; give a file made by --json",
        size::format(MAX_BYTES)
    )]
    TooLarge,
    /// It is empty, most often because the run never finished.
    #[error("empty: the run that should have written it saved no round; run it again")]
    Empty,
    /// It is not JSON.
    #[error("not JSON ({0}); give a file made by --json, not the table or --csv")]
    NotJson(serde_json::Error),
    /// It has no `schema_version`.
    #[error(
        "JSON, but not a run of pipespeed (it has no schema_version); give a file made by --json"
    )]
    NotOurs,
    /// It is the record of another command.
    #[error("a record of kind {0}, not bench: give a file made by pipespeed bench --json")]
    OtherKind(String),
    /// It has another schema version, so its fields may mean something else.
    #[error(
        "has schema_version {0}, this pipespeed reads {SCHEMA_VERSION}: {remedy}",
        remedy = remedy(*.0)
    )]
    OtherVersion(u64),
    /// A field is missing or has the wrong type.
    #[error("a damaged record ({0}): it is incomplete or was edited; run it again")]
    Damaged(serde_json::Error),
}

fn remedy(version: u64) -> &'static str {
    if version > u64::from(SCHEMA_VERSION) {
        "use a newer pipespeed"
    } else {
        "measure again with this version, or use the one that wrote it"
    }
}

/// The path as shown in messages.
fn shown(path: &Path) -> String {
    if path == Path::new("-") {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    }
}

/// A record as indented JSON with a newline at the end.
pub fn to_json(record: &impl Serialize) -> String {
    // A record has only string keys and plain values, so serialising it can't fail.
    let mut text = serde_json::to_string_pretty(record).expect("a record is always valid JSON");
    text.push('\n');
    text
}

/// Reads a saved run; `-` reads standard input.
///
/// # Errors
///
/// See [`LoadError`].
pub fn load(path: impl AsRef<Path>) -> Result<Run, LoadError> {
    let path = path.as_ref();
    let run = read(path).and_then(|bytes| parse(&bytes));
    run.map_err(|problem| LoadError {
        path: path.to_owned(),
        problem,
    })
}

fn read(path: &Path) -> Result<Vec<u8>, Problem> {
    if path != Path::new("-") {
        return read_limited(File::open(path).map_err(Problem::Unreadable)?);
    }
    if standard::is_closed(0) {
        return Err(Problem::Unreadable(io::Error::other("it is closed")));
    }
    read_limited(io::stdin().lock())
}

fn read_limited(file: impl Read) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    let read = file.take(MAX_BYTES + 1).read_to_end(&mut bytes);
    match read.map_err(Problem::Unreadable)? as u64 {
        ..=MAX_BYTES => Ok(bytes),
        _ => Err(Problem::TooLarge),
    }
}

fn parse(bytes: &[u8]) -> Result<Run, Problem> {
    if bytes.trim_ascii().is_empty() {
        return Err(Problem::Empty);
    }
    // Kind and version are checked before the other fields: a record of another version
    // may lack any of them. Nothing else is kept here.
    #[derive(Deserialize)]
    struct Head {
        kind: Option<String>,
        schema_version: Option<u64>,
    }
    let _: IgnoredAny = serde_json::from_slice(bytes).map_err(Problem::NotJson)?;
    let head: Head = serde_json::from_slice(bytes).map_err(|_| Problem::NotOurs)?;
    if let Some(kind) = head.kind
        && json!(kind) != json!(Kind::Bench)
    {
        return Err(Problem::OtherKind(kind));
    }
    match head.schema_version {
        None => Err(Problem::NotOurs),
        Some(version) if version == u64::from(SCHEMA_VERSION) => {
            serde_json::from_slice(bytes).map_err(Problem::Damaged)
        }
        Some(version) => Err(Problem::OtherVersion(version)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::ladder;

    fn problem(text: &str) -> Problem {
        parse(text.as_bytes()).unwrap_err()
    }

    fn error(path: &str, text: &str) -> String {
        let (path, problem) = (path.into(), problem(text));
        LoadError { path, problem }.to_string()
    }

    #[test]
    fn a_run_survives_saving_and_loading() {
        let run = ladder();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.json");
        let text = to_json(&run);
        assert!(text.ends_with("}\n"));
        std::fs::write(&path, text).unwrap();
        // Not assert_eq: a run takes pages to show.
        assert!(
            load(&path).unwrap() == run,
            "numbers change without serde_json's float_roundtrip"
        );
    }

    #[test]
    fn unknown_fields_are_ignored() {
        let text = to_json(&ladder()).replacen('{', "{ \"added_later\": [1],", 1);
        assert!(parse(text.as_bytes()).unwrap() == ladder());
    }

    #[test]
    fn every_way_to_fail_has_its_own_error() {
        let later = to_json(&ladder()).replace("\"schema_version\": 2", "\"schema_version\": 7");
        assert!(matches!(problem(""), Problem::Empty));
        assert!(matches!(problem(" \n"), Problem::Empty));
        assert!(matches!(problem("case  GiB/s"), Problem::NotJson(_)));
        assert!(matches!(problem("[1, 2]"), Problem::NotOurs));
        assert!(matches!(
            problem("{\"schema_version\": \"x\"}"),
            Problem::NotOurs
        ));
        assert!(matches!(
            problem("{\"schema_version\": 1}"),
            Problem::OtherVersion(1)
        ));
        assert!(matches!(problem(&later), Problem::OtherVersion(7)));
        assert!(matches!(
            problem("{\"schema_version\": 2}"),
            Problem::Damaged(_)
        ));
        assert!(matches!(
            load("/nonexistent/run.json").unwrap_err().problem,
            Problem::Unreadable(_)
        ));
    }

    #[test]
    fn every_error_is_one_line_that_names_the_file() {
        for text in [
            "",
            "x",
            "{}",
            "{\"schema_version\": 1}",
            "{\"schema_version\": 2}",
            "{\"schema_version\": 9}",
            "{\"kind\": \"check\"}",
        ] {
            let message = error("old.json", text);
            assert!(message.starts_with("old.json: "), "{message}");
            assert!(!message.contains('\n'), "{message}");
        }
        let message = load("/nonexistent/run.json").unwrap_err().to_string();
        assert!(message.starts_with("/nonexistent/run.json: "), "{message}");
        let stdin = error("-", "");
        assert!(stdin.starts_with("standard input: "), "{stdin}");
    }

    #[test]
    fn a_record_of_another_command_is_named() {
        for text in [
            "{\"schema_version\": 2, \"kind\": \"check\"}",
            // Before all records had the same header.
            "{\"version\": 1, \"kind\": \"check\"}",
        ] {
            let message = error("old.json", text);
            assert!(message.contains("a record of kind check"), "{message}");
        }
    }

    #[test]
    fn another_version_is_named_beside_ours() {
        for (version, remedy) in [(1, "measure again"), (9, "use a newer pipespeed")] {
            let message = problem(&format!("{{\"schema_version\": {version}}}")).to_string();
            let named = format!("schema_version {version}, this pipespeed reads 2: {remedy}");
            assert!(message.contains(&named), "{message}");
        }
    }
}
