// With the crate rustix and its feature pipe.
use rustix::pipe;
use std::os::fd::AsFd;

/// Does nothing where the output is no pipe.
fn enlarge(output: impl AsFd) {
    let size = pipe::fcntl_getpipe_size(&output);
    if size.is_ok_and(|size| size < 1048576) {
        let _ = pipe::fcntl_setpipe_size(&output, 1048576);
    }
}
