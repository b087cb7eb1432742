//! How much fits, and what may be set.

pub(super) mod capacity;
pub(super) mod resizing;
pub(super) mod slots;
pub(super) mod users;

pub use self::users::SOFT_LIMIT;
pub(super) use self::users::capabilities;
