//! Where records are saved: what is refused beforehand, and what is not lost in unusual places.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use crate::common::conditions;
use crate::common::procs::eventually;
use crate::common::{
    PIPESPEED, json, json_file, names_in, pipespeed, pipespeed_in, run_alone, run_in, skip, start,
    start_into, start_marked,
};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Resource, Signal, geteuid};

/// A quick command with a record.
const SHORT: &str = "check --only semantics -q";

/// Checks that a file is a complete record.
#[track_caller]
fn assert_record(path: &Path) {
    assert_eq!(json_file(path)["kind"], "check");
}

/// A shell script, with the command as `$0`, in this directory.
fn script(text: &str, directory: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", text, PIPESPEED]).current_dir(directory);
    command
}

/// Which paths can't be written is a matter of unit tests.
#[test]
fn unwritable_files_are_found_before_anything_is_measured() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing/run.json");
    let missing = missing.to_str().unwrap();
    for args in [
        "bench --json",
        "bench --csv",
        "bench --chart",
        "costs --json",
        "latency --chart",
        "top --once --json",
    ] {
        let option = args.rsplit(' ').next().unwrap();
        let outcome = run_in(&directory, &format!("{args} {missing}"));
        outcome.refused(2, &[option, "cannot write ", missing, "No such file"]);
    }
    assert!(names_in(directory.path()).is_empty());
}

#[test]
fn a_working_directory_that_was_removed_is_named() {
    for args in ["bench --json x", "check --json x", "report -o x"] {
        let directory = tempfile::tempdir().unwrap();
        let text = format!("mkdir gone && cd gone && rmdir ../gone && exec \"$0\" {args}");
        let words = ["cannot write x", "the directory was removed"];
        run_alone(script(&text, directory.path())).refused(2, &words);
    }
}

#[test]
fn the_owner_and_the_mode_of_a_file_are_kept() {
    if !geteuid().is_root() {
        return skip("only root can write to files of other users");
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.json");
    fs::write(&file, "old").unwrap();
    chown(&file, Some(65534), Some(65534)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    run_in(&directory, &format!("{SHORT} --json run.json")).succeeded_in_silence();
    assert_record(&file);
    let saved = fs::metadata(&file).unwrap();
    assert_eq!((saved.uid(), saved.gid()), (65534, 65534));
    assert_eq!(saved.mode() & 0o7777, 0o600);
    assert_eq!(names_in(directory.path()), ["run.json"]);
}

/// There all users and groups without a number of their own look like one.
#[test]
fn a_file_of_ids_unknown_in_a_user_namespace_keeps_them() {
    if !geteuid().is_root() {
        return skip("only root can give files to others");
    }
    if conditions::in_user_namespace(PIPESPEED, SHORT).is_none() {
        return;
    }
    for (options, uid, gid) in [("-U", 1000, 1000), ("-U", 0, 1234), ("-U -r", 0, 1234)] {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("run.json");
        fs::write(&file, "old").unwrap();
        chown(&file, Some(uid), Some(gid)).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
        let inode = fs::metadata(&file).unwrap().ino();
        let mut command = Command::new("unshare");
        command.args(options.split(' ')).arg(PIPESPEED);
        command.args(SHORT.split(' ')).args(["--json", "run.json"]);
        command.current_dir(&directory);
        run_alone(command).succeeded();
        assert_record(&file);
        let saved = fs::metadata(&file).unwrap();
        assert_eq!((saved.uid(), saved.gid()), (uid, gid), "{options}");
        assert_eq!(saved.ino(), inode, "{options}");
        assert_eq!(names_in(directory.path()), ["run.json"]);
    }
}

#[test]
fn file_that_is_a_mount_point_is_written_in_place() {
    let directory = tempfile::tempdir().unwrap();
    let script = r#"
        cd "$1" && touch run.json other && mount --bind other run.json || exit 99
        "$0" check --only semantics -q --json run.json"#;
    let here = directory.path().to_str().unwrap();
    let Some(command) = conditions::in_mount_namespace(script, PIPESPEED, &[here]) else {
        return;
    };
    run_alone(command).succeeded();
    assert_record(&directory.path().join("other"));
}

#[test]
fn file_in_a_read_only_directory_is_written_in_place() {
    let directory = tempfile::tempdir().unwrap();
    let script = r#"
        cd "$1" && mkdir closed && touch closed/run.json run.json &&
            mount --bind closed closed && mount -o remount,bind,ro closed &&
            mount --bind run.json closed/run.json || exit 99
        "$0" check --only semantics -q --json closed/run.json"#;
    let here = directory.path().to_str().unwrap();
    let Some(command) = conditions::in_mount_namespace(script, PIPESPEED, &[here]) else {
        return;
    };
    let outcome = run_alone(command);
    if outcome.code == Some(99) {
        return skip("a directory can't be mounted read-only here");
    }
    outcome.succeeded();
    assert_record(&directory.path().join("run.json"));
}

/// Rights of Landlock (linux/landlock.h).
const WRITE_FILE: u64 = 1 << 1;
const REMOVE_FILE: u64 = 1 << 5;
const TRUNCATE: u64 = 1 << 14;

#[test]
fn what_a_sandbox_denies_is_found_before_measuring_and_leaves_nothing() {
    // The names before, whether the file is saved, and the error if not.
    for (denied, before, refusal) in [
        (WRITE_FILE, "", Some("Permission denied")),
        (WRITE_FILE, "run.json", Some("Permission denied")),
        (REMOVE_FILE, "run.json", None),
        (TRUNCATE, "run.json", None),
        // What is longer than before needs no truncation.
        (TRUNCATE, "other run.json", None),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run.json");
        let names: Vec<&str> = before.split_whitespace().collect();
        if let [first, others @ ..] = &names[..] {
            fs::write(directory.path().join(first), "old").unwrap();
            for other in others {
                fs::hard_link(directory.path().join(first), directory.path().join(other)).unwrap();
            }
        }
        let mut command = pipespeed(&format!("{SHORT} --json"));
        command.arg(&path);
        if !conditions::without_rights(&mut command, denied) {
            return;
        }
        let outcome = run_alone(command);
        if let Some(words) = refusal {
            assert_eq!(outcome.out, "", "nothing is measured");
            outcome.refused(2, &["--json: cannot write", words]);
            let old = fs::read_to_string(&path).unwrap_or_default();
            assert_eq!(old, if names.is_empty() { "" } else { "old" });
        } else {
            outcome.succeeded_in_silence();
            assert_record(&path);
        }
        assert_eq!(names_in(directory.path()), names, "{denied:#x}");
    }
}

#[test]
fn what_can_no_longer_be_saved_goes_to_the_directory_for_temporary_files() {
    let directory = tempfile::tempdir().unwrap();
    let (path, other) = (
        directory.path().join("run.json"),
        directory.path().join("x"),
    );
    let old = "old\n".repeat(100_000);
    fs::write(&path, &old).unwrap();
    fs::hard_link(&path, other).unwrap();
    for name in ["pipespeed-run.json", "pipespeed-run-2.json"] {
        let mut command = pipespeed(&format!("{SHORT} --json"));
        command.arg(&path).env("TMPDIR", directory.path());
        // The end of the old contents would stay.
        if !conditions::without_rights(&mut command, TRUNCATE) {
            return;
        }
        let saved = directory.path().join(name);
        let words = format!(
            "it can't be truncated: Permission denied; saved as {}",
            saved.display()
        );
        run_alone(command).failed(1, &["cannot write", &words]);
        assert_record(&saved);
        assert_eq!(fs::read_to_string(&path).unwrap(), old);
    }
}

/// A file with a second name, and with a mode that writing changes.
#[test]
fn looking_at_a_file_that_is_written_in_place_changes_nothing_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.json");
    fs::write(&path, "old").unwrap();
    fs::hard_link(&path, directory.path().join("other")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o6755)).unwrap();
    let before = fs::metadata(&path).unwrap();
    let mut command = pipespeed("doctor --json");
    command.arg(&path).arg(i32::MAX.to_string());
    run_alone(command).refused(2, &["no such process"]);
    let after = fs::metadata(&path).unwrap();
    let seen = |file: &fs::Metadata| {
        (
            file.len(),
            file.modified().unwrap(),
            file.ctime_nsec(),
            file.mode(),
        )
    };
    assert_eq!(seen(&after), seen(&before));
}

#[test]
fn unfinished_file_that_a_sandbox_keeps_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.json");
    let mut command = pipespeed("doctor --time 0.1 --json");
    command.arg(&path).arg("--").arg("sleep 0.3 | cat");
    if !conditions::without_rights(&mut command, REMOVE_FILE) {
        return;
    }
    let outcome = run_alone(command).succeeded();
    assert!(path.exists());
    let names = names_in(directory.path());
    let left = names.iter().filter(|name| *name != "run.json");
    for name in left {
        let words = format!(
            "could not be removed: {}",
            directory.path().join(name).display()
        );
        assert!(outcome.unwrapped_err().contains(&words), "{outcome:#?}");
    }
    assert!(
        outcome.err.contains("could not be removed: "),
        "{outcome:#?}"
    );
}

#[test]
fn old_contents_are_not_called_damaged_if_nothing_was_written() {
    let directory = tempfile::tempdir().unwrap();
    let [file, other] = ["run.json", "other"].map(|name| directory.path().join(name));
    fs::write(&file, "old").unwrap();
    fs::hard_link(&file, &other).unwrap();
    let mut command = pipespeed(&format!("{SHORT} --json"));
    command.arg(&file);
    if !conditions::failing_call(&mut command, libc::SYS_pwrite64, libc::EIO) {
        return;
    }
    let outcome = run_alone(command);
    assert!(!outcome.err.contains("damaged"), "{outcome:#?}");
    outcome.failed(1, &["cannot write", "Input/output error"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "old");
    // The room that was reserved is that of the record.
    assert!(fs::metadata(&file).unwrap().blocks() <= 8);
}

#[test]
fn on_a_full_disk_the_old_record_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    // A file with one name could be replaced if there were room; the other one never. Not every
    // file system can reserve room.
    for (links, can_reserve) in [
        ("true", true),
        ("ln run.json other", true),
        ("ln run.json other", false),
    ] {
        let script = format!(
            r#"mount -t tmpfs -o size=24k none "$1" && cd "$1" || exit 99
            printf "the old record" > run.json && {links}
            head -c 100k /dev/zero > filler 2> /dev/null
            "$0" check -q --json run.json
            status=$?
            cat run.json; echo; ls -A; exit $status"#
        );
        let here = directory.path().to_str().unwrap();
        let Some(mut command) = conditions::in_mount_namespace(&script, PIPESPEED, &[here]) else {
            return;
        };
        let cannot = libc::EOPNOTSUPP;
        if !can_reserve && !conditions::failing_call(&mut command, libc::SYS_fallocate, cannot) {
            return;
        }
        let outcome = run_alone(command);
        assert!(
            outcome.out.starts_with("the old record\nfiller\n"),
            "{outcome:#?}"
        );
        assert!(!outcome.out.contains(".pipespeed"), "{outcome:#?}");
        assert!(!outcome.err.contains("damaged"), "{outcome:#?}");
        outcome.failed(1, &["cannot write run.json: No space left on device"]);
    }
}

/// A file that may be written but not read can't be restored.
#[test]
fn a_file_that_may_not_be_read_is_not_written_above_a_limit_on_sizes() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.json");
    let old = "the old record\n".repeat(100);
    fs::write(&file, &old).unwrap();
    // Another name keeps it from being replaced.
    fs::hard_link(&file, directory.path().join("other")).unwrap();
    for (mode, limit) in [(0o200, 1024), (0o600, 1024), (0o200, 512)] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let mut command = pipespeed(&format!("{SHORT} --json"));
        command.arg(&file);
        conditions::limit(&mut command, Resource::Fsize, limit);
        let outcome = run_alone(command);
        outcome.failed(1, &["File too large"]);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), old, "{mode:o}");
    }
}

#[test]
fn a_full_disk_takes_a_record_in_a_longers_place() {
    let directory = tempfile::tempdir().unwrap();
    let script = r#"
        mount -t tmpfs -o size=128k none "$1" && cd "$1" || exit 99
        head -c 64k /dev/zero > run.json
        head -c 100k /dev/zero > filler 2> /dev/null
        "$0" check -q --json run.json && cat run.json"#;
    let here = directory.path().to_str().unwrap();
    let Some(command) = conditions::in_mount_namespace(script, PIPESPEED, &[here]) else {
        return;
    };
    let record = run_alone(command).succeeded_in_silence().out;
    assert_eq!(json(&record)["kind"], "check");
}

/// The command takes away what the record is to be saved in.
#[test]
fn a_record_whose_file_system_was_unmounted_is_not_said_to_be_saved() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path().to_str().unwrap();
    for (change, subcommand) in [
        ("umount -l mounted", "doctor --time 0.2"),
        ("mount -t tmpfs none mounted", "doctor --time 0.2"),
        ("umount -l mounted", "top"),
    ] {
        let script = r#"
            cd "$1" && mkdir -p mounted other && mount -t tmpfs none mounted || exit 99
            export TMPDIR="$1/other"
            exec "$0" $2 --json mounted/run.json -- "$3""#;
        let changed =
            format!("until [ -s mounted/run.json ]; do sleep 0.05; done; {change}; sleep 1.2");
        let args = [
            here,
            subcommand,
            if subcommand == "top" {
                &changed
            } else {
                change
            },
        ];
        let Some(command) = conditions::in_mount_namespace(script, PIPESPEED, &args) else {
            return;
        };
        let outcome = run_alone(command);
        if subcommand == "top" {
            let words = "mounted/run.json was removed or replaced";
            assert!(outcome.err.contains(words), "{outcome:#?}");
            continue;
        }
        assert!(outcome.err.contains("unmounted"), "{outcome:#?}");
        assert_eq!(outcome.code, Some(2), "{outcome:#?}");
        let saved = directory.path().join("other/pipespeed-run.json");
        assert_eq!(json_file(&saved)["kind"], "doctor");
        fs::remove_file(saved).unwrap();
    }
}

#[test]
fn descriptor_is_written_at_its_own_position_and_not_emptied() {
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/dev/fd/3", directory.path().join("link")).unwrap();
    for (name, descriptor) in [
        ("/dev/fd/3", 3),
        ("/proc/self/fd/3", 3),
        ("link", 3),
        ("/dev/stderr", 2),
        ("/dev/fd/1", 1),
        ("log", 1),
        ("log", 2),
    ] {
        for opened in [">", ">>"] {
            let text = format!(
                r#"exec {descriptor}{opened}log; echo before >&{descriptor}
                "$0" {SHORT} --json {name}; echo after >&{descriptor}"#
            );
            run_alone(script(&text, directory.path())).succeeded();
            let path = directory.path().join("log");
            let log = fs::read_to_string(&path).unwrap();
            let record = log.strip_prefix("before\n");
            let record = record.and_then(|rest| rest.strip_suffix("after\n"));
            assert_eq!(json(record.expect(&log))["kind"], "check", "{name}");
            fs::remove_file(path).unwrap();
        }
    }
}

#[test]
fn a_socket_that_came_as_a_descriptor_gets_the_record() {
    for name in ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let command = pipespeed(&format!("{SHORT} --json {name}"));
        let running = start_into(command, OwnedFd::from(theirs));
        let mut record = String::new();
        ours.read_to_string(&mut record).unwrap();
        running.finish().succeeded_in_silence();
        assert_eq!(json(&record)["kind"], "check", "{name}");
    }
}

#[test]
fn a_descriptor_that_cannot_be_written_is_refused_beforehand() {
    for command in [SHORT, "top --once"] {
        for (name, reason) in [
            ("/dev/fd/99", "descriptor 99 is not open"),
            ("/dev/fd/0", "descriptor 0 is open for reading only"),
        ] {
            run_alone(pipespeed(&format!("{command} --json {name}")))
                .refused(2, &["--json: cannot write", name, reason]);
        }
    }
    // This program's own descriptor of the first file's directory, perhaps.
    let directory = tempfile::tempdir().unwrap();
    let text = r#""$0" bench --json run.json --csv /dev/fd/3"#;
    run_alone(script(text, directory.path())).refused(2, &["--csv", "is not open"]);
}

#[test]
fn records_of_top_replace_old_ones_once_there_are_new() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("top.json");
    let top = |args: &str| {
        let mut command = pipespeed("top --once --no-open --json");
        command.arg(&file).args(args.split_whitespace());
        run_alone(command)
    };
    for links in [false, true] {
        fs::write(&file, "the old record\n").unwrap();
        if links {
            fs::hard_link(&file, directory.path().join("other")).unwrap();
        }
        top("99999999").refused(2, &["no such process"]);
        assert_ne!(top("-- no-such-program x").code, Some(0));
        assert_eq!(fs::read(&file).unwrap(), b"the old record\n");
        top("").succeeded_in_silence();
        let records = fs::read_to_string(&file).unwrap();
        assert_eq!(json(&records)["kind"], "top");
    }
}

#[test]
fn top_keeps_whole_records_when_a_disk_is_full() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("top.json");
    // It watches a process with one pipe, so that all records are about as long.
    let (from, into) = std::io::pipe().unwrap();
    let mut cat = Command::new("cat");
    cat.stdin(from);
    let cat = start(cat);
    let pid = cat.pid();
    let top = |args: &str| {
        let mut command = pipespeed(&format!("top --no-open {args} {pid} --json"));
        command.arg(&file);
        command
    };
    run_alone(top("--once")).succeeded_in_silence();
    let size = fs::metadata(&file).unwrap().len();
    let mut command = top("");
    conditions::limit(&mut command, Resource::Fsize, size * 5 / 2);
    run_alone(command).failed(1, &["--json: cannot write ", "File too large"]);
    drop(into);
    let records = fs::read_to_string(&file).unwrap();
    assert!(
        records.ends_with('\n') && records.lines().count() >= 1,
        "{records}"
    );
    records.lines().for_each(|line| drop(json(line)));
}

#[test]
fn a_run_that_measures_nothing_keeps_the_old_record() {
    let signal = Some(Signal::INT);
    for (args, refused, signal, words) in [
        // Its only launch lasts for minutes.
        (
            "latency pipe --size 8 --count 100000000 --rounds 1",
            None,
            signal,
            "nothing was measured: interrupted by SIGINT",
        ),
        (
            "bench --quick --rounds 1 --case write_read",
            Some(libc::SYS_memfd_create),
            None,
            "no case could be run: failed: ",
        ),
        (
            "latency pipe --size 8 --count 3 --rounds 1",
            Some(libc::SYS_memfd_create),
            None,
            "nothing was measured: pipe of 8B",
        ),
        (
            "costs --pinning --pages base --size 1M --rounds 1",
            Some(libc::SYS_vmsplice),
            None,
            "nothing was measured",
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("run.json");
        fs::write(&file, "the old record").unwrap();
        let mut command = pipespeed_in(&directory, &format!("{args} -q --json run.json"));
        if refused.is_some_and(|call| !conditions::without_call(&mut command, call)) {
            return;
        }
        let (running, mark) = start_marked(command);
        if let Some(signal) = signal {
            eventually(|| mark.endpoint("sender")).unwrap();
            running.send(signal);
        }
        let outcome = running.finish();
        let status = signal.map_or(1, |signal| 128 + signal.as_raw());
        assert_eq!(outcome.code, Some(status), "{outcome:#?}");
        let last = outcome.err.lines().last().unwrap_or_default();
        assert!(last.contains(words), "{outcome:#?}");
        assert!(!outcome.err.contains("saved: "), "{outcome:#?}");
        assert_eq!(fs::read(&file).unwrap(), b"the old record", "{args}");
        assert_eq!(names_in(directory.path()), ["run.json"], "{args}");
    }
}

#[test]
fn nothing_is_lost_if_a_neighbour_sets_o_nonblock() {
    let plain = |args: &str| run_alone(pipespeed(args));
    for args in [
        "man",
        "completions zsh",
        "bench --help",
        "check --list",
        "bench --list",
    ] {
        let (mut from, into) = std::io::pipe().unwrap();
        rustix::pipe::fcntl_setpipe_size(&into, 4096).unwrap();
        fcntl_setfl(&into, OFlags::NONBLOCK).unwrap();
        let running = start_into(pipespeed(args), into);
        let mut out = String::new();
        from.read_to_string(&mut out).unwrap();
        running.finish().succeeded_in_silence();
        assert_eq!(out, plain(args).out, "{args}");
    }
    // A record, on a pipe that is full at first.
    let (mut from, mut into) = std::io::pipe().unwrap();
    rustix::pipe::fcntl_setpipe_size(&into, 4096).unwrap();
    into.write_all(&[b' '; 4096]).unwrap();
    fcntl_setfl(&into, OFlags::NONBLOCK).unwrap();
    let running = start_into(pipespeed(&format!("{SHORT} --json -")), into);
    let mut out = String::new();
    from.read_to_string(&mut out).unwrap();
    running.finish().succeeded_in_silence();
    assert_eq!(json(&out)["kind"], "check");
}

#[test]
fn input_and_output_of_a_command_are_not_replaced_by_records() {
    let directory = tempfile::tempdir().unwrap();
    let input = directory.path().join("input");
    fs::write(&input, "text").unwrap();
    for (options, has_stdout) in [
        ("doctor --time 0.1", true),
        ("top --once", true),
        ("profile -q", false),
    ] {
        let args = format!("{options} --json input -- touch ran");
        let mut command = pipespeed_in(&directory, &args);
        command.stdin(fs::File::open(&input).unwrap());
        let words = ["--json: standard input is read by the command"];
        start(command).finish().refused(2, &words);
        if has_stdout {
            let args = format!("{options} --json - -- touch ran");
            let outcome = run_in(&directory, &args);
            outcome.refused(2, &["--json: the command's output would be mixed"]);
        }
    }
    assert_eq!(fs::read_to_string(&input).unwrap(), "text");
    assert_eq!(names_in(directory.path()), ["input"]);
}
