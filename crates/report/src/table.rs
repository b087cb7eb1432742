//! Tables of text with aligned columns, and the same as HTML. In a narrow terminal the less
//! important columns are hidden. A text may be wrapped across the rest of a row.

use itertools::Itertools as _;
use maud::{Markup, html};

use super::format::wrap;
use super::style::{BOLD, DIM, GREEN, RED, Style, YELLOW};
use pipespeed_base::text::escape;

/// The gap between two columns.
const GAP: usize = 2;
/// Minimum width of a text beside the cells of its row; with less room it is placed below
/// them.
const MIN_TEXT: usize = 24;
/// Rows below a heading are indented.
const INDENT: usize = 2;

/// A column and its header, which may have two lines.
pub(super) struct Column {
    header: String,
    is_right: bool,
    /// Columns of priority 0 are always shown; of the others the highest is hidden first.
    priority: u8,
}

impl Column {
    /// A column aligned to the left.
    pub fn left(header: impl Into<String>) -> Self {
        Column {
            header: escaped(header),
            is_right: false,
            priority: 0,
        }
    }

    /// A column aligned to the right.
    pub fn right(header: impl Into<String>) -> Self {
        Column {
            is_right: true,
            ..Column::left(header)
        }
    }

    /// Makes it hidden in a narrow terminal, the highest priority first.
    pub fn optional(self, priority: u8) -> Self {
        Column { priority, ..self }
    }

    fn html(&self) -> Markup {
        let class = self.is_right.then_some("number");
        html! {
            @if self.header.is_empty() {
                td {}
            } @else {
                th scope="col" class=[class] { (self.header.replace("\n/", "/")) }
            }
        }
    }
}

/// A text without characters that control a terminal: names come from saved records.
fn escaped(text: impl Into<String>) -> String {
    escape(&text.into()).into_owned()
}

/// The text of a cell and its colour.
pub(super) struct Cell {
    text: String,
    code: Option<&'static str>,
}

impl Cell {
    /// A text in a colour.
    pub fn painted(text: impl Into<String>, code: &'static str) -> Self {
        Cell {
            text: escaped(text),
            code: Some(code),
        }
    }

    /// The class of the cell in HTML.
    fn class(&self) -> Option<&'static str> {
        match self.code? {
            GREEN => Some("good"),
            RED => Some("bad"),
            YELLOW => Some("doubt"),
            _ => None,
        }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }

    fn paint(&self, text: &str, style: Style) -> String {
        match self.code {
            Some(code) => style.paint(text, code),
            None => text.to_owned(),
        }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Cell {
            text: escaped(text),
            code: None,
        }
    }
}

enum Row {
    Heading(String),
    /// Cells of the first columns, and a text across the others, if any.
    Cells(Vec<Cell>, Option<Cell>),
}

/// A table.
pub(super) struct Table {
    columns: Vec<Column>,
    rows: Vec<Row>,
    html_header: &'static [&'static str],
}

impl Table {
    /// A table without rows.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Table {
            columns: columns.into_iter().collect(),
            rows: Vec::new(),
            html_header: &[],
        }
    }

    /// Names the columns, and the text after them, in HTML only: screen readers need names where
    /// a terminal does without.
    pub fn with_html_header(self, html_header: &'static [&'static str]) -> Self {
        Table {
            html_header,
            ..self
        }
    }

    /// Adds a row with a cell for each column.
    pub fn row<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let cells: Vec<Cell> = cells.into_iter().map(C::into).collect();
        debug_assert_eq!(cells.len(), self.columns.len(), "cells and columns");
        self.rows.push(Row::Cells(cells, None));
    }

    /// Adds a row with cells for the first columns, and a text after them.
    pub fn row_with_text<C: Into<Cell>>(
        &mut self,
        cells: impl IntoIterator<Item = C>,
        text: impl Into<Cell>,
    ) {
        let cells: Vec<Cell> = cells.into_iter().map(C::into).collect();
        debug_assert!(cells.len() <= self.columns.len(), "cells and columns");
        self.rows.push(Row::Cells(cells, Some(text.into())));
    }

    /// Adds a heading for the rows that follow.
    pub fn heading(&mut self, text: impl Into<String>) {
        self.rows.push(Row::Heading(text.into()));
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The lines, no wider than the terminal if possible: less important columns are hidden
    /// and listed below; others go into further tables below the first.
    pub fn render(&self, style: Style) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let has_heading = self.rows.iter().any(|row| matches!(row, Row::Heading(_)));
        let layout = TableLayout {
            table: self,
            widths: self.widths(),
            indent: if has_heading { INDENT } else { 0 },
            style,
        };
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        let mut hidden = Vec::new();
        while !layout.fits(&shown) {
            let priority = |at: &usize| self.columns[*at].priority;
            let Some(highest) = shown
                .iter()
                .map(priority)
                .max()
                .filter(|priority| *priority > 0)
            else {
                break;
            };
            hidden.extend(shown.extract_if(.., |at| priority(at) == highest));
        }
        let mut parts = Vec::new();
        loop {
            let mut counts = (2..=shown.len()).rev();
            let most = counts.find(|count| layout.fits(&shown[..*count]));
            let rest = shown.split_off(most.unwrap_or(2).min(shown.len()));
            parts.push(layout.lines(&shown).join("\n"));
            if rest.is_empty() {
                break;
            }
            // Each further table repeats the first column.
            shown = [&shown[..1], &rest].concat();
        }
        if !hidden.is_empty() {
            let name = |at: &usize| {
                let header = &self.columns[*at].header;
                header.replace("\n/", "/").replace('\n', " ")
            };
            let names = hidden.iter().map(name).dedup().join(", ");
            let note = if names.is_empty() {
                "(too narrow to show all columns)".to_owned()
            } else {
                format!("(too narrow to show: {names})")
            };
            let last = parts.pop().unwrap_or_default();
            parts.push(format!("{last}\n{}", style.note(&note, DIM)));
        }
        parts.join("\n\n")
    }

    /// The table as HTML, with all columns.
    pub fn html(&self) -> Markup {
        let columns = &self.columns;
        let has_header = columns.iter().any(|column| !column.header.is_empty());
        html! {
            table {
                @if has_header {
                    thead { tr { @for column in columns { (column.html()) } } }
                } @else if !self.html_header.is_empty() {
                    thead { tr { @for name in self.html_header { th scope="col" { (name) } } } }
                }
                tbody { @for row in &self.rows { tr { (self.html_row(row)) } } }
            }
        }
    }

    fn html_row(&self, row: &Row) -> Markup {
        let columns = &self.columns;
        let number = |at: usize| columns[at].is_right.then_some("number");
        let class = |at: usize, cell: &Cell| number(at).or(cell.class());
        html! {
            @match row {
                Row::Heading(text) => th colspan=(columns.len()) scope="colgroup" { (text) },
                Row::Cells(cells, text) => {
                    @for (at, cell) in cells.iter().enumerate() {
                        td class=[class(at, cell)] { (cell.text) }
                    }
                    @if let Some(text) = text {
                        td class=[text.class()] colspan=((columns.len() - cells.len()).max(1)) {
                            (text.text)
                        }
                    }
                }
            }
        }
    }

    fn widths(&self) -> Vec<usize> {
        let width = |(at, column): (usize, &Column)| {
            let header = column.header.lines().map(|line| line.chars().count());
            let cells = self.rows.iter().filter_map(|row| match row {
                Row::Cells(cells, _) => Some(cells.get(at)?.width()),
                Row::Heading(_) => None,
            });
            header.chain(cells).max().unwrap_or(0)
        };
        self.columns.iter().enumerate().map(width).collect()
    }
}

/// A table and the widths of its columns.
struct TableLayout<'a> {
    table: &'a Table,
    widths: Vec<usize>,
    indent: usize,
    style: Style,
}

impl TableLayout<'_> {
    /// The position of the text after these columns.
    fn end(&self, shown: &[usize]) -> usize {
        self.indent + shown.iter().map(|at| self.widths[*at] + GAP).sum::<usize>()
    }

    fn fits(&self, shown: &[usize]) -> bool {
        self.end(shown) <= self.style.width() + GAP
    }

    /// The header and the rows of some columns.
    fn lines(&self, shown: &[usize]) -> Vec<String> {
        let columns = &self.table.columns;
        let height = shown.iter().map(|at| columns[*at].header.lines().count());
        let header = (0..height.max().unwrap_or(0)).rev().map(|from_below| {
            // Headers with fewer lines are aligned at the bottom.
            let cell = |column: &Column| {
                let line = column.header.lines().rev().nth(from_below);
                line.unwrap_or("").into()
            };
            let cells: Vec<Cell> = columns.iter().map(cell).collect();
            self.style.paint(self.cells(&cells, shown).trim_end(), BOLD)
        });
        let rows = self
            .table
            .rows
            .iter()
            .enumerate()
            .map(|(at, row)| match row {
                Row::Heading(text) if at == 0 => self.style.heading(text),
                Row::Heading(text) => format!("\n{}", self.style.heading(text)),
                Row::Cells(cells, text) => self.row(cells, text.as_ref(), shown),
            });
        header.chain(rows).collect()
    }

    fn cells(&self, cells: &[Cell], shown: &[usize]) -> String {
        let mut line = " ".repeat(self.indent);
        for &at in shown.iter().filter(|at| **at < cells.len()) {
            let text = cells[at].paint(&cells[at].text, self.style);
            let pad = " ".repeat(self.widths[at] - cells[at].width());
            line += &if self.table.columns[at].is_right {
                pad + &text
            } else {
                text + &pad
            };
            line += &" ".repeat(GAP);
        }
        line
    }

    fn row(&self, cells: &[Cell], text: Option<&Cell>, shown: &[usize]) -> String {
        let line = self.cells(cells, shown);
        let Some(text) = text.filter(|text| !text.text.is_empty()) else {
            return line.trim_end().to_owned();
        };
        let filled = shown.partition_point(|at| *at < cells.len());
        let mut begin = self.end(&shown[..filled]);
        let mut start = line;
        if begin + MIN_TEXT.min(text.width()) > self.style.width() {
            begin = self.indent + INDENT;
            start = format!("{}\n{:begin$}", start.trim_end(), "");
        }
        let room = self.style.width().saturating_sub(begin);
        let wrapped = wrap(&text.text, room, "");
        let mut lines = wrapped.lines().map(|line| text.paint(line, self.style));
        start + &lines.join(&format!("\n{:begin$}", ""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new([
            Column::left("case"),
            Column::right("CPU ms\n/GiB").optional(2),
            Column::right("GiB/s"),
            Column::left("95 %\ninterval").optional(1),
        ]);
        table.row(["write_read", "1990", "0.652", "[0.627, 0.680]"]);
        table.row(["vmsplice", "9", "14.2", "[14.0, 15.1]"]);
        table.row_with_text(
            ["ring"],
            Cell::painted("refused: there is only one processor here", RED),
        );
        table
    }

    fn shown(width: usize) -> String {
        table().render(Style::of_width(width))
    }

    #[test]
    fn columns_and_headers_are_aligned() {
        insta::assert_snapshot!(shown(50));
    }

    #[test]
    fn the_least_important_columns_are_hidden_first() {
        insta::assert_snapshot!(shown(36));
        insta::assert_snapshot!(shown(24));
    }

    #[test]
    fn columns_that_do_not_fit_go_into_another_table() {
        let mut table = Table::new(["case", "write_read", "vmsplice", "ring"].map(Column::left));
        table.row(["wall time", "1000", "400", "20"]);
        insta::assert_snapshot!(table.render(Style::of_width(24)));
    }

    #[test]
    fn headings_are_above_indented_rows() {
        let mut table = Table::new([Column::left(""), Column::right("")]);
        table.heading("system calls (ns)");
        table.row(["getppid", "80"]);
        table.heading("pages (ns)");
        table.row(["write", "1400"]);
        insta::assert_snapshot!(table.render(Style::of_width(40)));
    }

    #[test]
    fn a_hidden_column_without_a_name_is_mentioned() {
        let mut table = Table::new([Column::left(""), Column::right("").optional(1)]);
        table.row(["getppid", "80 ns per call"]);
        let text = table.render(Style::of_width(20));
        assert_eq!(text, "getppid\n(too narrow to show\n  all columns)");
    }

    #[test]
    fn control_characters_are_escaped_and_aligned() {
        let mut table = Table::new([Column::left("\u{1b}c"), Column::right("n")]);
        table.row(["\u{1b}[2J", "1"]);
        table.heading("\u{7}");
        table.row_with_text(["x"], Cell::painted("\u{202e}", RED));
        insta::assert_snapshot!(table.render(Style::of_width(40)));
    }
}
