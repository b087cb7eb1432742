//! Reading and copying memory, from each level of cache.

use std::hint::black_box;
use std::io;
use std::time::{Duration, Instant};

use fastpipe::buffer::{Buffer, Pages};
use fastpipe::pipe::page_size;

use super::{Group, Kind, Per, Prepared, Probe, Value, prepared};
use crate::endpoint::pattern;
use crate::machine::Cache;

/// One sample takes about so long.
const SAMPLE: Duration = Duration::from_millis(1);

/// Beyond every cache, unless one is larger.
const FAR: u64 = 64 << 20;

pub(super) fn probes(caches: &[Cache]) -> Vec<Prepared> {
    places(caches)
        .into_iter()
        .map(|(name, what, bytes)| {
            let kind = |act: &str, doing: &str| {
                Kind::new(
                    Group::Memory,
                    Per::Page,
                    format!("{act}_{name}"),
                    format!("{doing} {what}"),
                )
            };
            let kinds = vec![kind("read", "reading from"), kind("copy", "copying within")];
            prepared(kinds.clone(), Walk::new(kinds, bytes))
        })
        .collect()
}

/// A working set for each level of data cache, half of what one processor has of
/// it, and one beyond them all: name, words, bytes.
fn places(caches: &[Cache]) -> Vec<(String, String, usize)> {
    let mut places = Vec::new();
    let mut largest = 0;
    for level in 1..=4 {
        let found = caches
            .iter()
            .filter(|cache| cache.level == level && cache.kind != "instruction")
            .find_map(|cache| cache.bytes);
        if let Some(bytes) = found {
            largest = largest.max(bytes);
            let half = (bytes / 2) as usize;
            places.push((format!("l{level}"), format!("L{level}"), half));
        }
    }
    let far = (4 * largest).max(FAR);
    places.push(("memory".into(), "memory".into(), far as usize));
    places
}

struct Walk {
    kinds: Vec<Kind>,
    from: Buffer,
    to: Buffer,
    /// Where the next sample goes on, in a working set too large for one.
    at: usize,
}

impl Walk {
    fn new(kinds: Vec<Kind>, bytes: usize) -> io::Result<Self> {
        // Both together make the working set.
        let len = (bytes / 2).next_multiple_of(page_size());
        let buffer = || Buffer::builder().len(len).pages(Pages::Huge).map();
        Ok(Walk {
            kinds,
            from: buffer()?,
            to: buffer()?,
            at: 0,
        })
    }

    /// Does it page by page for a while. Nanoseconds a page.
    fn timed(&mut self, mut act: impl FnMut(&[u8], &mut [u8])) -> f64 {
        let (page, len) = (page_size(), self.from.len());
        let started = Instant::now();
        let mut pages = 0_u32;
        loop {
            // The clock is looked at now and then only.
            for _ in 0..64 {
                let range = self.at..self.at + page;
                act(&self.from[range.clone()], &mut self.to[range]);
                self.at = (self.at + page) % len;
            }
            pages += 64;
            if started.elapsed() >= SAMPLE {
                return super::calls::each(started, pages);
            }
        }
    }
}

impl Probe for Walk {
    fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    fn run(&mut self) -> io::Result<Vec<Value>> {
        let read = self.timed(|from, _| {
            black_box(pattern::sum(black_box(from)));
        });
        let copied = self.timed(|from, to| black_box(to).copy_from_slice(black_box(from)));
        Ok(vec![read.into(), copied.into()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_of_data_cache_has_a_place_and_memory_lies_beyond_all() {
        let cache = |level, kind: &str, kib: u64| Cache {
            level,
            kind: kind.to_owned(),
            bytes: Some(kib << 10),
            ..Cache::default()
        };
        let caches = [
            cache(1, "instruction", 64),
            cache(1, "data", 32),
            cache(2, "unified", 1024),
            cache(3, "unified", 32 << 10),
        ];
        let names: Vec<_> = places(&caches)
            .into_iter()
            .map(|(name, _, bytes)| (name, bytes))
            .collect();
        let expected = [
            ("l1", 16 << 10),
            ("l2", 512 << 10),
            ("l3", 16 << 20),
            ("memory", 128 << 20),
        ];
        assert_eq!(
            names,
            expected.map(|(name, bytes)| (name.to_owned(), bytes))
        );
        assert_eq!(places(&[]).len(), 1);
    }
}
