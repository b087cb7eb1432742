//! The published `get-user-pages`. It needs the kernel's own benchmark; `ci/gup-test`
//! boots a kernel that has it.

use crate::common::{get_user_pages, skip, start};

#[test]
fn it_prints_the_published_line_or_names_what_is_missing() {
    for options in [
        "--bytes_to_pipe 64M",
        "--bytes_to_pipe 64M --huge_page --dont_touch_pages",
        "--bytes-to-pipe=64M --buf-size 64K --lock_memory",
    ] {
        let outcome = start(get_user_pages(options)).finish();
        if outcome.code != Some(0) {
            skip(outcome.err.trim_end());
            outcome.refused(1, &["get-user-pages: ", "pipespeed costs --pinning"]);
            continue;
        }
        let outcome = outcome.succeeded_in_silence();
        let time = outcome
            .out
            .strip_prefix("total get_user_pages_fast time: ")
            .and_then(|rest| rest.strip_suffix('\n'));
        let time = time.unwrap_or_else(|| panic!("{outcome:#?}"));
        assert!(time.parse::<u64>().is_ok(), "{outcome:#?}");
    }
}

#[test]
fn it_accepts_only_the_options_of_the_other_programs() {
    let outcome = start(get_user_pages("--pages base")).finish();
    outcome.refused(2, &["--pages"]);
    let outcome = start(get_user_pages("--buf_size 0")).finish();
    outcome.refused(2, &["--buf-size"]);
    let outcome = start(get_user_pages("--dont_touch_pages --check_huge_page")).finish();
    outcome.refused(2, &["check", "dont"]);
}
