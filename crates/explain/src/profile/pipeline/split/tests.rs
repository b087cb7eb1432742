//! Tests of splitting command lines.

use super::*;

#[track_caller]
fn splits(command: &str, expected: &[&str]) {
    assert_eq!(stages(command).unwrap(), expected, "{command}");
}

#[test]
fn stages_are_separated_by_pipes() {
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
fn a_quoted_or_nested_pipe_separates_no_stages() {
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
fn joined_pipelines_are_refused_with_advice() {
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
fn incomplete_commands_are_refused() {
    for command in ["", " ", "a |", "| a", "a | | b", "|& a"] {
        assert_eq!(stages(command), Err(BadCommand::Empty), "{command:?}");
    }
    assert_eq!(stages("a 'b | c"), Err(BadCommand::Open('\'')));
    assert_eq!(stages("(a | b"), Err(BadCommand::Open('(')));
    assert_eq!(stages("{ a | b"), Err(BadCommand::Open('{')));
    assert_eq!(stages("a) | b"), Err(BadCommand::Closed));
    let case = BadCommand::Closed.to_string();
    let advised = case.split('\'').rev().nth(1).unwrap();
    let expected = ["(case x in (x) a;; esac)", "b"];
    splits(advised, &expected);
    for command in ["cat << EOF\n| a\nEOF", "cat <<-X | b"] {
        assert_eq!(stages(command), Err(BadCommand::HereDocument), "{command}");
    }
    splits("cat <<< 'a | b' | c", &["cat <<< 'a | b'", "c"]);
}

#[test]
fn an_escaped_blank_belongs_to_its_word() {
    splits(r"echo a\ | cat -A", &[r"echo a\ ", "cat -A"]);
    splits(r"echo a\ |& cat -A", &[r"echo a\  2>&1", "cat -A"]);
    splits(r"echo a\\ | cat -A ", &[r"echo a\\", "cat -A"]);
    splits(r"a | echo b\  ", &["a", r"echo b\ "]);
    splits("a\\", &["a\\"]);
}

#[test]
fn a_semicolon_at_the_end_is_ignored() {
    splits("a | b;", &["a", "b"]);
    splits("a | b ; ", &["a", "b"]);
    splits(r"a | b \;", &["a", r"b \;"]);
    assert_eq!(stages(";"), Err(BadCommand::Empty));
    assert_eq!(stages("a | ;"), Err(BadCommand::Empty));
    assert_eq!(stages("a;;"), Err(BadCommand::Joined("';'")));
}

#[test]
fn too_deep_nesting_is_refused_without_a_stack_overflow() {
    let nested = |open: &str, close: &str, times: usize| {
        stages(&format!("{}a{}", open.repeat(times), close.repeat(times)))
    };
    assert_eq!(nested("(", ")", 131_000), Err(BadCommand::Deep));
    assert_eq!(nested("$(", ")", 131_000), Err(BadCommand::Deep));
    assert_eq!(nested("${", "}", 131_000), Err(BadCommand::Deep));
    assert_eq!(nested("\"$(", ")\"", 131_000), Err(BadCommand::Deep));
    assert_eq!(
        nested("{ ", ";}", 131_000).map(|stages| stages.len()),
        Ok(1)
    );
    assert_eq!(
        nested("(", ")", MAX_DEPTH).map(|stages| stages.len()),
        Ok(1)
    );
    // A sequence of groups is not nested.
    splits(
        &"(a)".repeat(MAX_DEPTH + 1),
        &[&"(a)".repeat(MAX_DEPTH + 1)],
    );
}

#[test]
fn only_a_plain_program_replaces_the_shell() {
    for program in ["sh a > x", "/bin/sh", "no_such_program_at_all 7"] {
        assert!(is_program(program), "{program}");
    }
    for own in [
        "echo hi",
        "A=1 b",
        "(a; b)",
        "{ a; }",
        "while read x",
        "! a",
        "< a wc",
        "\"my cmd\"",
        "cd /",
        "test 1 = 2",
    ] {
        assert!(!is_program(own), "{own}");
    }
}

proptest::proptest! {
    #[test]
    fn any_text_is_split_or_refused(text in "[a|&;(){}'\"`$#\\\\ \n>é]{0,30}") {
        if let Ok(stages) = stages(&text) {
            proptest::prop_assert!(stages.iter().all(|stage| !stage.is_empty()));
        }
    }
}
