//! The columns of a table, of which as many are shown as fit.

use comfy_table::CellAlignment;

/// A column: its header, and what stands in it.
pub(super) struct Column<F> {
    pub header: String,
    pub cell: F,
    pub align: CellAlignment,
    /// The greater, the sooner it goes when the terminal is narrow; 0 stays.
    spare: u8,
}

impl<F> Column<F> {
    /// A column that can be spared so easily.
    pub fn new(header: &str, cell: F, align: CellAlignment, spare: u8) -> Self {
        Column {
            header: header.to_owned(),
            cell,
            align,
            spare,
        }
    }
}

/// The lines of a table with as many of its columns as there is room for, as
/// `lay` lays them out and tells how wide they are.
pub(super) fn fitting<F>(
    mut columns: Vec<Column<F>>,
    room: usize,
    lay: impl Fn(&[Column<F>]) -> (Vec<String>, usize),
) -> Vec<String> {
    loop {
        let (lines, width) = lay(&columns);
        let easiest = (0..columns.len()).max_by_key(|at| columns[*at].spare);
        match easiest.filter(|at| width > room && columns[*at].spare > 0) {
            Some(at) => columns.remove(at),
            None => return lines,
        };
    }
}
