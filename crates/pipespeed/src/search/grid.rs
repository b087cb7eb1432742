//! What is searched: panels, and the pairs of sizes of each.

use std::collections::BTreeMap;

use crate::case::Case;
use crate::endpoint::spec::{PageKind, Waiting};
use crate::results::{CellResult, PanelResult, Sizes};
use crate::size;

/// The published buffer.
const BUFFER: usize = 256 << 10;
/// A pipe's capacity if nobody sets it, where pages are 4 KiB (16 slots): that
/// of the published write and read.
const DEFAULT_PIPE: usize = 64 << 10;
/// The largest buffer and the largest pipe.
const LARGEST: usize = 4 << 20;

/// What the two ends do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Technique {
    /// write(2) and read(2).
    WriteRead,
    /// vmsplice(2) and read(2).
    VmspliceRead,
    /// vmsplice(2), and splice(2) to /dev/null.
    VmspliceSplice,
}

impl Technique {
    /// All of them.
    pub const ALL: [Technique; 3] = [
        Technique::WriteRead,
        Technique::VmspliceRead,
        Technique::VmspliceSplice,
    ];

    fn name(self) -> &'static str {
        match self {
            Technique::WriteRead => "write_read",
            Technique::VmspliceRead => "vmsplice_read",
            Technique::VmspliceSplice => "vmsplice_splice",
        }
    }

    /// The sizes published for it: with vmsplice the pipe has half of the
    /// buffer's.
    pub fn published(self) -> Sizes {
        Sizes {
            buffer_bytes: BUFFER,
            pipe_bytes: match self {
                Technique::WriteRead => DEFAULT_PIPE,
                Technique::VmspliceRead | Technique::VmspliceSplice => BUFFER / 2,
            },
        }
    }
}

/// The sizes that are tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axes {
    /// Of buffers, ascending.
    pub buffers: Vec<usize>,
    /// Of pipes, ascending.
    pub pipes: Vec<usize>,
    /// Pipes that this machine refuses, with the reason.
    pub refused: BTreeMap<usize, String>,
}

impl Axes {
    /// Powers of two from a page to 4 MiB; of `every` so many of them one, and
    /// the published sizes and the largest pipe there is all the same. Those
    /// given stand for a whole axis.
    pub fn new(
        every: usize,
        page: usize,
        buffer: Option<usize>,
        pipe: Option<usize>,
        mut refusal: impl FnMut(usize) -> Option<String>,
    ) -> Self {
        let powers: Vec<usize> = std::iter::successors(Some(page), |bytes| Some(bytes * 2))
            .take_while(|bytes| *bytes <= LARGEST)
            .collect();
        let pipes = pipe.map_or_else(|| powers.clone(), |bytes| vec![bytes]);
        let refused: BTreeMap<usize, String> = pipes
            .iter()
            .filter_map(|bytes| Some((*bytes, refusal(*bytes)?)))
            .collect();
        let largest = pipes.iter().rfind(|bytes| !refused.contains_key(bytes));
        let is_published = |bytes: usize, of: fn(Sizes) -> usize| {
            let mut all = Technique::ALL.into_iter().map(Technique::published);
            all.any(|sizes| of(sizes) == bytes)
        };
        let thinned = |sizes: &[usize], keep: &dyn Fn(usize) -> bool| -> Vec<usize> {
            let kept = sizes.iter().enumerate();
            kept.filter(|(at, bytes)| at.is_multiple_of(every) || keep(**bytes))
                .map(|(_, bytes)| *bytes)
                .collect()
        };
        Axes {
            buffers: match buffer {
                Some(bytes) => vec![bytes],
                None => thinned(&powers, &|bytes| is_published(bytes, |s| s.buffer_bytes)),
            },
            pipes: thinned(&pipes, &|bytes| {
                Some(&bytes) == largest || is_published(bytes, |s| s.pipe_bytes)
            }),
            refused,
        }
    }

    /// Every pair.
    pub fn pairs(&self) -> impl Iterator<Item = Sizes> + '_ {
        self.buffers.iter().flat_map(|&buffer_bytes| {
            self.pipes.iter().map(move |&pipe_bytes| Sizes {
                buffer_bytes,
                pipe_bytes,
            })
        })
    }

    /// How many pairs can be run.
    pub fn runnable(&self) -> usize {
        let pairs = self.pairs();
        pairs
            .filter(|sizes| !self.refused.contains_key(&sizes.pipe_bytes))
            .count()
    }
}

/// One technique, way of waiting and placement: a search of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Panel {
    /// What the ends do.
    pub technique: Technique,
    /// How they wait.
    pub wait: Waiting,
    /// Where they run: `different`, `same`, `free` or `explicit`.
    pub placement: String,
    /// The processors; none where the scheduler chooses.
    pub cpus: Option<(usize, usize)>,
    /// How these are related, in words.
    pub relation: String,
    /// What vmspliced buffers are made of.
    pub pages: PageKind,
    /// Why nothing of it can run here.
    pub refused: Option<String>,
}

impl Panel {
    /// The name: `vmsplice_read_same`, `write_read_spin`.
    pub fn name(&self) -> String {
        self.suffixed(self.technique.name(), self.spins())
    }

    /// The name of the case with the published sizes: the ladder's where it has
    /// that case.
    pub fn published_name(&self) -> String {
        let huge = self.pages == PageKind::Huge;
        match (self.technique, huge) {
            (Technique::WriteRead, _) => self.name(),
            (Technique::VmspliceSplice, true) if self.spins() => {
                self.suffixed("busy_loop_huge", false)
            }
            (technique, true) => self.suffixed(&format!("{}_huge", technique.name()), self.spins()),
            (technique, false) => self.suffixed(technique.name(), self.spins()),
        }
    }

    fn suffixed(&self, name: &str, spins: bool) -> String {
        let spin = if spins { "_spin" } else { "" };
        match &*self.placement {
            place @ ("same" | "free") => format!("{name}{spin}_{place}"),
            _ => format!("{name}{spin}"),
        }
    }

    /// The name of the case that the search found.
    pub fn winner_name(&self, sizes: Sizes) -> String {
        let (buffer, pipe) = (
            size::short(sizes.buffer_bytes),
            size::short(sizes.pipe_bytes),
        );
        format!("{}_{buffer}_pipe_{pipe}", self.name())
    }

    /// Whether neither end ever sleeps.
    pub fn spins(&self) -> bool {
        self.wait == Waiting::Spin
    }

    /// What the ends do, in words.
    pub fn description(&self) -> String {
        let calls = match self.technique {
            Technique::WriteRead => "write(2) and read(2)",
            Technique::VmspliceRead => "vmsplice(2) and read(2)",
            Technique::VmspliceSplice => "vmsplice(2), and splice(2) to /dev/null",
        };
        let wait = match self.spins() {
            true => "neither end ever sleeping",
            false => "an end that has to wait sleeps",
        };
        format!("{calls}, {wait}; {}", self.relation)
    }

    /// The case of these sizes.
    pub fn case(&self, name: &str, sizes: Sizes) -> Case {
        let mut case = Case::new(name, sizes.buffer_bytes, sizes.pipe_bytes)
            .described(&self.description())
            .on(self.cpus);
        if self.technique != Technique::WriteRead {
            case = case.vmsplice();
        }
        if self.technique == Technique::VmspliceSplice {
            case = case.splice();
        }
        if self.pages == PageKind::Huge && self.technique != Technique::WriteRead {
            case = case.huge();
        }
        match self.spins() {
            true => case.spin(),
            false => case,
        }
    }

    /// The record of it, nothing tried yet.
    pub fn empty_result(&self, axes: &Axes) -> PanelResult {
        let published = self.technique.published();
        let configuration = self.case("", published).configuration();
        let cell = |sizes: Sizes| CellResult {
            sizes,
            refused: axes.refused.get(&sizes.pipe_bytes).cloned(),
            trials: Vec::new(),
            median: None,
            stages: 0,
        };
        PanelResult {
            name: self.name(),
            writer: configuration.writer.unwrap_or_default(),
            reader: configuration.reader.unwrap_or_default(),
            wait: configuration.wait,
            placement: self.placement.clone(),
            writer_cpu: self.cpus.map(|(writer, _)| writer),
            reader_cpu: self.cpus.map(|(_, reader)| reader),
            cpu_relation: self.relation.clone(),
            pages: configuration.pages,
            refused: self.refused.clone(),
            published,
            published_case: self.published_name(),
            winner: None,
            winner_case: None,
            command: None,
            cells: match self.refused {
                Some(_) => Vec::new(),
                None => axes.pairs().map(cell).collect(),
            },
        }
    }
}

#[cfg(test)]
#[path = "grid_tests.rs"]
mod tests;
