//! A fake of the kernel's benchmark.

use std::cell::RefCell;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;

use fastpipe::pipe::page_size;
use rustix::io::Errno;

use super::{Argument, GupBenchmark, GupTest, Reply};

/// A benchmark that takes 10 ns per page for pinning and 5 for releasing, in whole
/// microseconds.
#[derive(Debug)]
pub struct Fake {
    /// The error of all calls, if they fail.
    pub refusal: Option<Errno>,
    /// At most this many pages are pinned.
    pub max_pages: u64,
    /// The address, the bytes to pin, and the pages per call, of each call.
    pub requests: Rc<RefCell<Vec<(u64, u64, u32)>>>,
}

impl Default for Fake {
    fn default() -> Fake {
        Fake {
            refusal: None,
            max_pages: u64::MAX,
            requests: Rc::default(),
        }
    }
}

impl Fake {
    /// The kernel with this benchmark, as the command would find it.
    pub fn kernel(self) -> GupBenchmark {
        GupBenchmark::new(PathBuf::from("/fake"), self).unwrap()
    }
}

impl GupTest for Fake {
    fn fast_benchmark(&mut self, argument: &mut Argument<'_>) -> io::Result<()> {
        if let Some(refusal) = self.refusal {
            return Err(refusal.into());
        }
        let request = argument.request();
        self.requests.borrow_mut().push(request);
        let page = page_size() as u64;
        let pages = (request.1 / page).min(self.max_pages);
        // Truncated to whole microseconds, as by ktime_us_delta.
        argument.set_reply(Reply {
            get_us: pages * 10 / 1000,
            put_us: pages * 5 / 1000,
            bytes: pages * page,
        });
        Ok(())
    }
}
