//! Records as text, charts and one HTML page. Each is a pure function of records.
#![forbid(unsafe_code)]

mod blocks;
mod bottleneck;
mod cases;
mod changes;
mod channels;
mod chart;
mod checks;
mod compared;
mod conditions;
mod costs;
mod counted;
mod doctor;
mod findings;
mod format;
mod latency;
mod memory;
mod notes;
mod page;
mod pinning;
mod pipeline;
mod profile;
mod prometheus;
mod published;
mod run;
mod sizes;
mod steps;
pub mod style;
mod table;
#[cfg(test)]
mod testing;
mod top;
mod touched;

pub use self::bottleneck::{BottleneckText, describe_bottleneck};
pub use self::checks::{check_explanation, check_list, checks};
pub use self::compared::{comparison_chart, comparison_table};
pub use self::conditions::origin;
pub use self::costs::costs_table;
pub use self::counted::counted_cases;
pub use self::doctor::{doctor, slow_scans};
pub use self::format::{interval, pluralize, ratio, ratio_interval, significant, times};
pub use self::latency::{latency_chart, latency_notes, latency_table};
pub use self::page::{Records, Saved, page};
pub use self::pinning::pinning;
pub use self::pipeline::profile_pipeline;
pub use self::profile::{profile_case, profile_chart, profile_ladder};
pub use self::prometheus::{
    prometheus_of_costs, prometheus_of_doctor, prometheus_of_latency, prometheus_of_run,
};
pub use self::run::{chart, findings, table};
pub use self::style::Style;
pub use self::top::{DrawnScreen, Sort, TopView, top_once, top_screen};
