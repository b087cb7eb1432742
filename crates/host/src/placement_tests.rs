//! Choices on simulated machines.

use super::fixture::{CpuFiles, Fixture, arm_board, kvm_guest, laptop, one_cpu, server};
use super::*;
use pipespeed_testing::says;

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

/// Both cores of a guest; not the core of processor 0; one package of a server; big cores. Worse
/// pairs only with a warning.
#[test]
fn the_best_pair_that_is_allowed_is_chosen() {
    let sharing = "different cores sharing L3";
    for (made, pair, relation, warning) in [
        (kvm_guest(), (0, 1), sharing, None),
        (laptop(), (1, 2), sharing, None),
        (laptop().allowed("0-7", "0,4-6"), (5, 6), sharing, None),
        (laptop().allowed("0-7", "1,4-5"), (1, 4), sharing, None),
        (server(), (2, 3), sharing, None),
        (arm_board(), (4, 5), "different cores sharing L2", None),
        (
            laptop().allowed("0-7", "1,5"),
            (1, 5),
            "siblings of one core",
            Some("siblings of one core (processors 1 and 5)"),
        ),
        (
            server().allowed("0-7", "0,2,4"),
            (0, 2),
            "different packages",
            Some("different packages"),
        ),
        (arm_board().allowed("0-5", "3-4"), (3, 4), "", Some("")),
        (
            Fixture::empty().allowed("0-3", "0-3"),
            (1, 2),
            "",
            Some("is unknown"),
        ),
    ] {
        let found = different(&made);
        let context = format!("{found:?}");
        assert_eq!((found.writer, found.reader), (Some(pair.0), Some(pair.1)));
        assert!(found.relation.contains(relation), "{context}");
        assert_eq!(found.warning.is_some(), warning.is_some(), "{context}");
        let words = found.warning.unwrap_or_default();
        assert!(words.contains(warning.unwrap_or_default()), "{context}");
    }
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
fn one_processor_forbids_spinning_and_free_pins_nothing() {
    for (made, placement, refusal) in [
        (one_cpu(), Placement::Different, Some("two processors")),
        (one_cpu(), Placement::Free, Some("only processor 0")),
        (laptop(), Placement::Same, Some("--placement different")),
        (laptop(), Placement::Free, None),
        (laptop(), Placement::Different, None),
    ] {
        let topology = Topology::read(&made.root);
        let found = choose(placement, &topology).unwrap();
        let is_one = found.relation == "one processor";
        assert_eq!(found.writer.is_none(), placement == Placement::Free);
        assert_eq!(
            found.writer == found.reader && found.writer.is_some(),
            is_one
        );
        match (refusal, spinning_refused(&found, &topology)) {
            (Some(words), Some(refused)) => says(refused, &[words]),
            (expected, refused) => assert_eq!((expected, refused), (None, None)),
        }
    }
    let same = choose(Placement::Same, &Topology::read(&laptop().root));
    assert_eq!(same, Ok(chosen(1, 1, "one processor")));
    says(
        different(&one_cpu()).warning.unwrap(),
        &["only one processor"],
    );
}

#[test]
fn without_any_known_processor_only_free_works() {
    let topology = Topology::read(&Fixture::empty().root);
    assert!(choose(Placement::Free, &topology).is_ok());
    for placement in [Placement::Different, Placement::Same] {
        let error = choose(placement, &topology).unwrap_err().to_string();
        says(&error, &[placement.name(), "--placement free"]);
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
