use std::fs::File;
use std::io::{self, BufWriter};
use std::os::fd::AsFd;

fn output() -> io::Result<BufWriter<File>> {
    let out = io::stdout().as_fd().try_clone_to_owned()?;
    // Fails where the output is no pipe: no harm.
    let _ = rustix::pipe::fcntl_setpipe_size(&out, 1048576);
    Ok(BufWriter::with_capacity(65536, File::from(out)))
}
