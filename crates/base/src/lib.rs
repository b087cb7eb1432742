//! Shared by all parts of pipespeed: sizes in bytes, names of enum values, signals, failures.
#![deny(unsafe_code)]

pub mod failure;
pub mod interrupt;
pub mod limits;
pub mod memory_file;
mod named;
pub mod orphan;
pub mod output;
mod patient;
pub mod process;
pub mod size;
pub mod standard;
pub mod text;
pub mod thread;

pub use self::interrupt::signal_name;
pub use self::named::Named;
