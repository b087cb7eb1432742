//! Which pipes of a live pipeline may be made larger, and how that is done.
//!
//! A program may rely on the capacity of its pipe: one that fills two buffers in turn and
//! sends them by vmsplice(2) may write again to the first once the second fits into the
//! pipe. So a pipe is left alone if its capacity is not the default, and before data has
//! been written to it in the usual way.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd;

use fastpipe::pipe;
use pipespeed_base::size;
use pipespeed_host::memory_left;
use rustix::fs::fstat;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use crate::graph::LinkSide;
use crate::graph::{Link, LinkEnd, Process, groups, links};
use crate::proc::Proc;
use crate::proc::pipe_probe::{NoAnswer, PipeProbe, open};

/// The capacity in bytes that pipes are raised to, if the limits allow it.
pub const TARGET: u64 = 1 << 20;
/// At most this many pipes are raised at a time: a quarter of what one user's pipes may take
/// together by default (/proc/sys/fs/pipe-user-pages-soft).
pub const MAX_RAISED: usize = 16;
/// No pipe is raised with less memory left, twice what the raised ones may hold: the kernel would end a stage.
const MIN_MEMORY: u64 = 2 * MAX_RAISED as u64 * TARGET;
/// A pipe is raised once a writer has written as many bytes, half of a default pipe: before
/// that a larger one makes no difference.
pub(crate) const MIN_WRITTEN: u64 = 32 << 10;
/// Slots of a new pipe (PIPE_DEF_BUFFERS in include/linux/pipe_fs_i.h).
const DEFAULT_SLOTS: usize = 16;
/// Slots of a new pipe once the pipes of its user exceed the limit: 2, and 1 before Linux 5.14
/// (alloc_pipe_info() in fs/pipe.c).
const MAX_SMALL_SLOTS: usize = 2;

/// The links that may be raised: pipes that are the standard input of one of these processes and can
/// be written by another, with the ends of these. The processes must be in the order of their tree.
///
/// Pipes of a make(1) job server are not among them, nor those by which a process wakes
/// itself, nor FIFOs.
pub fn find_links(processes: &[&Process]) -> Vec<Link> {
    let all = links(processes.iter().copied()).into_values();
    let mut found: Vec<Link> = all
        .filter(|link| link.id.is_pipe())
        .filter_map(|mut link| {
            let writers = link.holders(LinkSide::Room);
            // A new process holds both ends before it has become the stage.
            let is_stage = |end: &LinkEnd| !writers.contains(&end.pid);
            link.ends
                .retain(|end| end.writes || end.fd == 0 && is_stage(end));
            for end in &mut link.ends {
                end.reads &= !end.writes;
            }
            let has_reader = link.ends.iter().any(|end| end.reads);
            (has_reader && !writers.is_empty()).then_some(link)
        })
        .collect();
    let position = |link: &Link| {
        let reader = link.holders(LinkSide::Input).first().copied();
        processes
            .iter()
            .position(|process| Some(process.id.pid) == reader)
    };
    found.sort_by_cached_key(position);
    found
}

/// Those of the links that lead to or from these processes, over any number of others.
pub fn find_connected(links: Vec<Link>, pids: &BTreeSet<i32>) -> Vec<Link> {
    let mut connected = groups(&links);
    connected.retain(|group| !group.is_disjoint(pids));
    let is_connected = |link: &Link| {
        connected
            .iter()
            .any(|group| group.contains(&link.ends[0].pid))
    };
    links.into_iter().filter(is_connected).collect()
}

/// What was seen of the writers of a pipe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WriterActivity {
    /// The most bytes that one of them has written by write(2) and similar calls, to any
    /// file.
    pub written_bytes: u64,
    /// Whether one of them waits for room in the pipe, in write(2) or splice(2).
    pub waits_for_room: bool,
    /// [`Exemption::Vmsplice`] or [`Exemption::MaybeVmsplice`] if one of them was seen so.
    pub vmsplice: Option<Exemption>,
}

/// What to do with a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Look again later. If that can't be, this is why it was left as it is.
    Wait(Exemption),
    /// Raise it.
    Raise,
    /// Leave it alone from now on.
    Leave(Exemption),
}

/// Why a pipe is left as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exemption {
    /// A program has chosen its capacity.
    Chosen,
    /// It has one or two pages: a program has chosen that, or the user's limit was reached when it was
    /// made.
    Small,
    /// It has the capacity already that it would be raised to.
    Already {
        /// That capacity in bytes.
        size_bytes: u64,
    },
    /// A writer uses vmsplice(2), and may rely on the capacity.
    Vmsplice,
    /// A writer splices, and its system call can't be read: it may use vmsplice(2).
    MaybeVmsplice,
    /// It belongs to another user.
    OtherUser,
    /// Larger pipes would exceed the limit of the user, or come close to it.
    Limit,
    /// The largest size allowed for any pipe is no larger than its own.
    MaxSize,
    /// Its lock is held by a splice.
    Held,
    /// The machine, or a control group of a writer, has little memory left.
    LittleMemory,
    /// It was excluded.
    Excluded,
    /// No writer waits for room in it or has written much so far.
    LittleWritten,
    /// As many pipes are raised as may be at a time.
    ManyRaised,
    /// It could not be opened.
    NotOpened,
}

impl Exemption {
    /// The reason in a sentence: "left as it is: ...".
    pub fn reason(self) -> Cow<'static, str> {
        let reason = match self {
            Exemption::Already { size_bytes } => {
                let size = size::format(size_bytes);
                let reason =
                    format!("it is {size} already: its program or another boost has set it");
                return reason.into();
            }
            Exemption::Chosen => "a program has chosen its size",
            Exemption::Small => {
                "it is small: a program has chosen that, or the user's limit was reached when it was made"
            }
            Exemption::Vmsplice => "its writer uses vmsplice, and may rely on the size",
            Exemption::MaybeVmsplice => {
                "its writer may use vmsplice: its system calls can't be read \
                 (kernel.yama.ptrace_scope)"
            }
            Exemption::OtherUser => "it belongs to another user",
            Exemption::Limit => "the pipes of this user come too close to their limit",
            Exemption::MaxSize => "no larger size is allowed (/proc/sys/fs/pipe-max-size)",
            Exemption::Held => "a splice holds it",
            Exemption::LittleMemory => {
                let size = size::format(MIN_MEMORY);
                let reason = format!(
                    "less than {size} of memory is left, here or in the limit of its control group"
                );
                return reason.into();
            }
            Exemption::Excluded => "excluded",
            Exemption::LittleWritten => {
                let size = size::format(MIN_WRITTEN);
                let reason = format!(
                    "its writer was not seen to wait for room, and has written less than {size} \
                     so far (splice is not counted)"
                );
                return reason.into();
            }
            Exemption::ManyRaised => {
                return format!("{MAX_RAISED} pipes are raised already").into();
            }
            Exemption::NotOpened => "it could not be opened",
        };
        reason.into()
    }
}

/// Decides on a pipe that was not raised so far. `raised` is the number of raised pipes that
/// still exist; `is_limited` says that the user's limit was reached.
pub fn decide(writers: WriterActivity, raised: usize, is_limited: bool) -> Decision {
    if let Some(exemption) = writers.vmsplice {
        Decision::Leave(exemption)
    } else if is_limited {
        Decision::Leave(Exemption::Limit)
    } else if raised >= MAX_RAISED {
        Decision::Wait(Exemption::ManyRaised)
    } else if writers.waits_for_room || writers.written_bytes >= MIN_WRITTEN {
        Decision::Raise
    } else {
        Decision::Wait(Exemption::LittleWritten)
    }
}

/// Whether its writers have memory for what raised pipes hold, which is charged to them.
pub(crate) fn has_memory(proc: &Proc, link: &Link) -> bool {
    let writers = link.holders(LinkSide::Room).into_iter();
    let groups: BTreeSet<String> = writers.filter_map(|pid| proc.control_groups(pid)).collect();
    let mut left = groups.iter().map(|groups| memory_left(proc.root(), groups));
    left.all(|left| left.is_none_or(|left| left.bytes >= MIN_MEMORY))
}

/// What was done to a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Treatment {
    /// It was raised.
    Raised {
        /// The capacity before, in bytes.
        from_bytes: u64,
        /// The capacity then, in bytes.
        to_bytes: u64,
    },
    /// It was left as it is.
    Left(Exemption),
}

impl Treatment {
    /// Whether the pipe was raised.
    pub fn is_raised(self) -> bool {
        matches!(self, Treatment::Raised { .. })
    }
}

/// A request to the helper process begins with this.
const REQUEST: &str = "raise ";

/// Raises a pipe, by its read end at the last reader's standard input. The helper process does
/// it, since it hangs while a splice holds the pipe.
///
/// `None` if it could not be opened: this reader may have ended or closed it, while others
/// still hold it.
pub fn raise(pipe_probe: &PipeProbe, proc: &Proc, link: &Link) -> Option<Treatment> {
    let request = format!(
        "{REQUEST}{} 0 {}\n",
        link.holders(LinkSide::Input).last()?,
        link.id.inode()
    );
    match pipe_probe.ask(proc, &request) {
        Ok(answer) => serde_json::from_slice(&answer).ok()?,
        Err(NoAnswer::Blocked) => Some(Treatment::Left(Exemption::Held)),
        Err(_) => None,
    }
}

/// In the helper process: answers a request of [`raise`].
pub fn answer(request: &str) -> Option<Vec<u8>> {
    serde_json::to_vec(&raise_here(request.strip_prefix(REQUEST)?)).ok()
}

/// Raises a pipe given by process, descriptor and inode.
fn raise_here(request: &str) -> Option<Treatment> {
    let mut words = request.split(' ');
    let end = open(words.next()?, words.next()?, words.next()?)?;
    let max = pipe::Limits::read().max_size.unwrap_or(TARGET as usize);
    enlarge(&end, max.min(TARGET as usize)).ok()
}

fn enlarge(end: impl AsFd, size: usize) -> io::Result<Treatment> {
    let leave = |exemption| Ok(Treatment::Left(exemption));
    if fstat(&end)?.st_uid != geteuid().as_raw() {
        return leave(Exemption::OtherUser);
    }
    let before = pipe::capacity(&end)?;
    let default = DEFAULT_SLOTS * pipe::page_size();
    if before != default {
        // The kernel makes new pipes as small.
        return leave(if before < default && before == new_capacity()? {
            if size < default {
                Exemption::MaxSize
            } else {
                Exemption::Limit
            }
        } else if before == size {
            Exemption::Already {
                size_bytes: before as u64,
            }
        } else if before < default && before <= MAX_SMALL_SLOTS * pipe::page_size() {
            Exemption::Small
        } else {
            Exemption::Chosen
        });
    }
    if size <= before {
        return leave(Exemption::MaxSize);
    }
    if !is_allowed(size)? {
        return leave(Exemption::Limit);
    }
    let Ok(now) = pipe::set_capacity(&end, size) else {
        return leave(Exemption::Limit);
    };
    // This fails only if the pipe holds more by now.
    if !new_pipes_are_whole()? && pipe::set_capacity(&end, before).is_ok() {
        return leave(Exemption::Limit);
    }
    Ok(Treatment::Raised {
        from_bytes: before as u64,
        to_bytes: now as u64,
    })
}

/// Whether the user's limit allows another pipe of this size, and as much again for pipes to
/// come. That part of the limit which is used can't be read, so private pipes try it out.
fn is_allowed(size: usize) -> io::Result<bool> {
    let pipes = [pipe::create()?, pipe::create()?];
    let mut ends = pipes.iter();
    let fit = ends.all(|(end, _)| pipe::set_capacity(end, size).is_ok());
    Ok(fit && new_pipes_are_whole()?)
}

/// The capacity of a new pipe in bytes.
fn new_capacity() -> io::Result<usize> {
    let (reader, _writer) = pipe::create()?;
    pipe::capacity(&reader)
}

/// Whether a new pipe has the usual number of slots. Once the pipes of the user exceed the
/// limit, it has fewer (alloc_pipe_info() in fs/pipe.c).
fn new_pipes_are_whole() -> io::Result<bool> {
    let (reader, _writer) = pipe::create()?;
    Ok(pipe::slots(&reader)? >= DEFAULT_SLOTS)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::fixtures::{process, reads, writes};
    use crate::proc::{LinkFd, LinkId};

    fn linked(processes: &[Process]) -> Vec<(u64, Vec<i32>, Vec<i32>)> {
        let all: Vec<&Process> = processes.iter().collect();
        let links = find_links(&all).into_iter();
        links
            .map(|link| {
                (
                    link.id.inode(),
                    link.holders(LinkSide::Input),
                    link.holders(LinkSide::Room),
                )
            })
            .collect()
    }

    #[test]
    fn only_pipes_between_stages_may_be_raised() {
        let both = || vec![reads(3, 7), writes(4, 7)];
        let fifo = |end: LinkFd| LinkFd {
            pipe: LinkId::Fifo {
                device: 8,
                inode: 7,
            },
            ..end
        };
        // The ends of a process each, and the inodes, readers and writers that were found.
        for (ends, expected) in [
            (
                vec![
                    vec![writes(1, 7)],
                    vec![reads(0, 7), writes(1, 8)],
                    vec![reads(0, 8)],
                ],
                vec![(7, vec![2], vec![1]), (8, vec![3], vec![2])],
            ),
            (
                vec![vec![writes(63, 7)], vec![reads(0, 7)], vec![reads(0, 7)]],
                vec![(7, vec![2, 3], vec![1])],
            ),
            // From outside, of one process, of a job server, and not at a standard input.
            (vec![vec![reads(0, 7)]], vec![]),
            (vec![vec![reads(0, 7), writes(5, 7)]], vec![]),
            (vec![both(), both()], vec![]),
            (vec![vec![reads(5, 7)], vec![writes(1, 7)]], vec![]),
            // A process that has not yet become the stage.
            (vec![both(), vec![reads(0, 7), writes(4, 7)]], vec![]),
            (
                vec![vec![fifo(writes(1, 7))], vec![fifo(reads(0, 7))]],
                vec![],
            ),
        ] {
            let context = format!("{ends:?}");
            let processes = (1..).zip(ends).map(|(pid, ends)| process(pid, "a", ends));
            let found = linked(&processes.collect::<Vec<Process>>());
            assert_eq!(found, expected, "{context}");
        }
    }

    #[test]
    fn a_stage_is_connected_with_its_pipeline_and_no_other() {
        let processes = [
            process(1, "cat", vec![writes(1, 7)]),
            process(2, "tr", vec![reads(0, 7), writes(1, 8)]),
            process(3, "wc", vec![reads(0, 8)]),
            process(4, "yes", vec![writes(1, 9)]),
            process(5, "wc", vec![reads(0, 9)]),
        ];
        let all: Vec<&Process> = processes.iter().collect();
        let inodes = |pid: i32| {
            let links = find_connected(find_links(&all), &[pid].into()).into_iter();
            links.map(|link| link.id.inode()).collect::<BTreeSet<u64>>()
        };
        assert_eq!([inodes(1), inodes(3)], [[7, 8].into(), [7, 8].into()]);
        assert_eq!([inodes(5), inodes(6)], [[9].into(), [].into()]);
    }

    #[test]
    fn pipe_is_raised_once_data_is_written_in_usual_way() {
        let nothing = WriterActivity::default();
        let written = |written_bytes| WriterActivity {
            written_bytes,
            ..nothing
        };
        let waits = WriterActivity {
            waits_for_room: true,
            ..nothing
        };
        let vmsplices = WriterActivity {
            vmsplice: Some(Exemption::Vmsplice),
            ..written(1 << 30)
        };
        let leave = Decision::Leave;
        let idle = Decision::Wait(Exemption::LittleWritten);
        for (writers, raised, is_limited, expected) in [
            (nothing, 0, false, idle),
            (written(32767), 0, false, idle),
            (written(32768), 0, false, Decision::Raise),
            (waits, 15, false, Decision::Raise),
            (waits, 16, false, Decision::Wait(Exemption::ManyRaised)),
            (waits, 0, true, leave(Exemption::Limit)),
            (vmsplices, 0, false, leave(Exemption::Vmsplice)),
            (vmsplices, 16, true, leave(Exemption::Vmsplice)),
        ] {
            assert_eq!(decide(writers, raised, is_limited), expected, "{writers:?}");
        }
    }

    fn request(end: &impl AsRawFd, inode: u64) -> String {
        format!("{} {} {inode}", std::process::id(), end.as_raw_fd())
    }

    #[test]
    fn a_default_pipe_is_raised_and_keeps_its_bytes() {
        let (mut reader, mut writer) = io::pipe().unwrap();
        let before = pipe::capacity(&reader).unwrap() as u64;
        writer.write_all(b"four").unwrap();
        let inode = fstat(&reader).unwrap().st_ino;
        match raise_here(&request(&reader, inode)) {
            Some(Treatment::Raised {
                from_bytes,
                to_bytes,
            }) => {
                assert_eq!(from_bytes, before);
                assert_eq!(to_bytes, pipe::capacity(&writer).unwrap() as u64);
                assert!(to_bytes > before && to_bytes <= TARGET);
            }
            other => panic!("{other:?}"),
        }
        drop(writer);
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"four");
    }

    #[test]
    fn a_chosen_capacity_and_another_pipe_stay_as_they_are() {
        let (reader, _writer) = io::pipe().unwrap();
        let inode = fstat(&reader).unwrap().st_ino;
        let raised = enlarge(&reader, pipe::capacity(&reader).unwrap());
        assert_eq!(raised.unwrap(), Treatment::Left(Exemption::MaxSize));
        for (size, why) in [
            (4096, Exemption::Small),
            (4 * 4096, Exemption::Chosen),
            (131_072, Exemption::Chosen),
        ] {
            let chosen = pipe::set_capacity(&reader, size).unwrap();
            let raised = raise_here(&request(&reader, inode));
            assert_eq!(raised, Some(Treatment::Left(why)));
            assert_eq!(pipe::capacity(&reader).unwrap(), chosen);
        }
        let request = request(&reader, inode);
        let max = pipe::Limits::read().max_size.unwrap().min(TARGET as usize);
        let size_bytes = pipe::set_capacity(&reader, max).unwrap() as u64;
        let already = Treatment::Left(Exemption::Already { size_bytes });
        assert_eq!(raise_here(&request), Some(already));
        assert_eq!(raise_here(&format!("{request}1")), None);
    }
}
