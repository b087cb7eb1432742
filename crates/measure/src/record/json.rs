//! Records as JSON, which is saved, and loaded again for comparisons and reports.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use serde::de::{DeserializeOwned, Error as _, IgnoredAny, IntoDeserializer as _};
use serde::{Deserialize, Serialize};

use super::{Kind, Run, SCHEMA_VERSION};
use pipespeed_base::text::in_short;
use pipespeed_base::{size, standard};

/// Files are read up to this size, so that an endless one can't fill memory. Most records have less than a few MiB,
/// but one of `pages` has 43 MB for a buffer of 400 MiB; parsed, a file may take sixteen times its size.
const MAX_BYTES: u64 = 256 << 20;

/// Why a saved record could not be loaded: one line with the file and a remedy.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", shown(.path))]
pub struct LoadError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a file that should be a saved record.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// Reading it failed.
    #[error("cannot be read: {0}; give a file made by --json")]
    Unreadable(io::Error),
    /// It is larger than records usually are.
    #[error(
        "larger than {}, which is not read; give a smaller file made by --json",
        size::format(MAX_BYTES)
    )]
    TooLarge,
    /// It is empty, most often because the run never finished.
    #[error("empty: the run that should have written it saved no round; run it again")]
    Empty,
    /// It is not JSON.
    #[error("not JSON ({}); give a file made by --json, not the table or --csv", found(.0))]
    NotJson(serde_json::Error),
    /// It is JSON, but ends early: the disk was full, or copying it was interrupted.
    #[error(
        "ends in the middle (at line {} column {}): an incomplete copy; copy it again, or run it \
         again",
        .0.line(),
        .0.column()
    )]
    Truncated(serde_json::Error),
    /// It has no `schema_version`.
    #[error(
        "JSON, but not a record of pipespeed (no valid schema_version or kind); give a file made by --json"
    )]
    NotOurs,
    /// It is the record of another command.
    #[error(
        "a record of kind {}, not bench: give a file made by pipespeed bench --json",
        quoted(.0)
    )]
    OtherKind(String),
    /// It has another schema version, so its fields may mean something else.
    #[error(
        "has schema_version {0}, this pipespeed reads {SCHEMA_VERSION}: {remedy}",
        remedy = remedy(*.0)
    )]
    OtherVersion(u64),
    /// A field is missing or has the wrong type.
    #[error("a damaged record ({0}): it is incomplete or was edited; run it again")]
    Damaged(String),
}

impl Problem {
    /// Whether it may be the beginning of a record.
    pub fn is_cut_off(&self) -> bool {
        matches!(self, Problem::Empty | Problem::Truncated(_))
    }
}

/// What is wrong and where, in plain words: without the names of Rust's types.
fn found(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let (what, place) = text.split_at(text.rfind(" at line ").unwrap_or(text.len()));
    let what = match what.split(", expected ").next() {
        _ if error.is_eof() => "the text ends",
        Some(what) if error.is_data() && what.starts_with("invalid ") => "a wrong kind of value",
        // Serde's words for a field that may hold one of two enums.
        Some(what) if what.starts_with("data did not match") => "an unknown value",
        what => what.unwrap_or_default(),
    };
    let what = what.replace("unknown variant", "unknown value");
    quoted(&format!("{what}{place}"))
}

/// What is wrong with a record that is JSON, and where, unless that is not known.
fn found_in_record(error: &serde_json::Error, bytes: &[u8]) -> String {
    let found = found(error);
    let lines = bytes.trim_ascii_end().split(|byte| *byte == b'\n').count();
    match found.split_once(" at line ") {
        // Serde converts the values of flattened fields at the end of the record.
        Some((what, _)) if error.line() == lines && !what.starts_with("missing field") => {
            what.to_owned()
        }
        _ => found,
    }
}

/// What may repeat a text of the file, which may be long.
fn quoted(text: &impl ToString) -> String {
    const MAX_CHARS: usize = 160;
    let start: String = text.to_string().chars().take(2 * MAX_CHARS).collect();
    in_short(&start, MAX_CHARS)
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

/// A file that was read and should be a saved record.
#[derive(Debug)]
pub struct SavedFile {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl SavedFile {
    /// Reads a file; `-` reads standard input.
    ///
    /// # Errors
    /// It can't be read, or is too large for a record.
    pub fn read(path: impl AsRef<Path>) -> Result<SavedFile, LoadError> {
        let path = path.as_ref().to_owned();
        match read(&path) {
            Ok(bytes) => Ok(SavedFile { path, bytes }),
            Err(problem) => Err(LoadError { path, problem }),
        }
    }

    /// The kind of the record.
    ///
    /// # Errors
    /// It is not a record of this version, or its kind is unknown.
    pub fn kind(&self) -> Result<Kind, LoadError> {
        self.located(kind(&self.bytes))
    }

    /// The record, which should be of this kind.
    ///
    /// # Errors
    /// It is another record, or damaged.
    pub fn parse<R: DeserializeOwned>(&self) -> Result<R, LoadError> {
        self.located(parse(&self.bytes))
    }

    fn located<T>(&self, outcome: Result<T, Problem>) -> Result<T, LoadError> {
        outcome.map_err(|problem| LoadError {
            path: self.path.clone(),
            problem,
        })
    }
}

/// Reads a saved run; `-` reads standard input.
///
/// # Errors
///
/// See [`LoadError`].
pub fn load(path: impl AsRef<Path>) -> Result<Run, LoadError> {
    let file = SavedFile::read(path)?;
    file.located(parse_run(&file.bytes))
}

fn read(path: &Path) -> Result<Vec<u8>, Problem> {
    if path != Path::new("-") {
        return read_limited(File::open(path).map_err(Problem::Unreadable)?);
    }
    if standard::is_closed(0) {
        return Err(Problem::Unreadable(io::Error::other("it is closed")));
    }
    // The standard library takes EBADF of standard input for its end.
    let stdin = io::stdin().as_fd().try_clone_to_owned();
    read_limited(File::from(stdin.map_err(Problem::Unreadable)?))
}

fn read_limited(file: impl Read) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    let read = file.take(MAX_BYTES + 1).read_to_end(&mut bytes);
    match read.map_err(Problem::Unreadable)? as u64 {
        ..=MAX_BYTES => Ok(bytes),
        _ => Err(Problem::TooLarge),
    }
}

/// The fields that are checked before the others: a record of another version may lack any
/// of the others.
#[derive(Deserialize)]
struct Head {
    kind: Option<String>,
    schema_version: Option<u64>,
}

impl Head {
    /// Reads the fields and keeps nothing else in memory: the file may be no record.
    fn read(bytes: &[u8]) -> Result<Head, Problem> {
        if bytes.trim_ascii().is_empty() {
            return Err(Problem::Empty);
        }
        let _: IgnoredAny = serde_json::from_slice(bytes).map_err(|error| {
            // A word such as `n`, of a table, may also be the start of null.
            if error.is_eof() && bytes.trim_ascii_start().starts_with(b"{") {
                Problem::Truncated(error)
            } else {
                Problem::NotJson(error)
            }
        })?;
        serde_json::from_slice(bytes).map_err(|_| Problem::NotOurs)
    }

    fn check_version(&self) -> Result<(), Problem> {
        match self.schema_version {
            None => Err(Problem::NotOurs),
            Some(version) if version == u64::from(SCHEMA_VERSION) => Ok(()),
            Some(version) => Err(Problem::OtherVersion(version)),
        }
    }
}

fn kind(bytes: &[u8]) -> Result<Kind, Problem> {
    let head = Head::read(bytes)?;
    head.check_version()?;
    let kind = match head.kind {
        Some(kind) => Kind::deserialize(kind.into_deserializer()),
        None => Err(serde_json::Error::missing_field("kind")),
    };
    kind.map_err(|error| Problem::Damaged(found(&error)))
}

fn parse<R: DeserializeOwned>(bytes: &[u8]) -> Result<R, Problem> {
    Head::read(bytes)?.check_version()?;
    serde_json::from_slice(bytes).map_err(|error| Problem::Damaged(found_in_record(&error, bytes)))
}

fn parse_run(bytes: &[u8]) -> Result<Run, Problem> {
    match Head::read(bytes)?.kind {
        Some(kind) if serde_json::json!(Kind::Bench) != *kind => Err(Problem::OtherKind(kind)),
        _ => parse(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{ladder, latency_record};
    use crate::latency::{record::LatencyRecord, spec::ExchangeMode};

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
        assert!(parse_run(text.as_bytes()).unwrap() == ladder());
    }

    /// What is said of a file of this name with this text.
    fn error(path: &str, text: &str) -> String {
        let problem = parse_run(text.as_bytes()).unwrap_err();
        let message = LoadError {
            path: path.into(),
            problem,
        }
        .to_string();
        assert!(!message.contains('\n'), "{message}");
        message
    }

    #[test]
    fn every_error_is_one_line_that_names_file_and_remedy() {
        let newer = to_json(&ladder()).replace("_version\": 3", "_version\": 9");
        for (text, words) in [
            ("", "empty"),
            (" \n", "empty"),
            ("case  GiB/s", "not JSON"),
            ("[1, 2]", "not a record of pipespeed"),
            ("{\"schema_version\": \"x\"}", "not a record of pipespeed"),
            (
                "{\"schema_version\": 1}",
                "schema_version 1, this pipespeed reads 3: measure again",
            ),
            (
                &newer,
                "schema_version 9, this pipespeed reads 3: use a newer pipespeed",
            ),
            ("{\"schema_version\": 3}", "damaged"),
            (
                "{\"schema_version\": 3, \"kind\": \"check\"}",
                "a record of kind check",
            ),
            // Before all records had the same header.
            (
                "{\"version\": 1, \"kind\": \"check\"}",
                "a record of kind check",
            ),
        ] {
            let message = error("old.json", text);
            assert!(message.starts_with("old.json: "), "{message}");
            assert!(message.contains(words), "{words}: {message}");
        }
        let whole = to_json(&ladder());
        for length in [1, 2, 100, whole.len() / 2, whole.len() - 2] {
            let message = error("-", &whole[..length]);
            let words = "standard input: ends in the middle (at line ";
            assert!(message.starts_with(words), "{message}");
        }
        let missing = load("/nonexistent/run.json").unwrap_err().to_string();
        assert!(missing.starts_with("/nonexistent/run.json: cannot be read: "));
    }

    #[test]
    fn a_damaged_value_is_placed_without_the_types_of_rust() {
        let whole = to_json(&ladder());
        let timed = format!("\"timed_s\": {:?}", ladder().settings.timed_s);
        for (from, to, words) in [
            (&*timed, "\"timed_s\": \"x\"", "wrong kind of value"),
            (
                "\"suite\": \"ladder\"",
                "\"suite\": \"x\"",
                "unknown value `x`",
            ),
            ("\"samples\": [", "\"samples\": [7,", "wrong kind of value"),
            ("\"cases\"", "\"casts\"", "missing field `cases`"),
            (
                "\"channel\": \"pipe\"",
                "\"channel\": \"x\"",
                "unknown value `x, write, read`",
            ),
            ("\"wait\": \"block\"", "\"wait\": \"x\"", "an unknown value"),
            ("[", "(", "not JSON (expected value"),
        ] {
            let message = error("a.json", &whole.replacen(from, to, 1));
            assert!(message.contains(&format!("{words} at line ")), "{message}");
            let jargon = "invalid,expected f,struct,sequence,variant,Kind,enum";
            assert!(
                !jargon.split(',').any(|word| message.contains(word)),
                "{message}"
            );
        }
        let latency = to_json(&latency_record(ExchangeMode::Closed));
        let damaged = latency.replacen("\"samples\": [", "\"samples\": [7,", 1);
        let damaged = parse::<LatencyRecord>(damaged.as_bytes()).unwrap_err();
        // Not at the last line, where it was noticed.
        let words = "a damaged record (a wrong kind of value): ";
        assert!(damaged.to_string().starts_with(words), "{damaged}");
    }
}
