//! Choices on simulated machines.

use super::fixture::{CpuFiles, Fixture, arm_board, kvm_guest, laptop, one_cpu, server};
use super::*;

fn different(made: &Fixture) -> Chosen {
    choose(Placement::Different, &Topology::read(&made.root)).expect("processors")
}

fn chosen(writer: usize, reader: usize, relation: &str) -> Chosen {
    let relation = relation.to_owned();
    Chosen {
        writer: Some(writer),
        reader: Some(reader),
        relation,
        warning: None,
    }
}

#[test]
fn a_guest_with_two_cores_uses_both() {
    assert_eq!(
        different(&kvm_guest()),
        chosen(0, 1, "different cores sharing L3")
    );
}

#[test]
fn siblings_and_the_core_of_processor_0_are_avoided() {
    assert_eq!(
        different(&laptop()),
        chosen(1, 2, "different cores sharing L3")
    );
    let made = laptop().allowed("0-7", "0,4-6");
    assert_eq!(different(&made), chosen(5, 6, "different cores sharing L3"));
    let made = laptop().allowed("0-7", "1,4-5");
    assert_eq!(different(&made), chosen(1, 4, "different cores sharing L3"));
}

#[test]
fn siblings_are_a_last_resort_with_a_warning() {
    let found = different(&laptop().allowed("0-7", "1,5"));
    assert_eq!((found.writer, found.reader), (Some(1), Some(5)));
    assert_eq!(found.relation, "siblings of one core");
    assert!(
        found
            .warning
            .unwrap()
            .contains("siblings of one core (processors 1 and 5)")
    );
}

#[test]
fn on_a_server_both_ends_stay_in_one_package() {
    assert_eq!(
        different(&server()),
        chosen(2, 3, "different cores sharing L3")
    );
}

#[test]
fn different_packages_are_preferred_to_siblings_with_a_warning() {
    let found = different(&server().allowed("0-7", "0,2,4"));
    assert_eq!((found.writer, found.reader), (Some(0), Some(2)));
    assert_eq!(found.relation, "different packages");
    assert!(found.warning.unwrap().contains("different packages"));
}

#[test]
fn cores_without_a_shared_cache_give_a_warning() {
    let mut made = Fixture::empty().allowed("0-1", "0-1");
    for number in 0..2 {
        let own = number.to_string();
        made = made.cpu(CpuFiles {
            number,
            package: 0,
            core: number as u32,
            siblings: &own,
            node: 0,
            caches: &[],
        });
    }
    let found = different(&made);
    assert_eq!(found.relation, "different cores of one package");
    assert!(found.warning.unwrap().contains("share no known cache"));
}

#[test]
fn processors_of_unknown_relation_give_a_warning() {
    let found = different(&Fixture::empty().allowed("0-3", "0-3"));
    assert_eq!((found.writer, found.reader), (Some(1), Some(2)));
    assert!(found.warning.unwrap().contains("is unknown"));
}

#[test]
fn big_cores_are_preferred() {
    assert_eq!(
        different(&arm_board()),
        chosen(4, 5, "different cores sharing L2")
    );
    let mixed = different(&arm_board().allowed("0-5", "3-4"));
    assert_eq!((mixed.writer, mixed.reader), (Some(3), Some(4)));
    assert!(mixed.warning.is_some());
}

#[test]
fn a_single_processor_gives_a_warning_and_forbids_spinning() {
    let made = one_cpu();
    let topology = Topology::read(&made.root);
    let found = different(&made);
    assert_eq!((found.writer, found.reader), (Some(0), Some(0)));
    assert_eq!(found.relation, "one processor");
    assert!(
        found
            .warning
            .as_ref()
            .unwrap()
            .contains("only one processor")
    );
    assert!(
        spinning_refused(&found, &topology)
            .unwrap()
            .contains("two processors")
    );
    let free = choose(Placement::Free, &topology).unwrap();
    assert!(
        spinning_refused(&free, &topology)
            .unwrap()
            .contains("only processor 0")
    );
}

#[test]
fn same_forbids_spinning_and_free_pins_nothing() {
    let made = laptop();
    let topology = Topology::read(&made.root);
    let same = choose(Placement::Same, &topology).unwrap();
    assert_eq!(same, chosen(1, 1, "one processor"));
    assert!(
        spinning_refused(&same, &topology)
            .unwrap()
            .contains("--placement different")
    );
    let free = choose(Placement::Free, &topology).unwrap();
    assert_eq!(
        (free.writer, free.reader, free.relation.as_str()),
        (None, None, "left to the scheduler")
    );
    assert_eq!(spinning_refused(&free, &topology), None);
    assert_eq!(spinning_refused(&different(&made), &topology), None);
}

#[test]
fn without_any_known_processor_only_free_works() {
    let topology = Topology::read(&Fixture::empty().root);
    assert!(choose(Placement::Free, &topology).is_ok());
    for placement in [Placement::Different, Placement::Same] {
        let error = choose(placement, &topology).unwrap_err().to_string();
        assert!(
            error.contains(placement.name()) && error.contains("--placement free"),
            "{error}"
        );
    }
    assert!(pin_to(7, 9, &topology).is_ok());
}

#[test]
fn explicit_processors_must_be_online_and_allowed() {
    let made = laptop().allowed("0-7", "0-3,6");
    let topology = Topology::read(&made.root);
    assert_eq!(
        pin_to(2, 6, &topology),
        Ok(chosen(2, 6, "siblings of one core"))
    );
    assert_eq!(pin_to(3, 3, &topology), Ok(chosen(3, 3, "one processor")));
    let offline = pin_to(2, 64, &topology).unwrap_err();
    assert_eq!(
        offline.to_string(),
        "--cpus: processor 64 does not exist or is offline (this process may use 0-3,6)"
    );
    let forbidden = pin_to(7, 2, &topology).unwrap_err();
    assert!(matches!(
        &forbidden,
        PlacementError::NotAllowed { cpu: 7, .. }
    ));
    assert!(forbidden.to_string().contains("0-3,6"), "{forbidden}");
}

#[test]
fn the_value_of_cpus_is_two_numbers() {
    assert_eq!(parse_cpus("2,3"), Ok((2, 3)));
    assert_eq!(parse_cpus(" 2 , 3 "), Ok((2, 3)));
    for text in ["", "2", "2,", "a,b", "1,2,3", "-1,2", "0-1"] {
        assert_eq!(parse_cpus(text), Err(PlacementError::NotAPair), "{text}");
    }
}
