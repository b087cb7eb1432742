//! Tests with several processes, and tests that change or examine their whole
//! process, and therefore run in a process of their own.

mod common;
mod processes;
