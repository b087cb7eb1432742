//! What people look at: a table, sentences and charts, each a pure function of
//! a recorded run.

mod advice;
mod changes;
mod channels;
mod chart;
mod checks;
mod columns;
mod compared;
mod comparisons;
mod costs;
mod findings;
mod format;
mod latency;
mod measured;
mod memory;
mod options;
mod origin;
mod pinning;
mod pipeline;
mod predicted;
mod profile;
mod published;
#[cfg(test)]
pub(crate) mod sample;
mod sizes;
mod steps;
mod style;
mod table;
mod volumes;
mod wake_ups;

pub use self::advice::advice_text;
pub use self::chart::{DotRow, chart, dot_chart, latency_chart, profile_chart};
pub use self::checks::{check_explanation, check_list, checks};
pub use self::compared::{comparison_chart, comparison_table};
pub use self::costs::{costs_table, notes, through_table};
pub use self::findings::findings;
pub(crate) use self::format::wrap;
pub use self::format::{counted, interval, ratio_interval, significant, times};
#[cfg(test)]
pub(crate) use self::latency::tests::record as latency_record;
pub use self::latency::{latency_notes, latency_table};
pub use self::origin::origin;
pub use self::pinning::pinning;
pub use self::pipeline::profile_pipeline;
pub use self::predicted::predictions_table;
pub use self::profile::{profile_case, profile_ladder};
pub use self::style::Style;
pub use self::table::table;
pub use self::wake_ups::wake_ups_table;
