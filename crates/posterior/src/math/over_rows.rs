//! Products that sum over the rows of a small network's chunk, too thin for `gemm`: gradients of a layer with few inputs, of biases, of one output.
//!
//! C ← C + Aᵀ·B, with A of shape m × k and B of m × n. Cost: m·n·k multiply-adds; sums stay in registers over all rows, and B is read once for every
//! [`ROWS`] columns of A (eight at a time were no longer kept in registers: four times slower).

use super::Real;
use super::thin::FEW;
use crate::simd_fn;

/// Columns of A at a time. With two vectors across, eight sums are under way at once.
const ROWS: usize = 4;

/// N rows × V vectors of sums over all rows of A and B: Aᵀ B for columns `row..row + N` of A and `at..at + V·L` of B.
#[inline(always)]
fn crossed<R: Real, const F: bool, const N: usize, const V: usize, const L: usize>(
    (k, row): (usize, usize),
    (n, at): (usize, usize),
    a: &[R],
    b: &[R],
) -> [[[R; L]; V]; N] {
    let mut sums = [[[R::ZERO; L]; V]; N];
    for (a, b) in a.chunks_exact(k).zip(b.chunks_exact(n)) {
        let (a, b) = (&a[row..row + N], &b[at..at + V * L]);
        for r in 0..N {
            for v in 0..V {
                for j in 0..L {
                    sums[r][v][j] = a[r].mul_add::<F>(b[v * L + j], sums[r][v][j]);
                }
            }
        }
    }
    sums
}

/// Columns `at..at + V·L` of C, of which the first `done` are there already.
#[inline(always)]
fn strip<R: Real, const F: bool, const V: usize, const L: usize>(
    k: usize,
    (n, at, done): (usize, usize, usize),
    a: &[R],
    b: &[R],
    c: &mut [R],
) {
    let mut add = |row: usize, sums: &[R]| {
        let c = &mut c[row * n + at + done..row * n + at + V * L];
        c.iter_mut().zip(&sums[done..]).for_each(|(c, s)| *c += *s);
    };
    let mut row = 0;
    while row < k {
        if k - row >= ROWS {
            let sums = crossed::<R, F, ROWS, V, L>((k, row), (n, at), a, b);
            (0..ROWS).for_each(|r| add(row + r, sums[r].as_flattened()));
            row += ROWS;
        } else {
            add(row, crossed::<R, F, 1, V, L>((k, row), (n, at), a, b)[0].as_flattened());
            row += 1;
        }
    }
}

/// All columns.
#[inline(always)]
fn strips<R: Real, const F: bool, const L: usize>(k: usize, n: usize, a: &[R], b: &[R], c: &mut [R]) {
    if n < L {
        for (a, b) in a.chunks_exact(k).zip(b.chunks_exact(n.max(1))) {
            for (a, c) in a.iter().zip(c.chunks_exact_mut(n)) {
                for j in 0..n {
                    c[j] = a.mul_add::<F>(b[j], c[j]);
                }
            }
        }
        return;
    }
    let mut at = 0;
    while at < n {
        if n - at >= 2 * L {
            strip::<R, F, 2, L>(k, (n, at, 0), a, b, c);
            at += 2 * L;
        } else {
            let from = at.min(n - L);
            strip::<R, F, 1, L>(k, (n, from, at - from), a, b, c);
            at += L;
        }
    }
}

simd_fn! {
    /// C (k×n, row-major) ← C + Aᵀ · B, with A of shape m × k and B of m × n, for 0 < k ≤ [`FEW`].
    ///
    /// # Panics
    /// If k is outside of that, or the rows of A and B are not as many.
    wider pub fn few_rows<R>(k: usize, a: &[R], b: &[R], c: &mut [R]) {
        let n = c.len() / k.max(1);
        assert!((1..=FEW).contains(&k) && a.len() / k * n == b.len(), "1 to {FEW} rows, over as many terms");
        match (size_of::<R>() == 4, W && n * size_of::<R>() >= 64) {
            (true, true) => strips::<R, F, 16>(k, n, a, b, c),
            (true, false) | (false, true) => strips::<R, F, 8>(k, n, a, b, c),
            (false, false) => strips::<R, F, 4>(k, n, a, b, c),
        }
    }
}

/// c ← c + Σ over rows of B, each multiplied by its number of `scale` where there are some; columns `at..at + V·L`, of which the first `done` are
/// there already.
#[inline(always)]
fn fall<R: Real, const F: bool, const V: usize, const L: usize>(
    (n, at, done): (usize, usize, usize),
    scale: &[R],
    b: &[R],
    c: &mut [R],
) {
    let mut sums = [[R::ZERO; L]; V];
    sums.as_flattened_mut().copy_from_slice(&c[at..at + V * L]);
    if scale.is_empty() {
        for b in b.chunks_exact(n) {
            let b = &b[at..at + V * L];
            for v in 0..V {
                for j in 0..L {
                    sums[v][j] += b[v * L + j];
                }
            }
        }
    } else {
        for (b, s) in b.chunks_exact(n).zip(scale) {
            let b = &b[at..at + V * L];
            for v in 0..V {
                for j in 0..L {
                    sums[v][j] = s.mul_add::<F>(b[v * L + j], sums[v][j]);
                }
            }
        }
    }
    c[at + done..at + V * L].copy_from_slice(&sums.as_flattened()[done..]);
}

/// All columns.
#[inline(always)]
fn falls<R: Real, const F: bool, const L: usize>(scale: &[R], b: &[R], c: &mut [R]) {
    let n = c.len();
    if n < L {
        for (r, b) in b.chunks_exact(n.max(1)).enumerate() {
            for j in 0..n {
                c[j] = if scale.is_empty() { c[j] + b[j] } else { scale[r].mul_add::<F>(b[j], c[j]) };
            }
        }
        return;
    }
    let mut at = 0;
    while at < n {
        if n - at >= 4 * L {
            fall::<R, F, 4, L>((n, at, 0), scale, b, c);
            at += 4 * L;
        } else if n - at >= 2 * L {
            fall::<R, F, 2, L>((n, at, 0), scale, b, c);
            at += 2 * L;
        } else {
            let from = at.min(n - L);
            fall::<R, F, 1, L>((n, from, at - from), scale, b, c);
            at += L;
        }
    }
}

simd_fn! {
    /// c (n) ← c + Σ over rows of B (m×n).
    wider pub fn column_sums<R>(b: &[R], c: &mut [R]) {
        match (size_of::<R>() == 4, W && size_of_val(c) >= 64) {
            (true, true) => falls::<R, F, 16>(&[], b, c),
            (true, false) | (false, true) => falls::<R, F, 8>(&[], b, c),
            (false, false) => falls::<R, F, 4>(&[], b, c),
        }
    }
}

simd_fn! {
    /// c (n) ← c + aᵀ B, with a of m and B of m × n.
    wider pub fn weighted_column_sums<R>(a: &[R], b: &[R], c: &mut [R]) {
        match (size_of::<R>() == 4, W && size_of_val(c) >= 64) {
            (true, true) => falls::<R, F, 16>(a, b, c),
            (true, false) | (false, true) => falls::<R, F, 8>(a, b, c),
            (false, false) => falls::<R, F, 4>(a, b, c),
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

    fn check_few_rows<R: Real>(epsilon: f64, (m, n, k): (usize, usize, usize)) {
        let (a, b, start) = (normals::<R>(1, m * k), normals::<R>(2, m * n), normals::<R>(3, k * n));
        let mut c = start.clone();
        few_rows(k, &a, &b, &mut c);
        for (i, c) in c.iter().enumerate() {
            let (row, column) = (i / n, i % n);
            let terms = (0..m).map(|t| a[t * k + row].f64() * b[t * n + column].f64());
            let (exact, size) = (start[i].f64() + terms.clone().sum::<f64>(), terms.map(f64::abs).sum::<f64>());
            // m products and m + 1 sums, as above.
            let off = (c.f64() - exact).abs();
            assert!(off <= (m + 1) as f64 * epsilon * (size + start[i].f64().abs()), "{m} × {n} × {k} at {i}: {off:e}");
        }
    }

    #[test]
    fn few_rows_agree_with_loops() {
        for m in [1, 2, 9, 33] {
            for n in 1..=70 {
                for k in 1..=FEW {
                    check_few_rows::<f32>(f32::EPSILON.into(), (m, n, k));
                    check_few_rows::<f64>(f64::EPSILON, (m, n, k));
                }
            }
        }
    }

    /// Against the same operations one by one: the same bits.
    fn check_one_row<R: Real>((m, n): (usize, usize)) {
        let fuses = crate::math::simd::wide() || crate::math::simd::PORTABLE_FUSES;
        let (a, b, start) = (normals::<R>(1, m), normals::<R>(2, m * n), normals::<R>(3, n));
        let (mut sums, mut weighted) = (start.clone(), start.clone());
        column_sums(&b, &mut sums);
        weighted_column_sums(&a, &b, &mut weighted);
        for j in 0..n {
            let (mut sum, mut with) = (start[j], start[j]);
            for r in 0..m {
                let v = b[r * n + j];
                sum += v;
                with = if fuses { a[r].mul_add::<true>(v, with) } else { a[r].mul_add::<false>(v, with) };
            }
            assert!(sums[j] == sum && weighted[j] == with, "{m} × {n}: column {j}");
        }
    }

    #[test]
    fn one_row_has_the_bits_of_loops() {
        for m in [1, 2, 9, 33] {
            for n in (1..=70).chain([128, 200]) {
                check_one_row::<f32>((m, n));
                check_one_row::<f64>((m, n));
            }
        }
    }
}
