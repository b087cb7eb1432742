//! Elementary costs of moving data on this machine, in nanoseconds; measured
//! without any privilege.
//!
//! A probe repeats one step, times it and puts its pipe back to where it was.
//! All but the wake-ups are driven by one thread, so that nothing waits. Probes
//! are the cases of a run in rounds ([`pipespeed_measure::rounds`]); a cost is the
//! median over the rounds with its exact interval.

pub mod echo;
pub mod pinning;
mod probes;
mod wake_up;

use std::io;

use serde::Serialize;

use self::probes::{Drain, Fill};
use fastpipe::buffer::Pages;
use pipespeed_base::failure::Interrupted;
use pipespeed_host::Warning;
use pipespeed_host::placement::{self, Chosen, Placement};
use pipespeed_host::topology::Topology;
use pipespeed_measure::record::{Header, NotRun};
use pipespeed_measure::rounds::{Place, Rounds, Work};
use pipespeed_measure::runner::TrialError;
use pipespeed_stats::Estimate;

/// Bytes that one call moves while a page's cost is measured: a pipeful.
pub const PIECE: usize = 256 << 10;

/// The confidence of the intervals.
const CONFIDENCE: f64 = 0.95;

/// The cost of one step in nanoseconds.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Cost {
    /// One value a round.
    #[serde(skip)]
    samples: Vec<f64>,
    /// None where it was refused, or no round was completed.
    pub estimate: Option<Estimate>,
    /// Why there is no estimate.
    pub refused: Option<String>,
}

impl Cost {
    /// The median in nanoseconds.
    pub fn median(&self) -> Option<f64> {
        self.estimate.map(|estimate| estimate.median)
    }

    #[cfg(any(test, feature = "sample"))]
    /// A cost of this median, invented.
    pub fn of(median: f64) -> Cost {
        Cost {
            estimate: Estimate::of(&[median], CONFIDENCE),
            ..Cost::default()
        }
    }
}

/// The elementary costs.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Costs {
    /// Completed rounds.
    pub rounds: usize,
    /// The processors of the wake-ups.
    pub places: Places,
    /// A system call that does nothing: getppid(2).
    pub call: Cost,
    /// A read(2) that finds the pipe empty.
    pub would_block: Cost,
    /// A page put into a pipe by write(2).
    pub write: Cost,
    /// A page that was written, taken out by read(2).
    pub read: Cost,
    /// A base page put into a pipe by vmsplice(2).
    pub vmsplice_base: Cost,
    /// 4 KiB of a huge page put into a pipe by vmsplice(2).
    pub vmsplice_huge: Cost,
    /// A page that was vmspliced, taken out by read(2).
    pub read_vmspliced: Cost,
    /// A base page spliced to /dev/null.
    pub splice_base: Cost,
    /// 4 KiB of a huge page spliced to /dev/null.
    pub splice_huge: Cost,
    /// A page duplicated into another pipe by tee(2).
    pub tee: Cost,
    /// A page moved to another pipe by splice(2).
    pub move_page: Cost,
    /// A base page pinned: the estimate of [`pinning`].
    pub pin_base: Cost,
    /// 4 KiB of a huge page pinned.
    pub pin_huge: Cost,
    /// The first write to a base page.
    pub fault_base: Cost,
    /// The first write to a huge page.
    pub fault_huge: Cost,
    /// From the call that wakes a process on the same processor until it runs.
    pub wake_up_same: Cost,
    /// The same where it sleeps on another processor.
    pub wake_up_other: Cost,
    /// What waking a process on another processor adds to the waker's call.
    pub wake_call_other: Cost,
}

/// How costs were measured.
#[derive(Debug, Clone, Serialize)]
pub struct Settings {
    /// The number of rounds planned.
    pub rounds: usize,
    /// The seed of the order of the probes.
    pub seed: u64,
    /// The size of a base page.
    pub page_bytes: usize,
}

/// What is saved.
#[derive(Debug, Clone, Serialize)]
pub struct Record {
    /// What every record begins with.
    #[serde(flatten)]
    pub header: Header,
    /// How they were measured.
    pub settings: Settings,
    /// What limits what the figures say.
    pub warnings: Vec<Warning>,
    /// The signal that ended the run before its last round; null when it was
    /// completed.
    pub interrupted: Option<String>,
    /// The costs in nanoseconds.
    pub costs_ns: Costs,
}

/// The processors on which wake-ups are measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Places {
    /// The processor of a waker and a sleeper that share one.
    pub same: Option<usize>,
    /// The processors of a waker and a sleeper on two.
    pub other: Option<(usize, usize)>,
    /// How those two are related, in words.
    pub relation: String,
}

impl Places {
    /// The processors that the ends of a trial would be placed on.
    pub fn choose(topology: &Topology) -> Places {
        let chosen = |placement| placement::choose(placement, topology).ok();
        let mut places = chosen(Placement::Different)
            .map(|chosen| Places::of(&chosen))
            .unwrap_or_default();
        if let Some(same) = chosen(Placement::Same).and_then(|chosen| chosen.writer) {
            places.same = Some(same);
        }
        places
    }

    /// The processors of a trial's ends.
    pub fn of(chosen: &Chosen) -> Places {
        let both = chosen.writer.zip(chosen.reader);
        Places {
            same: chosen.writer,
            other: both.filter(|(writer, reader)| writer != reader),
            relation: chosen.relation.clone(),
        }
    }
}

/// Measures the values of one round, in nanoseconds.
type Probe = Box<dyn FnMut() -> io::Result<Vec<f64>>>;

/// A probe and the costs that its first values belong to.
struct Case {
    name: &'static str,
    costs: fn(&mut Costs) -> Vec<&mut Cost>,
    /// Or why it is not run.
    probe: Result<Probe, String>,
}

impl Case {
    fn new(
        name: &'static str,
        probe: io::Result<Probe>,
        costs: fn(&mut Costs) -> Vec<&mut Cost>,
    ) -> Self {
        Case {
            name,
            costs,
            probe: probe.map_err(|error| error.to_string()),
        }
    }
}

fn probes(places: &Places) -> Vec<Case> {
    let passage = probes::passage;
    vec![
        Case::new("call", probes::call(), |c| vec![&mut c.call]),
        Case::new("would_block", probes::would_block(), |c| {
            vec![&mut c.would_block]
        }),
        Case::new(
            "write, read",
            passage(Fill::Write, Pages::Base, Drain::Read),
            |c| vec![&mut c.write, &mut c.read],
        ),
        Case::new(
            "vmsplice, base pages",
            passage(Fill::Vmsplice, Pages::Base, Drain::Splice),
            |c| vec![&mut c.vmsplice_base, &mut c.splice_base],
        ),
        Case::new(
            "vmsplice, huge pages",
            passage(Fill::Vmsplice, Pages::Huge, Drain::Splice),
            |c| vec![&mut c.vmsplice_huge, &mut c.splice_huge],
        ),
        Case::new("read_vmspliced", probes::read_vmspliced(), |c| {
            vec![&mut c.read_vmspliced]
        }),
        Case::new("tee", passage(Fill::Tee, Pages::Base, Drain::Splice), |c| {
            vec![&mut c.tee]
        }),
        Case::new("pin, base pages", probes::pinned(Pages::Base), |c| {
            vec![&mut c.pin_base, &mut c.move_page]
        }),
        Case::new("pin, huge pages", probes::pinned(Pages::Huge), |c| {
            vec![&mut c.pin_huge]
        }),
        Case::new("fault, base pages", probes::fault(Pages::Base), |c| {
            vec![&mut c.fault_base]
        }),
        Case::new("fault, huge pages", probes::fault(Pages::Huge), |c| {
            vec![&mut c.fault_huge]
        }),
        Case::new(
            "wake-up, same processor",
            wake_up::probe(places.same.map(|cpu| (cpu, cpu))),
            |c| vec![&mut c.wake_up_same],
        ),
        Case::new(
            "wake-up, other processor",
            wake_up::probe(places.other),
            |c| vec![&mut c.wake_up_other, &mut c.wake_call_other],
        ),
    ]
}

/// The probes of all costs, as the cases of a run in rounds; `S` returns the
/// signal that ends it.
pub struct Probes<S> {
    cases: Vec<Case>,
    costs: Costs,
    seed: u64,
    signal: S,
}

impl<S: FnMut() -> Option<i32>> Probes<S> {
    /// The probes on these processors, in an order from `seed`.
    pub fn new(places: Places, seed: u64, signal: S) -> Self {
        Probes {
            cases: probes(&places),
            costs: Costs {
                places,
                ..Costs::default()
            },
            seed,
            signal,
        }
    }

    /// The costs with what was measured until now.
    pub fn into_costs(mut self) -> Costs {
        self.summarise(self.costs.rounds);
        self.costs
    }

    fn sample(&mut self, case: usize) -> Result<io::Result<Vec<f64>>, TrialError> {
        match ((self.signal)(), &mut self.cases[case].probe) {
            (Some(signal), _) => Err(TrialError::Interrupted(signal)),
            (None, Ok(probe)) => Ok(probe()),
            (None, Err(why)) => Err(NotRun::refused(&**why).into()),
        }
    }
}

impl<S: FnMut() -> Option<i32>> Work for Probes<S> {
    type Record = Costs;

    fn record(&self) -> &Costs {
        &self.costs
    }

    fn cases(&self) -> usize {
        self.cases.len()
    }

    fn name(&self, case: usize) -> String {
        self.cases[case].name.to_owned()
    }

    fn is_open(&self, case: usize) -> bool {
        self.cases[case].probe.is_ok()
    }

    fn close(&mut self, case: usize, why: NotRun) {
        self.cases[case].probe = Err(why.reason);
    }

    /// An error of the first call, as of a seccomp filter, is a refusal.
    fn pilot(&mut self, case: usize) -> Result<(), TrialError> {
        match self.sample(case)? {
            Ok(_) => Ok(()),
            Err(error) => Err(NotRun::refused(error.to_string()).into()),
        }
    }

    fn trial(&mut self, case: usize, _: Place) -> Result<(), TrialError> {
        let values = self.sample(case)?;
        let values = values.map_err(|error| TrialError::Failed(error.into()))?;
        let costs = (self.cases[case].costs)(&mut self.costs);
        for (cost, value) in costs.into_iter().zip(values) {
            cost.samples.push(value);
        }
        Ok(())
    }

    fn plan(&mut self, _: usize, _: impl FnOnce(u64) -> String) -> u64 {
        self.seed
    }

    fn summarise(&mut self, complete: usize) {
        self.costs.rounds = complete;
        for case in &self.cases {
            for cost in (case.costs)(&mut self.costs) {
                cost.estimate = Estimate::of(&cost.samples, CONFIDENCE);
                cost.refused = case.probe.as_ref().err().cloned();
            }
        }
    }
}

/// Measures all costs in `rounds` rounds after a pilot, until `signal` returns
/// one.
///
/// # Errors
/// On a signal.
pub fn measure(
    places: Places,
    rounds: usize,
    signal: impl FnMut() -> Option<i32>,
) -> Result<Costs, Interrupted> {
    let mut run = Rounds::of(Probes::new(places, 0, signal));
    run.pilot(&mut ())?;
    run.rounds(rounds, None, &mut ())?;
    Ok(run.into_work().into_costs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(probe: io::Result<Probe>, rounds: usize) -> (Costs, Vec<Warning>) {
        let case = Case::new("write", probe, |c| vec![&mut c.write, &mut c.read]);
        let mut run = Rounds::of(Probes {
            cases: vec![case],
            costs: Costs::default(),
            seed: 1,
            signal: || None,
        });
        run.pilot(&mut ()).unwrap();
        run.rounds(rounds, None, &mut ()).unwrap();
        let missing = run.missing();
        (run.into_work().into_costs(), missing)
    }

    #[test]
    fn a_cost_is_the_median_of_its_own_samples_without_the_pilot() {
        let mut value = -1000.0;
        let probe: Probe = Box::new(move || {
            value = f64::max(value + 1.0, 0.0);
            Ok(vec![value, 2.0 * value])
        });
        let (costs, _) = measured(Ok(probe), 7);
        assert_eq!(costs.write.median(), Some(4.0));
        assert_eq!(costs.read.median(), Some(8.0));
        let interval = costs.read.estimate.unwrap().interval.unwrap();
        assert!(interval.low < 8.0 && 8.0 < interval.high);
        assert!(costs.call.estimate.is_none());
    }

    #[test]
    fn a_probe_that_fails_at_first_gives_a_reason_and_later_a_warning() {
        let failing = |from: usize| -> io::Result<Probe> {
            let mut calls = 0;
            Ok(Box::new(move || {
                calls += 1;
                if calls < from {
                    Ok(vec![1.0, 2.0])
                } else {
                    Err(io::ErrorKind::PermissionDenied.into())
                }
            }))
        };
        let unmade = measured(Err(io::ErrorKind::Unsupported.into()), 7);
        let at_first = measured(failing(1), 7);
        for (costs, missing) in [unmade, at_first] {
            for cost in [costs.write, costs.read] {
                assert!(cost.estimate.is_none() && cost.refused.is_some());
            }
            assert!(missing.is_empty());
        }
        let (costs, missing) = measured(failing(4), 7);
        assert_eq!(costs.write.samples.len(), 2);
        assert!(costs.write.estimate.is_some());
        assert!(missing[0].message.starts_with("3 trials failed: "));
    }

    #[test]
    fn an_interrupted_measurement_keeps_its_completed_rounds() {
        let mut trials = 0;
        let signal = || {
            trials += 1;
            (trials > 40).then_some(2)
        };
        let mut run = Rounds::of(Probes::new(Places::default(), 1, signal));
        run.pilot(&mut ()).unwrap();
        assert!(run.rounds(100, None, &mut ()).is_err());
        let costs = run.into_work().into_costs();
        // Of 11 probes at most: those of wake-ups have no processors.
        assert!(costs.rounds >= 2, "{}", costs.rounds);
        assert!((costs.rounds..=costs.rounds + 1).contains(&costs.call.samples.len()));
        assert!(costs.call.median().unwrap() > 0.0);
        assert!(costs.wake_up_other.refused.is_some());
        assert!(measure(Places::default(), 100, || Some(2)).is_err());
    }
}
