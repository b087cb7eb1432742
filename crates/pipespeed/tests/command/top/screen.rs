//! The screen on real terminals.

use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{Action, LocalModes, OptionalActions, tcflow, tcgetattr, tcsetattr};
use tempfile::TempDir;

use super::slow_loop;
use crate::common::procs::{Mark, eventually};
use crate::common::terminal::Terminal;
use crate::common::{PIPESPEED, pipespeed, skip};
use crate::doctor::{Group, assert_contains};

/// A terminal of tmux, which ends when this is dropped.
struct Tmux {
    directory: TempDir,
}

impl Tmux {
    /// Runs a script for sh in a terminal of this size. `None`, with a skip, without tmux.
    fn start(columns: u16, rows: u16, script: &str) -> Option<Self> {
        let probe = Command::new("tmux")
            .arg("-V")
            .stdout(Stdio::null())
            .status();
        if !probe.is_ok_and(|status| status.success()) {
            skip("tmux is not installed");
            return None;
        }
        let tmux = Tmux {
            directory: tempfile::tempdir().unwrap(),
        };
        let size = [columns.to_string(), rows.to_string()];
        let (columns, rows) = (&*size[0], &*size[1]);
        let options = [
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            columns,
            "-y",
            rows,
        ];
        tmux.run(&[&options[..], &["sh", "-c", script]].concat());
        Some(tmux)
    }

    fn run(&self, args: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(self.directory.path().join("socket"));
        command.args(args).env_remove("TMUX").env_remove("NO_COLOR");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Presses keys, by their names in tmux.
    fn press(&self, keys: &str) {
        self.run(&["send-keys", keys]);
    }

    /// The text on the terminal.
    fn text(&self) -> String {
        self.run(&["capture-pane", "-p"])
    }

    /// Waits until the text on the terminal satisfies `wanted`, and returns it.
    #[track_caller]
    fn until(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let found = eventually(|| Some(self.text()).filter(|text| wanted(text)));
        found.unwrap_or_else(|| panic!("never {what}: {}", self.text()))
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let socket = self.directory.path().join("socket");
        let mut command = Command::new("tmux");
        command.arg("-S").arg(socket).arg("kill-server");
        let _ = command.stderr(Stdio::null()).status();
    }
}

/// Replaces whatever differs from second to second: numbers, bars and their widths. Leaves out
/// what depends on the user, and blank lines.
fn masked(text: &str) -> String {
    let mask = |word: &str| {
        let only = |letters: &str| word.chars().all(|letter| letters.contains(letter));
        if only("0123456789.<-%?") {
            "N".to_owned()
        } else if only("RQDBSET") {
            "BAR".to_owned()
        } else {
            word.to_owned()
        }
    };
    let line = |line: &str| {
        let (mut plain, mut rest) = (String::new(), line);
        // The fill of a pipe contains blanks.
        while let Some((before, (_, after))) = rest
            .split_once('[')
            .and_then(|(before, after)| Some((before, after.split_once(']')?)))
        {
            plain.extend([before, "FILL"]);
            rest = after;
        }
        plain.push_str(rest);
        // On a busy machine it waits for a processor.
        let words = plain.replace("probably ", "");
        let words = words.replace(" (waits for a processor)", "");
        // A second may last a tenth longer there.
        let words = words.replace("last second", "last 1 s");
        let mut words: Vec<String> = words.split_whitespace().map(mask).collect();
        // In colour, only the first cell of each part has a letter.
        words.dedup_by(|a, b| a == "BAR" && b == "BAR");
        words.join(" ").replace(", N hidden", "")
    };
    let (before, after) = text.split_once("note: ").unwrap_or((text, ""));
    let (_, after) = after.split_once("\nR runs").unwrap_or_default();
    let text = if after.is_empty() {
        text.to_owned()
    } else {
        format!("{before}R runs{after}")
    };
    let lines: Vec<String> = text.lines().map(line).collect();
    lines
        .into_iter()
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join("\n")
}

/// The screen of a slow loop, once it is drawn. `None`, with a skip, without tmux.
fn drawn() -> Option<(Group, Tmux)> {
    let mut group = Group::default();
    slow_loop(&mut group);
    let tmux = Tmux::start(80, 24, &watching(&group))?;
    tmux.until("drawn", |text| text.contains("is the bottleneck"));
    Some((group, tmux))
}

fn watching(group: &Group) -> String {
    format!("exec {PIPESPEED} top {}", group.first())
}

#[test]
fn the_screen_fits_at_three_sizes_and_after_resizing() {
    let Some((_group, tmux)) = drawn() else {
        return;
    };
    for (columns, rows) in [(80, 24), (120, 40), (40, 10)] {
        tmux.run(&[
            "resize-window",
            "-x",
            &columns.to_string(),
            "-y",
            &rows.to_string(),
        ]);
        // Only a wide screen has two columns of shares.
        let numbers = columns / 40 - 1;
        let text = tmux.until("drawn in this size", |text| {
            let is_marked = |line: &str| line.starts_with('>') && line.contains("sh ");
            // The headline ends at the right edge.
            text.lines()
                .next()
                .is_some_and(|line| line.chars().count() == columns)
                && text.lines().any(is_marked)
                && text.lines().count() == rows
                && text.matches(" blkd").count() == numbers
                && text.contains("bottleneck")
                && text.contains("MiB/s")
                && text.contains("q quit")
        });
        let fits = |line: &str| line.chars().count() <= columns;
        assert!(text.lines().all(fits), "{text}");
        insta::assert_snapshot!(format!("screen_{columns}x{rows}"), masked(&text));
    }
}

#[test]
fn colours_are_used_unless_no_color_is_set() {
    let mut group = Group::default();
    slow_loop(&mut group);
    for (setting, has_colours) in [("", true), ("NO_COLOR=1", false)] {
        let script = format!("export {setting}; {}", watching(&group));
        let Some(tmux) = Tmux::start(80, 24, &script) else {
            return;
        };
        tmux.until("drawn", |text| text.contains("is the bottleneck"));
        let text = tmux.run(&["capture-pane", "-ep"]);
        assert_eq!(text.contains("\x1b[30m\x1b[42m"), has_colours, "{text:?}");
        assert_eq!(text.contains('\x1b'), has_colours, "{text:?}");
    }
}

#[test]
fn keys_hold_the_screen_sort_and_scroll() {
    let Some((_group, tmux)) = drawn() else {
        return;
    };
    tmux.press("p");
    tmux.until("held", |text| text.contains("PAUSED"));
    tmux.press("Space");
    tmux.until("going on", |text| !text.contains("PAUSED"));
    tmux.press("s");
    tmux.until("sorted", |text| text.contains("sort: rate"));
    tmux.run(&["resize-window", "-x", "40", "-y", "6"]);
    tmux.until("low", |text| text.contains("below"));
    tmux.press("PageDown");
    tmux.until("scrolled", |text| text.contains("above"));
    tmux.press("Up");
    tmux.until("scrolled back", |text| text.contains("yes | sh | cat"));
}

/// What ends the screen.
enum End {
    Key(&'static str),
    Signal(Signal),
}

#[test]
fn the_terminal_is_left_as_it_was() {
    let mut group = Group::default();
    slow_loop(&mut group);
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    let (before, after) = (at("before"), at("after"));
    let script = format!(
        "trap : INT; echo earlier; stty -a > {before}; {PIPESPEED} top {}; echo status $?; \
         stty -a > {after}; echo finished; exec cat",
        group.first()
    );
    let ends = [
        ("status 0", End::Key("q")),
        ("status 130", End::Key("C-c")),
        ("status 143", End::Signal(Signal::TERM)),
        ("status 129", End::Signal(Signal::HUP)),
        ("status 138", End::Signal(Signal::USR1)),
        ("status 142", End::Signal(Signal::ALARM)),
        ("status 134", End::Signal(Signal::ABORT)),
    ];
    for (status, end) in ends {
        let Some(tmux) = Tmux::start(80, 24, &script) else {
            return;
        };
        tmux.until("drawn", |text| text.contains("is the bottleneck"));
        let child = tmux.run(&["display-message", "-p", "#{pane_pid}"]);
        let children = format!("/proc/{0}/task/{0}/children", child.trim());
        let Ok(children) = std::fs::read_to_string(children) else {
            return skip("this kernel does not list children");
        };
        let top = children.trim().parse().ok().and_then(Pid::from_raw);
        match end {
            End::Key(key) => tmux.press(key),
            End::Signal(signal) => kill_process(top.unwrap(), signal).unwrap(),
        }
        let text = tmux.until("left", |text| text.contains("finished"));
        assert_contains(&text, &["earlier\n", status]);
        assert!(!text.contains("is the bottleneck"), "{text}");
        let read = |path: &str| std::fs::read_to_string(path).unwrap();
        assert_eq!(read(&before), read(&after));
        let cursor = tmux.run(&["display-message", "-p", "#{cursor_flag} #{wrap_flag}"]);
        assert_eq!(cursor.trim(), "1 1");
    }
}

#[test]
fn a_stop_by_sigstop_returns_to_the_screen_and_an_orphan_does_not_stop_by_sigtstp() {
    let mut group = Group::default();
    slow_loop(&mut group);
    let mut terminal = Terminal::new(80);
    let mut command = pipespeed(&format!("top {}", group.first()));
    let mark = Mark::on(&mut command);
    command.env("NO_COLOR", "1");
    command.stdin(terminal.input()).stdout(terminal.input());
    // No process of its session could continue it.
    let running = terminal.start(command);
    for signal in [Signal::TSTP, Signal::STOP, Signal::TSTP] {
        terminal.until("drawn", |text| text.contains("yes | "));
        if signal == Signal::STOP {
            running.send(signal);
            let stat = format!("/proc/{}/stat", running.pid().as_raw_pid());
            let is_stopped = || std::fs::read_to_string(&stat).unwrap().contains(") T ");
            eventually(|| is_stopped().then_some(())).expect("it stops");
        }
        terminal.forget();
        if signal == Signal::STOP {
            // As a shell does.
            let mut settings = tcgetattr(terminal.input()).unwrap();
            settings.local_modes |= LocalModes::ECHO | LocalModes::ICANON;
            tcsetattr(terminal.input(), OptionalActions::Now, &settings).unwrap();
            running.send(Signal::CONT);
        } else {
            running.send(signal);
            terminal.until("left", |text| text.contains("\x1b[?1049l"));
        }
        terminal.until("shown again", |text| text.contains("\x1b[?1049h"));
        let modes = tcgetattr(terminal.input()).unwrap().local_modes;
        assert!(!modes.intersects(LocalModes::ECHO | LocalModes::ICANON));
    }
    terminal.type_in("q");
    assert!(running.finish().success());
    mark.nobody_left();
}

#[test]
fn a_stop_leaves_the_screen_and_going_on_returns_to_it() {
    let mut group = Group::default();
    slow_loop(&mut group);
    let script = format!(
        "set -m; {PIPESPEED} top {}; while echo stopped; read -r line; do fg; done",
        group.first()
    );
    let Some(tmux) = Tmux::start(80, 24, &script) else {
        return;
    };
    for _ in 0..2 {
        tmux.until("drawn", |text| text.contains("is the bottleneck"));
        tmux.press("C-z");
        tmux.until("left", |text| {
            text.contains("stopped") && !text.contains("is the bottleneck")
        });
        tmux.press("Enter");
    }
    tmux.until("drawn", |text| text.contains("is the bottleneck"));
}

/// The screen is gone, and the command goes on in the foreground.
#[test]
fn a_command_that_goes_on_without_a_screen_stops_with_top() {
    let script = format!(
        "set -m; {PIPESPEED} top -- 'exec sleep 1000 > /dev/null'; echo stopped; kill %1; kill -CONT %1; exec cat"
    );
    let Some(tmux) = Tmux::start(80, 24, &script) else {
        return;
    };
    tmux.until("drawn", |text| text.contains("q quit"));
    tmux.press("q");
    tmux.until("left", |text| text.contains("goes on in the foreground"));
    tmux.press("C-z");
    tmux.until("stopped", |text| text.contains("stopped"));
}

#[test]
fn a_signal_ends_a_screen_whose_terminal_takes_no_more() {
    let mut group = Group::default();
    slow_loop(&mut group);
    let mut terminal = Terminal::new(80);
    let mut command = pipespeed(&format!("top {}", group.first()));
    command.stdin(terminal.input()).stdout(terminal.input());
    let running = terminal.start(command);
    terminal.until("drawn", |text| text.contains("is the bottleneck"));
    tcflow(terminal.input(), Action::OOff).unwrap();
    running.send(Signal::TERM);
    assert_eq!(running.finish().code(), Some(143));
}

#[test]
fn a_stopped_screen_can_be_ended_in_the_background() {
    let mut group = Group::default();
    slow_loop(&mut group);
    // Job control, as in an interactive shell.
    let script = format!(
        "set -m; {PIPESPEED} top {}; echo stopped; kill %1; kill -CONT %1; exec cat",
        group.first()
    );
    let Some(tmux) = Tmux::start(80, 24, &script) else {
        return;
    };
    tmux.until("drawn", |text| text.contains("is the bottleneck"));
    tmux.press("C-z");
    let text = tmux.until("ended", |text| text.contains("interrupted by SIGTERM"));
    assert_contains(&text, &["stopped"]);
}

/// timeout(1) makes its command a background group, unless the shell has just done that.
#[test]
fn the_background_is_refused_with_the_way_out() {
    let mut group = Group::default();
    slow_loop(&mut group);
    let script = |options: &str| {
        let top = format!("{PIPESPEED} top {}", group.first());
        format!("timeout {options} 1000 {top}; echo status $?; exec cat")
    };
    let Some(tmux) = Tmux::start(80, 24, &script("")) else {
        return;
    };
    let text = tmux.until("refused", |text| text.contains("status 2"));
    let text = text.split_whitespace().collect::<Vec<&str>>().join(" ");
    assert_contains(&text, &["in a script: timeout --foreground"]);
    let Some(tmux) = Tmux::start(80, 24, &script("--foreground")) else {
        return;
    };
    tmux.until("drawn", |text| text.contains("is the bottleneck"));
}

#[test]
fn ended_stages_are_shown_and_the_last_ends_the_screen() {
    let mut group = Group::default();
    let pids = slow_loop(&mut group);
    let script = format!("{PIPESPEED} top {}; echo finished; exec cat", group.first());
    let Some(tmux) = Tmux::start(80, 24, &script) else {
        return;
    };
    tmux.until("drawn", |text| text.contains("yes | sh | cat"));
    let kill = |pid: u32| {
        let pid = Pid::from_raw(pid as i32).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
    };
    kill(pids[1]);
    // The others get SIGPIPE and the end of the file.
    let text = tmux.until("over", |text| text.contains("finished"));
    let message = format!("pipespeed: process {} has ended", pids[0]);
    assert_contains(&text, &["yes | sh | cat", "ended", &message]);
}

/// A second one would end a program in its cleanup.
#[test]
fn a_key_that_sends_a_signal_reaches_the_command_once_and_its_status_counts() {
    // A second one would come 0.5 s later.
    let command = "n=0; trap 'n=$((n + 1))' INT; echo ready; until [ $n -gt 0 ]; do sleep 0.1; done; \
                   for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 0.1; done; echo caught $n; exit 5";
    for observer in ["doctor --if-stuck 60 --", "top --json /dev/null --"] {
        let quoted = command.replace('\'', r"'\''");
        let script = format!(
            "trap : INT; {PIPESPEED} {observer} sh -c '{quoted}'; echo status $?; echo finished; exec cat"
        );
        let Some(tmux) = Tmux::start(80, 24, &script) else {
            return;
        };
        tmux.until("ready", |text| text.contains("ready"));
        tmux.press("C-c");
        let text = tmux.until("left", |text| text.contains("finished"));
        assert_contains(&text, &["caught 1\n", "status 5\n"]);
    }
}
