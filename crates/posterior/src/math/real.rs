//! The two floating-point types layers are generic over, with elementary functions that vectorise.
//!
//! Every function takes a constant `F`: `true` compiles multiply-adds to one fused instruction (only inside code built for
//! a processor that has it, see [`simd_fn!`](crate::simd_fn)), `false` to a product and a sum. The functions are free of branches, so a loop
//! over them becomes SIMD code. Not-a-number goes in and comes out.
//!
//! | function | f32 | f64 | domain |
//! |---|---|---|---|
//! | exp | 2e-7 relative | 5e-16 relative | all; 0 below −87.3 (−708), ∞ above 88.3 (709) |
//! | ln | 2e-7 relative or absolute | 5e-16 | all; −∞ at 0 |
//! | tanh | 4e-7 absolute | 4e-16 absolute | all |
//! | sigmoid | 2e-7 absolute | 4e-16 absolute | all |
//! | softplus | 4e-7 relative | 1e-15 relative | all |
//!
//! The bounds are tested against the standard library in f64 (`tests/elementary.rs`).

use std::fmt::{Debug, Display};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

mod sealed {
    /// Kernels are written and tested for two types: no other crate can add a third.
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// `f32` or `f64`, and no other type.
pub trait Real:
    sealed::Sealed
    + Copy
    + std::default::Default
    + PartialEq
    + PartialOrd
    + Debug
    + Display
    + Send
    + Sync
    + 'static
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + DivAssign
    + Sum
{
    /// 0
    const ZERO: Self;
    /// 1
    const ONE: Self;
    /// ½
    const HALF: Self;
    /// Rounds to this type.
    fn of(x: f64) -> Self;
    /// Widens to f64.
    fn f64(self) -> f64;
    /// |x|
    fn abs(self) -> Self;
    /// √x
    fn sqrt(self) -> Self;
    /// The sign of `sign` on the size of `self`.
    fn copysign(self, sign: Self) -> Self;
    /// Neither infinite nor not-a-number.
    fn is_finite(self) -> bool;
    /// self·a + b, fused when `F`.
    fn mul_add<const F: bool>(self, a: Self, b: Self) -> Self;
    /// eˣ
    fn exp<const F: bool>(self) -> Self;
    /// ln x
    fn ln<const F: bool>(self) -> Self;
    /// ln x for x known to be positive and normal; saves the special cases.
    fn ln_positive<const F: bool>(self) -> Self;
    /// Sine and cosine of 2π·self, for self in [0, 1].
    fn sin_cos_turn<const F: bool>(self) -> (Self, Self);

    /// The larger; not-a-number in `self` stays.
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        if self < other { other } else { self }
    }
    /// The smaller; not-a-number in `self` stays.
    #[inline(always)]
    fn min(self, other: Self) -> Self {
        if self > other { other } else { self }
    }
    /// (1 − e⁻²ˣ)/(1 + e⁻²ˣ)
    #[inline(always)]
    fn tanh<const F: bool>(self) -> Self {
        let e = (-(self.abs() + self.abs())).exp::<F>();
        ((Self::ONE - e) / (Self::ONE + e)).copysign(self)
    }
    /// 1/(1 + e⁻ˣ)
    #[inline(always)]
    fn sigmoid<const F: bool>(self) -> Self {
        let e = (-self.abs()).exp::<F>();
        let small = e / (Self::ONE + e);
        if self < Self::ZERO { small } else { Self::ONE - small }
    }
    /// ln(1 + eˣ), positive for every x: log1p keeps the digits that 1 + e⁻ˣ loses.
    #[inline(always)]
    fn softplus<const F: bool>(self) -> Self {
        let z = (-self.abs()).exp::<F>();
        let u = Self::ONE + z;
        let lost = (u - Self::ONE) - z;
        self.max(Self::ZERO) + (u.ln_positive::<F>() - lost / u)
    }
}

impl Real for f32 {
    const ZERO: f32 = 0.0;
    const ONE: f32 = 1.0;
    const HALF: f32 = 0.5;
    #[inline(always)]
    fn of(x: f64) -> f32 {
        x as f32
    }
    #[inline(always)]
    fn f64(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn abs(self) -> f32 {
        f32::abs(self)
    }
    #[inline(always)]
    fn sqrt(self) -> f32 {
        f32::sqrt(self)
    }
    #[inline(always)]
    fn copysign(self, sign: f32) -> f32 {
        f32::copysign(self, sign)
    }
    #[inline(always)]
    fn is_finite(self) -> bool {
        f32::is_finite(self)
    }
    #[inline(always)]
    fn mul_add<const F: bool>(self, a: f32, b: f32) -> f32 {
        if F { f32::mul_add(self, a, b) } else { self * a + b }
    }
    /// e^x = 2ⁿ·e^r with n = round(x·log₂e) and a polynomial in r ∈ [−ln2/2, ln2/2] (Cephes `expf`).
    #[inline(always)]
    fn exp<const F: bool>(self) -> f32 {
        const MAGIC: f32 = 12_582_912.0; // 1.5·2²³: adding it rounds to a whole number kept in the low bits
        let x = Real::min(Real::max(self, -88.0), 89.0);
        let shifted = Real::mul_add::<F>(x, std::f32::consts::LOG2_E, MAGIC);
        let n = shifted - MAGIC;
        let r = Real::mul_add::<F>(n, -0.693_359_4, x);
        let r = Real::mul_add::<F>(n, 2.121_944_4e-4, r);
        let mut p = 1.987_569_1e-4_f32;
        for c in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 5e-1] {
            p = Real::mul_add::<F>(p, r, c);
        }
        let y = Real::mul_add::<F>(r * r, p, r + 1.0);
        let n = shifted.to_bits().wrapping_sub(MAGIC.to_bits());
        y * f32::from_bits(n.wrapping_add(127) << 23)
    }
    #[inline(always)]
    fn ln<const F: bool>(self) -> f32 {
        let tiny = self < f32::MIN_POSITIVE;
        let scaled = if tiny { self * 8_388_608.0 } else { self };
        let y = scaled.ln_positive::<F>() - if tiny { 15.942_385 } else { 0.0 };
        let y = if self == 0.0 { f32::NEG_INFINITY } else { y };
        let y = if self == f32::INFINITY { f32::INFINITY } else { y };
        if self >= 0.0 { y } else { f32::NAN }
    }
    /// x = 2ᵉ·(1+m), m ∈ [√½−1, √2−1); polynomial in m (Cephes `logf`).
    #[inline(always)]
    fn ln_positive<const F: bool>(self) -> f32 {
        let b = self.to_bits();
        let e = (b.wrapping_sub(0x3f35_04f3) as i32) >> 23;
        let m = f32::from_bits(b.wrapping_sub((e << 23) as u32)) - 1.0;
        let e = e as f32;
        let z = m * m;
        let mut p = 7.037_683_6e-2_f32;
        for c in [
            -1.151_461e-1,
            1.167_699_9e-1,
            -1.242_014_1e-1,
            1.424_932_3e-1,
            -1.666_805_8e-1,
            2.000_071_5e-1,
            -2.499_999_4e-1,
            3.333_333e-1,
        ] {
            p = Real::mul_add::<F>(p, m, c);
        }
        let y = Real::mul_add::<F>(e, -2.121_944_4e-4, m * z * p);
        let y = Real::mul_add::<F>(z, -0.5, y);
        Real::mul_add::<F>(e, 0.693_359_4, m + y)
    }
    /// x·P(x²)/Q(x²) on ±7.9, where tanh has come to 1 (the minimax rational function of Eigen's `ptanh`).
    #[inline(always)]
    fn tanh<const F: bool>(self) -> f32 {
        const END: f32 = 7.905_311;
        let x = Real::min(Real::max(self, -END), END);
        let z = x * x;
        let mut p = -2.760_768_5e-16_f32;
        for c in [2.000_188e-13, -8.604_672e-11, 5.122_297e-8, 1.485_722_4e-5, 6.372_619_3e-4, 4.893_524_6e-3] {
            p = Real::mul_add::<F>(p, z, c);
        }
        let mut q = 1.198_258_4e-6_f32;
        for c in [1.185_347e-4, 2.268_434_6e-3, 4.893_525e-3] {
            q = Real::mul_add::<F>(q, z, c);
        }
        x * p / q
    }
    /// Nearest quarter turn, then polynomials on [−π/4, π/4] (Cephes `sinf`, `cosf`).
    #[inline(always)]
    fn sin_cos_turn<const F: bool>(self) -> (f32, f32) {
        const MAGIC: f32 = 12_582_912.0;
        let shifted = Real::mul_add::<F>(self, 4.0, MAGIC);
        let q = shifted - MAGIC;
        let k = shifted.to_bits();
        let r = Real::mul_add::<F>(q, -0.25, self) * std::f32::consts::TAU;
        let z = r * r;
        let mut s = -1.951_529_6e-4_f32;
        s = Real::mul_add::<F>(s, z, 8.332_161e-3);
        s = Real::mul_add::<F>(s, z, -1.666_665_5e-1);
        let s = Real::mul_add::<F>(s * z, r, r);
        let mut c = 2.443_315_7e-5_f32;
        c = Real::mul_add::<F>(c, z, -1.388_731_6e-3);
        c = Real::mul_add::<F>(c, z, 4.166_664_6e-2);
        let c = Real::mul_add::<F>(c * z, z, Real::mul_add::<F>(z, -0.5, 1.0));
        let (a, b) = if k & 1 != 0 { (c, s) } else { (s, c) };
        let sign_a = (k & 2) << 30;
        let sign_b = (k.wrapping_add(1) & 2) << 30;
        (f32::from_bits(a.to_bits() ^ sign_a), f32::from_bits(b.to_bits() ^ sign_b))
    }
}

impl Real for f64 {
    const ZERO: f64 = 0.0;
    const ONE: f64 = 1.0;
    const HALF: f64 = 0.5;
    #[inline(always)]
    fn of(x: f64) -> f64 {
        x
    }
    #[inline(always)]
    fn f64(self) -> f64 {
        self
    }
    #[inline(always)]
    fn abs(self) -> f64 {
        f64::abs(self)
    }
    #[inline(always)]
    fn sqrt(self) -> f64 {
        f64::sqrt(self)
    }
    #[inline(always)]
    fn copysign(self, sign: f64) -> f64 {
        f64::copysign(self, sign)
    }
    #[inline(always)]
    fn is_finite(self) -> bool {
        f64::is_finite(self)
    }
    #[inline(always)]
    fn mul_add<const F: bool>(self, a: f64, b: f64) -> f64 {
        if F { f64::mul_add(self, a, b) } else { self * a + b }
    }
    /// As for f32, with the Taylor polynomial of degree 13 (its remainder is below 2⁻⁵⁶ there).
    #[inline(always)]
    fn exp<const F: bool>(self) -> f64 {
        const MAGIC: f64 = 6_755_399_441_055_744.0; // 1.5·2⁵²
        let x = Real::min(Real::max(self, -709.0), 710.0);
        let shifted = Real::mul_add::<F>(x, std::f64::consts::LOG2_E, MAGIC);
        let n = shifted - MAGIC;
        let r = Real::mul_add::<F>(n, -6.931_471_803_691_238e-1, x);
        let r = Real::mul_add::<F>(n, -1.908_214_929_270_587_7e-10, r);
        let mut p = 1.0 / 6_227_020_800.0;
        for c in [
            1.0 / 479_001_600.0,
            1.0 / 39_916_800.0,
            1.0 / 3_628_800.0,
            1.0 / 362_880.0,
            1.0 / 40_320.0,
            1.0 / 5_040.0,
            1.0 / 720.0,
            1.0 / 120.0,
            1.0 / 24.0,
            1.0 / 6.0,
            0.5,
            1.0,
            1.0,
        ] {
            p = Real::mul_add::<F>(p, r, c);
        }
        let n = shifted.to_bits().wrapping_sub(MAGIC.to_bits());
        p * f64::from_bits(n.wrapping_add(1023) << 52)
    }
    #[inline(always)]
    fn ln<const F: bool>(self) -> f64 {
        let tiny = self < f64::MIN_POSITIVE;
        let scaled = if tiny { self * 4_503_599_627_370_496.0 } else { self };
        let y = scaled.ln_positive::<F>() - if tiny { 36.043_653_389_117_15 } else { 0.0 };
        let y = if self == 0.0 { f64::NEG_INFINITY } else { y };
        let y = if self == f64::INFINITY { f64::INFINITY } else { y };
        if self >= 0.0 { y } else { f64::NAN }
    }
    /// FreeBSD's `log`: with s = m/(2+m), ln(1+m) = m − m²/2 + s·(m²/2 + R(s²)).
    #[inline(always)]
    fn ln_positive<const F: bool>(self) -> f64 {
        const MAGIC: f64 = 6_755_399_441_055_744.0;
        let b = self.to_bits();
        let e = (b.wrapping_sub(0x3fe6_a09e_667f_3bcd) as i64) >> 52;
        let m = f64::from_bits(b.wrapping_sub((e << 52) as u64)) - 1.0;
        // AVX2 cannot convert i64 to f64; the low bits of the magic number can.
        let e = f64::from_bits(MAGIC.to_bits().wrapping_add(e as u64)) - MAGIC;
        let s = m / (2.0 + m);
        let z = s * s;
        let mut r = 1.479_819_860_511_658_6e-1_f64;
        for c in [
            1.531_383_769_920_937_3e-1,
            1.818_357_216_161_805e-1,
            2.222_219_843_214_978_4e-1,
            2.857_142_874_366_239e-1,
            3.999_999_999_940_942e-1,
            6.666_666_666_666_735e-1,
        ] {
            r = Real::mul_add::<F>(r, z, c);
        }
        let half = 0.5 * m * m;
        let low = Real::mul_add::<F>(e, 1.908_214_929_270_587_7e-10, s * Real::mul_add::<F>(z, r, half));
        Real::mul_add::<F>(e, 6.931_471_803_691_238e-1, m - (half - low))
    }
    #[inline(always)]
    fn sin_cos_turn<const F: bool>(self) -> (f64, f64) {
        const MAGIC: f64 = 6_755_399_441_055_744.0;
        let shifted = Real::mul_add::<F>(self, 4.0, MAGIC);
        let q = shifted - MAGIC;
        let k = shifted.to_bits();
        let r = Real::mul_add::<F>(q, -0.25, self) * std::f64::consts::TAU;
        let z = r * r;
        let mut s = 1.589_690_995_211_55e-10_f64;
        for c in [
            -2.505_076_025_340_686_3e-8,
            2.755_731_370_707_006_8e-6,
            -1.984_126_982_985_795e-4,
            8.333_333_333_322_49e-3,
            -1.666_666_666_666_663_2e-1,
        ] {
            s = Real::mul_add::<F>(s, z, c);
        }
        let s = Real::mul_add::<F>(s * z, r, r);
        let mut c = -1.135_964_755_778_819_5e-11_f64;
        for a in [
            2.087_572_321_298_175e-9,
            -2.755_731_435_139_066_3e-7,
            2.480_158_728_947_673e-5,
            -1.388_888_888_887_411e-3,
            4.166_666_666_666_66e-2,
        ] {
            c = Real::mul_add::<F>(c, z, a);
        }
        let c = Real::mul_add::<F>(c * z, z, Real::mul_add::<F>(z, -0.5, 1.0));
        let (a, b) = if k & 1 != 0 { (c, s) } else { (s, c) };
        let sign_a = (k & 2) << 62;
        let sign_b = (k.wrapping_add(1) & 2) << 62;
        (f64::from_bits(a.to_bits() ^ sign_a), f64::from_bits(b.to_bits() ^ sign_b))
    }
}
