//! `pipespeed latency`: every channel, sizes, rates, files, and what is refused.

use crate::common::{
    Outcome, json, json_file, names_in, pipespeed, pipespeed_in, run_alone, says, skip,
};
use serde_json::Value;

/// One launch of a few round trips on whatever processors there are.
const FEW: &str = "--count 30 --rounds 1 --placement free -q";

fn latency(args: &str) -> Outcome {
    run_alone(pipespeed(&format!("latency {args} --verbose")))
}

fn cases(args: &str) -> Vec<Value> {
    let outcome = latency(&format!("{args} --json -")).succeeded();
    json(&outcome.out)["cases"].as_array().unwrap().clone()
}

/// Channels that a machine may refuse, with the word for what it refuses.
const OPTIONAL: [(&str, &str); 2] = [("vmsplice", "vmsplice"), ("uring", "io_uring")];

/// Whether this machine refuses a case, with a skip.
fn refused_here(case: &Value) -> bool {
    let channel = case["channel"].as_str().unwrap();
    let reason = case["not_run"]["reason"].as_str().unwrap_or_default();
    let optional = OPTIONAL.iter().find(|(name, _)| *name == channel);
    let refused = optional.is_some_and(|(_, word)| reason.contains(word));
    if refused {
        skip(format_args!("{channel}: {reason}"));
    }
    refused
}

/// Every byte of the first messages, and both ends of all, are compared with
/// what was sent: a launch succeeds only if they came back as they went.
#[test]
fn every_channel_carries_small_and_large_messages_there_and_back() {
    // At a rate, messages of 1 MiB take turns in fewer slots than there are messages.
    for (sizes, options) in [("1,8,4K,70000,1M", ""), ("8,70000,1M", "--rate 3000")] {
        let cases = cases(&format!("--all --size {sizes} {FEW} {options}"));
        let sizes = sizes.split(',').count();
        assert_eq!(cases.len(), 13 * sizes);
        for case in cases.iter().filter(|case| !refused_here(case)) {
            let (channel, size) = (case["channel"].as_str().unwrap(), &case["size"]);
            match case["not_run"]["kind"].as_str() {
                Some(kind) => {
                    assert_eq!(kind, "limit", "{case:#}");
                    let limited = ["seqpacket", "datagram", "mqueue", "eventfd"];
                    assert!(limited.contains(&channel), "{case:#}");
                }
                None => assert_eq!(
                    case["samples"][0]["count"], 30,
                    "{channel} {size}: {case:#}"
                ),
            }
        }
        let measured = |channel: &str| {
            let own = cases.iter().filter(|case| case["channel"] == channel);
            own.filter(|case| case["not_run"].is_null()).count()
        };
        assert_eq!(["pipe", "ring", "ring_copy"].map(measured), [sizes; 3]);
        assert_eq!(["tcp", "eventfd"].map(measured), [sizes, 1]);
        // All but the largest ones.
        assert!(measured("mqueue") >= 1 && measured("seqpacket") >= sizes - 2);
    }
}

#[test]
fn a_pipe_size_is_shown_as_the_kernel_rounded_it() {
    for (asked, rounded) in [("100K", 1), ("128K", 0)] {
        let args = format!("pipe --size 8 --pipe-size {asked} {FEW} --json -");
        let record = json(&latency(&args).succeeded().out);
        assert_eq!(record["settings"]["pipe_bytes"], 131_072);
        let warnings = record["warnings"].as_array().unwrap().iter();
        let rounding = warnings.filter(|it| {
            it["message"]
                .as_str()
                .unwrap()
                .starts_with("--pipe-size 100KiB: ")
        });
        assert_eq!(rounding.count(), rounded, "{record:#}");
    }
}

#[test]
fn pipes_have_the_size_that_is_asked_for() {
    let args = "pipe fifo --size 20000 --naive=write-first --limit 0.2 --count 3 --rounds 1 --placement free";
    for (size, outcome) in [("16K", 1), ("32K", 0)] {
        let outcome_of = latency(&format!("{args} --pipe-size {size}"));
        assert_eq!(outcome_of.code, Some(outcome), "{outcome_of:#?}");
        let text = outcome_of.unwrapped();
        assert!(text.contains(&format!("pipes of {size}iB")), "{text}");
        let held = text.contains("each pipe holds 16KiB");
        assert_eq!(held, outcome == 1, "{text}");
    }
    latency("tcp ring --pipe-size 64K").refused(2, &["--pipe-size", "vmsplice", "fifo"]);
    latency("pipe --pipe-size 4G").refused(2, &["--pipe-size 4GiB", "limit"]);
}

#[test]
fn spinning_and_adaptive_processes_get_their_messages_too() {
    for wait in ["adaptive", "spin"] {
        // Free, since a machine may have one processor. Then each message may take a time slice: few.
        let few = FEW.replace("--count 30", "--count 6");
        let outcome = latency(&format!("--all --size 8,70000 {few} --wait {wait}"));
        if outcome.err.contains("needs two processors") {
            skip(outcome.err.trim());
            continue;
        }
        outcome.succeeded();
    }
}

#[test]
fn percentiles_ascend_and_files_hold_all_launches() {
    let directory = tempfile::tempdir().unwrap();
    let command = pipespeed_in(
        &directory,
        "latency pipe eventfd --size 8 --count 200 --rounds 7 --placement same --verbose \
         --json a.json --csv a.csv --chart a.svg",
    );
    let outcome = run_alone(command).succeeded();
    says(
        &outcome.out,
        &["p99.9", "eventfd", "not halved", "one message at a time"],
    );
    assert_eq!(names_in(directory.path()), ["a.csv", "a.json", "a.svg"]);
    let record = json_file(&directory.path().join("a.json"));
    for case in record["cases"].as_array().unwrap() {
        let launches = case["samples"].as_array().unwrap();
        assert_eq!(launches.len(), 7);
        for launch in launches {
            let names = ["p50_us", "p90_us", "p99_us", "p999_us", "max_us"];
            let values = names.map(|name| launch[name].as_f64().unwrap());
            assert!(values[0] > 0.0 && values.is_sorted(), "{launch:#}");
        }
        let histogram = case["histogram"].as_array().unwrap();
        let trips = histogram.iter().map(|pair| pair[1].as_u64().unwrap());
        assert_eq!(trips.sum::<u64>(), 7 * 200);
        assert!(
            case["summary"]["p50_us"]["interval"]["low"].is_number(),
            "{case:#}"
        );
    }
    for case in record["cases"].as_array().unwrap() {
        let drawn = case["curve"].as_array().unwrap();
        let p50 = &case["summary"]["p50_us"]["median"];
        assert_eq!((drawn[0][0].as_f64(), &drawn[0][1]), (Some(50.0), p50));
    }
    assert!(record["interrupted"].is_null());
    let compare = pipespeed_in(&directory, "compare a.json a.json");
    run_alone(compare).refused(2, &["a.json", "a record of kind latency", "bench"]);
    let csv = std::fs::read_to_string(directory.path().join("a.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + 2 * 7, "{csv}");
    assert!(
        csv.starts_with("round,position,channel,size,mode,count,"),
        "{csv}"
    );
    let svg = std::fs::read_to_string(directory.path().join("a.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("99.99"));
}

#[test]
fn a_low_rate_is_not_reported_higher_than_it_was() {
    let args = "pipe --size 1K --count 5 --rate 50 --rounds 1 --placement free";
    let outcome = latency(&format!("{args} --json -")).succeeded();
    let launch = &json(&outcome.out)["cases"][0]["samples"][0];
    assert!(launch["per_s"].as_f64().unwrap() <= 50.0, "{launch:#}");
    let outcome = latency("pipe --size 8 --time 1 --rate 1 --rounds 1 -q").succeeded();
    let text = outcome.unwrapped();
    let note = text.find("--rate 1: a launch of");
    assert!(
        note.is_some_and(|at| text[at..].contains("has 1 message,")),
        "{text}"
    );
}

#[test]
fn a_rate_that_can_t_be_kept_is_said_so_and_nothing_is_left_out() {
    let args = "pipe --size 256K --count 20000 --rate 10000000 --rounds 1 --placement free";
    let outcome = latency(&format!("{args} --json -")).succeeded();
    says(&outcome.err, &["the rate was not kept"]);
    let launch = &json(&outcome.out)["cases"][0]["samples"][0];
    assert_eq!(launch["count"], 20_000, "{launch:#}");
}

#[test]
fn sizes_that_fit_no_channel_are_refused_before_anything_is_saved() {
    let directory = tempfile::tempdir().unwrap();
    let in_directory = |args: &str| {
        let command = pipespeed_in(&directory, &format!("latency {args} --count 1 --rounds 1"));
        run_alone(command)
    };
    for args in ["eventfd --size 64,1K", "--channel eventfd --size 1 --naive"] {
        in_directory(args).refused(2, &["--size: eventfd: ", "8 bytes"]);
    }
    assert!(names_in(directory.path()).is_empty());
    let one = in_directory("eventfd --size 8,64 --json -").succeeded();
    let reason = &json(&one.out)["cases"][1]["not_run"]["reason"];
    assert!(reason.as_str().unwrap().contains("8 bytes"), "{one:#?}");
}
