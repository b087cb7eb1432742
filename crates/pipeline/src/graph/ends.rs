//! The ends of links that a process has, found by link as fast as by descriptor.

use std::sync::OnceLock;

use serde::{Serialize, Serializer};

use crate::proc::{LinkFd, LinkId};

/// Of fewer ends, each is looked at: that takes less time than an index of them.
const MIN_INDEXED: usize = 32;

/// The ends of links that a process has, in the order of their descriptors.
#[derive(Debug, Clone, Default)]
pub struct HeldEnds {
    ends: Vec<LinkFd>,
    /// Their positions, in the order of the links, once one was looked for.
    by_link: OnceLock<Vec<u32>>,
}

impl HeldEnds {
    /// Those of a link.
    pub fn of_link(&self, link: LinkId) -> impl Iterator<Item = &LinkFd> + Clone {
        let (few, found): (&[LinkFd], &[u32]) = if self.ends.len() < MIN_INDEXED {
            (&self.ends, &[])
        } else {
            let all = self.by_link.get_or_init(|| self.index());
            let first = all.partition_point(|at| self.ends[*at as usize].pipe < link);
            let count = all[first..].partition_point(|at| self.ends[*at as usize].pipe == link);
            (&[], &all[first..first + count])
        };
        let few = few.iter().filter(move |end| end.pipe == link);
        few.chain(found.iter().map(|at| &self.ends[*at as usize]))
    }

    /// Those under a descriptor: a socket or a terminal has one in each direction.
    pub fn of_descriptor(&self, fd: i32) -> impl Iterator<Item = &LinkFd> + Clone {
        let first = self.ends.partition_point(|end| end.fd < fd);
        let rest = &self.ends[first..];
        rest.iter().take_while(move |end| end.fd == fd)
    }

    fn index(&self) -> Vec<u32> {
        let mut positions: Vec<u32> = (0..self.ends.len() as u32).collect();
        positions.sort_by_key(|at| self.ends[*at as usize].pipe);
        positions
    }

    /// Keeps only the ends of which this is true.
    pub(crate) fn retain(&mut self, is_kept: impl FnMut(&LinkFd) -> bool) {
        self.ends.retain(is_kept);
        self.by_link = OnceLock::new();
    }

    /// Adds ends.
    pub(crate) fn extend(&mut self, ends: impl IntoIterator<Item = LinkFd>) {
        let mut all = std::mem::take(&mut self.ends);
        all.extend(ends);
        *self = all.into();
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        *self = HeldEnds::default();
    }
}

impl From<Vec<LinkFd>> for HeldEnds {
    fn from(mut ends: Vec<LinkFd>) -> Self {
        ends.sort_by_key(|end| end.fd);
        HeldEnds {
            ends,
            by_link: OnceLock::new(),
        }
    }
}

impl std::ops::Deref for HeldEnds {
    type Target = [LinkFd];

    fn deref(&self) -> &[LinkFd] {
        &self.ends
    }
}

impl<'a> IntoIterator for &'a HeldEnds {
    type Item = &'a LinkFd;
    type IntoIter = std::slice::Iter<'a, LinkFd>;

    fn into_iter(self) -> Self::IntoIter {
        self.ends.iter()
    }
}

impl PartialEq for HeldEnds {
    fn eq(&self, other: &Self) -> bool {
        self.ends == other.ends
    }
}

impl Eq for HeldEnds {}

impl Serialize for HeldEnds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.ends.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{reads, writes};

    #[test]
    fn ends_are_found_by_link_and_by_descriptor_however_many_there_are() {
        for pipes in [3, 1000] {
            let mut all = Vec::new();
            for pipe in (0..pipes).rev() {
                let fd = 2 * pipe as i32;
                all.extend([writes(fd + 1, pipe), reads(fd, pipe)]);
            }
            let mut ends = HeldEnds::from(all);
            let fds = |ends: &HeldEnds, link| -> Vec<i32> {
                ends.of_link(LinkId::pipe(link)).map(|end| end.fd).collect()
            };
            assert_eq!(fds(&ends, 2), [4, 5]);
            assert_eq!(ends.of_descriptor(5).collect::<Vec<_>>(), [&writes(5, 2)]);
            assert!(fds(&ends, pipes).is_empty());
            assert_eq!(ends.of_descriptor(-1).count(), 0);
            ends.retain(|end| end.fd != 4);
            ends.extend([reads(1, 2)]);
            assert_eq!(fds(&ends, 2), [1, 5]);
        }
    }
}
