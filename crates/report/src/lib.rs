//! What people look at: a table, sentences and charts, each a pure function of
//! a recorded run.
#![forbid(unsafe_code)]

mod changes;
mod channels;
mod chart;
mod checks;
mod columns;
mod compared;
mod comparisons;
mod costs;
mod counted;
mod findings;
mod format;
mod latency;
mod measured;
mod memory;
mod options;
mod origin;
mod pinning;
mod pipeline;
mod profile;
mod published;
mod sizes;
mod steps;
mod style;
mod table;
mod views;
mod volumes;

pub use self::chart::{DotRow, chart, dot_chart, latency_chart, profile_chart};
pub use self::checks::{check_explanation, check_list, checks};
pub use self::compared::{comparison_chart, comparison_table};
pub use self::costs::{costs_table, notes};
pub use self::counted::counted as counted_cases;
pub use self::findings::findings;
pub use self::format::{interval, pluralize, ratio_interval, significant, times};
pub use self::latency::{latency_notes, latency_table};
pub use self::origin::origin;
pub use self::pinning::pinning;
pub use self::pipeline::profile_pipeline;
pub use self::profile::{profile_case, profile_ladder};
pub use self::style::Style;
pub use self::table::table;
