//! Tests of the choice of cases.

use std::collections::HashSet;

use super::*;
use crate::spec::{DataUse, Suite};

fn channel_of(case: &Case) -> &'static str {
    case.subject.channel().unwrap().name()
}

fn chosen(channels: &[&str], sizes: &[usize], all: bool) -> Vec<Case> {
    Suite::Channels.cases(&Overrides {
        selection: Selection {
            channels: channels.iter().map(|name| name.parse().unwrap()).collect(),
            sizes: sizes.to_vec(),
            all,
        },
        ..Overrides::default()
    })
}

#[test]
fn the_usual_run_has_six_channels_six_sizes_and_two_ways_to_wait() {
    let cases = chosen(&[], &[], false);
    assert_eq!(cases.len(), 6 * 6 * 2);
    assert_eq!(
        cases
            .iter()
            .filter(|case| case.needs_two_processors())
            .count(),
        36
    );
    assert!(cases.iter().all(|case| case.data == DataUse::Touch));
    let mut channels: Vec<_> = cases.iter().map(channel_of).collect();
    channels.sort_unstable();
    channels.dedup();
    let usual = ["pipe", "ring", "seqpacket", "socketpair", "tcp", "vmsplice"];
    assert_eq!(channels, usual);
}

#[test]
fn all_are_all_channels_from_a_byte_to_4_mib() {
    let cases = chosen(&[], &[], true);
    assert_eq!(
        cases.len(),
        Channel::with_data().len() * ALL_SIZES.len() * 2
    );
    let sizes: HashSet<_> = cases
        .iter()
        .map(|case| case.subject.message_bytes())
        .collect();
    assert!(sizes.contains(&Some(1)) && sizes.contains(&Some(4 << 20)));
    let names: HashSet<_> = cases.iter().map(|case| &case.name).collect();
    assert_eq!(names.len(), cases.len());
}

#[test]
fn each_is_compared_with_the_pipe_at_its_size_and_in_its_way_of_waiting() {
    let cases = chosen(&[], &[], true);
    for case in &cases {
        let Some((other, factor)) = &case.compared_with else {
            assert_eq!(channel_of(case), "pipe");
            continue;
        };
        let other = cases.iter().find(|c| c.name == *other).unwrap();
        assert_eq!(channel_of(other), "pipe", "{}", case.name);
        assert_eq!(channel_of(case), factor);
        assert_eq!(case.subject.message_bytes(), other.subject.message_bytes());
        assert_eq!(case.spins(), other.spins());
    }
}

#[test]
fn without_the_pipe_the_first_one_is_what_the_others_are_compared_with() {
    let cases = chosen(&["tcp", "fifo"], &[4095, 1, 4095], false);
    let names: Vec<&str> = cases.iter().map(|case| &*case.name).collect();
    assert_eq!(
        names,
        [
            "fifo_1",
            "tcp_1",
            "fifo_4095",
            "tcp_4095",
            "fifo_1_spin",
            "tcp_1_spin",
            "fifo_4095_spin",
            "tcp_4095_spin"
        ]
    );
    let (other, factor) = cases[3].compared_with.clone().unwrap();
    assert_eq!((&*other, &*factor), ("fifo_4095", "tcp"));
}

#[test]
fn readers_of_streams_ask_for_64_kib_and_of_messages_for_one() {
    for case in chosen(&[], &[1, 65_537], true) {
        let bytes = case.subject.message_bytes().unwrap();
        let expected = if case.subject.channel().unwrap().keeps_messages() {
            bytes
        } else {
            bytes.max(64 << 10)
        };
        assert_eq!(
            case.subject.reader().unwrap().buffer_bytes,
            expected,
            "{}",
            case.name
        );
    }
}

#[test]
fn a_case_is_found_by_its_name_whether_it_is_usual_or_not() {
    for case in chosen(&[], &[], true)
        .into_iter()
        .chain(chosen(&["mqueue"], &[100], false))
    {
        let id = CaseId::parse(&case.name).unwrap();
        let selection = id.selection();
        assert_eq!(id.spins, case.spins());
        assert_eq!(Some(id.message_bytes), case.subject.message_bytes());
        assert_eq!(id.channel.name(), channel_of(&case));
        let found = cases(&Overrides {
            selection,
            ..Overrides::default()
        });
        assert!(found.iter().any(|it| it.name == case.name), "{}", case.name);
    }
    for name in ["write_read", "mqueue", "mqueue_", "mqueue_x", "pipe_8m"] {
        assert_eq!(CaseId::parse(name), None, "{name}");
    }
}
