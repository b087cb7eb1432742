//! What came of a check.

/// Whether a statement holds here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It is so.
    Pass,
    /// It is not, though every pipe must be so: the command fails.
    Fail,
    /// Systems differ in this; this is how it is here.
    Seen,
    /// The system does not let us find out, or use it.
    Refused,
    /// It could not be found out: the command fails, since it does not say what
    /// it was to say.
    Error,
}

impl Verdict {
    /// All, in the order of summaries.
    pub const ALL: [Verdict; 5] = [
        Verdict::Pass,
        Verdict::Fail,
        Verdict::Seen,
        Verdict::Refused,
        Verdict::Error,
    ];

    /// As it stands in tables: what needs a look stands out without colours.
    pub fn mark(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Fail => "FAIL",
            Verdict::Seen => "seen",
            Verdict::Refused => "refused",
            Verdict::Error => "ERROR",
        }
    }
}

/// What came of a check.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Outcome {
    /// Whether the statement holds.
    pub verdict: Verdict,
    /// The value seen: `65536 bytes`.
    pub seen: String,
    /// What follows from it, or what refuses and how to allow it; nothing where
    /// the value says it all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// How the words of an error begin.
const NOT_FOUND_OUT: &str = "could not be found out: ";

impl Outcome {
    /// It is so, and this was seen.
    pub fn pass(seen: impl Into<String>) -> Self {
        Outcome::new(Verdict::Pass, seen)
    }

    /// It is not as it must be: this was seen instead.
    pub fn fail(seen: impl Into<String>) -> Self {
        Outcome::new(Verdict::Fail, seen)
    }

    /// This is how it is here.
    pub fn seen(seen: impl Into<String>) -> Self {
        Outcome::new(Verdict::Seen, seen)
    }

    /// The system refuses, for this reason.
    pub fn refused(reason: impl Into<String>) -> Self {
        Outcome::new(Verdict::Refused, reason)
    }

    /// It could not be found out.
    pub fn error(error: impl std::fmt::Display) -> Self {
        let seen = format!("{NOT_FOUND_OUT}{error}");
        Outcome::new(Verdict::Error, seen)
    }

    fn new(verdict: Verdict, seen: impl Into<String>) -> Self {
        Outcome {
            verdict,
            seen: seen.into(),
            note: None,
        }
    }

    /// Why it could not be found out.
    pub(super) fn cause(&self) -> &str {
        let error = || self.seen.strip_prefix(NOT_FOUND_OUT);
        self.note.as_deref().or_else(error).unwrap_or(&self.seen)
    }

    /// What follows from it, or the way out.
    pub fn noting(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }
}
