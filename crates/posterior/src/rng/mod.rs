//! Random numbers: streams keyed by (seed, purpose, step, block), and standard normals in SIMD.
//!
//! There is no global state and no hidden one: a [`Key`] names a stream, and the numbers of a stream depend on its key
//! alone. Long vectors are filled block by block ([`BLOCK`] numbers under one key each), so that any number of threads
//! gives the same bits.

mod hash;
mod key;
mod normal;
#[cfg(target_arch = "x86_64")]
mod normal_wider;
mod stream;

pub(crate) use hash::Hash;
pub use key::{Key, Purpose};
pub use normal::{BLOCK, Normals, fill_normals, fill_normals_par};
pub use stream::Stream;
