//! How much memory the program holds, and a piece of work at most: allocations of the threads that were told to count are added up.
//!
//! The library asks for memory before it allocates what a file or a setting decides. What it does not foresee, such as the pages
//! that a decoder of another crate unpacks, comes through here: an allocation far beyond the limit ends the program with a sentence
//! and exit code 2, where the system would end it without one.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Write;
use std::sync::atomic::{AtomicIsize, Ordering};

/// Bytes held now, and the most held so far, by the threads that count into it.
#[derive(Debug, Default)]
pub struct Gauge {
    now: AtomicIsize,
    most: AtomicIsize,
}

impl Gauge {
    fn add(&self, bytes: isize) {
        let now = self.now.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.most.fetch_max(now, Ordering::Relaxed);
    }

    /// Lets the most be what is held now.
    pub fn restart(&self) -> isize {
        let now = self.now.load(Ordering::Relaxed);
        self.most.store(now, Ordering::Relaxed);
        now
    }

    /// The most bytes held since.
    pub fn most(&self) -> isize {
        self.most.load(Ordering::Relaxed)
    }
}

thread_local! {
    static GAUGE: Cell<Option<&'static Gauge>> = const { Cell::new(None) };
    /// Bytes of this thread that are not in [`IN_USE`] yet.
    static PENDING: Cell<isize> = const { Cell::new(0) };
}

/// A thread adds up so many bytes before all threads see them.
const TOGETHER: isize = 1 << 16;

static IN_USE: AtomicIsize = AtomicIsize::new(0);
static MOST_ALLOWED: AtomicIsize = AtomicIsize::new(isize::MAX);

/// Bytes that the program holds now, up to 64 KiB for every thread.
pub fn in_use() -> u64 {
    IN_USE.load(Ordering::Relaxed).max(0) as u64
}

/// From now on the program ends where it would hold a quarter more than `limit`: what it asks for is an estimate.
pub fn stop_beyond(limit: u64) {
    let most = limit.saturating_add(limit / 4).saturating_add(64 << 20);
    MOST_ALLOWED.store(isize::try_from(most).unwrap_or(isize::MAX), Ordering::Relaxed);
}

#[cold]
fn out_of_memory(bytes: isize, most: isize) -> ! {
    // Whatever is allocated on the way out must not come here again.
    MOST_ALLOWED.store(isize::MAX, Ordering::Relaxed);
    let mb = |bytes: isize| (bytes / 1_000_000).max(1);
    let _ = writeln!(
        std::io::stderr(),
        "posterior: out of memory: {} MB more were needed and {} MB are the most that is allowed; use fewer rows or a smaller network, \
         or allow more memory with --memory",
        mb(bytes),
        mb(most)
    );
    std::process::exit(2)
}

/// From now on this thread counts into a gauge.
pub fn count_into(gauge: &'static Gauge) {
    GAUGE.set(Some(gauge));
}

/// The system's allocator, with an eye on it.
pub struct Counting;

fn note(bytes: isize) {
    // A thread at its end has no gauge any more.
    let _ = GAUGE.try_with(|g| g.get().map(|gauge| gauge.add(bytes)));
    let pending = PENDING.try_with(|p| p.get()).unwrap_or(0) + bytes;
    if pending.abs() < TOGETHER {
        if PENDING.try_with(|p| p.set(pending)).is_err() {
            IN_USE.fetch_add(bytes, Ordering::Relaxed);
        }
        return;
    }
    let _ = PENDING.try_with(|p| p.set(0));
    let now = IN_USE.fetch_add(pending, Ordering::Relaxed) + pending;
    let most = MOST_ALLOWED.load(Ordering::Relaxed);
    if bytes > 0 && now > most {
        out_of_memory(bytes, most);
    }
}

// SAFETY: every call goes to the system's allocator as it came; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as isize);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as isize);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        note(-(layout.size() as isize));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(ptr, layout) }
    }
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size as isize - layout.size() as isize);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(ptr, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_holds_is_seen() {
        static SEEN: Gauge = Gauge { now: AtomicIsize::new(0), most: AtomicIsize::new(0) };
        let thread = std::thread::spawn(|| {
            count_into(&SEEN);
            let before = SEEN.restart();
            drop(std::hint::black_box(vec![1u8; 1 << 20]));
            let small = std::hint::black_box(vec![1u8; 1 << 10]);
            let most = SEEN.most() - before;
            (most, small.len())
        });
        let (most, _) = thread.join().unwrap();
        assert!((1 << 20..(1 << 20) + (1 << 14)).contains(&most), "{most}");
    }
}
