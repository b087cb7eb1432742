use super::*;

struct Counting(Vec<Kind>, f64);

impl Probe for Counting {
    fn kinds(&self) -> &[Kind] {
        &self.0
    }

    fn run(&mut self) -> io::Result<Vec<Value>> {
        self.1 += 1.0;
        Ok(vec![self.1.into(), (2.0 * self.1).into()])
    }
}

fn two() -> Vec<Kind> {
    ["one", "two"]
        .map(|name| Kind::new(Group::Calls, Per::Call, name, name))
        .to_vec()
}

#[test]
fn a_cost_is_the_median_of_its_own_samples() {
    let probe = prepared(two(), Ok(Counting(two(), 0.0)));
    let samples = (1..=7).map(|n| vec![f64::from(n).into(), (2.0 * f64::from(n)).into()]);
    let costs = costs((probe, samples.collect()));
    let medians: Vec<_> = costs.iter().map(|cost| cost.median).collect();
    assert_eq!(medians, [Some(4.0), Some(8.0)]);
    assert!(costs[1].low < costs[1].median && costs[1].median < costs[1].high);
}

#[test]
fn what_was_refused_has_no_figure_and_a_reason() {
    let probe = prepared::<Counting>(two(), Err(io::ErrorKind::Unsupported.into()));
    let costs = costs((probe, Vec::new()));
    assert_eq!(costs.len(), 2);
    assert!(costs.iter().all(|cost| cost.median.is_none()));
    assert!(costs.iter().all(|cost| cost.refused.is_some()));
}
