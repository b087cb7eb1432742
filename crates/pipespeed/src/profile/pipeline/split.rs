//! A command line taken apart into the stages of its pipeline.
//!
//! Only as much of the shell's grammar as it takes to find the `|` between
//! stages (POSIX.1-2024, Shell Command Language, 2.2 and 2.9.2): quotes,
//! substitutions, parentheses and braces are passed over, and what joins more
//! than a pipeline is refused. The rest is sh's business.

/// Why there are no stages.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCommand {
    /// A stage is empty.
    #[error("a command is missing before or after a '|'")]
    Empty,
    /// A quote or a parenthesis stays open.
    #[error("a {0} is opened and never closed")]
    Open(char),
    /// A parenthesis was never opened.
    #[error("a ')' closes nothing")]
    Closed,
    /// More than one pipeline.
    #[error(
        "{0} joins more than one pipeline; what belongs to one stage goes into parentheses, as in \
         '(a; b) | c'"
    )]
    Joined(&'static str),
}

/// The stages of a pipeline, each as sh takes it.
///
/// # Errors
/// [`BadCommand`].
pub fn stages(command: &str) -> Result<Vec<String>, BadCommand> {
    let mut scanner = Scanner {
        text: command.trim().as_bytes(),
        at: 0,
    };
    let text = command.trim();
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
            b'#' if before.is_ascii_whitespace() => scanner.skip_line(),
            // `>|` overwrites a file.
            b'|' if before == b'>' => {}
            b'|' if scanner.peek() == Some(b'|') => return Err(BadCommand::Joined("'||'")),
            b'|' => {
                let stage = text[begin..end].trim();
                // `|&` is bash's short form.
                let with_errors = scanner.peek() == Some(b'&');
                scanner.at += usize::from(with_errors);
                stages.push(match with_errors {
                    true => format!("{stage} 2>&1"),
                    false => stage.to_owned(),
                });
                begin = scanner.at;
            }
            // `2>&1`, `<&3`.
            b'&' if matches!(before, b'>' | b'<') => {}
            b'&' if scanner.peek() == Some(b'&') => return Err(BadCommand::Joined("'&&'")),
            b'&' => return Err(BadCommand::Joined("'&'")),
            b';' => return Err(BadCommand::Joined("';'")),
            b'\n' if !so_far.is_empty() => return Err(BadCommand::Joined("a new line")),
            b')' => return Err(BadCommand::Closed),
            b'{' if nothing_yet && scanner.peek().is_some_and(|c| c.is_ascii_whitespace()) => {
                scanner.skip_group()?;
            }
            c => scanner.skip(c)?,
        }
        // What was passed over is no operator.
        before = match scanner.at == end + 1 {
            true => c,
            false => b'"',
        };
    }
    stages.push(text[begin..].trim().to_owned());
    match stages
        .iter()
        .any(|stage| stage.trim_end_matches(" 2>&1").is_empty())
    {
        true => Err(BadCommand::Empty),
        false => Ok(stages),
    }
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let c = self.peek()?;
        self.at += 1;
        Some(c)
    }

    fn skip_line(&mut self) {
        while self.peek().is_some_and(|c| c != b'\n') {
            self.at += 1;
        }
    }

    /// Passes over what `c`, just taken, begins, if it begins anything.
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
            b'$' if self.peek() == Some(b'(') => {
                self.at += 1;
                self.skip(b'(')
            }
            _ => Ok(()),
        }
    }

    /// Up to and with `close`; within, what `nests` says is passed over too.
    fn skip_to(&mut self, open: u8, close: u8, nests: fn(u8) -> bool) -> Result<(), BadCommand> {
        while let Some(c) = self.next() {
            if c == close {
                return Ok(());
            }
            if nests(c) {
                self.skip(c)?;
            }
        }
        Err(BadCommand::Open(open.into()))
    }

    /// A group in braces: these are words, and mean something only where a
    /// command may begin.
    fn skip_group(&mut self) -> Result<(), BadCommand> {
        let mut depth = 1;
        let mut may_begin = true;
        while let Some(c) = self.next() {
            let alone = self
                .peek()
                .is_none_or(|c| c.is_ascii_whitespace() || b";|&)<>".contains(&c));
            match c {
                b'}' if may_begin && alone => depth -= 1,
                b'{' if may_begin && alone => depth += 1,
                _ => {}
            }
            if depth == 0 {
                return Ok(());
            }
            self.skip(c)?;
            may_begin = match c {
                b';' | b'\n' | b'|' | b'&' | b')' | b'{' | b'}' => true,
                b' ' | b'\t' => may_begin,
                _ => false,
            };
        }
        Err(BadCommand::Open('{'))
    }
}

/// Words that sh knows itself, and has to run itself.
const SHELLS_OWN: &[&str] = &[
    ".", ":", "[", "alias", "bg", "break", "case", "cd", "command", "continue", "do", "echo",
    "eval", "exec", "exit", "export", "false", "fg", "for", "function", "getopts", "hash", "if",
    "jobs", "kill", "local", "printf", "pwd", "read", "readonly", "return", "select", "set",
    "shift", "source", "test", "time", "times", "trap", "true", "type", "ulimit", "umask",
    "unalias", "unset", "until", "wait", "while",
];

/// What sh is given to run: a plain command takes its place, so that the
/// process that is watched is the command itself. Some shells do so unasked.
pub fn for_shell(stage: &str) -> String {
    let first = stage.split_ascii_whitespace().next().unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./+-".contains(c);
    match first.chars().all(plain) && !SHELLS_OWN.contains(&first) {
        true => format!("exec {stage}"),
        false => stage.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn splits(command: &str, expected: &[&str]) {
        assert_eq!(stages(command).unwrap(), expected, "{command}");
    }

    #[test]
    fn stages_are_what_stands_between_pipes() {
        splits("yes", &["yes"]);
        splits(" zcat a.gz|wc  -l ", &["zcat a.gz", "wc  -l"]);
        splits(
            "a | b 2>&1 | c >/dev/null",
            &["a", "b 2>&1", "c >/dev/null"],
        );
        splits("a |\n  b", &["a", "b"]);
        splits("a |& b", &["a 2>&1", "b"]);
        splits("é a|ü", &["é a", "ü"]);
        splits("a | b # | c", &["a", "b # | c"]);
    }

    #[test]
    fn a_pipe_within_anything_joins_no_stages() {
        for alone in [
            "grep 'a|b'",
            r#"grep "a|b \" | c""#,
            r"grep a\|b",
            "echo $(a | b)",
            r#"echo "x $(a "|" b) | y""#,
            "echo `a | b`",
            "(a | b; c || d)",
            "{ a | b; { c | d; }; } 2>/dev/null",
            "echo $((1 | 2))",
            "echo ${a:-x|y}",
            "a >| file",
            "! { a | b; }",
        ] {
            splits(alone, &[alone]);
            splits(&format!("{alone} | z"), &[alone, "z"]);
        }
        splits("echo { | b", &["echo {", "b"]);
    }

    #[test]
    fn what_is_more_than_a_pipeline_says_what_to_do() {
        for (command, joint) in [
            ("a; b | c", "';'"),
            ("a && b | c", "'&&'"),
            ("a || b", "'||'"),
            ("a | b &", "'&'"),
            ("a\nb", "a new line"),
            ("while read x; do a | b; done", "';'"),
        ] {
            let error = stages(command).unwrap_err();
            assert_eq!(error, BadCommand::Joined(joint), "{command}");
            assert!(error.to_string().contains("'(a; b) | c'"), "{error}");
        }
    }

    #[test]
    fn what_is_no_command_is_refused() {
        for command in ["", " ", "a |", "| a", "a | | b", "|& a"] {
            assert_eq!(stages(command), Err(BadCommand::Empty), "{command:?}");
        }
        assert_eq!(stages("a 'b | c"), Err(BadCommand::Open('\'')));
        assert_eq!(stages("(a | b"), Err(BadCommand::Open('(')));
        assert_eq!(stages("{ a | b"), Err(BadCommand::Open('{')));
        assert_eq!(stages("a) | b"), Err(BadCommand::Closed));
    }

    #[test]
    fn only_a_plain_command_takes_the_shells_place() {
        assert_eq!(for_shell("zcat a.gz > x"), "exec zcat a.gz > x");
        for own in [
            "echo hi",
            "A=1 b",
            "(a; b)",
            "{ a; }",
            "while read x",
            "! a",
            "< a wc",
            "\"my cmd\"",
        ] {
            assert_eq!(for_shell(own), own);
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_too_strange(text in "[a|&;(){}'\"`$#\\\\ \n>é]{0,30}") {
            if let Ok(stages) = stages(&text) {
                proptest::prop_assert!(stages.iter().all(|stage| !stage.is_empty()));
            }
        }
    }
}
