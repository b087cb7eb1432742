//! The commands of README.md run as they stand there; those of docs/ are accepted.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use pipespeed::cli;
use pipespeed_base::Named as _;
use pipespeed_measure::spec::Suite;
use pipespeed_measure::suite::Overrides;

use crate::common::{PIPESPEED, pipespeed_in, run_alone, skip};
use crate::doctor::Group;

/// The directory of the project.
const PROJECT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Beginnings of commands of README.md that are not run, and why.
const NOT_RUN: [(&str, &str); 2] = [
    ("cargo ", "builds, installs or tests the project"),
    (
        "pipespeed profile --all",
        "takes ten seconds: see profile/trials.rs",
    ),
];

/// What is added to commands of README.md, so that they end soon. Others run unchanged.
const ADDED: [(&str, &str); 22] = [
    ("pipespeed bench", "--quick --rounds 1 --case write_read"),
    (
        "pipespeed bench touched",
        "--quick --rounds 1 --case write_read",
    ),
    (
        "pipespeed bench changes",
        "--quick --rounds 1 --case baseline",
    ),
    (
        "pipespeed bench channels",
        "--quick --rounds 1 --channel pipe --size 4K",
    ),
    (
        "pipespeed bench sizes",
        "--quick --time 3 --case write_read --buffer-size 16K --pipe-size 64K",
    ),
    (
        "pipespeed bench options",
        "--quick --rounds 1 --case untouched",
    ),
    ("pipespeed bench volumes", "--quick --rounds 1 --volume 16M"),
    (
        "pipespeed bench memory",
        "--quick --rounds 1 --case mem_read_4k",
    ),
    (
        "pipespeed bench pages",
        "--quick --rounds 1 --case base_pages",
    ),
    ("pipespeed latency", "--channel pipe --count 10 --rounds 1"),
    (
        "pipespeed latency --naive",
        "--count 10 --rounds 1 --limit 0.1",
    ),
    ("pipespeed profile write_read", "--time 0.2"),
    ("pipespeed costs", "--rounds 1"),
    // All of them use up limits that other tests need.
    ("pipespeed check", "--only semantics"),
    ("pipespeed report", "old.json"),
    // Without a terminal it would go on for ever.
    ("pipespeed top", "--once $PID"),
    ("pipespeed meter", "< big.bin | wc -c"),
    ("pipespeed fizzbuzz", "| head -n 20"),
    ("pipespeed yes", "| head -n 20"),
    ("pipespeed write | pipespeed read", "--bytes-to-pipe 256M"),
    (
        "cd target/release && ./write --write_with_vmsplice --huge_page --busy_loop \
         | ./read --read_with_splice --busy_loop",
        "--bytes_to_pipe 256M",
    ),
    // The file with which the others go on is smaller.
    (
        "head -c 1G /dev/zero > big.bin",
        "; truncate -s 10M big.bin; gzip -k big.bin; ls",
    ),
];

/// A document's blocks of code: their language, and their lines without prompts and comments.
fn blocks(text: &str) -> Vec<(&str, Vec<String>)> {
    let mut blocks = Vec::new();
    for block in text.split("```").skip(1).step_by(2) {
        let (language, body) = block.split_once('\n').unwrap();
        let lines = body.replace("\\\n", " ");
        let is_command = |line: &&str| language != "console" || line.starts_with("$ ");
        let lines = lines.lines().filter(is_command);
        let lines = lines.map(|line| line.trim_start_matches("$ "));
        // Comments stand after two blanks or more.
        let lines = lines.map(|line| line.split("  #").next().unwrap().trim().to_owned());
        blocks.push((language, lines.filter(|line| !line.is_empty()).collect()));
    }
    blocks
}

/// The commands of README.md: the lines of its blocks for a shell, and the words in its text that
/// begin with a command of pipespeed.
fn readme() -> Vec<String> {
    let text = fs::read_to_string(Path::new(PROJECT).join("README.md")).unwrap();
    let mut commands = Vec::new();
    for (language, lines) in blocks(&text) {
        let is_shell = ["sh", "console"].contains(&language);
        assert!(is_shell || !lines.iter().any(|line| line.starts_with("pipespeed")));
        commands.extend(lines.into_iter().filter(|_| is_shell));
    }
    let names = cli::command();
    let names: BTreeSet<&str> = names.get_subcommands().map(|one| one.get_name()).collect();
    let text: String = text.split("```").step_by(2).collect();
    for words in text.split('`').skip(1).step_by(2) {
        if words
            .split(' ')
            .next()
            .is_some_and(|first| names.contains(first))
        {
            let stages = words.replace(" | ", " | pipespeed ");
            let is_quoted = words.contains('\'');
            let command = format!("pipespeed {}", if is_quoted { words } else { &stages });
            if !commands.contains(&command) {
                commands.push(command);
            }
        }
    }
    commands
}

/// The arguments of each `pipespeed` of a line for a shell.
fn calls(line: &str) -> Vec<Vec<String>> {
    let words = shlex::split(line).unwrap_or_else(|| panic!("quotes: {line}"));
    let is_end = |word: &String| ["|", "&&", ";", "&", ">", "<", "2>"].contains(&&**word);
    let calls = words.split(is_end);
    let calls = calls.filter(|words| words.first().is_some_and(|first| first == "pipespeed"));
    calls.map(<[String]>::to_vec).collect()
}

/// Checks that the arguments of each `pipespeed` of a line are accepted, with numbers for `$$` and
/// such.
fn assert_accepted(line: &str, document: &str) {
    for call in calls(line) {
        let words = call.iter().map(|word| match &**word {
            "$$" | "$!" | "PID" => "1",
            word => word,
        });
        let parsed = cli::command().try_get_matches_from(words);
        assert!(
            parsed.is_ok(),
            "{document}: {line}: {}",
            parsed.unwrap_err()
        );
    }
}

#[test]
fn commands_in_documents_are_accepted() {
    let mut documents = vec!["README.md", "METHOD.md", "CHANGELOG.md", "ARCHITECTURE.md"]
        .into_iter()
        .map(|name| Path::new(PROJECT).join(name))
        .collect::<Vec<_>>();
    for directory in ["docs", "docs/notes"] {
        let entries = fs::read_dir(Path::new(PROJECT).join(directory)).unwrap();
        documents.extend(entries.map(|entry| entry.unwrap().path()));
    }
    documents.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    let mut count = 0;
    for path in documents {
        let text = fs::read_to_string(&path).unwrap();
        for (_, lines) in blocks(&text) {
            let lines = lines.iter().filter(|line| line.starts_with("pipespeed "));
            for line in lines {
                count += 1;
                assert_accepted(line, &path.display().to_string());
            }
        }
    }
    assert!(count > 15, "only {count} commands are found");
}

/// Makes what the README's commands need: two saved runs, and the programs in target/release.
fn prepare(directory: &Path) {
    let programs = Path::new(PIPESPEED).parent().unwrap();
    fs::create_dir(directory.join("target")).unwrap();
    symlink(programs, directory.join("target/release")).unwrap();
    let command = pipespeed_in(
        directory,
        "bench --quick --rounds 1 --case write_read --json old.json",
    );
    run_alone(command).succeeded();
    fs::copy(directory.join("old.json"), directory.join("new.json")).unwrap();
}

#[test]
fn commands_of_the_readme_run() {
    let directory = tempfile::tempdir().unwrap();
    prepare(directory.path());
    let mut pipeline = Group::default();
    let pid = pipeline.script("sleep 1000 | cat").to_string();
    let programs = Path::new(PIPESPEED).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut unused: BTreeSet<&str> = ADDED.iter().map(|entry| entry.0).collect();
    for line in readme() {
        assert_accepted(&line, "README.md");
        if NOT_RUN
            .iter()
            .any(|(beginning, _)| line.starts_with(beginning))
        {
            continue;
        }
        if line.contains("./write") && !programs.join("write").exists() {
            skip("the published programs are not built");
            unused.remove(&*line);
            continue;
        }
        let entry = ADDED.iter().find(|entry| entry.0 == line);
        let added = entry.map_or("", |entry| entry.1);
        unused.remove(&*line);
        let script = format!("{line} {added}").replace("doctor PID", "doctor $PID");
        let mut command = Command::new("timeout");
        command.args(["50", "sh", "-c", &script]);
        command.env("PATH", &path).env("PID", &pid);
        command.current_dir(directory.path());
        let outcome = run_alone(command).succeeded();
        let printed = outcome.out.len() + outcome.whole_err.len();
        assert!(printed > 0, "nothing is printed: {line}");
    }
    assert!(unused.is_empty(), "not in README.md: {unused:?}");
}

#[test]
fn the_methods_table_of_suites_has_their_figures() {
    let method = fs::read_to_string(Path::new(PROJECT).join("METHOD.md")).unwrap();
    let (_, table) = method.split_once("| suite | time |").unwrap();
    for suite in Suite::VALUES {
        let start = format!("| {} | ", suite.name());
        let row = table.lines().find_map(|line| line.strip_prefix(&start));
        let cells: Vec<&str> = row.unwrap().split(" | ").collect();
        let (lengths, definition) = (suite.lengths(false), suite.definition());
        let [warm_up_ms, timed_ms] = [lengths.durations.warm_up_s, lengths.durations.timed_s]
            .map(|seconds| (seconds * 1e3).round());
        let parts = if timed_ms > 0.0 {
            format!("{warm_up_ms} + {timed_ms} ms")
        } else {
            format!("{warm_up_ms} ms, then the volume")
        };
        let first = suite.cases(&Overrides::default())[0].name.clone();
        let control = definition.null_control.map_or(first, str::to_owned);
        assert!(
            cells[0].starts_with(&format!("{} s", lengths.budget_s)),
            "{cells:?}"
        );
        assert_eq!(cells[1], lengths.min_rounds.to_string(), "{cells:?}");
        assert!(cells[2].starts_with(&parts), "{cells:?}");
        assert_eq!(cells[3], format!("`{control}` |"), "{cells:?}");
    }
}
