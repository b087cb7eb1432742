//! What doctor says of processes that were given a pipe without a use for it, and of children that give their parent
//! data.

use super::*;

/// The children for which a shell is said to wait that is the bottleneck of this script.
fn children_in(script: &str) -> Vec<String> {
    let mut group = Group::default();
    let pipeline = group.script(&format!("exec bash -c '{script}'"));
    child(pipeline, "sleep");
    let found = eventually(|| {
        let (_, record, _) = examine(pipeline, pipeline);
        let named = bottleneck(&record)?;
        let names = named["children"]["names"].as_array()?.iter();
        let names = names.filter_map(|name| Some(name.as_str()?.to_owned()));
        (named["stage"]["name"] == "bash").then(|| names.collect())
    });
    found.unwrap_or_else(|| panic!("{}", group.examine("").unwrapped()))
}

/// The producers of such a loop are children of the shell, too.
#[test]
fn a_loop_over_a_substitution_waits_for_its_commands() {
    if !has_program("bash") {
        return;
    }
    let looped = "while read -r line; do sleep 0.05; done < <(yes | tr y z)";
    // Where SIGINT is ignored, that does not show what is in the background.
    let beside = format!("trap \"\" INT; sha256sum /dev/zero & {looped}");
    for script in [looped, &beside] {
        let names = children_in(script);
        assert!(names.iter().any(|name| name == "sleep"), "{names:?}");
        // A child has its parent's name at first.
        let others = names
            .iter()
            .filter(|name| *name != "sleep" && *name != "bash");
        assert_eq!(others.count(), 0, "{names:?}");
    }
}

/// It has the input of the stage that has started it, and reads a file.
#[test]
fn who_has_inherited_the_input_of_a_stage_is_left_out() {
    if !has_program("bash") || !has_python("import time") {
        return;
    }
    let reader = "import os, time\\nwhile os.read(0, 65536): time.sleep(0.02)";
    let reader = format!("exec python3 -c \"exec(\\\"{reader}\\\")\"");
    let script = format!("yes | tr y z | (sha256sum /dev/zero >/dev/null & {reader})");
    let mut group = Group::default();
    let pipeline = group.script(&format!("exec bash -c '{script}'"));
    let python = child(pipeline, "python3");
    let left = child(python, "sha256sum");
    let inputs = [python, left].map(|pid| fs::read_link(format!("/proc/{pid}/fd/0")).unwrap());
    assert_eq!(inputs[0], inputs[1]);
    let found = eventually(|| {
        let (text, record, _) = examine(python, left);
        let named = bottleneck(&record)?["stage"]["name"].as_str()?;
        (named == "python3").then_some(text)
    });
    let text = found.unwrap_or_else(|| panic!("{}", group.examine("").unwrapped()));
    assert_contains(&text, &["it waits for a timer"]);
    assert!(!text.contains("faster sha256sum"), "{text}");
}
