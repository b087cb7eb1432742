//! Elementary costs of moving data on this machine, in nanoseconds; measured
//! without any privilege.
//!
//! A probe repeats one step, times it and puts its pipe back to where it was.
//! All but the wake-ups are driven by one thread, so that nothing waits. Every
//! round runs each probe once, so that a drift of the machine meets all costs
//! alike; a cost is the median over the rounds with its exact interval.

pub mod echo;
pub mod pinning;
mod probes;
mod wake_up;

use std::io;

use serde::Serialize;

use self::probes::{Drain, Fill};
use fastpipe::buffer::Pages;
use pipespeed_host::Warning;
use pipespeed_host::placement::{self, Chosen, Placement};
use pipespeed_host::topology::Topology;
use pipespeed_measure::record::Header;
use pipespeed_stats::Estimate;

/// Bytes that one call moves while a page's cost is measured: a pipeful.
pub const PIECE: usize = 256 << 10;

/// The confidence of the intervals.
const CONFIDENCE: f64 = 0.95;

/// The cost of one step in nanoseconds.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Cost {
    /// A value a round.
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
    /// How many rounds were asked for.
    pub rounds: usize,
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
struct Measurement {
    costs: fn(&mut Costs) -> Vec<&mut Cost>,
    probe: Result<Probe, String>,
}

impl Measurement {
    fn new(probe: io::Result<Probe>, costs: fn(&mut Costs) -> Vec<&mut Cost>) -> Self {
        Measurement {
            costs,
            probe: probe.map_err(|error| error.to_string()),
        }
    }

    /// Takes a sample of each cost. An error, as of a seccomp filter, ends the
    /// probe and becomes the reason for having no estimate.
    fn run(&mut self, into: &mut Costs, is_warm_up: bool) {
        let Ok(probe) = &mut self.probe else {
            return;
        };
        match probe() {
            Ok(_) if is_warm_up => {}
            Ok(values) => {
                for (cost, value) in (self.costs)(into).into_iter().zip(values) {
                    cost.samples.push(value);
                }
            }
            Err(error) => self.probe = Err(error.to_string()),
        }
    }

    fn finish(self, into: &mut Costs) {
        for cost in (self.costs)(into) {
            match &self.probe {
                Ok(_) => cost.estimate = Estimate::of(&cost.samples, CONFIDENCE),
                Err(why) => cost.refused = Some(why.clone()),
            }
        }
    }
}

fn measurements(places: &Places) -> Vec<Measurement> {
    use Measurement as M;
    let passage = probes::passage;
    vec![
        M::new(probes::call(), |c| vec![&mut c.call]),
        M::new(probes::would_block(), |c| vec![&mut c.would_block]),
        M::new(passage(Fill::Write, Pages::Base, Drain::Read), |c| {
            vec![&mut c.write, &mut c.read]
        }),
        M::new(passage(Fill::Vmsplice, Pages::Base, Drain::Splice), |c| {
            vec![&mut c.vmsplice_base, &mut c.splice_base]
        }),
        M::new(passage(Fill::Vmsplice, Pages::Huge, Drain::Splice), |c| {
            vec![&mut c.vmsplice_huge, &mut c.splice_huge]
        }),
        M::new(probes::read_vmspliced(), |c| vec![&mut c.read_vmspliced]),
        M::new(passage(Fill::Tee, Pages::Base, Drain::Splice), |c| {
            vec![&mut c.tee]
        }),
        M::new(probes::pinned(Pages::Base), |c| {
            vec![&mut c.pin_base, &mut c.move_page]
        }),
        M::new(probes::pinned(Pages::Huge), |c| vec![&mut c.pin_huge]),
        M::new(probes::fault(Pages::Base), |c| vec![&mut c.fault_base]),
        M::new(probes::fault(Pages::Huge), |c| vec![&mut c.fault_huge]),
        M::new(wake_up::probe(places.same.map(|cpu| (cpu, cpu))), |c| {
            vec![&mut c.wake_up_same]
        }),
        M::new(wake_up::probe(places.other), |c| {
            vec![&mut c.wake_up_other, &mut c.wake_call_other]
        }),
    ]
}

/// Measures all costs in `rounds` rounds after one that warms up. `go_on` is
/// asked before each step, with the number of completed rounds; where it says
/// no, what was measured until then is the result.
pub fn measure(places: Places, rounds: usize, mut go_on: impl FnMut(usize) -> bool) -> Costs {
    let mut measurements = measurements(&places);
    let mut costs = Costs {
        places,
        ..Costs::default()
    };
    'measuring: for round in 0..=rounds {
        for measurement in &mut measurements {
            if !go_on(round.saturating_sub(1)) {
                break 'measuring;
            }
            measurement.run(&mut costs, round == 0);
        }
        costs.rounds = round;
    }
    for measurement in measurements {
        measurement.finish(&mut costs);
    }
    costs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(mut measurement: Measurement, rounds: usize) -> Costs {
        let mut costs = Costs::default();
        for round in 0..=rounds {
            measurement.run(&mut costs, round == 0);
        }
        measurement.finish(&mut costs);
        costs
    }

    fn write_and_read(probe: io::Result<Probe>) -> Measurement {
        Measurement::new(probe, |c| vec![&mut c.write, &mut c.read])
    }

    #[test]
    fn a_cost_is_the_median_of_its_own_samples_without_the_warm_up() {
        let mut value = -1000.0;
        let probe: Probe = Box::new(move || {
            value = f64::max(value + 1.0, 0.0);
            Ok(vec![value, 2.0 * value])
        });
        let costs = measured(write_and_read(Ok(probe)), 7);
        assert_eq!(costs.write.median(), Some(4.0));
        assert_eq!(costs.read.median(), Some(8.0));
        let interval = costs.read.estimate.unwrap().interval.unwrap();
        assert!(interval.low < 8.0 && 8.0 < interval.high);
        assert!(costs.call.estimate.is_none());
    }

    #[test]
    fn a_probe_that_cannot_be_made_or_fails_gives_a_reason() {
        let unmade = measured(write_and_read(Err(io::ErrorKind::Unsupported.into())), 7);
        let mut rounds = 0;
        let failing: Probe = Box::new(move || {
            rounds += 1;
            match rounds {
                1..4 => Ok(vec![1.0, 2.0]),
                _ => Err(io::ErrorKind::PermissionDenied.into()),
            }
        });
        let failed = measured(write_and_read(Ok(failing)), 7);
        for cost in [unmade.write, unmade.read, failed.write, failed.read] {
            assert!(cost.estimate.is_none() && cost.refused.is_some());
        }
    }

    #[test]
    fn an_interrupted_measurement_keeps_its_completed_rounds() {
        let costs = measure(Places::default(), 100, |done| done < 2);
        assert_eq!(costs.rounds, 2);
        assert_eq!(costs.call.samples.len(), 2);
        assert!(costs.call.median().unwrap() > 0.0);
        assert!(costs.wake_up_other.refused.is_some());
        let none = measure(Places::default(), 100, |_| false);
        assert_eq!(none.rounds, 0);
        assert!(none.call.estimate.is_none());
    }
}
