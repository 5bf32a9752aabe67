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
pub(super) struct Point<R> {
    /// log p up to what [`Sums::weight`] is multiplied with afterwards.
    pub value: f64,
    /// d log p/df, the second only with [`Kernel::OUTPUTS`] = 2.
    pub d_f: [R; 2],
    /// d log p/d noise, up to a constant as well.
    pub d_noise: f64,
}

/// log p(y|f) of one target, free of branches. Finite for f = 0, y = 0, with which the last lanes are padded.
pub(super) trait Kernel<R: Real>: Copy {
    /// Network outputs per target, 1 or 2; the second ones stand behind all the first ones of a row.
    const OUTPUTS: usize = 1;
    /// The arithmetic.
    fn at<const F: bool>(self, f: [R; 2], y: R) -> Point<R>;
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

#[inline(always)]
fn drive<R: Real, K: Kernel<R>, const F: bool>(
    kernel: K,
    Column { target, of }: Column,
    f: &[R],
    y: &[R],
    weights: Option<&[R]>,
    scale: f64,
    mut d_f: Option<&mut [R]>,
) -> Sums {
    let stride = K::OUTPUTS * of;
    let rows = y.len() / of;
    let scale = R::of(scale);
    let (mut value, mut d_noise, mut weight) = ([0.0_f64; LANES], [0.0_f64; LANES], [0.0_f64; LANES]);
    let mut block = |start: usize, count: usize| {
        let mut fs = [[R::ZERO; LANES]; 2];
        let mut ys = [R::ZERO; LANES];
        let mut ws = [R::ZERO; LANES];
        let f = &f[start * stride..(start + count) * stride];
        let y = &y[start * of..(start + count) * of];
        for l in 0..count {
            fs[0][l] = f[l * stride + target];
            if K::OUTPUTS == 2 {
                fs[1][l] = f[l * stride + of + target];
            }
            ys[l] = y[l * of + target];
        }
        match weights {
            Some(w) => ws[..count].copy_from_slice(&w[start..start + count]),
            None => ws[..count].fill(R::ONE),
        }
        let mut gradient = [[R::ZERO; LANES]; 2];
        for l in 0..LANES {
            let point = kernel.at::<F>([fs[0][l], fs[1][l]], ys[l]);
            let w = ws[l].f64();
            value[l] += w * point.value;
            d_noise[l] += w * point.d_noise;
            weight[l] += w;
            let factor = ws[l] * scale;
            gradient[0][l] = point.d_f[0] * factor;
            gradient[1][l] = point.d_f[1] * factor;
        }
        if let Some(d) = d_f.as_deref_mut() {
            let d = &mut d[start * stride..(start + count) * stride];
            for l in 0..count {
                d[l * stride + target] = gradient[0][l];
                if K::OUTPUTS == 2 {
                    d[l * stride + of + target] = gradient[1][l];
                }
            }
        }
    };
    let full = rows / LANES * LANES;
    for start in (0..full).step_by(LANES) {
        block(start, LANES);
    }
    if full < rows {
        block(full, rows - full);
    }
    Sums { value: value.iter().sum(), d_noise: d_noise.iter().sum(), weight: weight.iter().sum() }
}
