//! Tests of the choice of cases.

use super::*;
use crate::fixtures::overrides;
use crate::spec::Suite;

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
fn each_is_compared_with_a_pipe_sized_and_waiting_alike() {
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
fn without_pipe_first_one_is_what_others_are_compared_with() {
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
fn stream_readers_ask_for_64_kib_message_readers_for_one() {
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
fn usual_and_unusual_cases_are_found_by_name() {
    for case in chosen(&[], &[], true)
        .into_iter()
        .chain(chosen(&["mqueue"], &[100], false))
    {
        let id = CaseId::parse(&case.name).unwrap();
        let selection = id.selection();
        assert_eq!(id.spins, case.spins());
        assert_eq!(Some(id.message_bytes), case.subject.message_bytes());
        assert_eq!(id.channel.name(), channel_of(&case));
        let found = cases(&overrides(|asked| asked.selection = selection));
        assert!(found.iter().any(|it| it.name == case.name), "{}", case.name);
    }
    for name in ["write_read", "mqueue", "mqueue_", "mqueue_x", "pipe_8m"] {
        assert_eq!(CaseId::parse(name), None, "{name}");
    }
}
