//! The native part of the Python package `fastpipes`, whose documentation is in `fastpipes/_native.pyi`.
//!
//! Each object belongs to one thread at a time: a call while another thread is in one raises
//! RuntimeError. The interpreter's lock is released around every call that may block, and signals are
//! handled meanwhile.

mod copying;
mod errors;
mod lent;
mod open_file;
mod options;
mod read_ahead;
mod reader;
mod ring;
mod shared;
mod writer;

/// The module.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use super::copying::{copy, set_pipe_size};
    #[pymodule_export]
    use super::reader::Reader;
    #[pymodule_export]
    use super::ring::{Consumer, Producer, ring};
    #[pymodule_export]
    use super::writer::{_flush_all, Report, Writer};
}
