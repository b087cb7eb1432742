//! Real runs of `bench options`, short ones: each option is there, takes
//! effect, and is refused with the way out where it can't.

use crate::common::{PIPESPEED, case, conditions, pipespeed, recorded, refusal, says, skip};

/// A run of few and short trials.
const SHORT: &str = "bench options --quick --rounds 1 --json - -q";

#[test]
fn every_option_takes_effect_in_its_case_only() {
    if conditions::processors() < 2 {
        skip("spinning takes two processors");
        return;
    }
    let record = recorded(pipespeed(SHORT));
    let options = [
        ("vmsplice_splice_spin", vec![]),
        ("untouched", vec!["untouched"]),
        ("gift", vec!["gift"]),
        ("locked", vec!["locked"]),
        ("unaligned", vec!["16 bytes off"]),
        ("half_pieces", vec![]),
        ("same_buffer", vec!["same buffer"]),
        ("pause_huge", vec![]),
        ("backoff_huge", vec![]),
        ("poll_huge", vec![]),
        ("unaligned_write_read", vec!["16 bytes off"]),
    ];
    for (name, options) in options {
        let case = case(&record, name);
        let configuration = &case["configuration"];
        assert_eq!(configuration["options"], serde_json::json!(options));
        if case["not_run"].is_object() {
            skip(format_args!("{name}: {}", case["not_run"]["reason"]));
            continue;
        }
        assert_eq!(case["samples"].as_array().unwrap().len(), 1, "{name}");
        let alignment = configuration["alignment"].as_u64().unwrap();
        if name.starts_with("unaligned") {
            assert_eq!(alignment, 16, "{name}")
        } else {
            assert!(alignment >= 4096, "{name}")
        }
    }
    for wait in ["pause", "backoff", "poll"] {
        let case = case(&record, &format!("{wait}_huge"));
        assert_eq!(case["configuration"]["wait"], wait);
    }
    let half = &case(&record, "half_pieces")["configuration"];
    assert_eq!(half["buffer_bytes"], 128 << 10);
    let hugetlb = case(&record, "hugetlb");
    match hugetlb["not_run"]["reason"].as_str() {
        Some(reason) => assert!(reason.contains("nr_hugepages"), "{reason}"),
        None => assert_eq!(hugetlb["configuration"]["pages"], "hugetlb"),
    }
}

#[test]
fn memory_beyond_the_lock_limit_is_refused_the_rest_measured() {
    if conditions::processors() < 2 {
        skip("spinning takes two processors");
        return;
    }
    let Some(program) = conditions::ForAll::new(PIPESPEED) else {
        return;
    };
    let mut command = program.command(&format!("{SHORT} --case locked"));
    conditions::limit(&mut command, rustix::process::Resource::Memlock, 4096);
    let record = recorded(command);
    let reason = refusal(&record, "locked");
    says(reason, &["RLIMIT_MEMLOCK", "ulimit -l"]);
    let plain = case(&record, "vmsplice_splice_spin");
    assert_eq!(plain["samples"].as_array().unwrap().len(), 1);
}
