//! What else may be changed of a case's memory and waiting, one thing each.

use super::Case;
use crate::endpoint::spec::{PageKind, SinkSpec, Waiting};
use crate::record::DataUse;

impl Case {
    /// The writer's pages are not written before the start.
    pub fn untouched(self) -> Self {
        self.sink(|sink| sink.touched = false)
    }

    /// The writer's pages are locked in memory.
    pub fn locked(self) -> Self {
        self.sink(|sink| sink.locked = true)
    }

    /// The pages are gifted: SPLICE_F_GIFT.
    pub fn gift(self) -> Self {
        self.sink(|sink| sink.gift = true)
    }

    /// The writer's buffers are reserved huge pages.
    pub fn hugetlb(self) -> Self {
        self.sink(|sink| sink.pages = PageKind::HugeTlb)
    }

    /// The writer's buffers are half as large.
    pub fn half_pieces(self) -> Self {
        self.sink(|sink| sink.buffer_bytes /= 2)
    }

    /// The writer sends one buffer in halves in the place of two buffers.
    pub fn same_buffer(self) -> Self {
        self.sink(|sink| sink.same_buffer = true)
    }

    /// All buffers begin so many bytes behind the start of a page.
    pub fn unaligned_by(mut self, offset: usize) -> Self {
        if let Some(source) = &mut self.source {
            source.offset = offset;
        }
        self.sink(|sink| sink.offset = offset)
    }

    /// Both ends ask poll(2) before each transfer.
    pub fn poll(mut self) -> Self {
        if let Some(source) = &mut self.source {
            source.wait = Waiting::Poll;
        }
        self.sink(|sink| sink.wait = Waiting::Poll)
    }

    fn sink(mut self, change: impl FnOnce(&mut SinkSpec)) -> Self {
        if let Some(sink) = &mut self.sink {
            change(sink);
        }
        self
    }

    /// What is unusual about the writer's memory, in words.
    pub(super) fn options(&self) -> Vec<String> {
        let Some(sink) = &self.sink else {
            return Vec::new();
        };
        let off = format!("{} bytes off", sink.offset);
        [
            (!sink.touched, "untouched"),
            (sink.locked, "locked"),
            (sink.gift, "gift"),
            (sink.same_buffer, "same buffer"),
            (sink.offset > 0, &off),
        ]
        .into_iter()
        .filter(|(is_so, _)| *is_so)
        .map(|(_, name)| name.to_owned())
        .collect()
    }

    /// Why its data makes no sense of it; none if it does.
    pub fn contradiction(&self) -> Option<String> {
        let sink = self.sink.as_ref().filter(|sink| sink.rewritten)?;
        let why = match (sink.touched, sink.pages) {
            (false, _) => "the buffers are written again and again, so they are not untouched",
            (_, PageKind::HugeTlb) => {
                "every piece would take new pages of a pool that is soon used up"
            }
            _ => return None,
        };
        let data = match self.data {
            DataUse::Verify => "verify",
            _ => "touch",
        };
        Some(format!("with --data {data} {why}"))
    }
}
