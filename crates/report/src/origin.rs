//! What a run was made on, in a few words.

use pipespeed_host::Machine;
use pipespeed_measure::record::{Header, Run};

/// The processor's model, the kernel and the date: what a figure has to say of
/// itself when it is seen away from its run.
pub fn origin(run: &Run) -> String {
    of_record(&run.header)
}

/// The same of any record.
pub(super) fn of_record(header: &Header) -> String {
    let mut words = machine_words(&header.machine);
    if let Some(date) = header.started_at.get(..10) {
        words.push(date.to_owned());
    }
    words.join(", ")
}

fn machine_words(machine: &Machine) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(model) = &machine.processors.model {
        // Vendors pad the name with marks and a clock rate nobody runs at.
        let plain = model.replace("(R)", "").replace("(TM)", "");
        let plain = plain.split(" @ ").next().unwrap_or_default();
        words.push(plain.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    if let Some(release) = &machine.kernel.release {
        words.push(format!("Linux {release}"));
    }
    words
}
