//! How much memory a piece of work holds at most: allocations of the threads that were told to count are added up.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
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
