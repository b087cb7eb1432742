//! vmsplice refused by a filter, as in some containers.

use crate::common::seccomp::refuse;
use crate::common::{ALL_WAITS, buffer_with, pipe_of};
use fastpipe::transfer::{Input, Output};

#[test]
fn with_vmsplice_refused_nothing_is_moved_and_write_works() {
    // In its own thread, since a filter can't be removed.
    let filtered = std::thread::spawn(|| {
        if !refuse(&[libc::SYS_vmsplice], libc::EPERM) {
            return;
        }
        let pages = buffer_with(b"abcdef", 0);
        for wait in ALL_WAITS {
            let (reader, writer) = pipe_of(65_536);
            let mut out = Output::new(&writer, wait);
            let refused = out.vmsplice(&[pages.slice(..)], Default::default());
            let refused = refused.unwrap_err();
            assert_eq!(refused.source.raw_os_error(), Some(libc::EPERM));
            assert_eq!(refused.moved, 0);
            out.write(&pages).unwrap();
            let mut got = [0; 6];
            Input::new(&reader, wait).read(&mut got).unwrap();
            assert_eq!(&got, b"abcdef");
        }
    });
    filtered.join().unwrap();
}
