//! What all parts of pipespeed need: sizes in bytes, names, interruption, typed failures.
#![deny(unsafe_code)]

pub mod failure;
pub mod interrupt;
mod named;
mod signal;
pub mod size;
pub mod standard;
pub mod text;

pub use self::named::Named;
pub use self::signal::signal_name;
