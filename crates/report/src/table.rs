//! Tables of text: aligned columns, of which the less important give way in a
//! narrow terminal, and texts wrapped across the rest of a row.

use itertools::Itertools as _;

use super::format::wrap;
use super::style::{BOLD, DIM, Style};

/// The gap between two columns.
const GAP: usize = 2;
/// A text across a row is wrapped to no fewer characters than this; where there
/// is less room it stands below the row's cells.
const MIN_TEXT: usize = 24;
/// Rows below a heading are indented.
const INDENT: usize = 2;

/// A column and its header, which may have two lines.
pub(super) struct Column {
    header: String,
    is_right: bool,
    /// 0 is always shown; of the others the highest gives way first.
    priority: u8,
}

impl Column {
    /// A column aligned to the left.
    pub fn left(header: impl Into<String>) -> Self {
        Column {
            header: header.into(),
            is_right: false,
            priority: 0,
        }
    }

    /// A column aligned to the right.
    pub fn right(header: impl Into<String>) -> Self {
        let is_right = true;
        Column {
            is_right,
            ..Column::left(header)
        }
    }

    /// Gives way in a narrow terminal; that with the highest number first.
    pub fn optional(self, priority: u8) -> Self {
        Column { priority, ..self }
    }
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
            text: text.into(),
            code: Some(code),
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
            text: text.into(),
            code: None,
        }
    }
}

enum Row {
    Heading(String),
    /// Cells of the first columns, and a text across the others.
    Cells(Vec<Cell>, Option<Cell>),
}

/// A table being made.
pub(super) struct Table {
    columns: Vec<Column>,
    rows: Vec<Row>,
}

impl Table {
    /// A table without rows.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Table {
            columns: columns.into_iter().collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row of cells.
    pub fn row<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let cells = cells.into_iter().map(C::into).collect();
        self.rows.push(Row::Cells(cells, None));
    }

    /// Adds a row of cells of the first columns, and a text after them.
    pub fn row_with_text<C: Into<Cell>>(
        &mut self,
        cells: impl IntoIterator<Item = C>,
        text: impl Into<Cell>,
    ) {
        let cells = cells.into_iter().map(C::into).collect();
        self.rows.push(Row::Cells(cells, Some(text.into())));
    }

    /// Adds a heading for the rows that follow.
    pub fn heading(&mut self, text: impl Into<String>) {
        self.rows.push(Row::Heading(text.into()));
    }

    /// The lines, no wider than the terminal if possible: less important columns give
    /// way and are named below; others go into further tables below the first.
    pub fn render(&self, style: Style) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        let mut hidden = Vec::new();
        while !self.fits(&shown, style) {
            let priority = |at: &usize| self.columns[*at].priority;
            let Some(highest) = shown.iter().map(priority).max().filter(|it| *it > 0) else {
                break;
            };
            hidden.extend(shown.extract_if(.., |at| priority(at) == highest));
        }
        let mut parts = Vec::new();
        while !shown.is_empty() {
            let most = (2..=shown.len())
                .rev()
                .find(|count| self.fits(&shown[..*count], style));
            let rest = shown.split_off(most.unwrap_or(2).min(shown.len()));
            parts.push(self.part(&shown, style));
            // Each begins with the first column.
            shown = match rest.as_slice() {
                [] => rest,
                rest => [&shown[..1], rest].concat(),
            };
        }
        let mut text = parts.join("\n\n");
        if !hidden.is_empty() {
            let names = hidden.iter().map(|at| self.columns[*at].name()).dedup();
            let note = format!("(too narrow to show: {})", names.format(", "));
            text += &format!("\n{}", style.note(&note, DIM));
        }
        text
    }

    fn fits(&self, shown: &[usize], style: Style) -> bool {
        self.indent() + row_width(&self.widths(shown)) <= style.width()
    }

    /// The lines of some columns.
    fn part(&self, shown: &[usize], style: Style) -> String {
        let layout = Layout {
            table: self,
            shown,
            widths: &self.widths(shown),
            style,
        };
        let mut lines = layout.header();
        for (at, row) in self.rows.iter().enumerate() {
            match row {
                Row::Heading(text) => {
                    lines.extend((at > 0).then(String::new));
                    lines.push(style.heading(text));
                }
                Row::Cells(cells, text) => lines.push(layout.row(cells, text.as_ref())),
            }
        }
        lines.join("\n")
    }

    fn widths(&self, shown: &[usize]) -> Vec<usize> {
        let width = |at: &usize| {
            let header = self.columns[*at].header.lines();
            let header = header.map(|line| line.chars().count());
            let cells = self.rows.iter().filter_map(|row| match row {
                Row::Cells(cells, _) => Some(cells.get(*at)?.width()),
                Row::Heading(_) => None,
            });
            header.chain(cells).max().unwrap_or(0)
        };
        shown.iter().map(width).collect()
    }

    fn indent(&self) -> usize {
        let has_heading = self.rows.iter().any(|row| matches!(row, Row::Heading(_)));
        if has_heading { INDENT } else { 0 }
    }
}

impl Column {
    /// The header in one line.
    fn name(&self) -> String {
        self.header.replace("\n/", "/").replace('\n', " ")
    }
}

fn row_width(widths: &[usize]) -> usize {
    widths
        .iter()
        .map(|width| width + GAP)
        .sum::<usize>()
        .saturating_sub(GAP)
}

/// A table whose columns have their widths.
struct Layout<'a> {
    table: &'a Table,
    shown: &'a [usize],
    widths: &'a [usize],
    style: Style,
}

impl Layout<'_> {
    /// The headers' lines; those of fewer lines stand at the bottom.
    fn header(&self) -> Vec<String> {
        let lines = |at: usize| self.table.columns[at].header.lines();
        let height = self.shown.iter().map(|at| lines(*at).count()).max();
        let line = |from_below: usize| {
            let cell = |at| Cell::from(lines(at).rev().nth(from_below).unwrap_or_default());
            let cells: Vec<Cell> = (0..self.table.columns.len()).map(cell).collect();
            self.style.paint(self.cells(&cells).trim_end(), BOLD)
        };
        (0..height.unwrap_or(0)).rev().map(line).collect()
    }

    fn cells(&self, cells: &[Cell]) -> String {
        let mut line = " ".repeat(self.table.indent());
        let shown = self.shown.iter().zip(self.widths);
        for (&at, width) in shown.take_while(|(at, _)| **at < cells.len()) {
            let text = cells[at].paint(&cells[at].text, self.style);
            let pad = " ".repeat(width - cells[at].width());
            line += &if self.table.columns[at].is_right {
                pad + &text
            } else {
                text + &pad
            };
            line += &" ".repeat(GAP);
        }
        line
    }

    fn row(&self, cells: &[Cell], text: Option<&Cell>) -> String {
        let line = self.cells(cells);
        let Some(text) = text.filter(|text| !text.text.is_empty()) else {
            return line.trim_end().to_owned();
        };
        let count = self.shown.iter().filter(|at| **at < cells.len()).count();
        let begin = self.table.indent() + row_width(&self.widths[..count]) + GAP;
        let room = self.style.width().saturating_sub(begin);
        let (start, indent, room) = if room >= MIN_TEXT {
            (line, begin, room)
        } else {
            let indent = self.table.indent() + INDENT;
            let start = format!("{}\n{}", line.trim_end(), " ".repeat(indent));
            (start, indent, self.style.width().saturating_sub(indent))
        };
        let wrapped = wrap(&text.text, room, "");
        let lines: Vec<String> = wrapped
            .lines()
            .map(|line| text.paint(line, self.style))
            .collect();
        start + &lines.join(&format!("\n{:indent$}", ""))
    }
}

#[cfg(test)]
mod tests {
    use super::super::style::{GREEN, RED};
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
    fn columns_are_aligned_and_headers_stand_at_the_bottom() {
        insta::assert_snapshot!(shown(50));
    }

    #[test]
    fn the_least_important_columns_give_way() {
        insta::assert_snapshot!(shown(36));
        insta::assert_snapshot!(shown(24));
    }

    #[test]
    fn columns_that_do_not_fit_go_below() {
        let mut table = Table::new(["case", "write_read", "vmsplice", "ring"].map(Column::left));
        table.row(["wall time", "1000", "400", "20"]);
        insta::assert_snapshot!(table.render(Style::of_width(24)));
    }

    #[test]
    fn headings_stand_above_their_indented_rows() {
        let mut table = Table::new([Column::left(""), Column::right("")]);
        table.heading("system calls (ns)");
        table.row(["getppid", "80"]);
        table.heading("pages (ns)");
        table.row(["write", "1400"]);
        insta::assert_snapshot!(table.render(Style::of_width(40)));
    }

    #[test]
    fn colours_change_no_width() {
        let mut table = Table::new([Column::right(""), Column::left("")]);
        table.row([Cell::painted("x1.9", GREEN), "a".into()]);
        table.row(["x12.9", "b"]);
        let style = Style {
            colour: true,
            ..Style::default()
        };
        assert_eq!(table.render(style), " \x1b[32mx1.9\x1b[0m  a\nx12.9  b");
    }
}
