use std::process::{Command, Stdio};

use super::*;

#[test]
fn a_kept_file_shows_nothing_once_its_thread_has_ended() {
    let proc = Proc::default();
    let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let pid = child.id() as i32;
    let fd_budget = FdBudget::new();
    let directory = ProcessFiles::new(&proc, pid).directory().unwrap();
    let files = ProcessFiles::new(&proc, pid).below(directory.as_fd());
    let mut thread = ThreadFiles::new(pid);
    assert!(thread.schedule(files, Some(&fd_budget)).is_some());
    assert_eq!(files.thread_count(), Some(1));
    assert_eq!(files.threads(), [pid]);
    drop(child.stdin.take());
    child.wait().unwrap();
    assert_eq!(thread.schedule(files, Some(&fd_budget)), None);
    // Nor is anything found below the directory.
    assert_eq!(ThreadFiles::new(pid).schedule(files, None), None);
    assert!(files.descriptor_table().is_err() && files.fd_table_stamp().is_none());
}

#[test]
fn no_more_files_are_kept_than_allowed() {
    let fd_budget = FdBudget::with_count(1);
    let open = || {
        let file = std::fs::File::open("/dev/null").unwrap();
        fd_budget.keep(file.into())
    };
    let first = open();
    assert!(first.is_some() && open().is_none());
    drop(first);
    assert!(open().is_some());
}

#[test]
fn a_mark_changes_with_the_number_of_descriptors() {
    let proc = Proc::default();
    if !proc.counts_descriptors() {
        return pipespeed_testing::skip("this kernel does not count descriptors");
    }
    let mut child = Command::new("sh")
        .args(["-c", "exec 3<&-; echo; read x; exec 3<&0; echo; read x"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stamp = |child: &mut std::process::Child| {
        let stdout = child.stdout.as_mut().unwrap();
        io::Read::read_exact(stdout, &mut [0]).unwrap();
        ProcessFiles::new(&proc, child.id() as i32)
            .fd_table_stamp()
            .unwrap()
    };
    let before = stamp(&mut child);
    io::Write::write_all(child.stdin.as_mut().unwrap(), b"\n").unwrap();
    let after = stamp(&mut child);
    assert_eq!((after.inode, after.count), (before.inode, before.count + 1));
    drop(child.stdin.take());
    child.wait().unwrap();
}
