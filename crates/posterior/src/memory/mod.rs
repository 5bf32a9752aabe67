//! A limit on memory that is asked before every allocation whose size a file or a setting decides.
//!
//! A request is refused where memory in use + memory needed > limit, as an error that names the numbers; nothing is allocated by then. Sizes are
//! products in [`u128`] that saturate, so that no file can make them wrap around. The limit is one for the process, since the
//! places that allocate are many: a front end sets it once ([`set_limit`]); until then it is three quarters of what the machine, or the
//! control group that the process runs in, has. Tests narrow it for their own thread ([`with_limit`]). Cost of a request: two atomic loads.

mod machine;
mod read;

#[cfg(feature = "numpy")]
pub(crate) use read::Refusal;
pub(crate) use read::read_all;
pub use read::{read_file, read_text};

pub use crate::error::show_bytes as show;
use crate::error::{ErrorKind, Place, Result};
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Stands for "not set": the default then holds.
const UNSET: u64 = u64::MAX;

static LIMIT: AtomicU64 = AtomicU64::new(UNSET);
static IN_USE: OnceLock<fn() -> u64> = OnceLock::new();

thread_local! {
    static NARROWED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Sets the limit of the whole process, in bytes.
pub fn set_limit(bytes: u64) {
    LIMIT.store(bytes.min(UNSET - 1), Ordering::Relaxed);
}

/// Tells how to find out how many bytes the process holds now, for a front end whose allocator counts them; requests then
/// take into account what is there already. The first call counts.
pub fn set_in_use(bytes: fn() -> u64) {
    let _ = IN_USE.set(bytes);
}

/// Runs `work` with another limit for requests of this thread.
pub fn with_limit<T>(bytes: u64, work: impl FnOnce() -> T) -> T {
    struct Restore(Option<u64>);
    impl Drop for Restore {
        fn drop(&mut self) {
            NARROWED.set(self.0);
        }
    }
    let _restore = Restore(NARROWED.replace(Some(bytes)));
    work()
}

/// How much memory may be held, and is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Bytes that may be held in all.
    pub limit: u64,
    /// Bytes held now, where that is known; else 0.
    pub in_use: u64,
}

impl Budget {
    /// As it stands now.
    pub fn current() -> Budget {
        let limit = NARROWED.get().unwrap_or_else(|| match LIMIT.load(Ordering::Relaxed) {
            UNSET => machine::default_limit(),
            limit => limit,
        });
        Budget { limit, in_use: IN_USE.get().map_or(0, |bytes| bytes()) }
    }

    /// Bytes that may still be asked for.
    pub fn left(&self) -> u64 {
        self.limit.saturating_sub(self.in_use)
    }

    /// Refuses what does not fit: `what` would need so many `bytes`, and `fix` says how to need less.
    pub fn request(&self, bytes: u128, what: impl Into<String>, fix: &str) -> Result<()> {
        if bytes <= u128::from(self.left()) {
            return Ok(());
        }
        Err(ErrorKind::Memory {
            at: Place::default(),
            what: what.into(),
            needed: bytes,
            left: self.left(),
            limit: self.limit,
            open_ended: false,
            fix: fix.into(),
        }
        .into())
    }
}

/// [`Budget::request`] of the budget as it stands now.
pub fn request(bytes: u128, what: impl Into<String>, fix: &str) -> Result<()> {
    Budget::current().request(bytes, what, fix)
}

/// The product of sizes, which saturates.
pub fn product(sizes: &[usize]) -> u128 {
    sizes.iter().fold(1, |product: u128, size| product.saturating_mul(*size as u128))
}

/// Bytes of an array of so many `T`.
pub fn array<T>(sizes: &[usize]) -> u128 {
    product(sizes).saturating_mul(size_of::<T>() as u128)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_with_the_numbers() {
        let budget = Budget { limit: 2_000_000_000, in_use: 500_000_000 };
        budget.request(1_500_000_000, "this", "make it smaller").unwrap();
        let e = budget.request(1_500_000_001, "this", "make it smaller").unwrap_err();
        assert_eq!(
            e.to_string(),
            "this takes 1.5 GB of memory and 1.5 GB of 2.0 GB are left; make it smaller, or allow more memory"
        );
        assert!(matches!(e.kind(), ErrorKind::Memory { needed: 1_500_000_001, left: 1_500_000_000, .. }));
        assert!(Budget { limit: 1, in_use: 5 }.request(1, "this", "").is_err());
    }

    #[test]
    fn sizes_saturate() {
        assert_eq!(product(&[3, 4]), 12);
        assert_eq!(array::<f64>(&[usize::MAX, usize::MAX, usize::MAX]), u128::MAX);
    }

    #[test]
    fn a_narrower_limit_ends_with_its_scope() {
        let outside = Budget::current().limit;
        let inside = with_limit(7, || with_limit(5, || Budget::current().limit) + Budget::current().limit);
        assert_eq!((inside, Budget::current().limit), (12, outside));
        assert!(outside > 1 << 20, "{outside}");
    }
}
