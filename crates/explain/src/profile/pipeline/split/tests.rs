//! Tests of splitting command lines.

use super::*;
use proptest::prelude::*;

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
fn a_compound_command_is_one_stage() {
    for alone in [
        "for x in a b; do echo $x | c; done",
        "for x do a; done",
        "for x\ndo a; done",
        "for ((i = 0; i < 3; i++)); do a | b; done",
        "for do in done for; do a; done",
        "while read x; do a | b; done",
        "until a; do for x in b; do c; done; done",
        "if a | b; then c; elif d; then e; else { f; }; fi",
        "while ! { a; b; }; do c; done < file",
        "case $x in a|b) c | d;; (e) if f; then g; fi;; done) h;; esac",
        "while a; do # it isn't | done\n b; done",
        "! if a; then echo fi done; fi",
        "(case x in x) a | b;; (y) c;; esac)",
        "echo $(for x in a; do b | c; done) \"$(case x in x) a | b;; esac)\"",
        "(a # it isn't )\n b)",
    ] {
        splits(alone, &[alone]);
        splits(&format!("{alone} | wc"), &[alone, "wc"]);
        splits(&format!("a | {alone}|wc"), &["a", alone, "wc"]);
    }
    // Elsewhere these words are not reserved.
    splits("echo for | b if", &["echo for", "b if"]);
}

#[test]
fn an_unfinished_compound_command_names_its_end() {
    for (command, message) in [
        ("for x in a; do b | c", "'for' has no 'done'"),
        ("while a; do if b; then c; done", "'if' has no 'fi'"),
        ("case x in a) b;; | c", "'case' has no 'esac'"),
        ("{ a | b", "'{' has no '}'"),
        ("(a | b", "'(' has no ')'"),
        ("echo $(a | b", "'(' has no ')'"),
    ] {
        assert_eq!(stages(command).unwrap_err().to_string(), message);
    }
}

#[test]
fn joined_pipelines_are_refused_with_advice() {
    for (command, joint) in [
        ("a; b | c", "';'"),
        ("a && b | c", "'&&'"),
        ("a || b", "'||'"),
        ("a | b &", "'&'"),
        ("a\nb", "a new line"),
        ("for x in a b; do c; done; d | e", "';'"),
        ("do a; done", "';'"),
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
    assert_eq!(stages("a) | b"), Err(BadCommand::Closed));
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
    assert_eq!(nested("{ ", ";}", 131_000), Err(BadCommand::Deep));
    for (open, close) in [("(", ")"), ("{ ", ";}"), ("$(", ")")] {
        let deepest = nested(open, close, MAX_DEPTH);
        assert_eq!(deepest.map(|stages| stages.len()), Ok(1));
    }
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

/// Commands with compound commands in them.
fn any_command() -> impl Strategy<Value = String> {
    let simple = prop::sample::select(vec!["a", "b 'x;|' fi", "c $(d | e) done", "f > g"]);
    simple
        .prop_map(str::to_owned)
        .prop_recursive(4, 24, 3, |of| {
            (of.clone(), of.clone(), of, 0..9).prop_map(|(a, b, c, form)| match form {
                0 => format!("{{ {a}; {b} | {c}; }}"),
                1 => format!("for x in if do; do {a} && {b}; {c}; done"),
                2 => format!("for x do {a}\ndone"),
                3 => format!("while {a}; do\n{b}; {c}; done"),
                4 => format!("until ! {a} | {b}; do {c}; done 2>&1"),
                5 => format!("if {a}; then {b}; else {c}; fi"),
                6 => format!("if {a} || {b}\nthen {c} &\nfi"),
                7 => format!("case $x in y|z) {a};; (done) {b}; {c} ;; esac"),
                _ => format!("({a} | {b}; {c})"),
            })
        })
}

proptest! {
    #[test]
    fn any_text_is_split_or_refused(text in "[a|&;(){}'\"`$#\\\\ \n>é]{0,30}") {
        if let Ok(stages) = stages(&text) {
            prop_assert!(stages.iter().all(|stage| !stage.is_empty()));
        }
    }

    #[test]
    fn any_words_are_split_or_refused(
        words in prop::collection::vec("for|in|do|done|case|esac|if|fi|\\{|\\}|[a;|()#!&]| |\n", 0..20),
    ) {
        if let Ok(stages) = stages(&words.concat()) {
            prop_assert!(stages.iter().all(|stage| !stage.is_empty()));
        }
    }

    #[test]
    fn nested_compound_commands_keep_their_pipes(
        commands in prop::collection::vec(any_command(), 1..4),
    ) {
        let expected: Vec<&str> = commands.iter().map(String::as_str).collect();
        prop_assert_eq!(stages(&commands.join(" | ")).unwrap(), expected);
    }
}
