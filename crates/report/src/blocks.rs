//! The parts of the report on a record, which its text and the page show.

use super::style::{BOLD, Style};
use super::table::Table;

/// A conclusion from a record.
pub(super) struct Conclusion {
    pub sentence: String,
    /// A command line to paste, which repeats what the sentence is about.
    pub command: Option<String>,
}

impl From<String> for Conclusion {
    fn from(sentence: String) -> Self {
        Conclusion {
            sentence,
            command: None,
        }
    }
}

impl Conclusion {
    /// The sentence, and the command below it.
    pub fn render(&self, style: Style) -> String {
        let sentence = style.sentence(&self.sentence);
        match &self.command {
            // A line may end in `|`, so both lines can be pasted as they are.
            Some(command) => {
                let command = command.replace(" | ", " |\n      ");
                let command = style.paint(&format!("    {command}"), BOLD);
                format!("{sentence}\n{command}")
            }
            None => sentence,
        }
    }
}

/// A table and what it shows.
pub(super) struct TableBlock {
    pub name: String,
    /// Whether the name stands above the table in text, too.
    is_headed: bool,
    pub table: Table,
}

impl TableBlock {
    /// A table that explains itself in text.
    pub fn new(name: impl Into<String>, table: Table) -> Self {
        TableBlock {
            name: name.into(),
            is_headed: false,
            table,
        }
    }

    /// A table below its name.
    pub fn headed(name: impl Into<String>, table: Table) -> Self {
        TableBlock {
            is_headed: true,
            ..TableBlock::new(name, table)
        }
    }

    /// The table as text; empty without rows.
    pub fn render(&self, style: Style) -> String {
        let table = self.table.render(style);
        if self.is_headed && !table.is_empty() {
            format!("{}\n{table}", style.heading(&self.name))
        } else {
            table
        }
    }
}

/// The report on a record.
pub(super) struct Blocks<'a> {
    pub findings: Vec<Conclusion>,
    /// Draws the chart on a card of this width, as SVG; empty if there is nothing to draw.
    pub chart: Box<dyn Fn(i32) -> String + 'a>,
    pub tables: Vec<TableBlock>,
}
