//! Products of a small network that are too thin for `gemm`: few terms per sum, one column, a column by a row. Those over rows are in `over_rows.rs`.
//!
//! C = 1·bᵀ + A·B, with A of shape m × k, B of k × n, b of n. Cost: m·n·k multiply-adds and one write of C; what
//! `gemm` spends on choosing and packing blocks weighs as much as the sums where k is about ten.
//!
//! A row's numbers come from that row alone, by the same operations in the same order whatever rows stand around it: the
//! bits do not depend on how rows were cut into chunks.

use super::Real;
use crate::simd_fn;

/// The most terms per sum that [`few_terms`] takes.
pub const FEW: usize = 16;

/// Rows of a tile. With two vectors across, eight sums are under way at once: they hide the latency of a multiply-add
/// and leave registers for what they are made of.
const ROWS: usize = 4;

/// Rows whose lanes [`one_column`] adds up together.
const BLOCK: usize = 32;

/// N rows × V vectors of L sums, held in registers over all terms. Vectors are arrays of their own: one array of V·L
/// numbers would not be kept in registers.
#[inline(always)]
fn tile<R: Real, const F: bool, const N: usize, const V: usize, const L: usize>(
    a: [&[R]; N],
    b: &[[[R; L]; V]],
    start: &[[R; L]; V],
) -> [[[R; L]; V]; N] {
    let mut sums = [*start; N];
    let a = a.map(|row| &row[..b.len()]);
    for t in 0..b.len() {
        for r in 0..N {
            for v in 0..V {
                for j in 0..L {
                    sums[r][v][j] = a[r][t].mul_add::<F>(b[t][v][j], sums[r][v][j]);
                }
            }
        }
    }
    sums
}

/// `N` rows of C at a time, columns `at..at + V·L`.
#[inline(always)]
fn down<R: Real, const F: bool, const N: usize, const V: usize, const L: usize>(
    (n, at): (usize, usize),
    a: &[R],
    b: &[[[R; L]; V]],
    start: &[[R; L]; V],
    floor: R,
    c: &mut [R],
) {
    let k = b.len();
    for (a, c) in a.chunks_exact(N * k).zip(c.chunks_exact_mut(N * n)) {
        let mut rows = a.chunks_exact(k); // N of them
        let sums = tile::<R, F, N, V, L>([(); N].map(|_| rows.next().unwrap_or(a)), b, start);
        for (sums, c) in sums.iter().zip(c.chunks_exact_mut(n)) {
            c[at..at + V * L].copy_from_slice(sums.map(|v| v.map(|z| z.max(floor))).as_flattened());
        }
    }
}

/// Columns `at..at + V·L` of all rows.
#[inline(always)]
fn panel<R: Real, const F: bool, const V: usize, const L: usize>(
    (k, at): (usize, usize),
    a: &[R],
    b: &[R],
    bias: &[R],
    floor: R,
    c: &mut [R],
) {
    let n = bias.len();
    let mut start = [[R::ZERO; L]; V];
    start.as_flattened_mut().copy_from_slice(&bias[at..][..V * L]);
    let mut packed = [[[R::ZERO; L]; V]; FEW];
    for (packed, b) in packed[..k].iter_mut().zip(b.chunks_exact(n)) {
        packed.as_flattened_mut().copy_from_slice(&b[at..][..V * L]);
    }
    let whole = c.len() / (ROWS * n) * ROWS;
    let (c, c_left) = c.split_at_mut(whole * n);
    down::<R, F, ROWS, V, L>((n, at), a, &packed[..k], &start, floor, c);
    down::<R, F, 1, V, L>((n, at), &a[whole * k..], &packed[..k], &start, floor, c_left);
}

/// All columns.
#[inline(always)]
fn panels<R: Real, const F: bool, const L: usize>(k: usize, a: &[R], b: &[R], bias: &[R], floor: R, c: &mut [R]) {
    let n = bias.len();
    if n < L {
        // Less than a vector.
        for (a, c) in a.chunks_exact(k).zip(c.chunks_exact_mut(n.max(1))) {
            c.copy_from_slice(bias);
            for (a, b) in a.iter().zip(b.chunks_exact(n)) {
                for j in 0..n {
                    c[j] = a.mul_add::<F>(b[j], c[j]);
                }
            }
            c.iter_mut().for_each(|z| *z = z.max(floor));
        }
        return;
    }
    let mut at = 0;
    while at < n {
        if n - at >= 2 * L {
            panel::<R, F, 2, L>((k, at), a, b, bias, floor, c);
            at += 2 * L;
        } else {
            // Where the columns do not come out even, some are computed twice, to the same bits.
            panel::<R, F, 1, L>((k, at.min(n - L)), a, b, bias, floor, c);
            at += L;
        }
    }
}

simd_fn! {
    /// C (m×n, row-major) ← max(floor, 1·bᵀ + A (m×k) · B (k×n)), for 0 < k ≤ [`FEW`].
    ///
    /// A floor of 0 is a relu that costs no pass of its own; one of −∞ changes nothing.
    ///
    /// # Panics
    /// If k is outside of that, or the rows of A and C are not as many.
    wider pub fn few_terms<R>(k: usize, a: &[R], b: &[R], bias: &[R], floor: R, c: &mut [R]) {
        assert!((1..=FEW).contains(&k) && a.len() / k * bias.len() == c.len(), "1 to {FEW} terms, as many rows");
        // Vectors of 32 bytes, or 64 where a row fills them.
        match (size_of::<R>() == 4, W && size_of_val(bias) >= 64) {
            (true, true) => panels::<R, F, 16>(k, a, b, bias, floor, c),
            (true, false) | (false, true) => panels::<R, F, 8>(k, a, b, bias, floor, c),
            (false, false) => panels::<R, F, 4>(k, a, b, bias, floor, c),
        }
    }
}

/// The sum of all lanes, halves on halves.
#[inline(always)]
fn across<R: Real, const L: usize>(mut lanes: [R; L]) -> R {
    let mut half = L / 2;
    while half > 0 {
        for j in 0..half {
            lanes[j] += lanes[j + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// In two passes, sums per lane and sums over lanes: in one, the compiler takes lanes apart as early as in the loop.
#[inline(always)]
fn dots<R: Real, const F: bool, const L: usize>(a: &[R], b: &[R], bias: R, c: &mut [R]) {
    let k = b.len();
    let (whole, rest) = b.as_chunks::<L>();
    let mut lanes = [[R::ZERO; L]; BLOCK];
    for (a, c) in a.chunks(BLOCK * k).zip(c.chunks_mut(BLOCK)) {
        for ((a, c), lanes) in a.chunks_exact(k).zip(c.iter_mut()).zip(&mut lanes) {
            let (a, last) = a.as_chunks::<L>();
            let mut sums = [R::ZERO; L];
            for (a, b) in a.iter().zip(whole) {
                for j in 0..L {
                    sums[j] = a[j].mul_add::<F>(b[j], sums[j]);
                }
            }
            *lanes = sums;
            let mut sum = bias;
            for (a, b) in last.iter().zip(rest) {
                sum = a.mul_add::<F>(*b, sum);
            }
            *c = sum;
        }
        for (c, lanes) in c.iter_mut().zip(&lanes) {
            *c += across(*lanes);
        }
    }
}

simd_fn! {
    /// c (m) ← bias + A (m×k) · b (k), for k > 0: lanes over the terms that fill them, a sum from the bias on over the
    /// others.
    pub fn one_column<R>(a: &[R], b: &[R], bias: R, c: &mut [R]) {
        if size_of::<R>() == 4 {
            dots::<R, F, 8>(a, b, bias, c);
        } else {
            dots::<R, F, 4>(a, b, bias, c);
        }
    }
}

/// Row after row; where it does not come out even, the last vector of a row writes some numbers again.
#[inline(always)]
fn multiples<R: Real, const L: usize>(a: &[R], b: &[R], c: &mut [R]) {
    let n = b.len();
    let (whole, rest) = b.as_chunks::<L>();
    for (c, a) in c.chunks_exact_mut(n.max(1)).zip(a) {
        for (c, b) in c.as_chunks_mut::<L>().0.iter_mut().zip(whole) {
            for j in 0..L {
                c[j] = *a * b[j];
            }
        }
        if n >= L {
            if let (Some(c), Some(b)) = (c.last_chunk_mut::<L>(), b.last_chunk::<L>()) {
                for j in 0..L {
                    c[j] = *a * b[j];
                }
            }
        } else {
            for j in 0..rest.len() {
                c[j] = *a * rest[j];
            }
        }
    }
}

simd_fn! {
    /// C (m×n) ← a bᵀ, with a of m and b of n.
    wider pub fn outer<R>(a: &[R], b: &[R], c: &mut [R]) {
        match (size_of::<R>() == 4, W && size_of_val(b) >= 64) {
            (true, true) => multiples::<R, 16>(a, b, c),
            (true, false) | (false, true) => multiples::<R, 8>(a, b, c),
            (false, false) => multiples::<R, 4>(a, b, c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Key, fill_normals};

    fn normals<R: Real>(seed: u64, len: usize) -> Vec<R> {
        let mut v = vec![0.0f64; len];
        fill_normals(Key::new(seed), &mut v);
        v.into_iter().map(R::of).collect()
    }

    /// Every number against a loop in f64, and every row against itself alone.
    fn check<R: Real>(epsilon: f64, (m, n, k): (usize, usize, usize), run: impl Fn(&[R], &[R], &[R], &mut [R])) {
        let (a, b, bias) = (normals::<R>(1, m * k), normals::<R>(2, k * n), normals::<R>(3, n));
        let mut c = vec![R::ZERO; m * n];
        run(&a, &b, &bias, &mut c);
        for i in 0..m {
            for j in 0..n {
                let terms = (0..k).map(|t| a[i * k + t].f64() * b[t * n + j].f64());
                let exact = bias[j].f64() + terms.clone().sum::<f64>();
                // k products and k + 1 sums, each off by at most ε/2 of what the absolute values add up to.
                let size = bias[j].f64().abs() + terms.map(f64::abs).sum::<f64>();
                let off = (c[i * n + j].f64() - exact).abs();
                assert!(off <= (k + 1) as f64 * epsilon * size, "{m} × {n} × {k} at {i}, {j}: {off:e}");
            }
            let mut row = vec![R::ZERO; n];
            run(&a[i * k..][..k], &b, &bias, &mut row);
            assert_eq!(row, c[i * n..][..n], "{m} × {n} × {k}: row {i} alone");
        }
    }

    #[test]
    fn few_terms_agree_with_loops_and_rows_with_themselves() {
        for m in 1..=9 {
            for n in 1..=70 {
                for k in 1..=FEW {
                    let none = f64::NEG_INFINITY;
                    check::<f32>(f32::EPSILON.into(), (m, n, k), |a, b, bias, c| {
                        few_terms(k, a, b, bias, f32::NEG_INFINITY, c)
                    });
                    check::<f64>(f64::EPSILON, (m, n, k), |a, b, bias, c| few_terms(k, a, b, bias, none, c));
                }
            }
        }
    }

    #[test]
    fn one_column_agrees_with_loops_and_rows_with_themselves() {
        for m in (1..=9).chain([31, 32, 33, 70]) {
            for k in 1..=70 {
                check::<f32>(f32::EPSILON.into(), (m, 1, k), |a, b, bias, c| one_column(a, b, bias[0], c));
                check::<f64>(f64::EPSILON, (m, 1, k), |a, b, bias, c| one_column(a, b, bias[0], c));
            }
        }
    }

    #[test]
    fn a_column_by_a_row_is_the_products() {
        for m in [1, 2, 9] {
            for n in 1..=70 {
                let (a, b) = (normals::<f32>(1, m), normals::<f32>(2, n));
                let mut c = vec![0.0; m * n];
                outer(&a, &b, &mut c);
                assert!(c.iter().enumerate().all(|(i, c)| *c == a[i / n] * b[i % n]), "{m} × {n}");
            }
        }
    }
}
