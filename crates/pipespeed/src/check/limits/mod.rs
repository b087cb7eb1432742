//! How much fits, and what may be set.

pub(super) mod capacity;
mod users;

pub use self::users::SOFT_LIMIT;
