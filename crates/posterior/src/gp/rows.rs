//! Loops over a segment of columns for one row: squared distances, products, kernel functions of them with their slopes, weighted sums. All in SIMD.
//!
//! Points are kept dimension by dimension, so that a segment of columns is contiguous. Distances are sums of squared differences and not
//! |a|² + |b|² − 2a·b, which loses half the digits for rows that are close; at a few dozen inputs this costs less than a tenth of a factorisation.

use super::parse::Kind;
use crate::math::Real;
use crate::simd_fn;

simd_fn! {
    /// out ← Σ_d (a_d − b_d)², for columns `from` on of `b`, which has `n` columns.
    pub(super) fn square_distances(a: &[f64], b: &[f64], n: usize, from: usize, out: &mut [f64]) {
        out.fill(0.0);
        let len = out.len();
        for (d, a) in a.iter().enumerate() {
            let b = &b[d * n + from..d * n + from + len];
            for j in 0..len {
                let t = *a - b[j];
                out[j] = Real::mul_add::<F>(t, t, out[j]);
            }
        }
    }
}

simd_fn! {
    /// out ← Σ_d a_d b_d.
    pub(super) fn products(a: &[f64], b: &[f64], n: usize, from: usize, out: &mut [f64]) {
        out.fill(0.0);
        let len = out.len();
        for (d, a) in a.iter().enumerate() {
            let b = &b[d * n + from..d * n + from + len];
            for j in 0..len {
                out[j] = Real::mul_add::<F>(*a, b[j], out[j]);
            }
        }
    }
}

simd_fn! {
    /// Σ_j w_j (a − b_j)².
    pub(super) fn weighted_squares(w: &[f64], a: f64, b: &[f64]) -> f64 {
        let mut lanes = [0.0; 8];
        let b = &b[..w.len()];
        let ((w, w_rest), (b, b_rest)) = (w.as_chunks::<8>(), b.as_chunks::<8>());
        for (w, b) in w.iter().zip(b) {
            for l in 0..8 {
                let t = a - b[l];
                lanes[l] = Real::mul_add::<F>(w[l] * t, t, lanes[l]);
            }
        }
        let rest: f64 = w_rest.iter().zip(b_rest).map(|(w, b)| w * (a - b) * (a - b)).sum();
        lanes.iter().sum::<f64>() + rest
    }
}

simd_fn! {
    /// out ← out · x.
    pub(super) fn multiply(out: &mut [f64], x: &[f64]) {
        let x = &x[..out.len()];
        for i in 0..out.len() {
            out[i] *= x[i];
        }
    }
}

simd_fn! {
    /// out ← out + x.
    pub(super) fn add(out: &mut [f64], x: &[f64]) {
        let x = &x[..out.len()];
        for i in 0..out.len() {
            out[i] += x[i];
        }
    }
}

/// x ← k(r²) for x = r² of a kernel that is a function of it; `slope`, unless empty, takes dk/d(r²).
pub(super) fn of_distance(kind: Kind, variance: f64, alpha: f64, x: &mut [f64], slope: &mut [f64]) {
    match kind {
        Kind::Matern12 => matern12(variance, x, slope),
        Kind::Matern32 => matern32(variance, x, slope),
        Kind::Matern52 => matern52(variance, x, slope),
        Kind::RationalQuadratic => rational_quadratic(variance, alpha, x, slope),
        _ => rbf(variance, x, slope),
    }
}

simd_fn! {
    fn rbf(v: f64, x: &mut [f64], slope: &mut [f64]) {
        for x in x.iter_mut() {
            *x = v * Real::exp::<F>(-0.5 * *x);
        }
        for (s, k) in slope.iter_mut().zip(&*x) {
            *s = -0.5 * k;
        }
    }
}

simd_fn! {
    fn matern12(v: f64, x: &mut [f64], slope: &mut [f64]) {
        if slope.is_empty() {
            for x in x.iter_mut() {
                *x = v * Real::exp::<F>(-x.sqrt());
            }
            return;
        }
        for (x, s) in x.iter_mut().zip(slope) {
            let r = x.sqrt();
            let k = v * Real::exp::<F>(-r);
            // At r = 0 the slope is infinite, but it only ever meets a factor r².
            *s = if r > 0.0 { -0.5 * k / r } else { 0.0 };
            *x = k;
        }
    }
}

simd_fn! {
    fn matern32(v: f64, x: &mut [f64], slope: &mut [f64]) {
        if slope.is_empty() {
            for x in x.iter_mut() {
                let r = (3.0 * *x).sqrt();
                *x = v * (1.0 + r) * Real::exp::<F>(-r);
            }
            return;
        }
        for (x, s) in x.iter_mut().zip(slope) {
            let r = (3.0 * *x).sqrt();
            let e = v * Real::exp::<F>(-r);
            (*x, *s) = ((1.0 + r) * e, -1.5 * e);
        }
    }
}

simd_fn! {
    fn matern52(v: f64, x: &mut [f64], slope: &mut [f64]) {
        if slope.is_empty() {
            for x in x.iter_mut() {
                let r = (5.0 * *x).sqrt();
                *x = v * (1.0 + r + r * r / 3.0) * Real::exp::<F>(-r);
            }
            return;
        }
        for (x, s) in x.iter_mut().zip(slope) {
            let r = (5.0 * *x).sqrt();
            let e = v * Real::exp::<F>(-r);
            (*x, *s) = ((1.0 + r + r * r / 3.0) * e, -5.0 / 6.0 * (1.0 + r) * e);
        }
    }
}

simd_fn! {
    fn rational_quadratic(v: f64, alpha: f64, x: &mut [f64], slope: &mut [f64]) {
        let half = 0.5 / alpha;
        if slope.is_empty() {
            for x in x.iter_mut() {
                *x = v * Real::exp::<F>(-alpha * Real::ln::<F>(1.0 + half * *x));
            }
            return;
        }
        for (x, s) in x.iter_mut().zip(slope) {
            let u = 1.0 + half * *x;
            let k = v * Real::exp::<F>(-alpha * Real::ln::<F>(u));
            (*x, *s) = (k, -0.5 * k / u);
        }
    }
}
