//! [`Writer`]: a writer that keeps its loan.

use std::io::{self, Write};
use std::ptr::NonNull;

use fastpipe::writer::{Report, WriterBuilder};
use fastpipe::{FinishError, Loan};

use crate::lending::Lending;
use crate::{Descriptor, Lent};

type Inner = fastpipe::Writer<Descriptor>;

/// A [`fastpipe::Writer`] that keeps its loan, and its report after it was finished.
#[derive(Debug)]
pub struct Writer(State);

#[derive(Debug)]
enum State {
    Open(Lending<Inner, Loan<'static, Descriptor>>),
    Finished(Box<Report>),
    /// A panic came between, or bytes were given up.
    Broken,
}

impl Writer {
    /// Creates a writer to `fd`.
    ///
    /// # Errors
    /// Those of [`WriterBuilder::open`].
    pub fn open(settings: WriterBuilder, fd: Descriptor) -> io::Result<Self> {
        Ok(Writer(State::Open(Lending::new(settings.open(fd)?))))
    }

    fn lending(&mut self) -> io::Result<&mut Lending<Inner, Loan<'static, Descriptor>>> {
        match &mut self.0 {
            State::Open(lending) => Ok(lending),
            State::Finished(_) | State::Broken => Err(finished()),
        }
    }

    /// Lends memory for the next bytes: see [`fastpipe::Writer::lend`].
    ///
    /// # Errors
    /// Those of [`fastpipe::Writer::lend`].
    pub fn lend(&mut self, at_least: usize) -> io::Result<Lent> {
        let loan = self.lending()?.lend(|writer| writer.lend(at_least))?;
        let bytes: &mut [u8] = loan;
        Ok(Lent {
            len: bytes.len(),
            start: NonNull::from(bytes).cast(),
        })
    }

    /// Sends the first `n` bytes of the loan, which ends in any case.
    ///
    /// # Errors
    /// `InvalidInput`, and nothing is sent, without a loan or if it is shorter; those of [`Loan::commit`].
    pub fn commit(&mut self, n: usize) -> io::Result<()> {
        let lending = self.lending()?;
        let loan = lending.take_loan().ok_or_else(no_loan)?;
        if n > loan.len() {
            return Err(too_short(n, loan.len()));
        }
        loan.commit(n)
    }

    /// Writes a part of `data`, as [`Write::write`] does. A writer that is interruptible may have been
    /// interrupted if it is not all.
    ///
    /// # Errors
    /// Those of sending, if nothing was accepted.
    pub fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.lending()?.owner().write(data)
    }

    /// Sends what was written and is still buffered.
    ///
    /// # Errors
    /// Those of sending.
    pub fn flush(&mut self) -> io::Result<()> {
        self.lending()?.owner().flush()
    }

    /// Waits until everything has been read: see [`fastpipe::Writer::wait_drained`].
    ///
    /// # Errors
    /// Those of [`fastpipe::Writer::wait_drained`].
    pub fn wait_drained(&mut self) -> io::Result<()> {
        self.lending()?.owner().wait_drained()
    }

    /// Sends all bytes and lets go of the output. After an error it can be tried again, and the bytes that were
    /// not sent are kept. A finished writer stays finished, without an error.
    ///
    /// # Errors
    /// Those of [`fastpipe::Writer::finish`]; `InvalidInput` if bytes were given up.
    pub fn finish(&mut self) -> io::Result<()> {
        self.finish_by(Inner::finish)
    }

    /// As [`finish`](Self::finish), but the memory that was lent stays mapped for ever.
    ///
    /// # Errors
    /// Those of [`finish`](Self::finish).
    pub fn finish_and_leak(&mut self) -> io::Result<()> {
        self.finish_by(Inner::finish_and_leak)
    }

    fn finish_by(
        &mut self,
        finish: impl FnOnce(Inner) -> Result<Report, FinishError<Descriptor>>,
    ) -> io::Result<()> {
        match std::mem::replace(&mut self.0, State::Broken) {
            State::Open(lending) => match finish(lending.take()).map_err(FinishError::into_parts) {
                Ok(report) => {
                    self.0 = State::Finished(Box::new(report));
                    Ok(())
                }
                Err((error, writer)) => {
                    self.0 = State::Open(Lending::new(writer));
                    Err(error)
                }
            },
            State::Finished(report) => {
                self.0 = State::Finished(report);
                Ok(())
            }
            // A panic came between, or the bytes were given up.
            State::Broken => Err(finished()),
        }
    }

    /// Number of bytes accepted and not yet given to the kernel. Ends the loan.
    pub fn queued(&mut self) -> u128 {
        match &mut self.0 {
            State::Open(lending) => lending.owner().queued(),
            State::Finished(_) | State::Broken => 0,
        }
    }

    /// Gives up what was not sent, unless the writer is finished. Never waits.
    pub fn discard(&mut self) {
        if self.is_finished() {
            return;
        }
        if let State::Open(lending) = std::mem::replace(&mut self.0, State::Broken) {
            lending.take().discard();
        }
    }

    /// Whether this process may use the writer: false in a forked child. Ends the loan.
    pub fn is_ours(&mut self) -> bool {
        match &mut self.0 {
            State::Open(lending) => lending.owner().is_ours(),
            State::Finished(_) | State::Broken => true,
        }
    }

    /// Whether it was finished.
    pub fn is_finished(&self) -> bool {
        !matches!(self.0, State::Open(_))
    }

    /// What the writer has done so far. Ends the loan.
    ///
    /// # Errors
    /// `InvalidInput` if a panic ended it.
    pub fn report(&mut self) -> io::Result<Report> {
        match &self.0 {
            State::Finished(report) => Ok(report.as_ref().clone()),
            _ => Ok(self.lending()?.owner().report()),
        }
    }
}

/// The error of a commit without a loan.
pub(crate) fn no_loan() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "nothing is lent: a loan ends with the next call of any kind",
    )
}

/// The error of a commit or release of more than was lent.
pub(crate) fn too_short(n: usize, lent: usize) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("{n} bytes of {lent} that were lent"),
    )
}

fn finished() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "the writer is finished")
}
