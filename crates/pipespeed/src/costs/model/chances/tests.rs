use super::super::tests::{after_sleeps as of_both, spread};
use super::super::{READER, WRITER};
use super::*;

/// One end's wake-ups, whatever the waker did meanwhile.
fn after_sleeps(awake: &[Spread]) -> WakeUps {
    let [of_end, _] = of_both(awake);
    of_end
}

#[test]
fn the_wake_up_is_that_of_the_longest_sleep_that_was_no_longer() {
    let awake = [100.0, 300.0].map(|slept_ns| spread(slept_ns, &[(slept_ns, 0.0)]));
    let wake_ups = after_sleeps(&awake);
    let after = |slept_ns| wake_ups.any(slept_ns, 1e9, &mut Rng::new(1)).until_ns;
    assert_eq!(
        [0.0, 299.0, 300.0, 1e9].map(after),
        [100.0, 100.0, 300.0, 300.0]
    );
    let none = after_sleeps(&[]);
    assert_eq!(none.any(5.0, 1.0, &mut Rng::new(1)), WakeUp::default());
}

#[test]
fn a_waker_that_was_woken_meanwhile_takes_another_time() {
    let mut wake_ups = after_sleeps(&[spread(0.0, &[(1.0, 0.0)])]);
    wake_ups.in_turns = vec![spread(100.0, &[(2.0, 0.0)]), spread(300.0, &[(3.0, 0.0)])];
    wake_ups.in_turns_least_ns = 1000.0;
    let until = |slept, awake| wake_ups.any(slept, awake, &mut Rng::new(1)).until_ns;
    // Awake for longer than that sleep, or it was too short a one.
    assert_eq!([until(2000.0, 2000.0), until(900.0, 200.0)], [1.0, 1.0]);
    assert_eq!([until(2000.0, 50.0), until(2000.0, 299.0)], [2.0, 2.0]);
    assert_eq!([until(2000.0, 300.0), until(2000.0, 1999.0)], [3.0, 3.0]);
}

#[test]
fn usual_wake_ups_are_drawn_so_many_times_as_often_as_rare_ones() {
    let wake_up = |until_ns| WakeUp {
        until_ns,
        call_ns: 0.0,
    };
    let spread = Spread {
        after_ns: 0.0,
        usual: [wake_up(1.0), wake_up(2.0)].into(),
        times: 5,
        rare: [wake_up(3.0)].into(),
    };
    let wake_ups = after_sleeps(&[spread]);
    let mut chance = Rng::new(1);
    let mut seen = [0; 4];
    for _ in 0..11_000 {
        seen[wake_ups.any(1.0, 1.0, &mut chance).until_ns as usize] += 1;
    }
    let [_, one, two, rare] = seen;
    assert!(
        (4700..5300).contains(&one) && (4700..5300).contains(&two),
        "{seen:?}"
    );
    assert!((850..1150).contains(&rare), "{seen:?}");
}

#[test]
fn both_ends_see_the_same_sample_at_the_same_time() {
    let at = |at_ns, ns| Interruption {
        at_ns,
        ns,
        is_turn: false,
    };
    // Which sample it is can be told from the lengths.
    let sample = |ns| [vec![at(10.0, ns), at(60.0, ns)], vec![at(20.0, ns)]];
    let interruptions = Interruptions {
        sample_ns: 100.0,
        samples: [1.0, 2.0, 3.0].map(sample).to_vec(),
    };
    let mut chance = Rng::new(5);
    let mut course = Course::new(Some(&interruptions), &mut chance);
    let mut all = |end| {
        let (mut now, mut each) = (0.0, Vec::new());
        while each.len() < 300 {
            let next = course.next(end, now, &mut chance).unwrap();
            assert!(next.at_ns >= now);
            now = next.at_ns + next.ns;
            each.push(next);
        }
        each
    };
    let (writer, reader) = (all(WRITER), all(READER));
    // Far enough in for both to have begun; in the writer's first half, too.
    let begin = |seen: &Interruption, at: f64| ((seen.at_ns - at).round() as i64, seen.ns as i64);
    let firsts: Vec<_> = writer.iter().map(|seen| begin(seen, 10.0)).collect();
    let shared = reader[1..150]
        .iter()
        .filter(|seen| firsts.contains(&begin(seen, 20.0)));
    assert_eq!(shared.count(), 149);
    // All of them come, about as often.
    for ns in [1.0, 2.0, 3.0] {
        let times = reader.iter().filter(|seen| seen.ns == ns).count();
        assert!((60..140).contains(&times), "{times}");
    }
    // Asked about later, what lies between is left out.
    assert!(course.next(WRITER, 1e6, &mut chance).unwrap().at_ns >= 1e6);
}

#[test]
fn where_one_end_alone_is_interrupted_nothing_comes_to_the_other() {
    let once = Interruption {
        at_ns: 10.0,
        ns: 5.0,
        is_turn: false,
    };
    let interruptions = Interruptions {
        sample_ns: 100.0,
        samples: vec![[vec![once], Vec::new()], [Vec::new(), Vec::new()]],
    };
    let mut chance = Rng::new(1);
    let mut course = Course::new(Some(&interruptions), &mut chance);
    assert_eq!(course.next(READER, 0.0, &mut chance), None);
    assert!(course.next(WRITER, 1e6, &mut chance).is_some());
}

#[test]
fn where_nothing_interrupts_nothing_comes() {
    let none = Interruptions {
        sample_ns: 100.0,
        samples: vec![[Vec::new(), Vec::new()]],
    };
    for interruptions in [Some(&none), None] {
        let mut chance = Rng::new(1);
        let mut course = Course::new(interruptions, &mut chance);
        assert_eq!(course.next(READER, 0.0, &mut chance), None);
    }
}
