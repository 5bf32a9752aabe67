//! The blockful of f32 normals with AVX-512: the words of [`super::normal`]'s generator, its pairs sixteen at a time, the same bits.
//!
//! Written with instructions by name: left to itself the compiler packs the four words of a generator's state into one register, whose shuffles
//! cost more than the rest. `posterior-bench rng` measures it.

use super::key::Key;
use super::normal::{LANES, Lanes, pairs_f32};
use std::arch::x86_64::{
    __m256i, __m512i, _mm256_add_epi32, _mm256_rol_epi32, _mm256_slli_epi32, _mm256_xor_si256, _mm512_castsi256_si512,
    _mm512_inserti64x4,
};

/// Words of one kind in a group.
const WIDTH: usize = 2 * LANES;
/// Numbers in a group.
const GROUP: usize = 2 * WIDTH;

/// A step of xoshiro128++ in eight lanes.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx2,fma")]
fn next(s: &mut [__m256i; 4]) -> __m256i {
    let out = _mm256_add_epi32(_mm256_rol_epi32::<7>(_mm256_add_epi32(s[0], s[3])), s[0]);
    let t = _mm256_slli_epi32::<9>(s[1]);
    s[2] = _mm256_xor_si256(s[2], s[0]);
    s[3] = _mm256_xor_si256(s[3], s[1]);
    s[1] = _mm256_xor_si256(s[1], s[2]);
    s[0] = _mm256_xor_si256(s[0], s[3]);
    s[2] = _mm256_xor_si256(s[2], t);
    s[3] = _mm256_rol_epi32::<11>(s[3]);
    out
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx2,fma")]
fn joined(low: __m256i, high: __m256i) -> [u32; WIDTH] {
    let both: __m512i = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high);
    // SAFETY: both are 64 bytes, and every pattern of bits is a word.
    unsafe { std::mem::transmute::<__m512i, [u32; WIDTH]>(both) }
}

/// Fills at most a block from one key.
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx2,fma")]
pub(super) fn fill(key: Key, out: &mut [f32]) {
    // SAFETY: both are 128 bytes, and every pattern of bits is a word.
    let mut s = unsafe { std::mem::transmute::<[[u32; LANES]; 4], [__m256i; 4]>(Lanes::new(key).s) };
    // One loop for whole groups and the last: a second copy of its body would be a function of its own, with the state in memory.
    for out in out.chunks_mut(GROUP) {
        let (a, b, c, d) = (next(&mut s), next(&mut s), next(&mut s), next(&mut s));
        let (sines, cosines) = pairs_f32::<true, WIDTH>(&joined(a, c), &joined(b, d));
        let parts = [&sines[..LANES], &cosines[..LANES], &sines[LANES..], &cosines[LANES..]];
        if out.len() == GROUP {
            out.as_chunks_mut::<LANES>().0.iter_mut().zip(parts).for_each(|(out, part)| out.copy_from_slice(part));
        } else {
            out.chunks_mut(LANES).zip(parts).for_each(|(out, part)| out.copy_from_slice(&part[..out.len()]));
        }
    }
}
