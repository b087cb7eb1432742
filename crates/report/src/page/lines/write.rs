use std::io::{Result, Write};

/// The output is a File, since io::stdout() divides
/// and joins pieces. For standard output:
/// File::from(io::stdout().as_fd().try_clone_to_owned()?)
fn write_all(out: &mut impl Write, data: &[u8]) -> Result<()> {
    for piece in data.chunks(65536) {
        out.write_all(piece)?;
    }
    Ok(())
}
