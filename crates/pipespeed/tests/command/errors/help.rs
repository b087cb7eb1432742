//! Help, version, manual page and completions, all made from one definition.

use crate::common::{pipespeed, run_alone};

/// Standard output of a command that succeeds and prints nothing else, as if on a
/// terminal of 100 columns.
fn output(args: &str) -> String {
    let mut command = pipespeed(args);
    command.env("COLUMNS", "100");
    run_alone(command).succeeded_in_silence().out
}

#[test]
fn help_is_printed_for_the_command_and_its_subcommands() {
    let help = output("--help");
    assert_eq!(output("help"), help);
    for subcommand in [
        "bench", "latency", "compare", "profile", "costs", "pages", "check", "write", "read",
        "meter", "fizzbuzz",
    ] {
        let help = output(&format!("{subcommand} --help"));
        insta::assert_snapshot!(format!("help_{subcommand}"), help);
    }
    insta::assert_snapshot!("help", help);
    // Without anything to do the help is shown, but as an error.
    let nothing = run_alone(pipespeed(""));
    assert_eq!((nothing.code, &*nothing.out), (Some(2), ""));
    assert_eq!(
        nothing.err.lines().next(),
        run_alone(pipespeed("-h")).out.lines().next()
    );
}

#[test]
fn the_version_is_that_of_the_package() {
    let version = concat!("pipespeed ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(output("--version"), version);
}

#[test]
fn manual_page_and_completions_are_made_of_the_same_options() {
    let option = "write-with-vmsplice";
    assert!(output("man").starts_with(".ie "));
    for shell in ["bash", "zsh", "fish"] {
        let script = output(&format!("completions {shell}"));
        assert!(script.contains(option), "{shell}");
    }
}
