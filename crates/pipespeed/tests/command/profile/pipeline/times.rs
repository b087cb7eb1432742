//! Running, waiting for a processor, sleeping: what each stage did.

use std::process::Command;

use rustix::process::Signal;

use super::*;
use crate::common::conditions;
use crate::common::run_alone;
use crate::profile::number;

#[test]
fn the_report_names_stages_and_what_they_wait_for() {
    if !can_sample() {
        return;
    }
    // The first stage never sleeps, and the second never wakes once it has started. On a busy
    // machine its start may take long: in twice the time, that is half the share.
    let words = [
        "1: sh ",
        "2: cat",
        "asleep, waiting for: input (pipe empty)",
        "sum ",
    ];
    let mut seconds = 0.5;
    loop {
        let command = profile(&format!("--time {seconds}"), "(while :; do :; done) | cat");
        let outcome = run_alone(command).succeeded();
        let text = outcome.unwrapped();
        // On a busy machine it waits for a processor longer than it runs.
        let is_named = text.contains("as fast as 1: sh: it")
            && text.contains("runs mostly user code")
            || text.contains("Processor time is short: 1: sh");
        let missing = words.iter().find(|words| !text.contains(*words));
        if missing.is_none() && is_named {
            break;
        }
        assert!(seconds < 10.0, "{missing:?}: {outcome:#?}");
        seconds *= 2.0;
    }
}

#[test]
fn a_pipeline_that_sleeps_names_what_it_waits_for() {
    if !can_sample() {
        return;
    }
    // On a busy machine the stages may start late, and the programs in them later.
    let profiled = |pipeline: &str, words: [&str; 2]| {
        let mut texts = Vec::new();
        for time in ["0.5", "1", "2", "4", "8"] {
            let args = format!("--time {time}");
            let text = run_alone(profile(&args, pipeline)).succeeded().unwrapped();
            if words.iter().all(|words| text.contains(words)) {
                return text;
            }
            texts.push(text);
        }
        panic!("{words:?}: {texts:#?}");
    };
    let words = ["1: sleep 1000", "waiting for a timer (sleep)."];
    let text = profiled("sleep 1000 | cat | cat", words);
    for words in ["by turns", "other end"] {
        assert!(!text.contains(words), "{words}: {text}");
    }
    // A background process of a stage holds the pipe open.
    let words = ["1: sleep 1000", "mostly waiting for a timer (sleep)"];
    profiled("(sleep 1000 & true) | cat", words);
}

#[test]
fn a_stages_running_time_is_that_of_the_whole_run() {
    let pipeline = profiled("--time 100", COUNTS_ITSELF);
    assert_own_times(&pipeline);
}

/// The phases without sampling are half of it.
#[test]
fn the_wall_time_of_a_sleeping_stage_is_the_whole() {
    let pipeline = profiled("", "sleep 1 | cat");
    assert_adds_up(&pipeline);
    for stage in pipeline["stages"].as_array().unwrap() {
        let wall = number(&stage["usage"]["wall_s"]);
        assert!(wall > 0.75, "{stage:#}");
        assert!(wall <= number(&pipeline["wall_s"]), "{stage:#}");
        assert_eq!(stage["costs"].as_array().unwrap()[0]["group"], "asleep");
    }
}

#[test]
fn few_samples_give_no_shares() {
    let text = run_alone(profile("--no-save", "sleep 1"))
        .succeeded()
        .unwrapped();
    assert!(text.contains("running (not divided)"), "{text}");
    for words in ["call chains", "other kernel", "100.0 %  "] {
        let line = text.lines().find(|line| line.contains(words));
        assert!(line.is_none_or(|line| line.starts_with("sum")), "{text}");
    }
}

/// Two processes that never sleep, on one processor with the command.
struct Competitors(Vec<std::process::Child>);

impl Competitors {
    fn start(cpu: usize) -> Self {
        let busy = || {
            let mut command = Command::new("timeout");
            command.args(["60", "sh", "-c", "while :; do :; done"]);
            conditions::on_processor(&mut command, cpu);
            command.spawn().unwrap()
        };
        Competitors(vec![busy(), busy()])
    }
}

impl Drop for Competitors {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // timeout passes SIGTERM on.
            let pid = rustix::process::Pid::from_child(child);
            let _ = rustix::process::kill_process(pid, Signal::TERM);
            let _ = child.wait();
        }
    }
}

#[test]
fn waiting_for_a_processor_is_named_beside_busy_processes() {
    let cpu = conditions::first_processor();
    let _competitors = Competitors::start(cpu);
    for (pipeline, stage) in [(BUSY, "1: sh "), ("yes | cat > /dev/null", "")] {
        let mut command = profile("--no-save --time 2", pipeline);
        conditions::on_processor(&mut command, cpu);
        let text = run_alone(command).succeeded().unwrapped();
        let expected = format!("Processor time is short: {stage}");
        assert!(text.contains(&expected), "{text}");
        assert!(!text.contains("only if"), "{text}");
        assert!(!text.contains("is as fast as"), "{text}");
    }
}
