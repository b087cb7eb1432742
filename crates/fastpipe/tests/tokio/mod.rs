//! What waits in tokio's runtime.

mod cancelling;
mod copies;
mod streams;

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::thread;

use tokio::runtime::{Builder, Runtime};

use crate::common::state::watch;

/// A runtime of this thread, without a clock.
pub fn runtime() -> Runtime {
    watch();
    Builder::new_current_thread().enable_io().build().unwrap()
}

/// Runs `future` in a runtime of this thread.
pub fn run<T>(future: impl Future<Output = T>) -> T {
    runtime().block_on(future)
}

/// Runs two futures at once.
pub async fn both<A, B>(one: impl Future<Output = A>, other: impl Future<Output = B>) -> (A, B) {
    tokio::join!(one, other)
}

/// Counts how often `future` is polled.
pub async fn counted<T>(polls: &AtomicUsize, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    std::future::poll_fn(|context| {
        polls.fetch_add(1, Ordering::Relaxed);
        future.as_mut().poll(context)
    })
    .await
}

/// Drops `future` once it has been pending `times` times, unless it is done before.
pub async fn cancelled_after<T>(times: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut pending = 0;
    std::future::poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if pending == times => Poll::Ready(None),
        Poll::Pending => {
            pending += 1;
            Poll::Pending
        }
    })
    .await
}

/// Runs `work` in a thread of its own, where it may block.
pub fn beside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    thread::spawn(work)
}
