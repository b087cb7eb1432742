//! `profile`.

mod pipeline;
mod trials;
