use pipespeed_pipeline::diagnosis::{PausingStage, Room};
use pipespeed_pipeline::fixtures;
use pipespeed_pipeline::processors::Quota;

use super::*;

fn text(change: impl FnOnce(&mut Bottleneck)) -> String {
    let mut bottleneck = fixtures::bottleneck(7, "tr", Shares::default());
    change(&mut bottleneck);
    let text = describe_bottleneck(&bottleneck, false);
    format!("tr {}. {}", text.does, text.remedy)
}

#[test]
fn a_stage_that_mostly_waits_is_not_said_to_need_to_be_faster() {
    let queued = Shares {
        runs: 0.12,
        queued: 0.83,
        ..Shares::default()
    };
    let delays = [
        Delay::Others {
            allowed: CpuList::parse("1").unwrap(),
            processors: 0.88,
            largest: None,
            own: Vec::new(),
            may_be_siblings: false,
        },
        Delay::Quota(Quota {
            processors: 0.2,
            throttled: 0.97,
            stopped_s: 1.0,
        }),
        Delay::OwnStages {
            stages: 3,
            largest: pipespeed_pipeline::diagnosis::Who {
                pid: 7,
                name: "tr".to_owned(),
            },
            used: 0.12,
            next: Vec::new(),
            are_children: false,
            allowed: CpuList::parse("1").unwrap(),
            processors: 1,
        },
        Delay::Hypervisor { steal: 0.4 },
        Delay::Unknown,
    ];
    let queued = delays.map(|delay| {
        text(|bottleneck| {
            bottleneck.shares = queued;
            bottleneck.delay = Some(delay);
        })
    });
    assert!(queued.iter().all(|text| !text.contains("faster")));
    let disk = Shares {
        runs: 0.3,
        disk: 0.7,
        ..Shares::default()
    };
    let limited = text(|bottleneck| {
        (bottleneck.shares, bottleneck.has_io_limit) = (disk, true);
        bottleneck.room = Room::Emptied { capacity: 65536 };
    });
    let disk = text(|bottleneck| bottleneck.shares = disk);
    let both = text(|bottleneck| {
        bottleneck.shares.runs = 0.6;
        bottleneck.shares.queued = 0.4;
        bottleneck.delay = Some(Delay::Unknown);
    });
    let disk_too = text(|bottleneck| {
        bottleneck.shares = Shares {
            disk: 0.54,
            queued: 0.44,
            ..Shares::default()
        };
        bottleneck.delay = Some(Delay::Unknown);
    });
    insta::assert_snapshot!([queued.join("\n"), disk, limited, both, disk_too].join("\n"));
}

/// `grep --line-buffered | sed -u` beside two busy processes.
#[test]
fn a_stage_of_small_calls_that_waits_for_a_processor_needs_both() {
    let mut bottleneck = fixtures::bottleneck(7, "sed", Shares::default());
    (bottleneck.shares.runs, bottleneck.shares.queued) = (0.65, 0.35);
    bottleneck.delay = Some(Delay::Others {
        allowed: CpuList::parse("0-1").unwrap(),
        processors: 1.3,
        largest: None,
        own: Vec::new(),
        may_be_siblings: false,
    });
    let text = describe_bottleneck(&bottleneck, true).remedy;
    assert!(text.contains("Fewer calls would help"), "{text}");
    assert!(
        text.contains("More processor time helps, too: other processes use 1.3"),
        "{text}"
    );
}

/// Children that wait for a timer where they don't run.
fn children(names: &[&str], shares: Shares) -> Children {
    Children {
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        awaited: Vec::new(),
        shares,
        outside: [(Outside::Timer, shares.elsewhere)].into(),
        on: Vec::new(),
        processors: shares.runs * 1.5,
        are_short: false,
        are_descendants: false,
    }
}

#[test]
fn children_are_named_with_what_they_do() {
    let sleeps = Shares {
        elsewhere: 0.94,
        ..Shares::default()
    };
    let runs = Shares {
        runs: 0.98,
        ..Shares::default()
    };
    let texts = [
        children(&["sleep"], sleeps),
        children(&["md5sum"], runs),
        children(&["a", "b", "c", "d"], runs),
    ];
    let texts = texts.map(|children| text(|bottleneck| bottleneck.children = Some(children)));
    insta::assert_snapshot!(texts.join("\n"));
}

/// `xargs sh -c 'sleep 1'`.
#[test]
fn what_is_below_a_child_is_called_a_descendant() {
    let sleeps = Shares {
        elsewhere: 0.94,
        ..Shares::default()
    };
    let texts = [vec!["sleep"], vec!["a", "b"], vec!["a", "b", "c", "d"]].map(|names| {
        text(|bottleneck| {
            let mut below = children(&names, sleeps);
            below.are_descendants = true;
            bottleneck.children = Some(below);
        })
    });
    assert!(
        texts[0].contains("waits for its descendant sleep, which"),
        "{texts:?}"
    );
    assert!(
        texts[1].contains("its descendants a and b, which"),
        "{texts:?}"
    );
    assert!(
        texts[2].contains("its descendants (a, b and others)"),
        "{texts:?}"
    );
}

#[test]
fn children_are_not_said_to_be_all_that_helps() {
    let change = |bottleneck: &mut Bottleneck, runs: f64, queued: f64| {
        bottleneck.room = Room::Unknown;
        let shares = Shares {
            runs,
            queued,
            ..Shares::default()
        };
        bottleneck.children = Some(Children {
            processors: 2.0 * runs,
            ..children(&["sort", "gzip"], shares)
        });
    };
    // make -j2 on two processors; xargs -P2 on cold files; a loop whose children start and end.
    let shared = text(|bottleneck| {
        change(bottleneck, 0.93, 0.05);
        bottleneck.delay = Some(Delay::OwnStages {
            stages: 3,
            largest: bottleneck.stage.clone(),
            used: 1.86,
            next: Vec::new(),
            are_children: true,
            allowed: CpuList::parse("0-1").unwrap(),
            processors: 2,
        });
    });
    let cold = text(|bottleneck| {
        change(bottleneck, 0.9, 0.05);
        bottleneck.iowait = 0.16;
    });
    let starts = text(|bottleneck| change(bottleneck, 0.55, 0.4));
    let mostly_queued = text(|bottleneck| change(bottleneck, 0.4, 0.45));
    insta::assert_snapshot!([shared, cold, starts, mostly_queued].join("\n"));
}

/// `find -print0 | xargs -0 -n 9 sha1sum`, of cold files, beside another process.
#[test]
fn each_of_several_remedies_has_one_comma() {
    let remedy = |delay: Option<Delay>, are_short| {
        text(|bottleneck| {
            bottleneck.delay = delay;
            bottleneck.children = Some(Children {
                names: vec!["sha1sum".to_owned()],
                awaited: Vec::new(),
                shares: Shares {
                    runs: 0.7,
                    disk: 0.25,
                    ..Shares::default()
                },
                outside: [].into(),
                on: Vec::new(),
                processors: 0.7,
                are_short,
                are_descendants: false,
            });
        })
    };
    for (delay, are_short, expected) in [
        (None, false, "sha1sum or a faster disk helps"),
        (
            None,
            true,
            "sha1sum or a faster disk, or fewer starts of it, helps",
        ),
        (
            Some(Delay::Unknown),
            false,
            "sha1sum, or fewer and larger requests, helps",
        ),
        (
            Some(Delay::Unknown),
            true,
            "sha1sum, or fewer and larger requests, or fewer starts of it, helps",
        ),
    ] {
        let remedy = remedy(delay, are_short);
        assert!(remedy.contains(expected), "{remedy}");
    }
}

#[test]
fn a_stage_that_only_waits_on_a_pipe_is_not_called_stopped() {
    let starved = text(|bottleneck| bottleneck.shares.starved = 1.0);
    assert!(
        starved.contains("waits for a pipe of its own 100 %"),
        "{starved}"
    );
}

#[test]
fn nothing_is_excluded_for_a_stage_that_also_waits_on_pipes() {
    let bursts = |shares: Shares, outside: BTreeMap<Outside, f64>| {
        text(|bottleneck| {
            (bottleneck.shares, bottleneck.outside, bottleneck.waits) = (shares, outside, 0.25);
        })
    };
    let runs = Shares {
        runs: 0.75,
        starved: 0.25,
        ..Shares::default()
    };
    let sleeps = Shares {
        elsewhere: 0.75,
        starved: 0.25,
        ..Shares::default()
    };
    let queued = Shares {
        queued: 0.75,
        starved: 0.25,
        ..Shares::default()
    };
    let texts = [
        bursts(runs, [].into()),
        bursts(sleeps, [(Outside::Timer, 0.75)].into()),
        bursts(queued, [].into()),
    ];
    insta::assert_snapshot!(texts.join("\n"));
}

#[test]
fn a_stage_that_runs_and_pauses_gains_by_both() {
    let text = text(|bottleneck| {
        (bottleneck.shares.runs, bottleneck.shares.elsewhere) = (0.6, 0.4);
        bottleneck.outside = [(Outside::Timer, 0.4)].into();
    });
    let words =
        "A faster tr helps; larger pipes don't. So does less waiting: it waits for a timer 40 %";
    assert!(text.contains(words), "{text}");
}

#[test]
fn each_long_wait_has_its_share() {
    let waits = |bottleneck: &mut Bottleneck| {
        bottleneck.shares.elsewhere = 0.99;
        bottleneck.outside = [
            (Outside::Timer, 0.56),
            (Outside::Child, 0.4),
            (Outside::Lock, 0.03),
        ]
        .into();
        bottleneck.also_awaited = Some(children(
            &["xz"],
            Shares {
                runs: 0.9,
                ..Shares::default()
            },
        ));
    };
    let text = text(waits);
    let words = "tr waits for a timer 56 % of the time and for its child xz 40 %. The pipes are not the cause. \
                 A faster xz may help, unless it waits for the next time of a schedule.";
    assert_eq!(text, words);
    let mut bottleneck = fixtures::bottleneck(7, "tr", Shares::default());
    waits(&mut bottleneck);
    let awaited = waits_for(&bottleneck);
    assert_eq!(awaited.as_deref(), Some("a timer and its child xz"));
}

/// It wakes up late, and would sleep for longer otherwise.
#[test]
fn processor_time_may_not_help_who_keeps_to_a_schedule() {
    let text = text(|bottleneck| {
        (bottleneck.shares.queued, bottleneck.shares.elsewhere) = (0.6, 0.35);
        bottleneck.outside = [(Outside::Timer, 0.35)].into();
        bottleneck.delay = Some(Delay::Unknown);
    });
    let words = "waits for a processor 60 % of the time and waits for a timer 35 %. More processor time helps, \
                 unless it waits for the next time of a schedule: ";
    assert!(text.contains(words), "{text}");
}

/// None of its waits is long, but together they are.
#[test]
fn the_longest_of_many_short_waits_is_named_with_its_own_share() {
    let waits = [
        (Outside::Timer, 0.06),
        (Outside::Lock, 0.04),
        (Outside::Socket, 0.05),
    ];
    let runs = text(|bottleneck| {
        (bottleneck.shares.runs, bottleneck.shares.elsewhere) = (0.85, 0.15);
        bottleneck.outside = waits.into();
    });
    assert!(
        runs.contains("it waits for a timer 6 % of the time."),
        "{runs}"
    );
    let queued = text(|bottleneck| {
        (bottleneck.shares.queued, bottleneck.shares.elsewhere) = (0.85, 0.15);
        bottleneck.outside = waits.into();
    });
    assert!(!queued.contains("timer 6 %"), "{queued}");
}

#[test]
fn nothing_is_sure_to_help_where_another_stage_may_limit_the_rate() {
    let text = text(|bottleneck| {
        (bottleneck.shares.runs, bottleneck.shares.queued) = (0.6, 0.2);
        bottleneck.waits = 0.2;
        bottleneck.delay = Some(Delay::Unknown);
        bottleneck.limiter = Some(PausingStage {
            stage: pipespeed_pipeline::diagnosis::Who {
                pid: 6,
                name: "python3".to_owned(),
            },
            outside: Outside::Timer,
            share: 0.25,
        });
    });
    let words = "A faster tr would help unless python3 limits the rate: it waits for a timer 25 % of the time.";
    assert!(text.ends_with(words), "{text}");
}

#[test]
fn nothing_is_sure_to_help_where_another_thread_moves_the_data() {
    let text = text(|bottleneck| {
        (bottleneck.shares.runs, bottleneck.room) = (0.97, Room::Usual);
        bottleneck.limiter = Some(PausingStage {
            stage: bottleneck.stage.clone(),
            outside: Outside::Timer,
            share: 0.96,
        });
    });
    let words = "A faster tr would help unless its thread that moves the data limits the rate: that one waits for \
                 a timer 96 % of the time.";
    assert!(text.ends_with(words), "{text}");
}

#[test]
fn stage_that_may_limit_the_rate_by_its_own_pauses_gains_by_others_or_not() {
    let text = text(|bottleneck| {
        (bottleneck.shares.elsewhere, bottleneck.shares.blocked) = (0.5, 0.48);
        (bottleneck.outside, bottleneck.waits) = ([(Outside::Timer, 0.5)].into(), 0.48);
        bottleneck.limiter = Some(PausingStage {
            stage: bottleneck.stage.clone(),
            outside: Outside::Timer,
            share: 0.5,
        });
    });
    let words = "tr waits for a timer 50 % of the time. If what it waits for comes at a fixed rate, that limits \
                 the pipeline; if it pauses after each piece, a faster stage next to it helps, too.";
    assert_eq!(text, words);
}

#[test]
fn larger_pipes_are_not_excluded_for_a_stage_that_waits_for_a_processor() {
    let queued = |queued: f64, threads_queued: f64| {
        text(|bottleneck| {
            (bottleneck.shares.runs, bottleneck.shares.queued) = (0.55, queued);
            bottleneck.threads_queued = threads_queued;
        })
    };
    let none = queued(0.02, 0.02);
    assert!(
        none.contains("Only a faster tr helps; larger pipes don't"),
        "{none}"
    );
    assert!(!queued(0.41, 0.41).contains("larger pipes"));
    // Threads of it wait while another one runs.
    let others = queued(0.05, 0.58);
    assert!(others.contains("A faster tr helps."), "{others}");
}

#[test]
fn pipes_that_are_never_full_are_no_cause() {
    let waits = text(|bottleneck| {
        bottleneck.shares.elsewhere = 1.0;
        bottleneck.outside = [(Outside::Timer, 1.0)].into();
        bottleneck.room = Room::NeverFull;
    });
    assert!(waits.contains("The pipes are not the cause."), "{waits}");
    let starved = |room: Room| {
        text(|bottleneck| {
            (bottleneck.shares.runs, bottleneck.waits) = (0.8, 0.2);
            bottleneck.room = room;
        })
    };
    assert!(starved(Room::Usual).contains("A larger pipe may help"));
    assert!(!starved(Room::NeverFull).contains("arger pipe"));
    // It waits for those that share its processor.
    let queued = text(|bottleneck| {
        (bottleneck.shares.runs, bottleneck.waits) = (0.8, 0.2);
        bottleneck.room = Room::Usual;
        bottleneck.delay = Some(Delay::Unknown);
    });
    assert!(!queued.contains("arger pipe"), "{queued}");
}

#[test]
fn larger_pipes_are_only_excluded_where_they_are_known_to_be_usual() {
    let texts = [
        Room::Usual,
        Room::Unknown,
        Room::Emptied { capacity: 65536 },
        Room::Small {
            pipe: pipespeed_pipeline::proc::LinkId::pipe(7),
            capacity: 4096,
        },
    ];
    let texts = texts.map(|room| {
        text(|bottleneck| {
            bottleneck.shares.runs = 0.97;
            bottleneck.room = room;
        })
    });
    insta::assert_snapshot!(texts.join("\n"));
}

#[test]
fn who_uses_the_processors_is_named() {
    let text = |name: &str, used: f64, is_kernel: bool, may_be_siblings: bool| {
        let others = Delay::Others {
            allowed: CpuList::parse("0-1").unwrap(),
            processors: 1.2,
            largest: Some(LargestUser {
                who: Who {
                    pid: 7,
                    name: name.to_owned(),
                },
                used,
                is_kernel,
            }),
            own: Vec::new(),
            may_be_siblings,
        };
        describe_delay(&others, true)
    };
    let mut beside = Delay::Others {
        allowed: CpuList::parse("1").unwrap(),
        processors: 0.4,
        largest: None,
        own: vec![fixtures::bottleneck(8, "bash", Shares::default()).stage],
        may_be_siblings: false,
    };
    let one = describe_delay(&beside, true);
    if let Delay::Others { own, .. } = &mut beside {
        own.push(own[0].clone());
    }
    let texts = [
        one,
        describe_delay(&beside, true),
        text("rustc", 0.9, false, false),
        text("cc1plus", 0.4, false, true),
        text("kcryptd", 0.9, true, false),
    ];
    insta::assert_snapshot!(texts.join("\n"));
}

#[test]
fn several_stages_that_lack_processors_are_plural() {
    let names = || vec!["cat".to_owned(), "tr".to_owned()];
    let text = describe_lack(names(), false, &Delay::Unknown);
    assert!(text.contains("what keeps them from running"), "{text}");
    let others = Delay::Others {
        allowed: CpuList::parse("0-1").unwrap(),
        processors: 1.2,
        largest: None,
        own: Vec::new(),
        may_be_siblings: false,
    };
    let text = describe_lack(names(), false, &others);
    assert!(text.contains("1.20 of their 2 processors"), "{text}");
}

#[test]
fn the_server_for_which_a_stage_waits_is_named_with_how_to_look_at_it() {
    let text = text(|bottleneck| {
        bottleneck.shares.elsewhere = 0.95;
        bottleneck.outside = [(Outside::Socket, 0.95)].into();
        bottleneck.peer = Some(Who {
            pid: 9,
            name: "server".to_owned(),
        });
    });
    let expected = "tr waits for a socket of server (pid 9) 95 % of the time. 'pipespeed doctor 9' shows what \
                    server does.";
    assert_eq!(text, expected);
}
