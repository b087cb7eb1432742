//! `pipespeed latency` where the system refuses what it needs: a clear line, and
//! nothing but that.

use std::process::Command;

use crate::common::{PIPESPEED, conditions, pipespeed, run_alone, says};

const ONE: &str = "--size 8 --count 1 --rounds 1 --placement free --no-save";

fn latency(channel: &str) -> Command {
    pipespeed(&format!("latency {channel} {ONE}"))
}

#[test]
fn processes_that_a_filter_hinders_report_it() {
    for (channel, call, words) in [
        (
            "pipe",
            libc::SYS_prctl,
            ["prctl (PR_SET_PDEATHSIG)", "pipe"],
        ),
        ("uring", libc::SYS_io_uring_setup, ["io_uring", "uring"]),
    ] {
        let mut command = latency(channel);
        if conditions::without_call(&mut command, call) {
            let outcome = run_alone(command).failed(1, &words);
            says(&outcome.err, &["is refused (EPERM)"]);
        }
    }
}

#[test]
fn without_proc_it_says_what_it_needs() {
    let words = format!("latency pipe {ONE}");
    let args: Vec<&str> = words.split_whitespace().collect();
    let script = r#"mount -t tmpfs none /proc && exec "$0" "$@""#;
    let Some(command) = conditions::in_mount_namespace(script, PIPESPEED, &args) else {
        return;
    };
    let outcome = run_alone(command);
    assert_eq!(outcome.code, Some(1), "{outcome:#?}");
    let expected = "can't start the sender: /proc/self/exe does not exist: is /proc mounted?";
    assert!(outcome.err.contains(expected), "{outcome:#?}");
    assert!(!outcome.err.contains("No such file"), "{outcome:#?}");
}
