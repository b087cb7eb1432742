use super::*;
use crate::costs::Cost;
use crate::costs::synthetic::costs;

fn advise(costs: &[Cost], relation: Relation) -> Vec<Advice> {
    super::advise(&Basis::new(costs), relation, 64 << 10, &|| Ok(())).unwrap()
}

fn plain(relation: Relation) -> Scenario {
    Scenario {
        technique: Technique::WriteRead,
        pipe: usual_pipe(),
        piece: 64 << 10,
        spins: false,
        relation,
    }
}

#[test]
fn what_helps_most_comes_first() {
    let costs = costs(7);
    let advice = advise(&costs, Relation::SharedCache(3));
    assert_eq!(advice.len(), 3);
    for advice in &advice {
        let gains: Vec<f64> = advice.promises.iter().map(|p| p.gain).collect();
        assert!(gains.is_sorted_by(|a, b| a >= b), "{gains:?}");
        // With wake-ups at 20 us nothing comes near not sleeping.
        let first = advice.promises[0].changes[0];
        assert!(
            [Change::Spinning, Change::LargerPipe].contains(&first),
            "{first:?}"
        );
    }
    let single = |advice: &Advice, change| {
        advice
            .promises
            .iter()
            .find(|p| p.changes == [change])
            .map(|p| p.gain)
    };
    assert!(single(&advice[0], Change::Vmsplice).unwrap() > 1.1);
    assert_eq!(single(&advice[1], Change::Vmsplice), None);
    // write copies, whatever the pages are.
    assert!((single(&advice[0], Change::HugePages).unwrap() - 1.0).abs() < 0.02);
}

#[test]
fn together_is_the_least_that_comes_near_the_best() {
    let costs = costs(7);
    let advice = advise(&costs, Relation::SharedCache(3));
    let together = advice[0].together.as_ref().unwrap();
    assert!(together.changes.contains(&Change::Vmsplice));
    assert!(together.changes.contains(&Change::HugePages));
    // The costs know no difference between piece sizes.
    assert!(
        !together.changes.contains(&Change::LargerPieces),
        "{together:?}"
    );
    assert!(together.gain > advice[0].promises[0].gain);
}

#[test]
fn changes_that_exclude_each_other_are_not_made_together() {
    let one = plain(Relation::One);
    assert_eq!(Change::Spinning.apply(one), None);
    assert_eq!(Change::OneProcessor.apply(one), None);
    let spinning = Change::Spinning.apply(plain(Relation::Siblings)).unwrap();
    assert_eq!(Change::OneProcessor.apply(spinning), None);
    assert_eq!(Change::Spinning.apply(spinning), None);
    let vmsplice = Change::Vmsplice.apply(one).unwrap();
    assert_eq!(vmsplice.technique, Technique::VmspliceRead);
    assert_eq!(Change::Vmsplice.apply(vmsplice), None);
}

#[test]
fn without_costs_there_is_no_advice() {
    let none: [crate::costs::Cost; 0] = [];
    assert!(advise(&none, Relation::One).is_empty());
}

/// Costs whose wake-ups are so many times as long in each round.
fn scattered(times: &[f64]) -> Vec<Cost> {
    let mut costs = costs(times.len());
    for cost in &mut costs {
        if cost.kind.name.starts_with("wake_") {
            for (sample, times) in cost.samples.iter_mut().zip(times) {
                *sample *= times;
            }
            for (each, times) in cost.spreads.iter_mut().zip(times) {
                each.iter_mut().for_each(|ns| *ns *= times);
            }
        }
    }
    costs
}

fn gain_of(advice: &[Advice], change: Change) -> (f64, Option<f64>, Option<f64>) {
    let mut promises = advice[0].promises.iter();
    let found = promises.find(|promise| promise.changes == [change]);
    let promise = found.unwrap();
    (promise.gain, promise.gain_low, promise.gain_high)
}

#[test]
fn a_gain_is_as_uncertain_as_the_costs_that_it_hangs_on() {
    let advise = |costs: &[Cost]| advise(costs, Relation::SharedCache(3));
    let steady = advise(&scattered(&[1.0; 9]));
    let (gain, low, high) = gain_of(&steady, Change::LargerPipe);
    assert_eq!((low, high), (Some(gain), Some(gain)));

    let wild = advise(&scattered(&[0.5, 0.6, 0.7, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8]));
    let (gain, low, high) = gain_of(&wild, Change::LargerPipe);
    let (low, high) = (low.unwrap(), high.unwrap());
    assert!(
        low < 0.95 * gain && gain * 1.05 < high,
        "{low} {gain} {high}"
    );
    // Whoever copies does so from huge pages as well, and sleeps as long.
    let (gain, low, high) = gain_of(&wild, Change::HugePages);
    let (low, high) = (low.unwrap(), high.unwrap());
    assert!(0.97 < low && low <= gain && gain <= high && high < 1.03);
}

#[test]
fn few_rounds_give_a_gain_without_an_interval() {
    let advice = advise(&scattered(&[1.0, 1.1, 0.9]), Relation::SharedCache(3));
    let (gain, low, high) = gain_of(&advice, Change::LargerPipe);
    assert!(gain > 1.0);
    assert_eq!((low, high), (None, None));
}

#[test]
fn it_ends_as_soon_as_it_is_not_to_go_on() {
    let asked = std::cell::Cell::new(0);
    let go_on = || {
        asked.set(asked.get() + 1);
        match asked.get() < 10 {
            true => Ok(()),
            false => anyhow::bail!("enough"),
        }
    };
    let ended = super::advise(&Basis::new(&costs(7)), Relation::One, 64 << 10, &go_on);
    assert_eq!(ended.unwrap_err().to_string(), "enough");
    assert_eq!(asked.get(), 10);
}
