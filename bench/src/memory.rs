//! An allocator that refuses to go past a bound, for runs that must show how little memory hostile input can take.
//!
//! Outside of such runs it costs one load and one branch per allocation.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};

/// Bytes that may be held beyond what was held when the bound was set; 0 means no bound.
static BOUND: AtomicIsize = AtomicIsize::new(0);
static HELD: AtomicIsize = AtomicIsize::new(0);
static MOST: AtomicIsize = AtomicIsize::new(0);

/// From now on, allocations of all threads beyond `bytes` fail: fallible ones return an error, others end the process.
pub fn bound(bytes: usize) {
    HELD.store(0, Ordering::Relaxed);
    MOST.store(0, Ordering::Relaxed);
    BOUND.store(bytes as isize, Ordering::Relaxed);
}

/// Lifts the bound, and tells the most bytes that were held under it.
pub fn unbound() -> usize {
    BOUND.store(0, Ordering::Relaxed);
    MOST.load(Ordering::Relaxed).max(0) as usize
}

/// Whether so many more bytes may be held.
#[inline]
fn may(bytes: isize) -> bool {
    let bound = BOUND.load(Ordering::Relaxed);
    if bound == 0 {
        return true;
    }
    let held = HELD.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
    if bytes > 0 && held > bound {
        HELD.fetch_sub(bytes, Ordering::Relaxed);
        return false;
    }
    MOST.fetch_max(held, Ordering::Relaxed);
    true
}

/// The system's allocator behind the bound.
pub struct Bounded;

// SAFETY: every call goes to the system's allocator as it came, or is answered with null, which an allocator may do at any
// time; counting does not allocate.
unsafe impl GlobalAlloc for Bounded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !may(layout.size() as isize) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !may(layout.size() as isize) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        may(-(layout.size() as isize));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(ptr, layout) }
    }
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !may(size as isize - layout.size() as isize) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(ptr, layout, size) }
    }
}
