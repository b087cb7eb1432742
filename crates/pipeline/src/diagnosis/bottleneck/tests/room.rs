//! Pipes that hold little.

use super::*;

#[test]
fn size_of_the_pipes_next_to_the_stage_is_seen() {
    let room_of = |capacity: Option<u64>, read_bytes: u64, reads: u64| {
        let mut observation = observation(chain(&[(0.02, 0.98, 0.0), (1.0, 0.0, 0.0)]));
        observation.pipes[0].capacity = capacity;
        let reader = &mut observation.processes[1];
        reader.io = Some(Io {
            read_bytes: reads * read_bytes,
            reads,
            ..Io::default()
        });
        let findings = bottlenecks(&observation, &BTreeSet::new());
        only_pace(&findings).room
    };
    let room = |capacity, read_bytes| room_of(capacity, read_bytes, 20_000);
    let pipe = LinkId::pipe(1);
    assert_eq!(room(Some(65536), 8192), Room::Usual);
    let emptied = Room::Emptied { capacity: 65536 };
    assert_eq!(room(Some(65536), 65000), emptied);
    // It reads rarely, and each read may cost it more time than the bytes do.
    assert_eq!(room_of(Some(65536), 65000, 100), emptied);
    // A pipe may be full of pages that are not, or the stage may read elsewhere, too.
    assert_eq!(room_of(Some(65536), 33600, 100), Room::Unknown);
    assert_eq!(room_of(Some(65536), 32768, 100), Room::Usual);
    // It pauses after each read.
    let mut stages = chain(&[(0.0, 1.0, 0.0), (0.01, 0.0, 0.0)]);
    stages[1].shares.elsewhere = 0.99;
    stages[1].io = Some(Io {
        read_bytes: 20 * 65536,
        reads: 20,
        ..Io::default()
    });
    let mut observation = observation(stages);
    observation.pipes[0].capacity = Some(65536);
    let findings = bottlenecks(&observation, &BTreeSet::new());
    assert_eq!(only_pace(&findings).room, emptied);
    assert_eq!(
        room(Some(4096), 4096),
        Room::Small {
            pipe,
            capacity: 4096
        }
    );
    assert_eq!(room(None, 65536), Room::Unknown);
}

#[test]
fn a_pipe_in_which_nobody_waits_for_room_is_large_enough() {
    let room = |fill: f64, blocked: f64| {
        let mut observation = observation(chain(&[(0.9 - blocked, blocked, 0.0), (0.1, 0.0, 0.9)]));
        observation.pipes[0].capacity = Some(65536);
        observation.pipes[0].fill = Some(fill);
        only_pace(&bottlenecks(&observation, &BTreeSet::new())).room
    };
    assert_eq!(room(0.01, 0.0), Room::NeverFull);
    assert_eq!(room(0.01, 0.05), Room::Usual);
    assert_eq!(room(0.3, 0.0), Room::Usual);
}

#[test]
fn how_much_a_splice_or_a_child_reads_at_once_is_not_known() {
    let room = |change: fn(&mut Observed), bytes_per_s: Option<f64>| {
        let mut observation = observation(chain(&[(0.02, 0.98, 0.0), (1.0, 0.0, 0.0)]));
        observation.pipes[0].capacity = Some(65536);
        observation.pipes[0].bytes_per_s = bytes_per_s;
        observation.processes[1].io = Some(Io {
            reads: 100,
            ..Io::default()
        });
        change(&mut observation.processes[1]);
        only_pace(&bottlenecks(&observation, &BTreeSet::new())).room
    };
    assert_eq!(room(|_| {}, Some(1e9)), Room::Usual);
    assert_eq!(room(|stage| stage.splices = true, Some(1e9)), Room::Unknown);
    assert_eq!(room(|stage| stage.has_reaped = true, None), Room::Unknown);
    // All its bytes went by splices, none of which was seen.
    let reads_nothing = |stage: &mut Observed| stage.io = Some(Io::default());
    assert_eq!(room(reads_nothing, Some(1e9)), Room::Unknown);
    assert_eq!(room(reads_nothing, Some(0.0)), Room::Usual);
}

/// A filter that wakes up every 10 ms and takes all that there is, by many small reads.
#[test]
fn what_a_stage_moves_between_pauses_may_be_all_that_a_pipe_holds() {
    let room = |outside: Outside, reads: u64| {
        let mut stages = chain(&[(0.0, 1.0, 0.0), (0.01, 0.0, 0.0)]);
        stages[1].shares.elsewhere = 0.99;
        stages[1].outside = [(outside, 0.99)].into();
        stages[1].io = Some(Io {
            read_bytes: reads * 4096,
            reads,
            ..Io::default()
        });
        let mut observation = observation(stages);
        observation.pipes[0].capacity = Some(65536);
        only_pace(&bottlenecks(&observation, &BTreeSet::new())).room
    };
    assert_eq!(room(Outside::Timer, 6000), Room::Unknown);
    assert_eq!(room(Outside::Socket, 6000), Room::Usual);
}
