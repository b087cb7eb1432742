//! A run as JSON: written for people and programs, read back for comparing.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Value, json};

use super::{Kind, Run, SCHEMA_VERSION};

/// Why a saved run could not be loaded. Every message is one line that names
/// the file and the way out.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file could not be read at all.
    #[error("{}: cannot be read: {cause}; give a file made by --json", shown(.path))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// There is nothing in the file: most often a run that was never finished.
    #[error("{}: empty: the run that should have written it saved no round; run it again", shown(.path))]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The file holds something other than JSON.
    #[error("{}: not JSON ({cause}); give a file made by --json, not the table or --csv", shown(.path))]
    NotJson {
        /// The file.
        path: PathBuf,
        /// Where the parser stopped.
        cause: serde_json::Error,
    },
    /// JSON, but without the mark every record of ours carries.
    #[error("{}: JSON, but not a run of pipespeed (it has no schema_version); give a file made by --json", shown(.path))]
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// A record of another command, which says what it is.
    #[error("{}: a record of kind {kind}, not bench: give a file made by pipespeed bench --json", shown(.path))]
    OtherKind {
        /// The file.
        path: PathBuf,
        /// The kind it carries.
        kind: String,
    },
    /// Written by a later program, whose fields may mean something else.
    #[error("{}: has schema_version {found}, this pipespeed reads {SCHEMA_VERSION}: use a newer pipespeed", shown(.path))]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version it carries.
        found: u64,
    },
    /// Written by an earlier program, whose fields may mean something else.
    #[error("{}: has schema_version {found}, this pipespeed reads {SCHEMA_VERSION}: measure again with this version, or use the one that wrote it", shown(.path))]
    Older {
        /// The file.
        path: PathBuf,
        /// The version it carries.
        found: u64,
    },
    /// The right version, but a field is missing or of the wrong kind.
    #[error("{}: a damaged record ({cause}): it lacks something, or was changed; run it again", shown(.path))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong and where.
        cause: serde_json::Error,
    },
}

/// The path as messages name it.
fn shown(path: &Path) -> String {
    if path == Path::new("-") {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    }
}

/// A record as indented JSON with a newline at the end.
pub fn to_json(record: &impl Serialize) -> String {
    // A record has string keys and plain values only, so there is nothing the
    // serialiser could refuse.
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
    let bytes = read(path).map_err(|cause| LoadError::Unreadable {
        path: path.to_owned(),
        cause,
    })?;
    parse(path, &bytes)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    if path == Path::new("-") {
        let mut bytes = Vec::new();
        io::stdin().lock().read_to_end(&mut bytes)?;
        Ok(bytes)
    } else {
        fs::read(path)
    }
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Run, LoadError> {
    let path = path.to_owned();
    if bytes.trim_ascii().is_empty() {
        return Err(LoadError::Empty { path });
    }
    // The version is looked at before the fields: a record of another version
    // may lack any of them, and that would be the wrong thing to complain of.
    let any: Value = match serde_json::from_slice(bytes) {
        Ok(any) => any,
        Err(cause) => return Err(LoadError::NotJson { path, cause }),
    };
    if let Some(Value::String(kind)) = any.get("kind")
        && *kind != json!(Kind::Bench)
    {
        let kind = kind.clone();
        return Err(LoadError::OtherKind { path, kind });
    }
    let ours = u64::from(SCHEMA_VERSION);
    match any.get("schema_version").and_then(Value::as_u64) {
        None => Err(LoadError::NotOurs { path }),
        Some(found) if found > ours => Err(LoadError::Newer { path, found }),
        Some(found) if found < ours => Err(LoadError::Older { path, found }),
        // Parsed from the text again, for an error that names line and column.
        Some(_) => {
            serde_json::from_slice(bytes).map_err(|cause| LoadError::Damaged { path, cause })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::ladder;

    fn error(text: &str) -> LoadError {
        parse(Path::new("old.json"), text.as_bytes()).unwrap_err()
    }

    #[test]
    fn a_run_survives_saving_and_loading() {
        let run = ladder();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.json");
        let text = to_json(&run);
        assert!(text.ends_with("}\n"));
        fs::write(&path, text).unwrap();
        // Not assert_eq: a run takes pages to show.
        assert!(
            load(&path).unwrap() == run,
            "numbers change without serde_json's float_roundtrip"
        );
    }

    #[test]
    fn a_field_of_a_later_minor_program_is_passed_over() {
        let text = to_json(&ladder()).replacen('{', "{ \"added_later\": [1],", 1);
        assert!(parse(Path::new("a.json"), text.as_bytes()).unwrap() == ladder());
    }

    #[test]
    fn every_way_to_fail_has_its_own_error() {
        let later = to_json(&ladder()).replace("\"schema_version\": 2", "\"schema_version\": 7");
        assert!(matches!(error(""), LoadError::Empty { .. }));
        assert!(matches!(error(" \n"), LoadError::Empty { .. }));
        assert!(matches!(error("case  GiB/s"), LoadError::NotJson { .. }));
        assert!(matches!(error("[1, 2]"), LoadError::NotOurs { .. }));
        assert!(matches!(
            error("{\"schema_version\": \"x\"}"),
            LoadError::NotOurs { .. }
        ));
        assert!(matches!(
            error("{\"schema_version\": 1}"),
            LoadError::Older { found: 1, .. }
        ));
        assert!(matches!(error(&later), LoadError::Newer { found: 7, .. }));
        assert!(matches!(
            error("{\"schema_version\": 2}"),
            LoadError::Damaged { .. }
        ));
        assert!(matches!(
            load("/nonexistent/run.json"),
            Err(LoadError::Unreadable { .. })
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
            let message = error(text).to_string();
            assert!(message.starts_with("old.json: "), "{message}");
            assert!(!message.contains('\n'), "{message}");
        }
        let message = load("/nonexistent/run.json").unwrap_err().to_string();
        assert!(message.starts_with("/nonexistent/run.json: "), "{message}");
        let stdin = parse(Path::new("-"), b"").unwrap_err().to_string();
        assert!(stdin.starts_with("standard input: "), "{stdin}");
    }

    #[test]
    fn a_record_of_another_command_is_named() {
        for text in [
            "{\"schema_version\": 2, \"kind\": \"check\"}",
            // Before all records had the same header.
            "{\"version\": 1, \"kind\": \"check\"}",
        ] {
            let message = error(text).to_string();
            assert!(message.contains("a record of kind check"), "{message}");
        }
    }

    #[test]
    fn another_version_is_named_beside_ours() {
        for (version, way_out) in [(1, "measure again"), (9, "use a newer pipespeed")] {
            let message = error(&format!("{{\"schema_version\": {version}}}")).to_string();
            let named = format!("schema_version {version}, this pipespeed reads 2: {way_out}");
            assert!(message.contains(&named), "{message}");
        }
    }
}
