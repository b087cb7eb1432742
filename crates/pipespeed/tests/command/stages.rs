//! The same command has the same stages in `doctor`, `top`, `profile` and `boost`, and is started
//! in the same way.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::{
    Outcome, PIPESPEED, Running, command, json, json_file, run_alone, skip, start,
};

/// A shape of a pipeline. `A` and `B` run writers called aa and cc; bb and dd copy their input.
struct Shape {
    line: &'static str,
    /// The pipelines, each with its stages in order.
    stages: &'static [&'static [&'static str]],
    /// The pipes that boost raises, between which stages.
    raised: &'static [&'static str],
}

const SHAPES: [Shape; 8] = [
    // The second program of the list starts only when the first one has ended.
    Shape {
        line: "(A; true) | (bb | dd > /dev/null)",
        stages: &[&["aa", "bb", "dd"]],
        raised: &["aa and bb", "bb and dd"],
    },
    Shape {
        line: "A | while read -r x; do echo $x; done | bb > /dev/null",
        stages: &[&["aa", "bash", "bb"]],
        raised: &["aa and bash", "bash and bb"],
    },
    // Only standard input is raised.
    Shape {
        line: "bb <(A) | dd > /dev/null",
        stages: &[&["aa", "bb", "dd"]],
        raised: &["bb and dd"],
    },
    Shape {
        line: "A | tee >(bb > /dev/null) | dd > /dev/null",
        stages: &[&["aa", "tee", "bb", "dd"]],
        raised: &["aa and tee", "tee and bb", "tee and dd"],
    },
    Shape {
        line: "sh -c 'A | env X=1 bb' | timeout 60 dd > /dev/null",
        stages: &[&["aa", "bb", "dd"]],
        raised: &["aa and bb", "bb and dd"],
    },
    // FIFOs are left alone.
    Shape {
        line: "f=$(mktemp -u) && mkfifo $f; A > $f & bb < $f > /dev/null; rm $f",
        stages: &[&["aa", "bb"]],
        raised: &[],
    },
    Shape {
        line: "printf '%s\\n' $WRITER $WRITER | xargs -n 1 -P 2 timeout SECONDS aa | dd > /dev/null",
        stages: &[&["aa", "aa", "dd"]],
        raised: &["aa and dd"],
    },
    // Plain pipelines, two at a time.
    Shape {
        line: "A | bb > /dev/null & B | dd > /dev/null; wait",
        stages: &[&["aa", "bb"], &["cc", "dd"]],
        raised: &["aa and bb", "cc and dd"],
    },
];

/// A command of this program with a shape, whose writers last for long enough that `top` shows them twice.
fn run(programs: &TempDir, args: &str, shape: &Shape, seconds: u32) -> Running {
    let writing = (2 * seconds + 1).to_string();
    let line = shape.line.replace('A', "timeout SECONDS aa $WRITER");
    let line = line.replace('B', "timeout SECONDS cc $WRITER");
    let line = line.replace("SECONDS", &writing);
    let mut command = Command::new(PIPESPEED);
    command.args(args.replace("SECONDS", &seconds.to_string()).split(' '));
    command.args(["bash", "-c", &line]);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", programs.path().display()));
    command.env("WRITER", programs.path().join("writer"));
    start(command)
}

/// The names of stages, by pipeline.
fn names(pipelines: &Value, stages: fn(&Value) -> &Value) -> Vec<Vec<String>> {
    let name = |stage: &Value| stage["name"].as_str().unwrap().to_owned();
    let mut all = Vec::new();
    for pipeline in pipelines.as_array().unwrap() {
        let stages = stages(pipeline).as_array().unwrap().iter();
        all.push(in_order(stages.map(name).collect()));
    }
    all
}

/// The stages with bb before dd where both read from tee: they stand in the order of their start,
/// which differs from run to run.
fn in_order(mut stages: Vec<String>) -> Vec<String> {
    if let [.., tee, dd, bb] = &mut stages[..]
        && (tee.as_str(), dd.as_str(), bb.as_str()) == ("tee", "dd", "bb")
    {
        std::mem::swap(dd, bb);
    }
    stages
}

/// The stages of a profile: the first words of their commands.
fn profiled(text: &str) -> Vec<String> {
    let record = json(text);
    let stages = record["pipeline"]["stages"].as_array().unwrap();
    let name = |stage: &Value| {
        let command = stage["command"].as_str().unwrap();
        command.split(' ').next().unwrap_or_default().to_owned()
    };
    in_order(stages.iter().map(name).collect())
}

/// What differs from what is expected, if anything does, in observations of this time.
fn differences(programs: &TempDir, shape: &Shape, seconds: u32) -> Vec<String> {
    let expected: Vec<Vec<&str>> = shape.stages.iter().map(|stages| stages.to_vec()).collect();
    let saved = ["doctor", "top"].map(|name| programs.path().join(format!("{name}.json")));
    let examine = format!("doctor --time SECONDS --json {} --", saved[0].display());
    let watch = format!("top --json {} --", saved[1].display());
    let run = |args: &str| run(programs, args, shape, seconds);
    let [doctor, top, profile, boost] = [
        &examine,
        &watch,
        "profile --quiet --time SECONDS --json - --",
        "boost --report --",
    ]
    .map(run)
    .map(Running::finish);
    doctor.succeeded();
    let [profile, boost] = [profile, boost].map(Outcome::succeeded);
    let mut found = Vec::new();
    let doctor = names(&json_file(&saved[0])["pipelines"], |stages| stages);
    if doctor != expected {
        found.push(format!("doctor: {doctor:?}"));
    }
    top.succeeded();
    let moments = std::fs::read_to_string(&saved[1]).unwrap();
    let top: Vec<Vec<Vec<String>>> = moments
        .lines()
        .map(|line| names(&json(line)["pipelines"], |pipeline| &pipeline["stages"]))
        .collect();
    if !top.iter().any(|moment| *moment == expected) {
        found.push(format!("top: {top:?}"));
    }
    let profile = profiled(&profile.out);
    if profile != expected.concat() {
        found.push(format!("profile: {profile:?}"));
    }
    let text = &boost.err;
    let is_raised = |line: &&str| line.contains(" in place of ");
    let pairs = text.lines().filter(is_raised);
    let mut raised: Vec<&str> = pairs
        .filter_map(|line| line.split_once(" between ").map(|(_, names)| names))
        .collect();
    raised.sort_unstable();
    if raised != shape.raised {
        found.push(format!("boost: {text}"));
    }
    found
}

#[test]
fn command_has_same_stages_in_doctor_top_profile_and_boost() {
    for program in ["bash", "perl"] {
        if Command::new(program).arg("--version").output().is_err() {
            return skip(format!("no {program}"));
        }
    }
    let programs = tempfile::tempdir().unwrap();
    for (name, program) in [("aa", "perl"), ("bb", "cat"), ("cc", "perl"), ("dd", "cat")] {
        let found = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
            .map(|directory| directory.join(program))
            .find(|path| path.exists());
        symlink(found.unwrap(), programs.path().join(name)).unwrap();
    }
    // Slow, so that the four tools see the same on a machine of two processors.
    let writer =
        "$| = 1; for (;;) { print \"a line\\n\" x 5000; select(undef, undef, undef, 0.002) }";
    std::fs::write(programs.path().join("writer"), writer).unwrap();
    let mut wrong = Vec::new();
    for shape in &SHAPES {
        // On a busy machine programs start late, and short-lived ones look as if they lasted.
        let mut seen = Vec::new();
        for seconds in [1, 2, 4, 8] {
            seen = differences(&programs, shape, seconds);
            if seen.is_empty() {
                break;
            }
        }
        if !seen.is_empty() {
            wrong.push(format!("{}: {}", shape.line, seen.join("; ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// As by execvp(3), and so as by shells.
#[test]
fn a_text_without_interpreter_is_run_by_sh_by_every_tool() {
    let directory = TempDir::new().unwrap();
    let ran = directory.path().join("ran");
    for (name, text, status) in [
        ("text", "echo \"$1\" >> \"$2\"; exit 6", 6),
        ("empty", "", 0),
    ] {
        let program = directory.path().join(name);
        std::fs::write(&program, text).unwrap();
        std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        for (tool, shows_status) in [
            ("boost --", true),
            ("boost --prove=2 --yes --", false),
            ("doctor --", false),
            ("doctor --if-stuck 3 --", true),
            ("top --once --", true),
            ("profile --quick --no-save --", false),
        ] {
            let _ = std::fs::remove_file(&ran);
            let mut command = command(PIPESPEED, tool);
            command.arg(&program).arg("word").arg(&ran);
            let outcome = run_alone(command);
            let expected = if shows_status { status } else { 0 };
            assert_eq!(
                outcome.code,
                Some(expected),
                "{tool} {name}: {}",
                outcome.err
            );
            let wrote = std::fs::read_to_string(&ran).unwrap_or_default();
            assert_eq!(wrote.contains("word\n"), !text.is_empty(), "{tool} {name}");
        }
    }
}
