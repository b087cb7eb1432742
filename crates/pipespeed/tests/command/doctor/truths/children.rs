//! What doctor says of children, of processes in the background, and of threads that end.

use super::*;

/// What a shell's children do: compute, wait for a timer, wait for a lock.
#[test]
fn a_shell_is_named_with_what_its_children_do() {
    let directory = scratch();
    let lock = directory.path().join("lock");
    let held = fs::File::create(&lock).unwrap();
    held.lock().unwrap();
    let lock = lock.display();
    for (program, script, words) in [
        (
            "xargs",
            "yes x | xargs -P4 -I{} sh -c 'head -c 20000000 /dev/zero | md5sum' | cat".to_owned(),
            "waits for its ",
        ),
        (
            "bash",
            "bash -c 'while :; do echo; sleep .05; done' | cat".to_owned(),
            "waits for a timer",
        ),
        (
            "flock",
            format!("bash -c 'echo; flock {lock} true; :' | cat"),
            "a file lock 100 % of the time",
        ),
    ] {
        if !has_program(program) {
            continue;
        }
        let mut group = Group::default();
        let pipeline = group.script(&format!("{script} >/dev/null; :"));
        child(pipeline, "cat");
        let found = eventually(|| {
            let text = group.examine("").succeeded().unwrapped();
            text.contains(words).then_some(text)
        });
        let text = found.unwrap_or_else(|| panic!("{}", group.examine("").unwrapped()));
        if program == "bash" {
            assert_contains(&text, &["waits for its child sleep, which"]);
        }
        if program == "xargs" {
            // On a busy machine they mainly wait.
            let does = ["run", "waits for a processor", "wait for a processor"];
            assert!(does.iter().any(|words| text.contains(words)), "{text}");
            assert!(!text.contains("Only a faster xargs"), "{text}");
        }
    }
}

/// It sleeps for twice as long as it waits for a child.
#[test]
fn a_stage_that_waits_for_two_things_by_turns_is_said_to() {
    if !has_python("import subprocess") {
        return;
    }
    let script = "import subprocess, time\n\
                  while True:\n \
                  time.sleep(0.4)\n \
                  subprocess.run(['sleep', '0.2'])\n \
                  print('a', flush=True)\n";
    let (read, write) = pipe();
    let mut group = Group::default();
    let mut python = Command::new("python3");
    python.args(["-c", script]);
    let stage = group.start(python, [None, write, None]);
    let reader = group.add("cat", [read, None, None]);
    becomes(reader, "cat");
    child(stage, "sleep");
    let found = eventually(|| {
        let (text, record, _) = examine(stage, stage);
        let named = bottleneck(&record)?;
        // On a busy machine the child takes longer than it sleeps.
        let is_shorter = named["children"].is_null();
        let shares = ["timer", "child"].map(|wait| number(&named["outside"][wait]));
        let are_long = shares.iter().all(|share| *share >= 0.15);
        (is_shorter && are_long).then_some(text)
    });
    let text = found.expect("it waits for both");
    assert_contains(&text, &["for a timer ", "for its child sleep "]);
}

/// The child that the processors work for is named first, not one beside it.
#[test]
fn of_several_children_the_one_that_runs_most_is_named_first() {
    let mut group = Group::default();
    let script = "while :; do head -c 20000000 /dev/zero | gzip -9; done | cat >/dev/null; :";
    let pipeline = group.script(&format!("exec bash -c '{script}'"));
    child(pipeline, "gzip");
    let found = eventually(|| {
        let (text, record, _) = examine(pipeline, pipeline);
        let first = bottleneck(&record)?["children"]["names"][0]
            .as_str()?
            .to_owned();
        Some((first, text))
    });
    let (first, text) = found.unwrap();
    assert_eq!(first, "gzip", "{text}");
}

/// A busy process that a script has left in the background, with its output, writes nothing there: what holds up
/// the reader is the script's pause.
#[test]
fn who_was_left_in_the_background_is_left_out() {
    let mut group = Group::default();
    // Whoever runs the tests may ignore these signals, as what is in the background does.
    let shell = "exec env --default-signal=INT,QUIT sh -c";
    let loops = "sha256sum /dev/zero & while :; do date; sleep 0.1; done";
    let pipeline = group.script(&format!("{shell} '({loops}) | cat >/dev/null; :'"));
    let (left, cat) = (child(pipeline, "sha256sum"), child(pipeline, "cat"));
    let found = eventually(|| {
        let (text, record, _) = examine(cat, left);
        let bottleneck = bottleneck(&record)?;
        let name = bottleneck["stage"]["name"].as_str()?;
        let bystander = bottleneck["bystanders"][0]["pid"].as_u64();
        (name == "sh" && bystander == Some(left.into())).then_some(text)
    });
    let expected = ["WAITING FOR a timer: sh", "for a timer", "it was left out"];
    assert_contains(&found.unwrap(), &expected);
}
