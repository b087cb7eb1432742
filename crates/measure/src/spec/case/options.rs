//! What else may be changed of a case's memory and waiting, one thing each.

use super::Case;
use crate::spec::{PageKind, SinkSpec, SourceSpec};

impl Case {
    /// Sets the pages of the writer's buffers.
    pub fn pages(self, pages: PageKind) -> Self {
        self.change_writer(|writer| writer.pages = pages)
    }

    /// All buffers begin `offset` bytes after the start of a page.
    pub fn unaligned_by(self, offset: usize) -> Self {
        self.change_writer(|writer| writer.offset = offset)
            .change_reader(|reader| reader.offset = offset)
    }

    /// Changes the writer, if there is one.
    pub fn change_writer(mut self, change: impl FnOnce(&mut SinkSpec)) -> Self {
        if let Some(writer) = self.subject.writer_mut() {
            change(writer);
        }
        self
    }

    /// Changes the reader, if there is one.
    pub fn change_reader(mut self, change: impl FnOnce(&mut SourceSpec)) -> Self {
        if let Some(reader) = self.subject.reader_mut() {
            change(reader);
        }
        self
    }

    /// How the writer's memory differs from the default, in words.
    pub(crate) fn options(&self) -> Vec<String> {
        let Some(writer) = self.subject.writer() else {
            return Vec::new();
        };
        let off = format!("{} bytes off", writer.offset);
        [
            (!writer.touched, "untouched"),
            (writer.locked, "locked"),
            (writer.gift, "gift"),
            (writer.same_buffer, "same buffer"),
            (writer.offset > 0, &off),
        ]
        .into_iter()
        .filter(|(is_so, _)| *is_so)
        .map(|(_, name)| name.to_owned())
        .collect()
    }

    /// Why the data that was asked for contradicts the case, if it does.
    pub fn contradiction(&self) -> Option<String> {
        let writer = self.subject.writer().filter(|writer| writer.rewritten)?;
        let why = match (writer.touched, writer.pages) {
            (false, _) => "the buffers are written again and again, so they are not untouched",
            (_, PageKind::HugeTlb) => {
                "every piece would take new pages of a pool that is soon used up"
            }
            _ => return None,
        };
        Some(format!("with --data {} {why}", self.data.name()))
    }
}
