use fastpipe::{FinishError, Writer};

/// Sends what `generate` puts into memory, until that is nothing.
fn send(mut generate: impl FnMut(&mut [u8]) -> usize) -> std::io::Result<()> {
    let mut out = Writer::builder().stdout()?;
    loop {
        // At least 0 bytes: as many as is usual.
        let mut page = out.lend(0)?;
        let n = generate(&mut page);
        if n == 0 {
            break;
        }
        page.commit(n)?;
    }
    out.finish().map(drop).map_err(FinishError::abandon)
}
