//! `meter`.

mod edges;
mod numbers;
mod passing;
mod terminal;
