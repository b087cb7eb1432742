//! Help, version, manual page and completions, all made from one definition.

use std::fs;

use crate::common::terminal::Terminal;
use crate::common::{fits, pipespeed, run_alone, says};

/// All commands, in the order of the help.
const COMMANDS: [&str; 18] = [
    "bench",
    "profile",
    "check",
    "costs",
    "latency",
    "compare",
    "report",
    "pages",
    "doctor",
    "boost",
    "top",
    "meter",
    "write",
    "read",
    "fizzbuzz",
    "yes",
    "completions",
    "man",
];

/// Standard output of a command that succeeds and prints nothing else, as if on a
/// terminal of 80 columns.
fn output(args: &str) -> String {
    output_in(args, "80")
}

fn output_in(args: &str, columns: &str) -> String {
    let mut command = pipespeed(args);
    command.env("COLUMNS", columns);
    run_alone(command).succeeded_in_silence().out
}

#[test]
fn help_names_every_command_in_order_and_how_to_begin() {
    let help = output("--help");
    assert_eq!(output("help"), help);
    insta::assert_snapshot!("help", help);
    insta::assert_snapshot!("help_bench", output("bench -h"));
    insta::assert_snapshot!("help_boost", output("boost --help"));
    let places = COMMANDS.map(|name| help.find(&format!("\n  {name} ")).unwrap());
    assert!(places.is_sorted(), "{help}");
    // Without anything to do the help is shown, but as an error.
    let nothing = run_alone(pipespeed(""));
    nothing.assert_ended(2, "");
    assert_eq!(
        nothing.err.lines().next(),
        run_alone(pipespeed("-h")).out.lines().next()
    );
    says(
        &nothing.err,
        &[
            "Try first:\n  pipespeed bench --quick ",
            "https://mazzo.li/",
        ],
    );
}

#[test]
fn every_commands_help_has_example_and_fits_into_80_columns() {
    for name in COMMANDS {
        for help in ["-h", "--help"] {
            let text = output(&format!("{name} {help}"));
            let example = format!("\n  pipespeed {name}");
            let piped = format!("| pipespeed {name}");
            assert!(text.contains(&example) || text.contains(&piped), "{text}");
            // A wrapped example could not be pasted.
            let examples = |text: &str| text[text.find("\nExample").unwrap()..].to_owned();
            let wide = output_in(&format!("{name} {help}"), "200");
            assert_eq!(examples(&text), examples(&wide));
            fits(&text, 80);
        }
    }
}

#[test]
fn columns_of_0_are_no_width() {
    assert_eq!(output_in("bench -h", "0"), output_in("bench -h", "100"));
}

#[test]
fn each_end_lists_only_the_options_that_concern_it() {
    let (write, read) = (output("write --help"), output("read --help"));
    for (option, of_writer, of_reader) in [
        ("--write-with-vmsplice\n", true, false),
        ("--gift\n", true, false),
        ("--same-buffer\n", true, false),
        ("--read-with-splice\n", false, true),
        ("--bytes-to-pipe <SIZE>\n", false, true),
        ("--csv\n", false, true),
        ("--pipe-size <SIZE>\n", true, true),
    ] {
        let listed = (write.contains(option), read.contains(option));
        assert_eq!(listed, (of_writer, of_reader), "{option}");
    }
    assert!(!read.contains("The writer"), "{read}");
}

/// What a command prints on a terminal of this type and width.
fn on_terminal(columns: u16, term: &str, args: &str) -> String {
    let mut terminal = Terminal::new(columns);
    let mut command = pipespeed(args);
    command.env("TERM", term).env_remove("NO_COLOR");
    command.env_remove("COLUMNS").stdout(terminal.input());
    command.stdin(std::process::Stdio::null());
    terminal.start(command).finish();
    terminal.text().replace("\r\n", "\n")
}

#[test]
fn a_terminal_without_escapes_gets_none() {
    for args in [
        "--help",
        "",
        "check --only limits",
        "bench --quick --rounds 1 --case write_read --no-save",
    ] {
        for term in ["", "dumb"] {
            let text = on_terminal(80, term, args);
            assert!(text.len() > 100 && !text.contains('\x1b'), "{text:?}");
        }
        assert!(on_terminal(80, "xterm", args).contains('\x1b'), "{args}");
    }
}

#[test]
fn errors_and_lists_are_broken_between_words() {
    for (columns, args) in [
        (40, "bench --case nonsense"),
        (80, "bench --case nonsense"),
        (60, "bench touched --list"),
    ] {
        let text = on_terminal(columns, "xterm", args);
        fits(&text, columns.into());
        let outcome = run_alone(pipespeed(args));
        let unbroken = outcome.out + &outcome.err;
        assert!(unbroken.lines().count() < text.lines().count(), "{text}");
        let (broken, unbroken) = (text.split_whitespace(), unbroken.split_whitespace());
        assert!(broken.eq(unbroken), "{text}");
        let is_indented = text.lines().skip(1).all(|line| line.starts_with("  "));
        assert!(is_indented || args.contains("--list"), "{text}");
    }
}

#[test]
fn manual_page_and_completions_are_made_of_the_same_options() {
    let option = "write-with-vmsplice";
    assert!(output("man").starts_with(".ie "));
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("man1");
    assert_eq!(output(&format!("man --dir {}", pages.display())), "");
    for name in COMMANDS {
        let page = fs::read_to_string(pages.join(format!("pipespeed-{name}.1"))).unwrap();
        assert!(page.contains(&format!("pipespeed\\-{name}")), "{page}");
    }
    let page = fs::read_to_string(pages.join("pipespeed.1")).unwrap();
    assert!(page.contains("pipespeed\\-boost(1)"), "{page}");
    let refused = run_alone(pipespeed("man --dir /proc/here"));
    refused.assert_ended(1, "");
    says(&refused.err, &["--dir: cannot write /proc/here"]);
    for shell in ["bash", "zsh", "fish"] {
        let script = output(&format!("completions {shell}"));
        assert!(script.contains(option), "{shell}");
    }
}
