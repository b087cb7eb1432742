//! How much went through a pipe between two stages, from what their ends count.

/// What is known of one end of a pipe.
#[derive(Debug, Clone, Copy, Default)]
pub struct Side {
    /// Bytes that its process read or wrote in all, by calls that count them.
    pub counted: Option<u64>,
    /// Whether it was seen to use calls that don't.
    pub splices: bool,
}

/// The volume of a pipe; none where nobody counted it.
///
/// A process reads and writes other files too: each count is at least the
/// pipe's volume, unless the process splices. So the smaller of the counts of
/// those that don't is nearest.
pub fn between(writer: Side, reader: Side) -> Option<u64> {
    let counts = [writer, reader].into_iter().filter(|side| !side.splices);
    counts.filter_map(|side| side.counted).min()
}

/// Functions of the kernel by which data gets past the counting: splice(2),
/// vmsplice(2) and tee(2) (fs/splice.c). sendfile(2) counts.
const UNCOUNTED: &[&str] = &[
    "__do_splice",
    "do_splice",
    "__x64_sys_splice",
    "__arm64_sys_splice",
    "__do_sys_vmsplice",
    "__x64_sys_vmsplice",
    "__arm64_sys_vmsplice",
    "vmsplice_to_pipe",
    "vmsplice_to_user",
    "__x64_sys_tee",
    "__arm64_sys_tee",
    "do_tee",
    "link_pipe",
];

/// Whether a call chain goes through one of them.
pub fn splices<'a>(mut chain: impl Iterator<Item = &'a str>) -> bool {
    chain.any(|function| UNCOUNTED.contains(&function))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(counted: u64, splices: bool) -> Side {
        Side {
            counted: Some(counted),
            splices,
        }
    }

    #[test]
    fn the_smaller_count_of_those_who_count_is_the_volume() {
        assert_eq!(between(side(1000, false), side(1011, false)), Some(1000));
        assert_eq!(between(side(5000, false), side(1011, false)), Some(1011));
        assert_eq!(between(side(1000, false), side(11, true)), Some(1000));
        assert_eq!(between(side(0, true), side(1011, false)), Some(1011));
        assert_eq!(between(side(0, true), side(11, true)), None);
        assert_eq!(between(Side::default(), side(7, false)), Some(7));
    }

    #[test]
    fn sendfile_counts_and_splice_does_not() {
        assert!(splices(
            ["do_syscall_64", "do_splice", "splice_pipe_to_pipe"].into_iter()
        ));
        assert!(!splices(
            ["do_syscall_64", "do_sendfile", "splice_direct_to_actor"].into_iter()
        ));
    }
}
