//! Standard normals by the blockful: xoshiro128++ in eight lanes, then Box–Muller, in SIMD.
//!
//! z = √(−2 ln u₁)·(sin, cos)(2π u₂). u₁ has 31 bits for f32, so |z| reaches 6.66, and 52 bits for f64 (8.57).
//! A block of [`BLOCK`] numbers has a key of its own; seeding it costs about 3 % of filling it.

use super::key::{Key, mix};
use crate::math::Real;
use crate::simd_fn;
use rayon::prelude::*;

/// Numbers under one key: 4 kB of f32, so that a fused pass over a block stays in the first-level cache.
pub const BLOCK: usize = 1024;
pub(super) const LANES: usize = 8;

/// Eight independent xoshiro128++ generators (Blackman & Vigna 2019) side by side.
#[derive(Clone)]
pub(super) struct Lanes {
    pub(super) s: [[u32; LANES]; 4],
}

impl Lanes {
    #[inline(always)]
    pub(super) fn new(key: Key) -> Lanes {
        let [a, b] = key.0;
        let mut words = [0u64; 2 * LANES];
        for (i, word) in words.iter_mut().enumerate() {
            let i = i as u64 + 1;
            *word = mix(a.wrapping_add(i.wrapping_mul(0x9E37_79B9_7F4A_7C15)) ^ b.rotate_left(i as u32));
        }
        let mut s = [[0u32; LANES]; 4];
        for lane in 0..LANES {
            let (x, y) = (words[2 * lane], words[2 * lane + 1]);
            s[0][lane] = x as u32 | 1; // never all zero
            s[1][lane] = (x >> 32) as u32;
            s[2][lane] = y as u32;
            s[3][lane] = (y >> 32) as u32;
        }
        Lanes { s }
    }

    #[inline(always)]
    fn next(&mut self) -> [u32; LANES] {
        let s = &mut self.s;
        let mut out = [0u32; LANES];
        for i in 0..LANES {
            out[i] = s[0][i].wrapping_add(s[3][i]).rotate_left(7).wrapping_add(s[0][i]);
            let t = s[1][i] << 9;
            s[2][i] ^= s[0][i];
            s[3][i] ^= s[1][i];
            s[1][i] ^= s[2][i];
            s[0][i] ^= s[3][i];
            s[2][i] ^= t;
            s[3][i] = s[3][i].rotate_left(11);
        }
        out
    }
}

/// A precision that has a generator of normals.
pub trait Normals: Real {
    /// Fills at most [`BLOCK`] numbers from one key. A shorter slice gets the first numbers of the block.
    fn fill_block(key: Key, out: &mut [Self]);
}

#[inline(always)]
fn sixteen_f32<const F: bool>(lanes: &mut Lanes, out: &mut [f32; 16]) {
    let (a, b) = (lanes.next(), lanes.next());
    let (sines, cosines) = pairs_f32::<F, LANES>(&a, &b);
    out[..LANES].copy_from_slice(&sines);
    out[LANES..].copy_from_slice(&cosines);
}

/// Two normals from every two words.
#[inline(always)]
pub(super) fn pairs_f32<const F: bool, const N: usize>(a: &[u32; N], b: &[u32; N]) -> ([f32; N], [f32; N]) {
    let (mut sines, mut cosines) = ([0.0; N], [0.0; N]);
    for i in 0..N {
        let u1 = Real::mul_add::<F>(((a[i] >> 1) as i32) as f32, 1.0 / 2_147_483_648.0, 1.0 / 4_294_967_296.0);
        let u2 = ((b[i] >> 8) as i32) as f32 * (1.0 / 16_777_216.0);
        let radius = (-2.0 * u1.ln_positive::<F>()).sqrt();
        let (s, c) = u2.sin_cos_turn::<F>();
        sines[i] = radius * s;
        cosines[i] = radius * c;
    }
    (sines, cosines)
}

#[inline(always)]
fn sixteen_f64<const F: bool>(lanes: &mut Lanes, out: &mut [f64; 16]) {
    let (a, b, c, d) = (lanes.next(), lanes.next(), lanes.next(), lanes.next());
    let unit = |hi: u32, lo: u32| {
        let bits = (u64::from(hi) << 20) | u64::from(lo >> 12);
        f64::from_bits(0x3FF0_0000_0000_0000 | bits) - 1.0
    };
    for i in 0..LANES {
        let u1 = unit(a[i], b[i]) + 1.0 / 9_007_199_254_740_992.0;
        let radius = (-2.0 * u1.ln_positive::<F>()).sqrt();
        let (s, c) = unit(c[i], d[i]).sin_cos_turn::<F>();
        out[i] = radius * s;
        out[i + LANES] = radius * c;
    }
}

macro_rules! fill {
    ($name:ident, $t:ty, $sixteen:ident) => {
        simd_fn! {
            fn $name(key: Key, out: &mut [$t]) {
                let mut lanes = Lanes::new(key);
                let (chunks, rest) = out.as_chunks_mut::<16>();
                for chunk in chunks {
                    $sixteen::<F>(&mut lanes, chunk);
                }
                if !rest.is_empty() {
                    let mut last = [0.0; 16];
                    $sixteen::<F>(&mut lanes, &mut last);
                    rest.copy_from_slice(&last[..rest.len()]);
                }
            }
        }
    };
}
fill!(fill_f32, f32, sixteen_f32);
fill!(fill_f64, f64, sixteen_f64);

impl Normals for f32 {
    fn fill_block(key: Key, out: &mut [f32]) {
        debug_assert!(out.len() <= BLOCK);
        #[cfg(target_arch = "x86_64")]
        if crate::math::simd::wider() {
            // SAFETY: `simd::wider` is true only where all features of the function were detected.
            return unsafe { super::normal_wider::fill(key, out) };
        }
        fill_f32(key, out);
    }
}

impl Normals for f64 {
    fn fill_block(key: Key, out: &mut [f64]) {
        debug_assert!(out.len() <= BLOCK);
        fill_f64(key, out);
    }
}

/// Fills a vector of any length with standard normals: block b from `key.block(b)`.
///
/// ```
/// use posterior::rng::{Key, fill_normals};
/// let mut z = vec![0.0_f32; 5000];
/// fill_normals(Key::new(1), &mut z);
/// let mean = z.iter().sum::<f32>() / 5000.0;
/// assert!(mean.abs() < 0.06); // four standard errors
/// ```
pub fn fill_normals<R: Normals>(key: Key, out: &mut [R]) {
    for (b, chunk) in out.chunks_mut(BLOCK).enumerate() {
        R::fill_block(key.block(b as u64), chunk);
    }
}

/// [`fill_normals`] on the rayon pool; the same bits.
pub fn fill_normals_par<R: Normals>(key: Key, out: &mut [R]) {
    out.par_chunks_mut(16 * BLOCK).enumerate().for_each(|(g, group)| {
        for (b, chunk) in group.chunks_mut(BLOCK).enumerate() {
            R::fill_block(key.block((16 * g + b) as u64), chunk);
        }
    });
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// Every length, whole groups or not: the numbers of a key do not depend on the processor.
    #[test]
    fn avx_512_and_avx2_give_the_same_bits() {
        if !crate::math::simd::wider() {
            return;
        }
        for n in [1, 7, 16, 31, 32, 33, 500, BLOCK] {
            let (mut wide, mut wider) = (vec![0.0f32; n], vec![0.0f32; n]);
            fill_f32(Key::new(n as u64), &mut wide);
            f32::fill_block(Key::new(n as u64), &mut wider);
            assert!(wide.iter().zip(&wider).all(|(a, b)| a.to_bits() == b.to_bits()), "{n} numbers");
        }
    }
}
