use std::fs;
use std::os::unix::fs::symlink;

use libc::c_long;
use pipespeed_host::Root;
use tempfile::TempDir;

use super::*;
use crate::fixtures::{reads, writes};

/// A process 7 with one thread, as files.
struct Files(TempDir);

impl Files {
    fn new(function: &str) -> Self {
        let files = Files(tempfile::tempdir().unwrap());
        files
            .file("task/7/wchan", function.as_bytes())
            .file(
                "task/7/stat",
                b"7 (x) S 1 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 9 0",
            )
            .link("3", "pipe:[77]")
            .link("4", "pipe:[88]")
            .link("5", "socket:[99]")
            .link("6", "anon_inode:[timerfd]")
            .link("10", "anon_inode:[signalfd]")
            .link("11", "anon_inode:[eventpoll]")
            .link("12", "anon_inode:[eventfd]");
        files
    }

    fn file(&self, name: &str, bytes: &[u8]) -> &Self {
        let path = self.0.path().join("proc/7").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
        self
    }

    fn link(&self, fd: &str, target: &str) -> &Self {
        let path = self.0.path().join("proc/7/fd");
        fs::create_dir_all(&path).unwrap();
        symlink(target, path.join(fd)).unwrap();
        self
    }

    fn call(&self, number: c_long, args: [u64; 6]) -> &Self {
        let args = args.map(|arg| format!("{arg:#x}")).join(" ");
        let text = format!("{number} {args} 0x7ffc 0x7f8a\n");
        self.file("task/7/syscall", text.as_bytes())
    }

    fn state(&self) -> Option<ThreadState> {
        let proc = Proc::below(Root(self.0.path().to_owned()));
        let mut ends = vec![reads(3, 77), writes(4, 88), writes(8, 89)];
        if self.0.path().join("proc/7/fd/7").is_symlink() {
            ends.extend([reads(7, 99), writes(9, 99)]);
        }
        examine(&proc, 7, 7, &ends.into()).map(|(state, _)| state)
    }

    #[track_caller]
    fn waits(&self, expected: BlockedOn) {
        assert_eq!(self.state(), Some(ThreadState::Waiting(expected)));
    }
}

fn pipes(any_of: &[(u64, Option<i32>, LinkSide)], or: Option<Outside>) -> BlockedOn {
    let any_of = any_of.iter().map(|(inode, fd, side)| LinkWait {
        pipe: LinkId::pipe(*inode),
        fd: *fd,
        side: *side,
    });
    BlockedOn::Pipes {
        any_of: any_of.collect(),
        or,
    }
}

#[test]
fn a_read_and_a_write_name_their_pipe() {
    let reading = Files::new("anon_pipe_read");
    reading.call(libc::SYS_read, [3, 0, 0, 0, 0, 0]);
    reading.waits(pipes(&[(77, Some(3), LinkSide::Input)], None));
    let writing = Files::new("pipe_write");
    writing.call(libc::SYS_write, [4, 0, 0, 0, 0, 0]);
    writing.waits(pipes(&[(88, Some(4), LinkSide::Room)], None));
}

#[test]
fn a_wait_for_the_other_side_of_a_terminal_is_no_wait_for_a_disk() {
    let files = Files::new("__flush_work");
    files.link("9", "/dev/pts/3");
    files.call(libc::SYS_read, [9, 0, 0, 0, 0, 0]);
    files.waits(BlockedOn::Outside(Outside::Terminal));
}

#[test]
fn without_the_call_any_pipe_of_that_side_is_possible() {
    let possible = [(88, None, LinkSide::Room), (89, None, LinkSide::Room)];
    Files::new("pipe_write").waits(pipes(&possible, None));
    Files::new("unix_stream_read_generic").waits(BlockedOn::Outside(Outside::Socket));
}

#[test]
fn without_a_known_function_the_call_suffices() {
    let files = Files::new("renamed_in_a_later_kernel");
    files.call(libc::SYS_read, [3, 0, 0, 0, 0, 0]);
    files.waits(pipes(&[(77, Some(3), LinkSide::Input)], None));
    files.call(libc::SYS_read, [5, 0, 0, 0, 0, 0]);
    files.waits(BlockedOn::Outside(Outside::Socket));
    // From a pipe to a socket: it may wait for either.
    files.call(libc::SYS_splice, [3, 0, 5, 0, 0, 0]);
    files.waits(BlockedOn::Outside(Outside::Socket));
}

#[test]
fn poll_names_all_its_pipes_and_whatever_else_ends_it() {
    let entry = |fd: i32, events: i16| {
        let [a, b, c, d] = fd.to_ne_bytes();
        let [e, f] = events.to_ne_bytes();
        [a, b, c, d, e, f, 0, 0]
    };
    let list = [
        entry(3, libc::POLLIN),
        entry(-1, libc::POLLIN),
        entry(4, libc::POLLOUT),
    ];
    let both = [
        (77, Some(3), LinkSide::Input),
        (88, Some(4), LinkSide::Room),
    ];
    // What was written to a terminal is worked off by a poll of its master.
    for function in ["__flush_work", "poll_schedule_timeout"] {
        let files = Files::new(function);
        files.file("mem", &[[0; 8].as_slice(), &list.concat()].concat());
        files.call(libc::SYS_ppoll, [8, 3, 0, 0, 0, 0]);
        files.waits(pipes(&both, None));
    }
    let files = Files::new("poll_schedule_timeout");
    files.file("mem", &[[0; 8].as_slice(), &list.concat()].concat());
    files.call(libc::SYS_ppoll, [8, 3, 1, 0, 0, 0]);
    files.waits(pipes(&both, Some(Outside::Timer)));
    // Only for the reader's end, as in a pause.
    let nothing = [entry(4, 0)];
    let pausing = Files::new("poll_schedule_timeout");
    pausing.file("mem", &[[0; 8].as_slice(), &nothing.concat()].concat());
    pausing.call(libc::SYS_ppoll, [8, 1, 1, 0, 0, 0]);
    pausing.waits(BlockedOn::Outside(Outside::Timer));
    // By a pipe of which it has both ends it wakes itself.
    let own = Files::new("poll_schedule_timeout");
    own.link("7", "pipe:[99]");
    let list = [entry(7, libc::POLLIN)];
    own.file("mem", &[[0; 8].as_slice(), &list.concat()].concat());
    own.call(libc::SYS_ppoll, [8, 1, 1, 0, 0, 0]);
    own.waits(BlockedOn::Outside(Outside::EventOrTimer));
    // Nothing but a signal ends this.
    files.call(libc::SYS_ppoll, [8, 0, 0, 0, 0, 0]);
    files.waits(BlockedOn::Outside(Outside::Signal));
    // More than can be read.
    files.call(libc::SYS_ppoll, [8, 4, 0, 0, 0, 0]);
    files.waits(BlockedOn::Outside(Outside::Other));
}

/// As the workers of PostgreSQL in pg_sleep().
#[test]
fn a_signal_with_a_timeout_is_no_wait_for_a_signal_alone() {
    let files = Files::new("poll_schedule_timeout");
    let entry = [10_i32.to_ne_bytes(), [1, 0, 0, 0]].concat();
    files.file("mem", &[[0; 8].as_slice(), &entry].concat());
    for (timeout, waits) in [(0, Outside::Signal), (8, Outside::EventOrTimer)] {
        files.call(libc::SYS_ppoll, [8, 1, timeout, 0, 0, 0]);
        files.waits(BlockedOn::Outside(waits));
    }
}

/// A read that a supervisor of system calls decides about is none of the pipe's.
#[test]
fn a_call_before_its_supervisor_waits_for_anything() {
    let files = Files::new("seccomp_do_user_notification.isra.0");
    files.call(libc::SYS_read, [3, 8, 1, 0, 0, 0]);
    files.waits(BlockedOn::Outside(Outside::Other));
}

#[test]
fn poll_for_input_at_write_end_waits_for_its_errors() {
    let mut list = [0; 16];
    list[8..12].copy_from_slice(&4_i32.to_ne_bytes());
    list[12..14].copy_from_slice(&libc::POLLIN.to_ne_bytes());
    let files = Files::new("poll_schedule_timeout");
    files.file("mem", &list);
    files.call(libc::SYS_ppoll, [8, 1, 0, 0, 0, 0]);
    files.waits(BlockedOn::Outside(Outside::Event));
}

#[test]
fn a_large_epoll_instance_is_a_poll_for_anything() {
    let files = Files::new("ep_poll");
    files.call(libc::SYS_epoll_pwait, [9, 0, 1, u64::MAX, 0, 0]);
    files.file(
        "fdinfo/9",
        "tfd: 3 events: 19 data: 0\n".repeat(257).as_bytes(),
    );
    files.waits(BlockedOn::Outside(Outside::Other));
}

#[test]
fn read_of_a_pipe_that_is_gone_waits_for_anything() {
    let files = Files::new("pipe_read");
    let proc = Proc::below(Root(files.0.path().to_owned()));
    let state = examine(&proc, 7, 7, &HeldEnds::default()).map(|(state, _)| state);
    let other = ThreadState::Waiting(BlockedOn::Outside(Outside::Other));
    assert_eq!(state, Some(other));
}

#[test]
fn an_epoll_instance_lists_its_targets() {
    let line = |fd: i32, events: u32| {
        format!("tfd: {fd:8} events: {events:8x} data: 0  pos:0 ino:1 sdev:1\n")
    };
    let files = Files::new("ep_poll");
    files.call(libc::SYS_epoll_pwait, [9, 0, 1, u64::MAX, 0, 0]);
    let text = format!("pos:\t0\nflags:\t02\n{}", line(3, 0x19));
    files.file("fdinfo/9", text.as_bytes());
    files.waits(pipes(&[(77, Some(3), LinkSide::Input)], None));
    for (other, outside) in [
        (6, Outside::Timer),
        (10, Outside::Signal),
        // What that waits for can't be seen.
        (11, Outside::Other),
    ] {
        files.file("fdinfo/9", (text.clone() + &line(other, 1)).as_bytes());
        files.waits(pipes(&[(77, Some(3), LinkSide::Input)], Some(outside)));
    }
}

#[test]
fn whoever_is_most_likely_to_come_is_named_whatever_the_order() {
    let files = Files::new("ep_poll");
    files.call(libc::SYS_epoll_pwait, [9, 0, 1, u64::MAX, 0, 0]);
    for (fds, outside) in [
        ([12, 5], Outside::Socket),
        ([12, 6], Outside::EventOrTimer),
        ([5, 6], Outside::SocketOrTimer),
        ([12, 10], Outside::Signal),
        ([5, 11], Outside::Other),
    ] {
        let lines = fds.map(|fd| format!("tfd: {fd} events: 19 data: 0\n"));
        for text in [lines.concat(), lines.iter().rev().cloned().collect()] {
            files.file("fdinfo/9", text.as_bytes());
            files.waits(BlockedOn::Outside(outside));
        }
    }
}

#[test]
fn a_select_lists_its_sets() {
    let files = Files::new("do_select");
    let sets: [u64; 3] = [0, 1 << 3, 1 << 4];
    files.file("mem", &sets.map(u64::to_ne_bytes).concat());
    files.call(libc::SYS_pselect6, [5, 8, 16, 0, 0, 0]);
    let both = [
        (77, Some(3), LinkSide::Input),
        (88, Some(4), LinkSide::Room),
    ];
    files.waits(pipes(&both, None));
}

#[test]
fn futex_is_thread_of_its_own_unless_shared_or_timed() {
    const PRIVATE: u64 = 128;
    let files = Files::new("futex_wait_queue");
    files.call(libc::SYS_futex, [8, PRIVATE, 2, 0, 0, 0]);
    files.waits(BlockedOn::Thread);
    // pthread_join(3) waits for the word with the thread's id.
    files.call(libc::SYS_futex, [8, 0, 7, 0, 0, 0]);
    files.waits(BlockedOn::Thread);
    files.call(libc::SYS_futex, [8, 0, 2, 0, 0, 0]);
    files.waits(BlockedOn::Outside(Outside::Lock));
    files.call(libc::SYS_futex, [8, PRIVATE, 2, 4096, 0, 0]);
    files.waits(BlockedOn::Outside(Outside::LockOrTimer));
}

#[test]
fn states_without_a_wait_are_told_by_their_files() {
    let running = Files::new("0");
    running.file("task/7/syscall", b"running\n");
    assert_eq!(running.state(), Some(ThreadState::Working));
    assert_eq!(Files::new("io_schedule").state(), Some(ThreadState::Disk));
    assert_eq!(
        Files::new("do_signal_stop").state(),
        Some(ThreadState::Stopped)
    );
    let frozen = Files::new("get_signal");
    frozen.call(libc::SYS_read, [3, 0, 0, 0, 0, 0]);
    frozen.waits(BlockedOn::Outside(Outside::Frozen));
    // Every program that starts maps files, on a busy machine not without a wait.
    let mapping = Files::new("__mmap_region");
    mapping.call(libc::SYS_read, [3, 0, 0, 0, 0, 0]);
    mapping.waits(BlockedOn::Outside(Outside::Other));
    let ended = Files::new("0");
    ended.file(
        "task/7/stat",
        b"7 (x) Z 1 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 9 0",
    );
    assert_eq!(ended.state(), None);
}

#[test]
fn a_wait_for_one_child_names_it() {
    let vfork = Files::new("kernel_clone");
    vfork.call(libc::SYS_clone3, [0; 6]);
    vfork.waits(BlockedOn::Child(None));
    let files = Files::new("do_wait");
    files.call(libc::SYS_wait4, [12, 0, 0, 0, 0, 0]);
    files.waits(BlockedOn::Child(Some(12)));
    files.call(libc::SYS_wait4, [u64::MAX, 0, 0, 0, 0, 0]);
    files.waits(BlockedOn::Child(None));
}

#[test]
fn only_a_call_on_the_pipe_itself_holds_its_lock() {
    let files = Files::new("sock_alloc_send_pskb");
    let proc = Proc::below(Root(files.0.path().to_owned()));
    let is_moving = |inode| is_moving(&proc, 7, LinkId::pipe(inode));
    files.call(libc::SYS_splice, [3, 0, 5, 0, 0, 0]);
    assert!(is_moving(77) && !is_moving(88));
    files.call(libc::SYS_write, [4, 0, 0, 0, 0, 0]);
    assert!(!is_moving(88));
}
