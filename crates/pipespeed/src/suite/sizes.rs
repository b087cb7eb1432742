//! Every size of buffer and pipe, for each technique, way of waiting and
//! placement: a search, not a list of cases. Here is what it goes through.

use crate::case::Case;
use crate::endpoint::spec::{PageKind, Waiting};
use crate::machine::placement::Chosen;
use crate::search::{Panel, Technique};

/// A placement, and the processors it comes to here.
#[derive(Debug, Clone)]
pub struct Place {
    /// `different`, `same`, `free` or `explicit`.
    pub name: String,
    /// Where the ends run.
    pub chosen: Chosen,
    /// Why the placement can't be had here.
    pub refused: Option<String>,
    /// Why ends that spin can't run there.
    pub spinning_refused: Option<String>,
}

/// The panels: for each technique first the ends that sleep, place by place,
/// then those that spin. Spinning is left out where it can't be and another
/// place has it; `pages` are those of buffers that are vmspliced.
pub fn panels(places: &[Place], pages: PageKind) -> Vec<Panel> {
    let refused = |place: &Place, wait| match wait {
        Waiting::Spin => place.refused.clone().or(place.spinning_refused.clone()),
        _ => place.refused.clone(),
    };
    let can_spin = |place: &Place| refused(place, Waiting::Spin).is_none();
    let spinning: Vec<&Place> = match places.iter().any(can_spin) {
        true => places.iter().filter(|place| can_spin(place)).collect(),
        false => places.iter().take(1).collect(),
    };
    let ways: Vec<(&Place, Waiting)> = places
        .iter()
        .map(|place| (place, Waiting::Block))
        .chain(spinning.into_iter().map(|place| (place, Waiting::Spin)))
        .collect();
    let of = |technique| {
        ways.iter().map(move |(place, wait)| Panel {
            technique,
            wait: *wait,
            placement: place.name.clone(),
            cpus: place.chosen.writer.zip(place.chosen.reader),
            relation: place.chosen.relation.clone(),
            pages,
            refused: refused(place, *wait),
        })
    };
    Technique::ALL.into_iter().flat_map(of).collect()
}

/// The published sizes of every technique, where a list is asked for.
pub(super) fn cases() -> Vec<Case> {
    let nowhere = Place {
        name: "different".to_owned(),
        chosen: Chosen {
            writer: None,
            reader: None,
            relation: "different processors".to_owned(),
            warning: None,
        },
        refused: None,
        spinning_refused: None,
    };
    let case = |panel: &Panel| panel.case(&panel.published_name(), panel.technique.published());
    panels(&[nowhere], PageKind::Huge)
        .iter()
        .map(case)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str, cpus: (usize, usize)) -> Place {
        Place {
            name: name.to_owned(),
            chosen: Chosen {
                writer: Some(cpus.0),
                reader: Some(cpus.1),
                relation: name.to_owned(),
                warning: None,
            },
            refused: None,
            spinning_refused: (cpus.0 == cpus.1).then(|| "one processor".to_owned()),
        }
    }

    fn names(places: &[Place]) -> Vec<String> {
        let panels = panels(places, PageKind::Huge);
        panels.iter().map(Panel::name).collect()
    }

    #[test]
    fn sleeping_ends_run_in_both_places_and_spinning_ones_on_two_processors() {
        assert_eq!(
            names(&[place("different", (0, 1)), place("same", (0, 0))]),
            [
                "write_read",
                "write_read_same",
                "write_read_spin",
                "vmsplice_read",
                "vmsplice_read_same",
                "vmsplice_read_spin",
                "vmsplice_splice",
                "vmsplice_splice_same",
                "vmsplice_splice_spin",
            ]
        );
    }

    #[test]
    fn where_nothing_can_spin_it_is_refused_rather_than_left_out() {
        let panels = panels(&[place("same", (1, 1))], PageKind::Base);
        let refused: Vec<bool> = panels.iter().map(|panel| panel.refused.is_some()).collect();
        assert_eq!(refused, [false, true, false, true, false, true]);
    }

    #[test]
    fn the_published_rungs_have_the_ladders_names() {
        let cases = cases();
        let names: Vec<&str> = cases.iter().map(|case| &*case.name).collect();
        assert_eq!(
            names,
            [
                "write_read",
                "write_read_spin",
                "vmsplice_read_huge",
                "vmsplice_read_huge_spin",
                "vmsplice_splice_huge",
                "busy_loop_huge",
            ]
        );
        for rung in crate::suite::Suite::Ladder.cases(&crate::suite::Overrides::default()) {
            if let Some(case) = cases.iter().find(|case| case.name == rung.name) {
                assert_eq!(case.sink, rung.sink);
                assert_eq!(case.source, rung.source);
                assert_eq!(case.pipe_bytes, rung.pipe_bytes);
            }
        }
    }
}
