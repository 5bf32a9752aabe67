//! The variance of one unit that is linear in its inputs: x̃ᵀΣx̃ = |Lᵀx̃|², Σ = L Lᵀ with L a lower triangle.
//!
//! Both this and the pass that gives f and x̃ are in f32, as the factor of Σ is kept: a sum of squares has errors in proportion to each direction's
//! standard deviation, about what rounding the factor has cost already. Cost per row: n²/2 multiply-adds, in strips of [`LANES`] columns that begin at their diagonal.

use super::linearised_forms::whole_factor;
use crate::math::linalg::lower_triangle;
use crate::math::{Real, simd};
use crate::nn::AffineBlock;
use crate::posterior::BlockGaussian;
use crate::problem::JacobianFactors;
use crate::simd_fn;

/// Columns that are summed together: one vector of AVX-512, two of AVX2.
const LANES: usize = 16;

/// Rows at a time: more were no longer kept in registers.
const ROWS: usize = 4;

/// L in strips: columns p·w to (p + 1)·w of the rows from p·w on, each strip row after row, 0 where the triangle has ended. A strip is w =
/// [`LANES`] wide, or twice that with AVX-512, which needs so many sums to be busy; the zeros before a diagonal change no sum, so the bits are the same.
#[derive(Debug)]
pub(super) struct UnitForm {
    n: usize,
    /// w/LANES
    halves: usize,
    strips: Vec<f32>,
}

impl UnitForm {
    /// None where the affine blocks are not one dense layer of one unit, with a covariance of its own.
    pub fn of(q: &BlockGaussian, affines: &[AffineBlock]) -> Option<UnitForm> {
        match affines {
            [affine] if affine.units == 1 && affine.positions == 1 => {
                whole_factor(q, affine.start, affine.len()).map(|factor| UnitForm::new(&factor, affine.len()))
            }
            _ => None,
        }
    }

    /// From any F with Σ = F Fᵀ, n × n.
    fn new(factor: &[f64], n: usize) -> UnitForm {
        UnitForm::with_halves(factor, n, if simd::wider() { 2 } else { 1 })
    }

    fn with_halves(factor: &[f64], n: usize, halves: usize) -> UnitForm {
        let (lower, width) = (lower_triangle(factor, n), halves * LANES);
        let mut strips = Vec::new();
        for from in (0..n).step_by(width) {
            for row in from..n {
                strips.extend((from..from + width).map(|c| if c <= row { lower[row * n + c] as f32 } else { 0.0 }));
            }
        }
        UnitForm { n, halves, strips }
    }

    /// Covariances of the outputs of the factors' rows, `rows × outputs²`.
    pub fn covariance(&self, factors: &JacobianFactors<f32>, outputs: usize, out: &mut [f64]) {
        spread(self.n, self.halves, factors.inputs(0), &self.strips, factors.deltas(0), outputs, out);
    }
}

/// |Lᵀx|² of N rows at once, from strips of H times [`LANES`] columns.
#[inline(always)]
fn squares<R: Real, const F: bool, const H: usize, const N: usize>(n: usize, x: [&[R]; N], strips: &[R]) -> [f64; N] {
    let mut total = [[R::ZERO; LANES]; N];
    let mut rest = strips;
    for from in (0..n).step_by(H * LANES) {
        let (strip, next) = rest.split_at((n - from) * H * LANES);
        rest = next;
        let x = x.map(|x| &x[from..n]);
        let mut sums = [[[R::ZERO; LANES]; H]; N];
        for (i, l) in strip.chunks_exact(H * LANES).enumerate() {
            let l = l.as_chunks::<LANES>().0;
            for r in 0..N {
                for h in 0..H {
                    for j in 0..LANES {
                        sums[r][h][j] = x[r][i].mul_add::<F>(l[h][j], sums[r][h][j]);
                    }
                }
            }
        }
        for r in 0..N {
            for h in 0..H {
                for j in 0..LANES {
                    total[r][j] = sums[r][h][j].mul_add::<F>(sums[r][h][j], total[r][j]);
                }
            }
        }
    }
    total.map(|t| t.iter().map(|v| v.f64()).sum())
}

/// [`ROWS`] rows at a time.
#[inline(always)]
fn by_rows<R: Real, const F: bool, const H: usize, const N: usize>(
    n: usize,
    x: &[R],
    strips: &[R],
    g: &[R],
    outputs: usize,
    out: &mut [f64],
) {
    let mut put = |row: usize, sum: f64| {
        let g = &g[row * outputs..(row + 1) * outputs];
        let out = &mut out[row * outputs * outputs..(row + 1) * outputs * outputs];
        for (out, gk) in out.chunks_exact_mut(outputs).zip(g) {
            out.iter_mut().zip(g).for_each(|(out, gl)| *out = sum * gk.f64() * gl.f64());
        }
    };
    let whole = x.len() / n / N * N;
    for (block, rows) in x.chunks_exact(N * n).enumerate() {
        let mut each = rows.chunks_exact(n);
        let sums = squares::<R, F, H, N>(n, [(); N].map(|_| each.next().unwrap_or(rows)), strips);
        sums.into_iter().enumerate().for_each(|(i, sum)| put(block * N + i, sum));
    }
    for (i, row) in x[whole * n..].chunks_exact(n).enumerate() {
        put(whole + i, squares::<R, F, H, 1>(n, [row], strips)[0]);
    }
}

simd_fn! {
    /// out_kl ← g_k g_l |Lᵀx|² for every row of x, g and out.
    wider fn spread<R>(n: usize, halves: usize, x: &[R], strips: &[R], g: &[R], outputs: usize, out: &mut [f64]) {
        if halves == 1 {
            by_rows::<R, F, 1, ROWS>(n, x, strips, g, outputs, out);
        } else {
            by_rows::<R, F, 2, ROWS>(n, x, strips, g, outputs, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Key, fill_normals};

    #[test]
    fn variances_are_quadratic_forms() {
        for n in [1, 2, 15, 16, 17, 51, 100] {
            let mut v = vec![0.0; n * n + 11 * n + 11];
            fill_normals(Key::new(n as u64), &mut v);
            let (factor, rest) = v.split_at(n * n);
            let (x, g) = rest.split_at(11 * n);
            let [narrow, narrow_g] = [x, g].map(|v| v.iter().map(|v| *v as f32).collect::<Vec<f32>>());
            let [out, doubled] = [1, 2].map(|halves| {
                let (unit, mut out) = (UnitForm::with_halves(factor, n, halves), vec![f64::NAN; 11]);
                spread(n, halves, &narrow, &unit.strips, &narrow_g, 1, &mut out);
                out
            });
            assert_eq!(out, doubled, "{n}: the width of a strip changes no bit");
            for row in 0..11 {
                let x = &x[row * n..(row + 1) * n];
                let turned = (0..n).map(|c| (0..n).map(|i| x[i] * factor[i * n + c]).sum::<f64>());
                let exact = g[row] * g[row] * turned.map(|t| t * t).sum::<f64>();
                // Sums of n terms in f32, whose parts are at most |x||F| each; the form is about |x|²|F|²/n for these.
                let bound = 4.0 * n as f64 * f64::from(f32::EPSILON) * exact.max(g[row] * g[row]);
                assert!((out[row] - exact).abs() <= bound, "{n}, row {row}: {} {exact}", out[row]);
            }
        }
    }
}
