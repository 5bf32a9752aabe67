//! Random bits by hashing (key, position): masks and signs that depend on neither chunks nor threads.

use crate::math::Real;
use crate::rng::Key;

/// A bijective hash of 32 bits with low bias (Wellons, `lowbias32`).
#[inline(always)]
fn scramble(mut x: u32) -> u32 {
    x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
    x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}

/// 32 random bits for position `i`.
#[inline(always)]
pub(crate) fn hash(key: Key, i: u32) -> u32 {
    let [a, b] = key.0;
    scramble(scramble(i ^ a as u32).wrapping_add((a >> 32) as u32) ^ b as u32)
}

/// What is dropped at this rate: hashes below the threshold.
pub(crate) fn threshold(rate: f64) -> u32 {
    (rate * 4_294_967_296.0).round().min(4_294_967_295.0) as u32
}

/// −1 or 1 for position `i`.
#[inline(always)]
pub(crate) fn sign<R: Real>(key: Key, i: u32) -> R {
    // The lowest bit; the highest ones decide dropout masks.
    if hash(key, i) & 1 == 0 { R::ONE } else { -R::ONE }
}
