//! One number at a time: xoshiro256++ (Blackman & Vigna 2019), for shuffles, splits and odd distributions.

use super::key::{Key, mix};
use std::convert::Infallible;

/// A sequential stream. Implements `rand_core::Rng`, so everything of `rand_distr` can draw from it.
#[derive(Debug, Clone)]
pub struct Stream {
    s: [u64; 4],
}

impl Stream {
    /// The stream of a key.
    pub fn new(key: Key) -> Stream {
        let [a, b] = key.0;
        let mut s = [mix(a), mix(b ^ 0xA5A5_A5A5_A5A5_A5A5), mix(a.wrapping_add(b)), mix(a ^ b.rotate_left(17))];
        s[0] |= 1; // never all zero
        Stream { s }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.s;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform on the open interval (0, 1), 52 bits: with 53, the last number would round to 1.
    pub fn uniform(&mut self) -> f64 {
        ((self.bits() >> 12) as f64 + 0.5) * (1.0 / 4_503_599_627_370_496.0)
    }

    /// Uniform on 0..n, without bias (Lemire 2019).
    ///
    /// # Panics
    /// If n is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "0..0 has no number");
        loop {
            let m = u128::from(self.bits()) * u128::from(n);
            if (m as u64) >= n.wrapping_neg() % n {
                return (m >> 64) as u64;
            }
        }
    }

    /// One standard normal (for many, [`super::fill_normals`] is ten times faster).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Fisher–Yates.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

impl rand_core::TryRng for Stream {
    type Error = Infallible;
    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.bits() >> 32) as u32)
    }
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.bits())
    }
    fn try_fill_bytes(&mut self, dst: &mut [u8]) -> Result<(), Infallible> {
        for chunk in dst.chunks_mut(8) {
            chunk.copy_from_slice(&self.bits().to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}
