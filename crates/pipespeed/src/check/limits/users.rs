//! What all pipes of a user may hold.

use crate::check::{Check, Group, Outcome};

/// Run only where asked for: it starves this user's other pipes for a moment.
pub const SOFT_LIMIT: Check = Check {
    name: "soft-limit",
    group: Group::Limits,
    statement: "past pipe-user-pages-soft new pipes get few slots",
    explanation: "TODO.",
    reference: "pipe(7)",
    run: soft_limit,
};

fn soft_limit() -> anyhow::Result<Outcome> {
    Ok(Outcome::seen("x"))
}
