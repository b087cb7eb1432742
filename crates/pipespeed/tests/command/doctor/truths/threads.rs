//! What doctor says of programs with several threads, and of those whose reads cost more than their bytes.

use super::*;

/// The running time of a process, with that of threads that have ended, in seconds.
fn ran(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let fields: Vec<&str> = fields.split(' ').collect();
    let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    ticks / rustix::param::clock_ticks_per_second() as f64
}

/// A program that starts a thread for each task, as samtools sort does.
#[test]
fn threads_that_have_ended_ran_too() {
    if !has_python("import hashlib") {
        return;
    }
    let mut group = Group::default();
    let code = "import sys, threading, hashlib\n\
                def work(): hashlib.pbkdf2_hmac('sha256', b'a', b'b', 100000)\n\
                while sys.stdin.buffer.read(1 << 20):\n \
                t = threading.Thread(target=work); t.start(); t.join(); print(1)";
    let pipeline = group.script(&format!(
        "cat /dev/zero | python3 -c \"{code}\" | cat >/dev/null; :"
    ));
    let python = child(pipeline, "python3");
    let found = eventually(|| {
        let (began, before) = (std::time::Instant::now(), ran(python));
        let (text, record, _) = examine(pipeline, python);
        let share = (ran(python) - before) / began.elapsed().as_secs_f64();
        let runs = number(&process(&record, python)["shares"]["runs"]);
        assert!((runs - share).abs() < 0.15, "{share}: {text}");
        let bottleneck = bottleneck(&record)?;
        (bottleneck["stage"]["pid"] == python).then_some(())
    });
    found.expect("python is the bottleneck");
}

/// Which of two threads limits the rate can't be seen: the one that sends may sleep for as long as the other one takes.
#[test]
fn a_thread_that_runs_is_not_taken_for_the_one_that_sends() {
    if !has_python("import hashlib") {
        return;
    }
    let mut group = Group::default();
    // It computes without Python's lock.
    let code = "import os, threading, hashlib, time\n\
                def work(): hashlib.pbkdf2_hmac('sha256', b'a', b'b', 1 << 30)\n\
                threading.Thread(target=work, daemon=True).start()\n\
                while True: os.write(1, b'x' * 65536); time.sleep(0.02)";
    let pipeline = group.script(&format!("python3 -c \"{code}\" | cat >/dev/null; :"));
    let python = child(pipeline, "python3");
    let mut looks = 0;
    let found = eventually(|| {
        let (text, record, _) = examine(pipeline, python);
        looks += 1;
        let bottleneck = bottleneck(&record)?;
        let [runs, queued] = ["runs", "queued"].map(|name| number(&bottleneck["shares"][name]));
        let is_it = bottleneck["stage"]["pid"] == python && runs + queued > 0.8;
        let has_processor = queued < 0.3;
        (is_it && (has_processor || looks > 10)).then_some((text, has_processor))
    });
    let (text, has_processor) = found.expect("python runs");
    if !has_processor {
        return skip("on a busy machine the thread that sends waits for a processor, too");
    }
    let words = [
        "may be the bottleneck",
        " would help unless its thread that moves the data limits the rate: that one waits for a timer",
    ];
    assert_contains(&text, &words);
}

/// The same program is several times as fast with a pipe of 1 MiB.
#[test]
fn larger_pipes_are_not_excluded_where_each_read_takes_all() {
    if !has_python("import os") {
        return;
    }
    let mut group = Group::default();
    let code = "import os\nwhile os.read(0, 1 << 20): sum(range(100000))";
    let pipeline = group.script(&format!("cat /dev/zero | python3 -c \"{code}\"; :"));
    let python = child(pipeline, "python3");
    // It reads much else while it starts.
    let found = eventually(|| {
        let (text, record, _) = examine(pipeline, python);
        assert!(!text.contains("larger pipes don't"), "{text}");
        assert!(!text.contains("Only"), "{text}");
        let is_known = text.contains("each of its reads takes all that the pipe holds");
        (bottleneck(&record)?["stage"]["pid"] == python && is_known).then_some(())
    });
    found.expect("python is the bottleneck");
}
