//! What memory is made of: of an address, of a buffer, of another process.

use std::fs;
use std::process::Command;

use crate::common;
use crate::common::conditions::{ForAll, ordinary};
use crate::common::procs::eventually;
use crate::common::terminal::Terminal;
use crate::common::{
    PIPESPEED, Running, fits, json, json_file, pipespeed, recorded, run_alone, says, skip, start,
};
use rustix::process::{Signal, geteuid};
use serde_json::{Value, json as value};

/// A child that sleeps, and an address of its stack.
struct Sleeper {
    child: Running,
    stack: u64,
}

impl Sleeper {
    fn new() -> Self {
        Sleeper::from(Command::new("sleep"))
    }

    fn of_an_ordinary_user() -> Self {
        let mut command = Command::new("sleep");
        ordinary(&mut command);
        Sleeper::from(command)
    }

    fn from(mut command: Command) -> Self {
        command.arg("1000");
        let child = start(command);
        let pid = child.pid().as_raw_pid();
        // Not before it has become `sleep`.
        let stack = eventually(|| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
            let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
            let line = maps.lines().find(|line| line.ends_with("[stack]"))?;
            let end = line.split(['-', ' ']).nth(1)?;
            (name == "sleep\n").then(|| u64::from_str_radix(end, 16).ok())?
        });
        Sleeper {
            child,
            // The environment lies at the very top.
            stack: stack.unwrap() - 16,
        }
    }

    fn pid(&self) -> i32 {
        self.child.pid().as_raw_pid()
    }

    /// The arguments that show the page of the address.
    fn args(&self) -> String {
        format!("pages --pid {} --address {:#x}", self.pid(), self.stack)
    }
}

/// Whether the kernel shows frame numbers and flags here.
fn all_is_shown() -> bool {
    let shown = geteuid().is_root() && fs::File::open("/proc/kpageflags").is_ok();
    if !shown {
        skip("frame numbers and flags are hidden here");
    }
    shown
}

fn pages(record: &Value) -> &Vec<Value> {
    record["memory"]["pages"].as_array().unwrap()
}

fn indices(record: &Value) -> Vec<u64> {
    let levels = record["walk"]["levels"].as_array().unwrap();
    levels
        .iter()
        .map(|l| l["index"].as_u64().unwrap())
        .collect()
}

#[test]
fn the_published_example_is_taken_apart_without_touching_memory() {
    let command = "pages --address 0x0000f2705af953c0 --arch x86-64 --levels 4";
    let text = run_alone(pipespeed(command)).succeeded().out;
    insta::assert_snapshot!(text);
    let outcome = run_alone(pipespeed(&format!("{command} --json -"))).succeeded();
    let record = json(&outcome.out);
    assert_eq!(indices(&record), [484, 449, 215, 405]);
    assert_eq!(record["walk"]["address"], "0x0000f2705af953c0");
    assert_eq!(record["walk"]["offset"], 960);
    assert_eq!(record["walk"]["half"], "non-canonical");
    assert_eq!(record["memory"], Value::Null);
    // The text gives way.
    assert_eq!(outcome.err, text);
}

#[test]
fn a_buffer_of_10000_bytes_is_made_of_three_pages() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pages.json");
    let command = pipespeed(&format!("pages --buffer 10000 --json {}", file.display()));
    let outcome = run_alone(command).succeeded();
    let record = json_file(&file);
    let page = record["memory"]["page_bytes"].as_u64().unwrap();
    let count = 10_000_u64.div_ceil(page) as usize;
    assert_eq!(pages(&record).len(), count);
    assert!(pages(&record).iter().all(|page| page["state"] == "present"));
    assert!(
        pages(&record)
            .iter()
            .all(|page| page["huge"]["backed"] == false)
    );
    assert_eq!(record["memory"]["mappings"][0]["permissions"], "rw-p");
    if !all_is_shown() || count == 1 {
        return;
    }
    let frames: Vec<u64> = pages(&record)
        .iter()
        .map(|p| p["frame"].as_u64().unwrap())
        .collect();
    let pieces = 1 + frames.windows(2).filter(|two| two[1] != two[0] + 1).count();
    assert_eq!(record["memory"]["runs"], pieces);
    let said = match pieces {
        1 => "contiguous in physical memory, which is not guaranteed".to_owned(),
        _ => format!("not contiguous in physical memory, but in {pieces} pieces"),
    };
    let text = outcome.out.replace("\n  ", " ");
    assert!(text.contains(&said), "{text}");
    assert!(
        pages(&record)
            .iter()
            .all(|page| page["flags"].to_string().contains("anon"))
    );
}

#[test]
fn slots_of_pipe_are_drawn_step_by_step_as_observed() {
    let outcome = run_alone(pipespeed("pages --pipe")).succeeded();
    if fastpipe::pipe::page_size() == 4096 {
        insta::assert_snapshot!(outcome.out);
    }
    let outcome = run_alone(pipespeed("pages --pipe --json -")).succeeded();
    let record = json(&outcome.out);
    let steps = record["steps"].as_array().unwrap();
    assert!(
        steps.iter().all(|step| step["agrees"] == true),
        "{record:#}"
    );
    // An ordinary user sees as much.
    let Some(program) = ForAll::new(PIPESPEED) else {
        return;
    };
    let outcome = run_alone(program.command("pages --pipe --json -")).succeeded();
    assert_eq!(json(&outcome.out)["steps"], record["steps"]);
}

#[test]
fn a_buffer_that_nobody_touched_has_no_pages_yet() {
    let outcome = run_alone(pipespeed("pages --buffer 1M --untouched --json -")).succeeded();
    let record = json(&outcome.out);
    assert!(pages(&record).iter().all(|page| page["state"] == "absent"));
    assert_eq!(record["memory"]["runs"], Value::Null);
    assert!(outcome.err.contains("none in memory"), "{outcome:#?}");
}

#[test]
fn a_huge_page_is_contiguous_and_ends_the_walk_early() {
    if !common::conditions::huge_pages() {
        return skip("this system grants no huge pages");
    }
    let outcome = run_alone(pipespeed("pages --buffer 4M --huge --json -")).succeeded();
    let record = json(&outcome.out);
    if pages(&record)[0]["huge"]["backed"] != true {
        return skip("this system had no huge page to grant");
    }
    if all_is_shown() {
        let first = &pages(&record)[0];
        assert_eq!(first["huge"]["shown_by"], "kpageflags");
        assert!(first["flags"].to_string().contains("compound_head"));
        assert_eq!(pages(&record)[1]["follows"], true);
        let sum = &record["memory"]["mappings"][0];
        if sum["huge_bytes"] == sum["resident_bytes"] {
            says(&outcome.err, &["a huge page, where the walk ends"]);
            assert!(!outcome.err.contains("PTE entry"), "{outcome:#?}");
        }
    }
}

#[test]
fn an_ordinary_user_sees_less_and_the_missing_capability() {
    let Some(program) = ForAll::new(PIPESPEED) else {
        return;
    };
    let outcome = run_alone(program.command("pages --buffer 10000 --json -")).succeeded();
    let record = json(&outcome.out);
    for page in pages(&record) {
        assert_eq!(page["state"], "present");
        assert_eq!(
            (&page["frame"], &page["flags"]),
            (&Value::Null, &Value::Null)
        );
        assert_eq!(
            page["huge"],
            value!({
                "backed": false, "shown_by": "smaps", "reserved": false, "compound_bytes": null
            })
        );
    }
    let hidden = record["memory"]["hidden"].as_array().unwrap();
    assert_eq!(hidden.len(), 1, "{hidden:?}");
    let lines: Vec<&str> = outcome
        .err
        .lines()
        .filter(|l| l.starts_with("hidden:"))
        .collect();
    assert_eq!(lines.len(), 1, "{outcome:#?}");
    assert!(outcome.err.contains("CAP_SYS_ADMIN"), "{outcome:#?}");
}

#[test]
fn an_ordinary_user_may_look_at_own_processes_only() {
    let Some(program) = ForAll::new(PIPESPEED) else {
        return;
    };
    if geteuid().is_root() {
        let sleeper = Sleeper::new();
        let args = sleeper.args();
        run_alone(program.command(&args)).refused(1, &["--pid", "not allowed", "root"]);
    }
    let sleeper = Sleeper::of_an_ordinary_user();
    let args = sleeper.args();
    let outcome = run_alone(program.command(&args)).succeeded();
    says(&outcome.out, &["[stack]", "hidden:"]);
}

#[test]
fn another_processes_memory_is_shown_with_mapping_it_lies_in() {
    let sleeper = Sleeper::new();
    let args = sleeper.args();
    let text = run_alone(pipespeed(&args)).succeeded().out;
    says(&text, &["[stack]", "present"]);
    let record = recorded(pipespeed(&format!("{args} --json -")));
    assert_eq!(record["memory"]["pid"], sleeper.pid());
    assert_eq!(pages(&record).len(), 1);

    // A range over the end of the stack: the rest is not mapped.
    let args = format!("{args} --length 64K --json -");
    let record = recorded(pipespeed(&args));
    assert_eq!(pages(&record)[0]["state"], "present");
    assert_eq!(pages(&record)[1]["state"], "unmapped");
    // It is still asleep.
    sleeper.child.send(Signal::KILL);
    assert_eq!(sleeper.child.finish().signal, Some(9));
}

#[test]
fn address_that_is_not_mapped_is_shown_with_its_neighbours() {
    let sleeper = Sleeper::new();
    let args = format!("pages --pid {} --address 0x10", sleeper.pid());
    run_alone(pipespeed(&args)).refused(1, &["0x10", "not mapped", "next mapping above"]);
}

#[test]
fn a_process_without_memory_or_existence_is_refused() {
    let mut child = start(Command::new("true"));
    eventually(|| child.has_ended().then_some(())).unwrap();
    let args = format!("pages --pid {} --address 0x1000", child.pid().as_raw_pid());
    run_alone(pipespeed(&args)).refused(1, &["no such process"]);
    // The kernel's first thread, outside of containers.
    if fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n")
        && geteuid().is_root()
    {
        run_alone(pipespeed("pages --pid 2 --address 0x1000"))
            .refused(1, &["no memory of its own", "kernel"]);
    }
}

#[test]
fn everything_fits_a_terminal_of_80_columns() {
    for args in [
        "--buffer 10000",
        "--buffer 4M --huge",
        "--buffer 300K --untouched",
        "--address 0xffffffff81000123 --arch x86-64 --levels 5",
        "--address 0x0000f2705af953c0 --arch x86-64 --levels 4",
        "--address 0xb400f2705af953c0 --arch aarch64",
    ] {
        let mut terminal = Terminal::new(80);
        let mut command = pipespeed(&format!("pages {args}"));
        command.stdin(terminal.input()).stdout(terminal.input());
        let running = terminal.start(command);
        assert!(running.finish().success());
        let text = terminal.text();
        assert!(text.contains("PGD entry"), "{text}");
        fits(text, 80);
    }
}
