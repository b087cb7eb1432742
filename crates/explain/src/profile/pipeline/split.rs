//! Splits a command line into the stages of its pipeline.
//!
//! This parses only as much of the shell's grammar as is needed to find each `|` between
//! stages (POSIX.1-2024, Shell Command Language, 2.2 and 2.9): quotes, substitutions,
//! parentheses and compound commands are skipped; operators that join several pipelines are
//! errors. sh parses the stages.

use std::process::Command;

/// A command line that is not a pipeline.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCommand {
    /// A stage is empty.
    #[error("a command is missing before or after a '|', or the pipeline is empty")]
    Empty,
    /// A quote or a parenthesis is never closed.
    #[error("a {0} is never closed")]
    Open(char),
    /// A compound command has no end.
    #[error("'{}' has no '{}'", .0.begin, .0.end)]
    Unfinished(&'static Compound),
    /// A parenthesis was never opened.
    #[error("a ')' has no '('")]
    Closed,
    /// Quotes, parentheses and compound commands are nested too deeply.
    #[error("quotes and parentheses are nested more than {MAX_DEPTH} deep; use a script")]
    Deep,
    /// A here-document.
    #[error("here-documents ('<<') are not supported; use a file ('< FILE') or a script")]
    HereDocument,
    /// More than one pipeline.
    #[error(
        "{0} joins several pipelines; put the commands of a stage into parentheses, as in \
         '(a; b) | c'"
    )]
    Joined(&'static str),
}

/// The words around a compound command (POSIX.1-2024, Shell Command Language, 2.9.4).
#[derive(Debug, PartialEq, Eq)]
pub struct Compound {
    begin: &'static str,
    end: &'static str,
}

#[rustfmt::skip]
static COMPOUNDS: [Compound; 7] = [
    Compound { begin: "(", end: ")" },
    Compound { begin: "{", end: "}" },
    Compound { begin: "for", end: "done" },
    Compound { begin: "while", end: "done" },
    Compound { begin: "until", end: "done" },
    Compound { begin: "if", end: "fi" },
    Compound { begin: "case", end: "esac" },
];

/// Other reserved words after which a command begins.
const OTHER_WORDS: [&str; 5] = ["!", "do", "then", "else", "elif"];

/// Maximum nesting of quotes and parentheses: each level takes some stack.
const MAX_DEPTH: usize = 100;

/// A blank or a new line (POSIX.1-2024, Shell Command Language, 2.3).
fn is_blank(c: char) -> bool {
    c.is_ascii_whitespace()
}

/// Trims blanks, except an escaped one.
fn trim(text: &str) -> &str {
    let text = text.trim_start_matches(is_blank);
    let kept = text.trim_end_matches(is_blank);
    let escapes = kept.len() - kept.trim_end_matches('\\').len();
    let escaped = escapes % 2 == 1 && kept.len() < text.len();
    &text[..kept.len() + usize::from(escaped)]
}

/// Splits a pipeline into its stages.
///
/// # Errors
/// [`BadCommand`].
pub fn stages(command: &str) -> Result<Vec<String>, BadCommand> {
    let mut text = trim(command);
    let mut scanner = Scanner {
        text: text.as_bytes(),
        at: 0,
        depth: 0,
    };
    let mut stages = Vec::new();
    let mut begin = 0;
    let mut before = b' ';
    while let Some(c) = scanner.next() {
        let end = scanner.at - 1;
        let so_far = scanner.text[begin..end].trim_ascii();
        let nothing_yet = so_far
            .iter()
            .all(|c| matches!(c, b'!' | b' ' | b'\t' | b'\n'));
        match c {
            b'#' if before.is_ascii_whitespace() => scanner.skip_while(|c| c != b'\n'),
            // `>|` overwrites a file.
            b'|' if before == b'>' => {}
            b'|' if scanner.peek() == Some(b'|') => return Err(BadCommand::Joined("'||'")),
            b'|' => {
                let stage = trim(&text[begin..end]);
                // `|&` is short for `2>&1 |` in bash.
                let with_errors = scanner.peek() == Some(b'&');
                scanner.at += usize::from(with_errors);
                stages.push(if with_errors {
                    format!("{stage} 2>&1")
                } else {
                    stage.to_owned()
                });
                begin = scanner.at;
            }
            // `2>&1`, `<&3`.
            b'&' if matches!(before, b'>' | b'<') => {}
            b'&' if scanner.peek() == Some(b'&') => return Err(BadCommand::Joined("'&&'")),
            b'&' => return Err(BadCommand::Joined("'&'")),
            b'<' if scanner.peek() == Some(b'<') => {
                scanner.at += 1;
                // `<<<` is a here-string of bash.
                if scanner.next() != Some(b'<') {
                    return Err(BadCommand::HereDocument);
                }
            }
            b';' if trim(&text[scanner.at..]).is_empty() => {
                text = &text[..end];
                break;
            }
            b';' => return Err(BadCommand::Joined("';'")),
            b'\n' if !so_far.is_empty() => return Err(BadCommand::Joined("a new line")),
            b')' => return Err(BadCommand::Closed),
            _ if nothing_yet && scanner.skip_compound(end)? => {}
            c => scanner.skip(c)?,
        }
        // A skipped part is not an operator.
        before = if scanner.at == end + 1 { c } else { b'"' };
    }
    stages.push(trim(&text[begin..]).to_owned());
    if stages
        .iter()
        .any(|stage| stage.trim_end_matches(" 2>&1").is_empty())
    {
        Err(BadCommand::Empty)
    } else {
        Ok(stages)
    }
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    /// The nesting at `at`.
    depth: usize,
}

impl<'a> Scanner<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let c = self.peek()?;
        self.at += 1;
        Some(c)
    }

    fn skip_while(&mut self, is_skipped: impl Fn(u8) -> bool) {
        while self.peek().is_some_and(&is_skipped) {
            self.at += 1;
        }
    }

    /// Skips the quotes, substitution or parentheses that start with `c`, the byte
    /// before `at`.
    fn skip(&mut self, c: u8) -> Result<(), BadCommand> {
        match c {
            b'\\' => {
                self.next();
                Ok(())
            }
            b'\'' => self.skip_to(c, b'\'', |_| false),
            b'"' => self.skip_to(c, b'"', |c| matches!(c, b'\\' | b'`' | b'$')),
            b'`' => self.skip_to(c, b'`', |c| c == b'\\'),
            b'(' => self.skip_to(c, b')', |_| true),
            b'$' if self.peek() == Some(b'{') => {
                self.at += 1;
                self.skip_to(b'{', b'}', |_| true)
            }
            b'$' if self.peek() == Some(b'(') => self.skip_compound(self.at).map(drop),
            _ => Ok(()),
        }
    }

    /// Skips up to and including `close`; bytes for which `nests` holds may start
    /// nested parts.
    fn skip_to(&mut self, open: u8, close: u8, nests: fn(u8) -> bool) -> Result<(), BadCommand> {
        self.enter()?;
        while let Some(c) = self.next() {
            if c == close {
                self.depth -= 1;
                return Ok(());
            }
            if nests(c) {
                self.skip(c)?;
            }
        }
        Err(BadCommand::Open(open.into()))
    }

    fn enter(&mut self) -> Result<(), BadCommand> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(BadCommand::Deep);
        }
        Ok(())
    }

    /// Skips the compound command that starts at `begin`. Returns whether there is one.
    fn skip_compound(&mut self, begin: usize) -> Result<bool, BadCommand> {
        let begun_by = |word: &str| COMPOUNDS.iter().find(|compound| compound.begin == word);
        if begun_by(self.word(begin)).is_none() {
            return Ok(false);
        }
        self.at = begin;
        let mut open: Vec<&'static Compound> = Vec::new();
        let mut may_begin = true;
        loop {
            let end = open.last().map_or("", |compound| compound.end);
            // Words are special only where a command may begin.
            let word = match self.peek() {
                Some(b')') => ")",
                Some(_) if may_begin => self.word(self.at),
                _ => "",
            };
            // `done)` is a pattern of a `case`.
            let is_pattern = end == "esac" && word != end && self.is_pattern(word);
            let word = if is_pattern { "" } else { word };
            let length = word.len();
            let is_for = word == "for";
            if let Some(compound) = begun_by(word) {
                self.enter()?;
                open.push(compound);
            } else if word == end {
                self.depth -= 1;
                open.pop();
            } else if !OTHER_WORDS.contains(&word) {
                may_begin = match (self.next(), open.last()) {
                    (Some(c), _) => self.skip_in_compound(c, may_begin)?,
                    (None, Some(compound)) => return Err(BadCommand::Unfinished(compound)),
                    (None, None) => return Ok(true),
                };
                continue;
            }
            self.at += length;
            if is_for {
                // A `do` may follow the name.
                self.skip_while(|c| c.is_ascii_whitespace());
                self.skip_while(|c| c.is_ascii_alphanumeric() || c == b'_');
            }
            if open.is_empty() {
                return Ok(true);
            }
            may_begin = true;
        }
    }

    /// Whether the word at `at` ends a pattern of a `case`.
    fn is_pattern(&self, word: &str) -> bool {
        self.text.get(self.at + word.len()) == Some(&b')')
    }

    /// Skips what starts with `c` within a compound command. Returns whether a command may
    /// begin after it.
    fn skip_in_compound(&mut self, c: u8, may_begin: bool) -> Result<bool, BadCommand> {
        let before = self.text[self.at - 2];
        if c == b'#' && before.is_ascii_whitespace() {
            self.skip_while(|c| c != b'\n');
            return Ok(may_begin);
        }
        self.skip(c)?;
        Ok(match c {
            b';' | b'\n' | b'|' | b'&' | b'(' | b')' => true,
            b' ' | b'\t' => may_begin,
            _ => false,
        })
    }

    /// The word at `begin` if it may be a reserved one or a parenthesis, else an empty one.
    fn word(&self, begin: usize) -> &'a str {
        let rest = &self.text[begin..];
        let is_letter = |c: &u8| c.is_ascii_lowercase() || b"{}!".contains(c);
        let length = match rest.first() {
            Some(b'(' | b')') => 1,
            _ => rest.iter().take_while(|c| is_letter(c)).count(),
        };
        let is_alone = |c: &u8| c.is_ascii_whitespace() || b";|&<>()".contains(c);
        let ends = rest.first().is_some_and(|c| b"()".contains(c));
        let word = if ends || rest.get(length).is_none_or(is_alone) {
            &rest[..length]
        } else {
            &[]
        };
        std::str::from_utf8(word).unwrap_or_default()
    }
}

/// The first word of a command.
pub fn first_word(stage: &str) -> &str {
    stage.split_ascii_whitespace().next().unwrap_or_default()
}

/// Whether a command is a plain program with arguments, which can replace the shell
/// by `exec`.
pub fn is_program(stage: &str) -> bool {
    let first = first_word(stage);
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./+-".contains(c);
    first.chars().all(plain) && !is_builtin(first)
}

/// Whether sh runs a word itself: a builtin or a keyword. `command -v` prints a path
/// for other commands, and nothing for unknown ones (POSIX.1-2024).
fn is_builtin(word: &str) -> bool {
    let script = ["-c", "command -v -- \"$1\"", "sh", word];
    let found = Command::new("sh").args(script).output();
    found.is_ok_and(|found| found.status.success() && !found.stdout.contains(&b'/'))
}

#[cfg(test)]
mod tests;
