use std::io::{Result, Write};

/// The output is a File, for example: standard
/// output divides and joins pieces.
fn write_all(out: &mut impl Write, data: &[u8]) -> Result<()> {
    for piece in data.chunks(65536) {
        out.write_all(piece)?;
    }
    Ok(())
}
