//! What an activation makes of the mean and variance of a normal pre-activation z ~ N(μ, v), with all slopes.
//!
//! relu, with α = μ/s, s = √v, Q the upper tail and g = φ(α) − |α|Q(|α|) = E max(ζ − |α|, 0):
//!   mean = max(μ, 0) + s·g,  variance = v·(Φ(α) − g·(|α| + g)).
//! This form of μΦ + sφ and (μ² + v)Φ + μsφ − mean² subtracts nothing large, so f32 keeps its digits as v → 0.
//! Others, by Gauss–Hermite with [`NODES`]: mean = Σ wₖ φ(μ + s·xₖ),  variance = Σ wₖ (φ(μ + s·xₖ) − mean)².
//! Largest errors over μ of mean and variance, by s:
//!
//! | | s = 0.5 | s = 1 | s = 2 |
//! |---|---|---|---|
//! | tanh | 8e-7, 8e-6 | 6e-4, 4e-3 | 2e-2, 6e-2 |
//! | gelu | 7e-10, 3e-8 | 9e-6, 3e-4 | 6e-3, 4e-2 |
//! | silu | 9e-11, 2e-9 | 2e-6, 2e-5 | 1e-3, 8e-3 |
//! | sigmoid | 3e-11, 2e-10 | 4e-7, 2e-6 | 3e-4, 8e-4 |
//!
//! Slopes are those of these formulas, not of the integrals. Those in v are 1/(2s) times those in s; as v → 0 their rounding
//! grows like 1/s, but whatever comes of them is multiplied by a variance that is at most s².
//! Cost per number: an exponential and a Mills' ratio, or ten values of φ.

use super::activation::{Activation, with_activation};
use super::noisy::TINY;
use crate::math::Real;
use crate::math::mills::mills;
use crate::simd_fn;

/// Numbers that go through together.
pub(super) const LANES: usize = 16;
/// Slopes of a number: of the mean in μ and in v, of the variance in μ and in v. They stand in blocks of [`LANES`].
pub(super) const SLOPES: usize = 4;

/// Nodes and weights of the Gauss–Hermite rule for N(0, 1).
const NODES: [(f64, f64); 10] = [
    (-4.859_462_828_332_312, 4.310_652_630_718_287e-6),
    (-3.581_823_483_551_927, 7.580_709_343_122_177e-4),
    (-2.484_325_841_638_954_6, 1.911_158_050_077_028_6e-2),
    (-1.465_989_094_391_158_2, 1.354_837_029_802_677_4e-1),
    (-4.849_357_075_154_976_4e-1, 3.446_423_349_320_190_7e-1),
    (4.849_357_075_154_976_4e-1, 3.446_423_349_320_190_7e-1),
    (1.465_989_094_391_158_2, 1.354_837_029_802_677_4e-1),
    (2.484_325_841_638_954_6, 1.911_158_050_077_028_6e-2),
    (3.581_823_483_551_927, 7.580_709_343_122_177e-4),
    (4.859_462_828_332_312, 4.310_652_630_718_287e-6),
];

/// Where φ has no more to say: e^(−½·40²) is 0.
const FAR: f64 = 40.0;
const INV_SQRT_TAU: f64 = 0.398_942_280_401_432_7;

type Lanes<R> = [R; LANES];

simd_fn! {
    /// Moments of z to moments of φ(z), in place; `slopes`, unless empty, takes [`SLOPES`] numbers for each.
    pub(super) fn activate<R>(activation: Activation, mean: &mut [R], variance: &mut [R], slopes: &mut [R]) {
        with_activation!(activation, A => if slopes.is_empty() {
            blocks::<R, F, false>(A, mean, variance, slopes);
        } else {
            blocks::<R, F, true>(A, mean, variance, slopes);
        });
    }
}

#[inline(always)]
fn blocks<R: Real, const F: bool, const KEEP: bool>(
    a: Activation,
    mean: &mut [R],
    variance: &mut [R],
    slopes: &mut [R],
) {
    let (means, mean_rest) = mean.as_chunks_mut::<LANES>();
    let (variances, variance_rest) = variance.as_chunks_mut::<LANES>();
    let (slopes, _) = slopes.as_chunks_mut::<LANES>();
    let (slopes, _) = slopes.as_chunks_mut::<SLOPES>();
    let full = means.len();
    let mut unused = [[R::ZERO; LANES]; SLOPES];
    for i in 0..full {
        let d = if KEEP { &mut slopes[i] } else { &mut unused };
        one::<R, F, KEEP>(a, &mut means[i], &mut variances[i], d);
    }
    let rest = mean_rest.len();
    if rest > 0 {
        let (mut m, mut v) = ([R::ZERO; LANES], [R::ZERO; LANES]);
        m[..rest].copy_from_slice(mean_rest);
        v[..rest].copy_from_slice(variance_rest);
        let d = if KEEP { &mut slopes[full] } else { &mut unused };
        one::<R, F, KEEP>(a, &mut m, &mut v, d);
        mean_rest.copy_from_slice(&m[..rest]);
        variance_rest.copy_from_slice(&v[..rest]);
    }
}

#[inline(always)]
fn one<R: Real, const F: bool, const KEEP: bool>(
    a: Activation,
    mean: &mut Lanes<R>,
    variance: &mut Lanes<R>,
    slopes: &mut [Lanes<R>; SLOPES],
) {
    match a {
        Activation::Relu => relu::<R, F, KEEP>(mean, variance, slopes),
        a => quadrature::<R, F, KEEP>(a, mean, variance, slopes),
    }
}

#[inline(always)]
fn relu<R: Real, const F: bool, const KEEP: bool>(
    mean: &mut Lanes<R>,
    variance: &mut Lanes<R>,
    slopes: &mut [Lanes<R>; SLOPES],
) {
    for l in 0..LANES {
        let (mu, v) = (mean[l], variance[l] + R::of(TINY));
        let s = v.sqrt();
        let inverse = R::ONE / s;
        let a = (mu.abs() * inverse).min(R::of(FAR));
        let density = R::of(INV_SQRT_TAU) * (-R::HALF * a * a).exp::<F>();
        let ratio = mills::<R, F>(a);
        let tail = density * ratio;
        let excess = (density * (R::ONE - a * ratio)).max(R::ZERO);
        let (below, above) = if mu < R::ZERO { (R::ONE - tail, tail) } else { (tail, R::ONE - tail) };
        let m = s.mul_add::<F>(excess, mu.max(R::ZERO));
        mean[l] = m;
        variance[l] = v * (above - excess * (a + excess)).max(R::ZERO);
        if KEEP {
            slopes[0][l] = above;
            slopes[1][l] = R::HALF * density * inverse;
            slopes[2][l] = (m + m) * below;
            slopes[3][l] = above - m * density * inverse;
        }
    }
}

#[inline(always)]
fn quadrature<R: Real, const F: bool, const KEEP: bool>(
    a: Activation,
    mean: &mut Lanes<R>,
    variance: &mut Lanes<R>,
    slopes: &mut [Lanes<R>; SLOPES],
) {
    let mu = *mean;
    let mut s = [R::ZERO; LANES];
    for l in 0..LANES {
        s[l] = (variance[l] + R::of(TINY)).sqrt();
    }
    let mut values = [[R::ZERO; LANES]; NODES.len()];
    *mean = [R::ZERO; LANES];
    for (values, (x, w)) in values.iter_mut().zip(NODES) {
        for l in 0..LANES {
            let value = a.value::<R, F>(s[l].mul_add::<F>(R::of(x), mu[l]));
            values[l] = value;
            mean[l] = value.mul_add::<F>(R::of(w), mean[l]);
        }
    }
    *variance = [R::ZERO; LANES];
    if KEEP {
        *slopes = [[R::ZERO; LANES]; SLOPES];
    }
    for (values, (x, w)) in values.iter().zip(NODES) {
        for l in 0..LANES {
            let c = values[l] - mean[l];
            variance[l] = (R::of(w) * c).mul_add::<F>(c, variance[l]);
            if KEEP {
                let slope = R::of(w) * a.slope::<R, F>(s[l].mul_add::<F>(R::of(x), mu[l]), values[l]);
                let along = R::of(x) * slope;
                slopes[0][l] += slope;
                slopes[1][l] += along;
                slopes[2][l] = slope.mul_add::<F>(c, slopes[2][l]);
                slopes[3][l] = along.mul_add::<F>(c, slopes[3][l]);
            }
        }
    }
    if KEEP {
        for l in 0..LANES {
            let inverse = R::ONE / s[l];
            slopes[1][l] *= R::HALF * inverse;
            slopes[2][l] += slopes[2][l];
            slopes[3][l] *= inverse;
        }
    }
}

simd_fn! {
    /// dL/d(mean, variance) of φ(z) to that of z, in place.
    pub(super) fn through_slopes<R>(slopes: &[R], d_mean: &mut [R], d_variance: &mut [R]) {
        let blocks = d_mean.chunks_mut(LANES).zip(d_variance.chunks_mut(LANES));
        for ((dm, dv), slopes) in blocks.zip(slopes.chunks_exact(SLOPES * LANES)) {
            for l in 0..dm.len() {
                let (m, v) = (dm[l], dv[l]);
                dm[l] = slopes[l].mul_add::<F>(m, slopes[2 * LANES + l] * v);
                dv[l] = slopes[LANES + l].mul_add::<F>(m, slopes[3 * LANES + l] * v);
            }
        }
    }
}

simd_fn! {
    /// z + b on every row.
    pub(super) fn add_to_rows<R>(bias: &[R], z: &mut [R]) {
        let n = bias.len();
        for row in z.chunks_exact_mut(n) {
            for j in 0..n {
                row[j] += bias[j];
            }
        }
    }
}

simd_fn! {
    /// The sum over rows, added to `sum`.
    pub(super) fn add_rows<R>(rows: &[R], sum: &mut [R]) {
        let n = sum.len();
        for row in rows.chunks_exact(n) {
            for j in 0..n {
                sum[j] += row[j];
            }
        }
    }
}

simd_fn! {
    /// With T = vₓᵀ dv: what it adds to dL/dM and to dL/dV.
    pub(super) fn add_product<R>(mean: &[R], t: &[R], d_mean: &mut [R], d_variance: &mut [R]) {
        let n = t.len();
        let (mean, d_mean, d_variance) = (&mean[..n], &mut d_mean[..n], &mut d_variance[..n]);
        for i in 0..n {
            d_mean[i] = (mean[i] + mean[i]).mul_add::<F>(t[i], d_mean[i]);
            d_variance[i] += t[i];
        }
    }
}

simd_fn! {
    /// m² + v of every parameter.
    pub fn second_moments<R>(mean: &[R], variance: &[R], out: &mut [R]) {
        let n = out.len();
        let (mean, variance) = (&mean[..n], &variance[..n]);
        for i in 0..n {
            out[i] = mean[i].mul_add::<F>(mean[i], variance[i]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_those_of_gauss_and_hermite() {
        let (x, w) = crate::math::special::normal_quadrature(NODES.len()).unwrap();
        for (ours, theirs) in NODES.iter().zip(x.iter().zip(&w)) {
            // The rule's own accuracy.
            assert!((ours.0 - theirs.0).abs() < 1e-13 && (ours.1 / theirs.1 - 1.0).abs() < 1e-12);
        }
    }
}
