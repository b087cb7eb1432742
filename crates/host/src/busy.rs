//! A look at the machine before the first trial: whether other processes, or other guests of
//! the host, use the processors that a run needs.

use std::thread;
use std::time::Duration;

use super::noise::{NoiseProbe, NoiseReading};
use super::root::Root;
use crate::{Warning, WarningKind};

/// Duration of the look. The kernel counts in ticks of 10 ms.
const LOOK: Duration = Duration::from_millis(300);

/// A machine is busy if others use more than this share of the processors that a run needs.
const MAX_SHARE: f64 = 0.1;

/// What others use of the processors that a run needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Busy {
    /// The number of these processors.
    processors: usize,
    /// Whether the machine has more.
    has_more: bool,
    /// The mean number used by other processes.
    others: f64,
    /// The mean number that the hypervisor withheld.
    stolen: f64,
    /// The load average of the last minute.
    load_average: Option<f64>,
}

impl Busy {
    /// Looks at these processors for 0.3 s, or at all if none are given. `None` if they are
    /// free, or `/proc/stat` can't be read. This process and its children should sleep.
    pub fn look(cpus: &[usize]) -> Option<Busy> {
        let root = Root::default();
        let probe = NoiseProbe::open(&root);
        let before = probe.take();
        // There is nothing to wait for.
        if !before.has_counts() {
            return None;
        }
        thread::sleep(LOOK);
        Busy::between(&before, &probe.take(), cpus, &root)
    }

    fn between(
        before: &NoiseReading,
        after: &NoiseReading,
        cpus: &[usize],
        root: &Root,
    ) -> Option<Busy> {
        let used = after.used_since(before, cpus)?;
        let busy = Busy {
            processors: used.processors,
            has_more: used.processors < used.all,
            others: used.others,
            stolen: used.stolen,
            load_average: super::load(root).map(|[minute, ..]| minute),
        };
        (used.others + used.stolen > MAX_SHARE * used.processors as f64).then_some(busy)
    }

    /// What to say before the first trial, in a line.
    pub fn announcement(&self) -> String {
        let used = self.describe("use", "withholds");
        format!("note: the machine is busy: {used}; results will be disturbed")
    }

    /// The same for the record of the run.
    pub fn warning(&self) -> Warning {
        let used = self.describe("used", "withheld");
        let message = format!("before the first trial {used}");
        Warning::new(WarningKind::Busy, message)
    }

    fn describe(&self, use_verb: &str, withhold_verb: &str) -> String {
        let count = self.processors;
        let processors = match (count, self.has_more) {
            (1, true) => "the processor chosen".to_owned(),
            (1, false) => "1 processor".to_owned(),
            (_, true) => format!("the {count} processors chosen"),
            (_, false) => format!("{count} processors"),
        };
        let mut parts = Vec::new();
        // The smaller of the two may be next to nothing.
        let is_main = |used: f64| 2.0 * used >= MAX_SHARE * count as f64;
        if is_main(self.others) {
            let others = self.others.min(count as f64);
            parts.push(format!(
                "other processes {use_verb} {others:.1} of {processors}"
            ));
        }
        if is_main(self.stolen) {
            let share = 100.0 * (self.stolen / count as f64).min(1.0);
            parts.push(format!(
                "the hypervisor {withhold_verb} {share:.0} % of the processor time (steal)"
            ));
        }
        let load = self.load_average;
        let load = load.map_or_else(String::new, |load| format!(" (load average {load:.1})"));
        parts.join(" and ") + &load
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::Fixture;
    use super::*;
    use pipespeed_testing::says;

    /// The look at a machine of four processors whose counts grow by these shares of a second,
    /// busy and steal, in a second.
    fn look(grown: [(f64, f64); 4], cpus: &[usize]) -> Option<Busy> {
        let per_s = rustix::param::clock_ticks_per_second() as f64;
        let stat = |grown: [(f64, f64); 4]| {
            let line = |name: &str, (busy, steal): (f64, f64)| {
                let (busy, steal) = (100.0 + busy * per_s, 50.0 + steal * per_s);
                format!("cpu{name} {busy:.0} 0 0 800 0 0 0 {steal:.0} 0 0\n")
            };
            let sum = grown
                .iter()
                .fold((0.0, 0.0), |sum, cpu| (sum.0 + cpu.0, sum.1 + cpu.1));
            let each = grown.iter().enumerate();
            let each = each.map(|(cpu, grown)| line(&cpu.to_string(), *grown));
            line(" ", sum) + &each.collect::<String>()
        };
        let made = Fixture::empty()
            .file("proc/loadavg", "10.24 7.01 3.55 2/345 6789\n")
            .file("proc/stat", &stat([(0.0, 0.0); 4]));
        let probe = NoiseProbe::open(&made.root);
        let before = probe.take();
        let made = made.file("proc/stat", &stat(grown));
        let after = probe.take_at(before.at_s + 1.0);
        Busy::between(&before, &after, cpus, &made.root)
    }

    const IDLE: (f64, f64) = (0.0, 0.0);

    #[test]
    fn the_load_of_others_is_named_with_its_amount() {
        let busy = look([(0.95, 0.0), (0.93, 0.0), (1.0, 0.0), IDLE], &[]).unwrap();
        assert_eq!(
            busy.announcement(),
            "note: the machine is busy: other processes use 2.9 of 4 processors (load average \
             10.2); results will be disturbed"
        );
        assert_eq!(
            busy.warning().message,
            "before the first trial other processes used 2.9 of 4 processors (load average 10.2)"
        );
        assert_eq!(busy.warning().kind, WarningKind::Busy);
    }

    #[test]
    fn only_the_processors_of_the_run_count() {
        let loaded = [(1.0, 0.0), (0.9, 0.0), IDLE, IDLE];
        assert_eq!(look(loaded, &[2, 3]), None);
        let text = look(loaded, &[0, 1]).unwrap().announcement();
        says(&text, &["use 1.9 of the 2 processors chosen ("]);
        let text = look(loaded, &[1, 1]).unwrap().announcement();
        assert!(text.contains("use 0.9 of the processor chosen ("), "{text}");
    }

    #[test]
    fn steal_is_named_as_such() {
        let stolen = [(0.0, 0.25), (0.0, 0.15), IDLE, IDLE];
        let text = look(stolen, &[0, 1]).unwrap().announcement();
        says(
            &text,
            &["busy: the hypervisor withholds 20 % of the processor time (steal)"],
        );
        let both = [(0.5, 0.25), (0.5, 0.15), IDLE, IDLE];
        let text = look(both, &[0, 1]).unwrap().announcement();
        says(
            &text,
            &[
                "use 1.0 of the 2 processors",
                " and the hypervisor withholds 20 %",
            ],
        );
    }

    #[test]
    fn a_tenth_of_the_processors_is_no_load() {
        assert_eq!(look([(0.1, 0.0), (0.09, 0.0), IDLE, IDLE], &[0, 1]), None);
        assert!(look([(0.1, 0.0), (0.11, 0.0), IDLE, IDLE], &[0, 1]).is_some());
        assert!(look([(0.05, 0.06), (0.1, 0.0), IDLE, IDLE], &[0, 1]).is_some());
    }

    #[test]
    fn without_counts_there_is_nothing_to_say() {
        let made = Fixture::empty();
        let probe = NoiseProbe::open(&made.root);
        let reading = probe.take();
        assert!(!reading.has_counts());
        let later = probe.take_at(reading.at_s + 1.0);
        assert_eq!(Busy::between(&reading, &later, &[0], &made.root), None);
        assert_eq!(look([IDLE; 4], &[7]), None, "a processor without counts");
    }
}
