//! Checks leave no descriptor, thread or process behind. The only test of its
//! file: others would have some of their own.

use pipespeed::check;

#[test]
fn checks_leave_no_descriptor_thread_or_process_behind() {
    let count = |directory: &str| std::fs::read_dir(directory).unwrap().count();
    let left = || (count("/proc/self/fd"), count("/proc/self/task"));
    // What is made once for the whole process is made by now.
    check::run(check::all(), check::PATIENCE);
    let before = left();
    for _ in 0..3 {
        check::run(check::all(), check::PATIENCE);
    }
    assert_eq!(left(), before);
    let none = rustix::process::wait(rustix::process::WaitOptions::NOHANG);
    assert_eq!(none.unwrap_err(), rustix::io::Errno::CHILD);
}
