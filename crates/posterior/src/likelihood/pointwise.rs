//! One driver for likelihoods that treat every target on its own: rows go through in lanes, sums in f64.
//!
//! scale·Σ weightₙ·log p(yₙₜ|fₙ), its gradient and the sums for the noise in one pass, compiled for AVX2. A kernel gives
//! the arithmetic of one number. About 1 ns per row for the Gaussian, 3 ns with an exponential and a logarithm.

use crate::math::Real;
use crate::simd_fn;

/// Rows that go through together: two registers of f32.
const LANES: usize = 16;

/// What a kernel says of one target of one row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point<R, V> {
    /// log p up to what [`Sums::weight`] is multiplied with afterwards.
    pub value: V,
    /// d log p/df, the second only with [`Kernel::OUTPUTS`] = 2.
    pub d_f: [R; 2],
    /// d log p/d noise, up to a constant as well.
    pub d_noise: V,
}

/// log p(y|f) of one target, free of branches. Finite for f = 0, y = 0, with which the last lanes are padded.
pub(super) trait Kernel<R: Real>: Copy {
    /// Network outputs per target, 1 or 2; the second ones stand behind all the first ones of a row.
    const OUTPUTS: usize = 1;
    /// What values are computed in. The widest number in a kernel decides how many fit a register, so `R` where it can
    /// be; sums are in f64 all the same.
    type Value: Real;
    /// The arithmetic.
    fn at<const F: bool>(self, f: [R; 2], y: R) -> Point<R, Self::Value>;
}

/// Sums over rows, each times its weight, none times the scale.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sums {
    /// Σ weight·value
    pub value: f64,
    /// Σ weight·d_noise
    pub d_noise: f64,
    /// Σ weight
    pub weight: f64,
}

/// Where a target stands in its row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    /// Which target.
    pub target: usize,
    /// Out of how many.
    pub of: usize,
}

simd_fn! {
    /// Runs the kernel over one target of all rows; writes scale·weight·d log p/df into `d_f`.
    pub(super) fn column<R>(
        kernel: impl Kernel<R>,
        column: Column,
        f: &[R],
        y: &[R],
        weights: Option<&[R]>,
        scale: f64,
        d_f: Option<&mut [R]>,
    ) -> Sums {
        // One target is the common case: with a constant stride its loads are contiguous.
        if column.of == 1 {
            drive::<R, _, F>(kernel, Column { target: 0, of: 1 }, f, y, weights, scale, d_f)
        } else {
            drive::<R, _, F>(kernel, column, f, y, weights, scale, d_f)
        }
    }
}

/// Partial sums, one per lane.
#[derive(Clone, Copy)]
struct Lanes {
    value: [f64; LANES],
    d_noise: [f64; LANES],
    weight: [f64; LANES],
}

// These two are functions and not closures: a closure may stay out of line, and is then compiled without AVX2.
#[inline(always)]
fn drive<R: Real, K: Kernel<R>, const F: bool>(
    kernel: K,
    column: Column,
    f: &[R],
    y: &[R],
    weights: Option<&[R]>,
    scale: f64,
    mut d_f: Option<&mut [R]>,
) -> Sums {
    let (stride, of) = (K::OUTPUTS * column.of, column.of);
    let rows = y.len() / of;
    let scale = R::of(scale);
    let mut lanes = Lanes { value: [0.0; LANES], d_noise: [0.0; LANES], weight: [0.0; LANES] };
    let full = rows / LANES * LANES;
    for start in (0..full).step_by(LANES) {
        let end = start + LANES;
        let (f, y, w) = (&f[start * stride..end * stride], &y[start * of..end * of], weights.map(|w| &w[start..end]));
        let d = d_f.as_deref_mut().map(|d| &mut d[start * stride..end * stride]);
        block::<R, K, F>(kernel, column, LANES, f, y, w, scale, d, &mut lanes);
    }
    if full < rows {
        let (f, y, w) = (&f[full * stride..], &y[full * of..], weights.map(|w| &w[full..]));
        let d = d_f.map(|d| &mut d[full * stride..]);
        block::<R, K, F>(kernel, column, rows - full, f, y, w, scale, d, &mut lanes);
    }
    Sums { value: lanes.value.iter().sum(), d_noise: lanes.d_noise.iter().sum(), weight: lanes.weight.iter().sum() }
}

#[inline(always)]
fn block<R: Real, K: Kernel<R>, const F: bool>(
    kernel: K,
    Column { target, of }: Column,
    count: usize,
    f: &[R],
    y: &[R],
    weights: Option<&[R]>,
    scale: R,
    d_f: Option<&mut [R]>,
    lanes: &mut Lanes,
) {
    let stride = K::OUTPUTS * of;
    let mut fs = [[R::ZERO; LANES]; 2];
    let mut ys = [R::ZERO; LANES];
    let mut ws = [R::ZERO; LANES];
    for l in 0..count {
        fs[0][l] = f[l * stride + target];
        if K::OUTPUTS == 2 {
            fs[1][l] = f[l * stride + of + target];
        }
        ys[l] = y[l * of + target];
        ws[l] = R::ONE;
    }
    if let Some(w) = weights {
        ws[..count].copy_from_slice(&w[..count]);
    }
    let mut values = [K::Value::ZERO; LANES];
    let mut noises = [K::Value::ZERO; LANES];
    let mut gradient = [[R::ZERO; LANES]; 2];
    for l in 0..LANES {
        let point = kernel.at::<F>([fs[0][l], fs[1][l]], ys[l]);
        values[l] = point.value;
        noises[l] = point.d_noise;
        gradient[0][l] = point.d_f[0];
        gradient[1][l] = point.d_f[1];
    }
    for l in 0..LANES {
        let w = ws[l].f64();
        lanes.value[l] += w * values[l].f64();
        lanes.d_noise[l] += w * noises[l].f64();
        lanes.weight[l] += w;
    }
    if let Some(d) = d_f {
        for l in 0..count {
            let factor = ws[l] * scale;
            d[l * stride + target] = gradient[0][l] * factor;
            if K::OUTPUTS == 2 {
                d[l * stride + of + target] = gradient[1][l] * factor;
            }
        }
    }
}
