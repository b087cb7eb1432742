//! `bench memory`: short runs of it, what it refuses and why.

use crate::common::conditions;
use crate::common::{case, json, json_file, pipespeed, recorded, refusal, run_alone, run_in, skip};
use rustix::process::Resource;
use serde_json::Value;

/// A run of few and short trials.
const SHORT: &str = "bench memory --quick --rounds 1 -q";

const BLOCKS: &str = "mem_read_4k,mem_write_4k,mem_copy_4k,mem_read_scalar_4k,mem_write_scalar_4k";

#[test]
fn every_way_goes_over_whole_blocks_in_one_process() {
    let directory = tempfile::tempdir().unwrap();
    run_in(
        &directory,
        &format!("{SHORT} --size 4K,1M --json r.json --csv r.csv --chart r.svg"),
    )
    .succeeded();
    let record = json_file(&directory.path().join("r.json"));
    assert_eq!(record["suite"], "memory");
    assert_eq!(record["null_control"]["case"], "mem_read_4k");
    for name in BLOCKS.split(',') {
        for (name, bytes) in [(name.to_owned(), 4096), (name.replace("4k", "1m"), 1 << 20)] {
            let case = case(&record, &name);
            let configuration = &case["configuration"];
            assert_eq!(configuration["writer"], "memory", "{case:#}");
            assert_eq!(configuration["reader"], Value::Null);
            assert_eq!(configuration["channel"], Value::Null);
            assert_eq!(configuration["wait"], "none");
            assert_eq!(configuration["buffer_bytes"], bytes);
            let blocks = if name.contains("copy") { 2 } else { 1 };
            assert_eq!(configuration["buffers"], blocks);
            assert_eq!(configuration["pages"], "base");
            let sample = &case["samples"][0];
            let over = sample["bytes"].as_u64().unwrap();
            assert!(over >= bytes && over.is_multiple_of(bytes), "{sample:#}");
            assert_eq!(sample["reader"], Value::Null);
            // What one process went over is all there is.
            assert_eq!(sample["writer"]["bytes"], over);
            assert!(sample["writer"]["cpu_s"].as_f64().unwrap() > 0.0);
        }
    }
    // Beside them runs the ladder, compared with a copy.
    let pipe = case(&record, "write_read");
    assert_eq!(pipe["compared_with"], "mem_copy_4k");
    assert!(pipe["summary"]["gib_per_s"]["median"].as_f64().unwrap() > 0.0);
    let rows = csv::Reader::from_path(directory.path().join("r.csv")).unwrap();
    assert!(rows.into_records().count() >= 11);
    let chart = std::fs::read_to_string(directory.path().join("r.svg")).unwrap();
    roxmltree::Document::parse(&chart).unwrap();
}

#[test]
fn blocks_that_do_not_fit_are_refused_or_left_out() {
    // A PiB.
    let args = format!("{SHORT} --size 4K,1048576G --json -");
    let words = ["--size 1024TiB: 2048TiB of memory needed", "80 %"];
    run_alone(pipespeed(&args)).refused(2, &words);
    let record = recorded(pipespeed(&format!("{args} --case mem_read_4k")));
    assert!(case(&record, "mem_read_4k")["summary"]["gib_per_s"]["median"].is_number());
}

#[test]
fn a_block_beyond_the_process_limit_is_refused_others_run() {
    let args = format!("{SHORT} --size 4K,512M --json - --case mem_read_4k,mem_read_512m");
    let mut command = pipespeed(&args);
    conditions::limit(&mut command, Resource::As, 450 << 20);
    let record = recorded(command);
    let reason = refusal(&record, "mem_read_512m");
    assert!(reason.contains("no memory for a buffer"), "{reason}");
    assert!(case(&record, "mem_read_4k")["not_run"].is_null());
}

#[test]
fn huge_pages_are_shown_to_be_there_or_refused() {
    let args = format!("{SHORT} --size 4M --pages huge --case mem_copy_4m --json -");
    let record = json(&run_alone(pipespeed(&args)).out);
    let case = case(&record, "mem_copy_4m");
    match case["not_run"]["reason"].as_str() {
        None => {
            assert_eq!(case["configuration"]["huge_bytes"], 8 << 20, "{case:#}");
            assert_eq!(case["configuration"]["pages"], "huge");
        }
        Some(reason) => {
            assert!(reason.contains("are in transparent huge pages"), "{reason}");
            skip(reason);
        }
    }
}
