//! `bench channels`.

mod delivery;
mod going_on;
mod killed;
