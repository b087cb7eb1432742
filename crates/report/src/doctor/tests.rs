//! What the command prints.

use super::*;
use pipespeed_pipeline::diagnosis::diagnose;
use pipespeed_pipeline::fixtures::{
    busy, child_of, frozen, observation, on_input, on_room, process, reads, writes,
};
use pipespeed_pipeline::graph::{LinkSide, Process};
use pipespeed_pipeline::proc::silent::SilentProcess;
use pipespeed_pipeline::proc::{Language, LinkFd, LinkId};
use pipespeed_pipeline::sample::Observed;
use pipespeed_pipeline::wait::{BlockedOn, LinkWait, Outside, ThreadState};

/// What an observation of these processes shows, in 80 columns.
fn screen(processes: Vec<Observed>, change: impl FnOnce(&mut Observation)) -> String {
    let mut observation = observation(processes);
    change(&mut observation);
    doctor(&observation, &diagnose(&observation), Style::of_width(80))
}

fn waiting(outside: Outside) -> ThreadState {
    ThreadState::Waiting(BlockedOn::Outside(outside))
}

#[test]
fn a_healthy_pipeline_names_its_slow_stage() {
    insta::assert_snapshot!(screen(
        vec![
            busy(process(41, "yes", vec![writes(1, 7)]), 0.03, 0.97, 0.0),
            busy(
                process(42, "gzip", vec![reads(0, 7), writes(1, 8)]),
                0.99,
                0.0,
                0.01
            ),
            busy(process(43, "wc", vec![reads(0, 8)]), 0.0, 0.0, 1.0),
        ],
        |_| {}
    ));
}

#[test]
fn a_deadlock_names_each_member_and_what_it_waits_for() {
    let child = |threads| {
        let own = process(12, "sort", vec![reads(0, 1), writes(1, 2)]);
        frozen(Process { parent: 11, ..own }, threads)
    };
    let parent = |thread| {
        frozen(
            process(11, "driver", vec![writes(4, 1), reads(5, 2)]),
            thread,
        )
    };
    let both_write = screen(vec![parent(on_room(1)), child(on_room(2))], |observation| {
        observation.hidden = 31;
    });
    let wait = ThreadState::Waiting(BlockedOn::Child(Some(12)));
    let unread = screen(vec![parent(wait.clone()), child(on_room(2))], |_| {});
    let unclosed = screen(vec![parent(wait), child(on_input(1))], |_| {});
    insta::assert_snapshot!([both_write, unread, unclosed].join("\n"));
}

#[test]
fn processes_that_do_not_answer_are_named() {
    let of = |pid| SilentProcess {
        pid,
        name: "sleep".to_owned(),
    };
    let one = silent(&[of(7)], false).unwrap();
    let start = "note: process 7 (sleep) answers nothing (reading it in /proc blocks), and was left out; it may";
    assert!(one.starts_with(start), "{one}");
    let two = silent(&[of(7), of(8)], true).unwrap();
    assert!(
        two.contains("processes 7 (sleep) and 8 (sleep) answer nothing"),
        "{two}"
    );
    assert!(two.contains("too; so many processes"), "{two}");
    let many: Vec<SilentProcess> = (1..=5).map(of).collect();
    let many = silent(&many, false).unwrap();
    assert!(many.contains("5 processes answer nothing"), "{many}");
    assert!(silent(&[], true).unwrap().starts_with("note: so many"));
    assert_eq!(silent(&[], false), None);
}

#[test]
fn a_wait_for_a_hidden_process_is_not_called_nothing() {
    let text = |hidden, polls| {
        let mut cat = frozen(process(41, "cat", vec![reads(0, 7)]), on_input(7));
        if polls {
            cat.polled = [(LinkId::pipe(7), LinkSide::Input)].into();
        }
        screen(vec![cat], |observation| observation.hidden = hidden).replace("\n  ", " ")
    };
    let polls = "NOTHING WRONG SEEN, but cat (pid 41) waits for input on a pipe, and no";
    assert!(text(31, true).starts_with(polls), "{}", text(31, true));
    assert!(!text(0, true).contains(", but"), "{}", text(0, true));
    // It can't be seen by anybody where none is hidden.
    let reads = "WAITING FOR data of a pipe whose writer isn't seen: cat (pid 41).";
    for seen in [text(31, false), text(0, false)] {
        assert!(seen.starts_with(reads), "{seen}");
    }
    for seen in [text(31, true), text(31, false)] {
        assert!(seen.contains("note: 31 other processes can't"), "{seen}");
    }
}

/// `rm f; mkfifo f` after `cat f &`: the path is that of another FIFO.
#[test]
fn who_waits_at_a_fifo_may_need_a_new_start() {
    let path = Some("/tmp/f".to_owned());
    let cat = frozen(
        process(41, "cat", Vec::new()),
        ThreadState::Waiting(BlockedOn::FifoPeer { path }),
    );
    let text = screen(vec![cat], |_| ()).replace("\n  ", " ");
    let remedy = "If the FIFO was deleted or made anew meanwhile, only starting what waits there again \
                  helps.";
    assert!(text.contains(remedy), "{text}");
}

#[test]
fn only_who_started_the_writer_can_choose_its_streams() {
    let unread = |parent: i32, fifo: bool| {
        let mut cat = child_of(parent, process(41, "cat", vec![writes(1, 7)]));
        let mut node = process(42, "node", vec![reads(3, 7)]);
        let mut waits = on_room(7);
        if fifo {
            let pipe = LinkId::Fifo {
                device: 1,
                inode: 7,
            };
            for all in [&mut cat.ends, &mut node.ends] {
                let ends = all.iter().map(|end| LinkFd {
                    pipe,
                    ..end.clone()
                });
                *all = ends.collect::<Vec<_>>().into();
            }
            waits = ThreadState::Waiting(BlockedOn::Pipes {
                any_of: vec![LinkWait {
                    pipe,
                    fd: Some(1),
                    side: LinkSide::Room,
                }],
                or: None,
            });
        }
        let mut node = frozen(node, waiting(Outside::Other));
        node.language = Language::JavaScript;
        screen(vec![frozen(cat, waits), node], |_| {}).replace("\n  ", " ")
    };
    let general = "Remedy: node must read what cat writes while it waits. By hand";
    for (parent, fifo, words) in [
        (42, false, "stdio: 'ignore' or 'inherit'"),
        (9, false, general),
        (42, true, general),
    ] {
        let text = unread(parent, fifo);
        assert!(text.contains(words), "{parent} {fifo}: {text}");
    }
}

#[test]
fn who_waits_with_a_timeout_may_read_on_by_itself() {
    for (what, may_read_on) in [
        (Outside::Event, false),
        (Outside::EventOrTimer, true),
        (Outside::LockOrTimer, true),
    ] {
        let yes = child_of(42, process(41, "yes", vec![writes(1, 7)]));
        let yes = frozen(yes, on_room(7));
        let node = frozen(process(42, "node", vec![reads(3, 7)]), waiting(what));
        let text = screen(vec![yes, node], |_| {});
        let text = text.split_whitespace().join(" ");
        let is_said = text.contains("Remedy, unless it reads on later: node must read");
        assert_eq!(is_said, may_read_on, "{text}");
    }
}

#[test]
fn remedy_in_java_names_the_stream_that_is_unread() {
    for (fd, getter) in [(1, "getInputStream()"), (2, "getErrorStream()")] {
        let perl = child_of(42, process(41, "perl", vec![writes(fd, 7)]));
        let child = ThreadState::Waiting(BlockedOn::Child(Some(41)));
        let mut java = frozen(process(42, "java", vec![reads(8, 7)]), child);
        java.language = Language::Java;
        java.threads.push(waiting(Outside::LockOrTimer));
        let text = screen(vec![frozen(perl, on_room(7)), java], |_| {});
        assert!(text.contains(getter), "{text}");
    }
}

#[test]
fn what_nobody_reads_may_be_read_by_a_hidden_process() {
    let stages = vec![
        frozen(process(41, "yes", vec![writes(1, 7)]), on_room(7)),
        frozen(
            process(42, "node", vec![reads(3, 7)]),
            waiting(Outside::Other),
        ),
    ];
    let text = screen(stages, |observation| observation.hidden = 31);
    assert!(text.starts_with("UNREAD"), "{text}");
    assert!(text.contains("note: 31 other processes can't"), "{text}");
    // A stranger's bytes may steer a terminal.
    let remedy = "'timeout 5 cat /proc/42/fd/3 > /dev/null' frees yes";
    assert!(text.replace("\n  ", " ").contains(remedy), "{text}");
}

#[test]
fn slow_scans_and_what_could_not_be_examined_are_said() {
    let text = |change: fn(&mut Observation)| {
        let cat = frozen(process(41, "cat", vec![reads(0, 7)]), on_input(7));
        let daemon = process(42, "daemon", vec![writes(7, 7)]);
        let daemon = frozen(daemon, waiting(Outside::Timer));
        screen(vec![cat, daemon], change)
            .split_whitespace()
            .join(" ")
    };
    let plain = text(|_| {});
    for (change, words) in [
        (
            (|observation| observation.scan_s = 2.5) as fn(&mut Observation),
            "note: reading all processes took 2.50 s,",
        ),
        (
            |observation| observation.unlisted_sockets = Some("quota exceeded".to_owned()),
            "the sockets of this machine can't be listed (quota exceeded)",
        ),
        (
            |observation| observation.is_cut_short = true,
            "a signal arrived before all processes were read",
        ),
        (
            |observation| observation.lacks_helpers = true,
            "the pipes of some could not be examined",
        ),
    ] {
        let changed = text(change);
        assert!(changed.contains(words), "{changed}");
        assert!(!plain.contains(words), "{plain}");
    }
}

#[test]
fn a_stray_write_end_is_named_with_its_descriptor() {
    insta::assert_snapshot!(screen(
        vec![
            frozen(process(41, "cat", vec![reads(0, 7)]), on_input(7)),
            frozen(
                process(42, "daemon", vec![writes(7, 7)]),
                waiting(Outside::Timer)
            ),
        ],
        |_| {}
    ));
}

#[test]
fn who_keeps_a_write_end_while_a_child_works_is_waited_for() {
    let of = |process: Process| Process {
        parent: 42,
        ..process
    };
    let shown = |share: f64| {
        screen(
            vec![
                frozen(process(41, "cat", vec![reads(0, 7)]), on_input(7)),
                frozen(
                    process(42, "bash", vec![writes(1, 7)]),
                    ThreadState::Waiting(BlockedOn::Child(None)),
                ),
                busy(of(process(43, "sha1sum", Vec::new())), share, 0.0, 0.0),
            ],
            |_| {},
        )
    };
    let (works, idle) = (shown(0.98), shown(0.1));
    assert!(
        works.starts_with("WAITING FOR data or an end of file"),
        "{works}"
    );
    let works = works.split_whitespace().collect::<Vec<&str>>().join(" ");
    let child = "sha1sum (pid 43)";
    let cause = format!("but {child}, for which bash waits, works 98 % of the time.");
    assert!(works.contains(&cause), "{works}");
    let advice = format!("If bash is to write there once {child} has ended, wait for that.");
    assert!(works.contains(&advice), "{works}");
    assert!(
        !idle.contains("works") && idle.contains("Remedy: unless it is to write there"),
        "{idle}"
    );
}

#[test]
fn a_stage_that_waits_for_a_socket_is_not_the_pipes_fault() {
    insta::assert_snapshot!(screen(
        vec![
            frozen(
                process(41, "curl", vec![writes(1, 7)]),
                waiting(Outside::Socket)
            ),
            frozen(process(42, "tar", vec![reads(0, 7)]), on_input(7)),
        ],
        |_| {}
    ));
}

#[test]
fn stages_that_wait_by_turns_get_the_line_that_raises_their_pipe() {
    let turns = |parent| {
        let of = |process: Process| Process { parent, ..process };
        screen(
            vec![
                busy(of(process(41, "cat", vec![writes(1, 7)])), 0.5, 0.5, 0.0),
                busy(of(process(42, "wc", vec![reads(0, 7)])), 0.5, 0.0, 0.5),
            ],
            |_| {},
        )
    };
    insta::assert_snapshot!([turns(40), turns(1)].join("\n"));
}

/// Those at a connection wait by turns, or at the same time for its network.
#[test]
fn a_connection_is_no_pipe_that_could_be_larger() {
    let text = |waits: f64| {
        let end = |end: LinkFd| LinkFd {
            pipe: LinkId::socket(7),
            ..end
        };
        let sends = process(41, "nc", vec![end(writes(4, 7))]);
        let receives = process(42, "socat", vec![end(reads(5, 7))]);
        let runs = 1.0 - waits;
        let stages = vec![
            busy(sends, runs, waits, 0.0),
            busy(receives, runs, 0.0, waits),
        ];
        screen(stages, |_| {})
    };
    let turns = text(0.5);
    assert!(turns.contains("by turns."), "{turns}");
    assert!(!turns.contains("larger pipe"), "{turns}");
    let slow = text(0.98);
    assert!(slow.starts_with("CAN'T TELL"), "{slow}");
    assert!(slow.contains("The connection itself"), "{slow}");
}

#[test]
fn estimated_shares_are_marked_with_their_range() {
    let mut pigz = busy(process(1, "pigz", vec![writes(1, 7)]), 0.84, 0.0, 0.0);
    pigz.runs_between = Some([0.6, 1.0]);
    let wc = busy(process(2, "wc", vec![reads(0, 7)]), 0.1, 0.0, 0.9);
    let text = screen(vec![pigz, wc], |_| {});
    for expected in [
        "~84 %",
        "10 %",
        "~ estimated, as threads may run at once: pigz runs 60 to 100 %",
        "runs about 84 % of the time",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(!text.contains("~10 %"), "{text}");
}

/// `cat <(xz -dc a) <(gzip -dc b)`: xz ends within the look.
#[test]
fn a_stage_that_was_seen_in_part_of_the_look_is_said_to_be() {
    let text = |counted_s: f64| {
        let mut xz = busy(process(1, "xz", vec![writes(1, 7)]), 0.96, 0.0, 0.0);
        xz.counted_s = counted_s;
        let cat = busy(process(2, "cat", vec![reads(0, 7)]), 0.1, 0.0, 0.9);
        screen(vec![xz, cat], |_| {})
    };
    let note = "shares of part of the look: xz (1.20 s)\n";
    assert!(text(1.2).contains(note), "{}", text(1.2));
    assert!(!text(2.0).contains("in part of"), "{}", text(2.0));
}

#[test]
fn few_samples_are_said_to_be_too_few() {
    let stages = || {
        vec![
            frozen(process(41, "cat", vec![writes(1, 7)]), on_room(7)),
            frozen(
                process(42, "wc", vec![reads(0, 7)]),
                waiting(Outside::Timer),
            ),
        ]
    };
    let text = |samples| screen(stages(), |observation| observation.samples = samples);
    let words = "3 samples: too short to tell which stage is the bottleneck.";
    assert!(text(3).contains(words), "{}", text(3));
    assert!(!text(4).contains("too short"), "{}", text(4));
}

#[test]
fn a_loop_of_short_pipelines_is_not_called_nothing() {
    let short = |pid, ends| {
        let mut short = frozen(process(pid, "cat", ends), waiting(Outside::Timer));
        (short.samples, short.has_ended) = (1, true);
        short
    };
    let shell = frozen(process(41, "sh", Vec::new()), waiting(Outside::Timer));
    let cats = [
        short(42, vec![writes(1, 7)]),
        short(43, vec![reads(0, 7)]),
        // Their output leads out of the command.
        short(44, vec![writes(1, 9)]),
    ];
    let text = screen([vec![shell], cats.into()].concat(), |_| {});
    let text = text.replace("\n  ", " ");
    let words = "CAN'T TELL. Short-lived pipelines were seen (at least 1 pipe), each";
    assert!(text.starts_with(words), "{text}");
}

#[test]
fn stages_of_which_none_stands_out_are_not_called_fine() {
    let tr = busy(process(41, "tr", vec![writes(1, 7)]), 0.87, 0.02, 0.0);
    let wc = busy(process(42, "wc", vec![reads(0, 7)]), 0.82, 0.0, 0.05);
    insta::assert_snapshot!(screen(vec![tr, wc], |_| {}));
}

#[test]
fn a_process_by_itself_is_said_to_wait_and_to_be_no_bottleneck() {
    let flock = frozen(process(7, "flock", Vec::new()), waiting(Outside::FileLock));
    let text = screen(vec![flock], |_| {});
    assert!(
        text.starts_with("WAITING FOR a file lock: flock (pid 7).\n"),
        "{text}"
    );
    assert!(
        text.contains("\nflock (pid 7) waits for a file lock 100 % of the time.\n"),
        "{text}"
    );
    let mut gzip = busy(process(7, "gzip", Vec::new()), 0.1, 0.0, 0.0);
    (gzip.shares.queued, gzip.shares.elsewhere) = (0.9, 0.0);
    let text = screen(vec![gzip], |_| {});
    assert!(
        text.starts_with("SLOW: gzip (pid 7) waits for a processor.\n"),
        "{text}"
    );
    assert!(
        text.contains("\ngzip (pid 7) waits for a processor 90 % of the time and runs 10 %. More"),
        "{text}"
    );
    assert!(!text.contains("bottleneck"), "{text}");
}

#[test]
fn workers_that_wait_alike_are_said_at_once() {
    let workers = |count: i32| {
        let pids = 7..7 + count;
        let all =
            pids.map(|pid| frozen(process(pid, "nginx", Vec::new()), waiting(Outside::Event)));
        screen(all.collect(), |_| {})
    };
    let one = "nginx (pid 7) waits for an event 100 % of the time.";
    for (count, more) in [
        (2, " So does nginx (pid 8)."),
        (3, " So do nginx (pid 8) and nginx"),
        (9, " So do 8 others of"),
    ] {
        let text = workers(count).split_whitespace().join(" ");
        assert!(text.contains(&format!("{one}{more}")), "{text}");
        assert_eq!(text.matches("100 % of the time").count(), 1, "{text}");
    }
}

#[test]
fn who_may_wait_for_a_timer_is_named_where_all_wait_for_input() {
    let mut server = busy(
        process(42, "node", vec![reads(4, 2), writes(4, 3)]),
        0.02,
        0.0,
        0.93,
    );
    server.polled = [(LinkId::pipe(2), LinkSide::Input)].into();
    let client = process(41, "curl", vec![writes(5, 2), reads(5, 3), writes(1, 4)]);
    let text = screen(
        vec![
            busy(client, 0.02, 0.0, 0.97),
            server,
            busy(process(43, "wc", vec![reads(0, 4)]), 0.0, 0.0, 1.0),
        ],
        |_| {},
    );
    assert!(
        text.starts_with("CAN'T TELL which of 3 stages holds up the others"),
        "{text}"
    );
    let expected =
        "All stages mostly wait for input. node (pid 42) may wait for a timer or another";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn nothing_found_is_said_too() {
    let alone = busy(process(41, "gzip", Vec::new()), 0.98, 0.0, 0.0);
    insta::assert_snapshot!(screen(vec![alone], |_| {}));
}
