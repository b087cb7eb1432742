//! Help, version, manual page and completions, all made from one definition.

use crate::common::{pipespeed, run_alone};

#[test]
fn help_and_version_are_no_errors() {
    for args in [
        "--help",
        "bench --help",
        "latency --help",
        "compare -h",
        "profile --help",
        "write --help",
        "read --help",
        "pages --help",
        "check --help",
        "help",
    ] {
        let outcome = run_alone(pipespeed(args)).succeeded();
        assert!(outcome.out.contains("Usage: pipespeed"), "{outcome:#?}");
        assert_eq!(outcome.err, "");
    }
    let version = run_alone(pipespeed("--version")).succeeded().out;
    assert_eq!(
        version,
        format!("pipespeed {}\n", env!("CARGO_PKG_VERSION"))
    );
    assert!(
        run_alone(pipespeed("man"))
            .succeeded()
            .out
            .contains(".TH pipespeed")
    );
    for shell in ["bash", "zsh", "fish"] {
        let script = run_alone(pipespeed(&format!("completions {shell}")))
            .succeeded()
            .out;
        assert!(script.contains("write-with-vmsplice"), "{shell}");
    }
    // Without anything to do the help is shown, but as an error.
    let nothing = run_alone(pipespeed(""));
    assert_eq!((nothing.code, &*nothing.out), (Some(2), ""));
    assert!(nothing.err.contains("Usage: pipespeed"));
}
