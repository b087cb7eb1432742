//! [`Lending`]: an owner, and perhaps a loan of it.

use std::ptr::NonNull;

/// An owner, and perhaps a loan `L` that borrows it. No reference to the owner exists beside the loan's.
#[derive(Debug)]
pub(crate) struct Lending<T, L> {
    /// Borrows `*owner`. Never handed out with its lifetime.
    loan: Option<L>,
    /// From `Box::into_raw`: a `Box` would claim to be the only way to the owner while it is lent.
    owner: NonNull<T>,
}

// SAFETY: it owns both, as a `Box<T>` and an `L` would.
unsafe impl<T: Send, L: Send> Send for Lending<T, L> {}

impl<T, L> Lending<T, L> {
    pub(crate) fn new(owner: T) -> Self {
        let owner = NonNull::from(Box::leak(Box::new(owner)));
        Lending { loan: None, owner }
    }

    /// The owner. Ends the loan.
    pub(crate) fn owner(&mut self) -> &mut T {
        self.loan = None;
        // SAFETY: it lives as long as `self`, and the loan, the only other reference, is gone.
        unsafe { self.owner.as_mut() }
    }

    /// Lends the owner by `lend`. Ends the loan before.
    pub(crate) fn lend<E>(
        &mut self,
        lend: impl FnOnce(&'static mut T) -> Result<L, E>,
    ) -> Result<&mut L, E>
    where
        T: 'static,
    {
        self.loan = None;
        // SAFETY: it lives until `self` is dropped, and the loan, which is dropped before, is the only
        // thing that keeps the reference: `owner` and `take` end it first.
        let owner: &'static mut T = unsafe { &mut *self.owner.as_ptr() };
        Ok(self.loan.insert(lend(owner)?))
    }

    /// The loan, which ends.
    pub(crate) fn take_loan(&mut self) -> Option<L> {
        self.loan.take()
    }

    pub(crate) fn take(mut self) -> T {
        self.loan = None;
        let owner = self.owner.as_ptr();
        std::mem::forget(self);
        // SAFETY: from `Box::leak`, and nothing else has it any more: `self` won't be dropped.
        *unsafe { Box::from_raw(owner) }
    }
}

impl<T, L> Drop for Lending<T, L> {
    fn drop(&mut self) {
        self.loan = None;
        // SAFETY: from `Box::leak`; `take` forgets `self`, so this happens once.
        drop(unsafe { Box::from_raw(self.owner.as_ptr()) });
    }
}
