//! A = L Lᵀ, L⁻ᵀ and A⁻¹ of large positive definite matrices, kept as blocks of rows: half the numbers of a square, and a block for a thread.
//!
//! Block i of a lower triangle holds rows iB … (i+1)B and columns 0 … (i+1)B. The factor is right-looking: a diagonal tile, the panel below it, and an update of every block by
//! products. L⁻ᵀ is found block by block, as solutions of L x = eⱼ; A⁻¹ = L⁻ᵀ L⁻¹. Which block does what follows from n alone, and every product is one thread's,
//! so the bits do not depend on the number of threads. Cost n³/3 each; memory n²/2 numbers each.
//! Reference: Golub & Van Loan (2013), Matrix Computations, 4.2.9.

use crate::error::{Error, Result};
use crate::math::linalg::dot;
use faer::linalg::matmul::matmul;
use faer::linalg::solvers::Llt;
use faer::linalg::triangular_solve::solve_lower_triangular_in_place;
use faer::reborrow::{Reborrow, ReborrowMut};
use faer::{Accum, MatMut, MatRef, Par, Side};
use rayon::prelude::*;
use std::ops::Range;

/// Rows of a block: long products, and enough blocks for the threads.
fn block_of(n: usize) -> usize {
    if n < 1024 { 64 } else { 128 }
}

/// A lower triangle, its diagonal tiles whole.
#[derive(Debug, Clone)]
pub(super) struct Lower {
    n: usize,
    block: usize,
    rows: Vec<Vec<f64>>,
}

/// Right-hand sides that one thread solves for at a time.
const PANEL: usize = 128;

impl Lower {
    /// All 0.
    pub(super) fn zeros(n: usize) -> Lower {
        let block = block_of(n);
        let starts = (0..n).step_by(block);
        Lower { n, block, rows: starts.map(|s| vec![0.0; (n.min(s + block) - s) * n.min(s + block)]).collect() }
    }

    /// Numbers that it keeps, for so many rows.
    pub(super) fn numbers(n: usize) -> u128 {
        let (n, block) = (n as u128, block_of(n) as u128);
        n * (n + block) / 2
    }

    /// Takes numbers as [`Lower::flat`] gives them; none where there are not as many as n asks for.
    pub(super) fn from_flat(n: usize, data: &[f64]) -> Option<Lower> {
        let block = block_of(n);
        let (mut rows, mut rest) = (Vec::new(), data);
        for s in (0..n).step_by(block) {
            let len = (n.min(s + block) - s).checked_mul(n.min(s + block))?;
            let (own, after) = rest.split_at_checked(len)?;
            rows.push(own.to_vec());
            rest = after;
        }
        rest.is_empty().then_some(Lower { n, block, rows })
    }

    /// All numbers, block by block.
    pub(super) fn flat(&self) -> Vec<f64> {
        self.rows.concat()
    }

    /// Rows of block b.
    pub(super) fn range(&self, b: usize) -> Range<usize> {
        b * self.block..self.n.min((b + 1) * self.block)
    }

    /// Fills every block in parallel: `fill` gets the rows, and as many numbers for each as the last of them has.
    pub(super) fn fill(&mut self, fill: impl Fn(Range<usize>, &mut [f64]) + Sync) {
        let (n, block) = (self.n, self.block);
        self.rows.par_iter_mut().enumerate().for_each(|(b, rows)| fill(b * block..n.min((b + 1) * block), rows));
    }

    /// What `work` makes of every block, in order.
    pub(super) fn map<T: Send>(&self, work: impl Fn(Range<usize>, &[f64]) -> T + Sync) -> Vec<T> {
        self.rows.par_iter().enumerate().map(|(b, rows)| work(self.range(b), rows)).collect()
    }

    pub(super) fn diagonal(&self, i: usize) -> f64 {
        let (b, range) = (i / self.block, self.range(i / self.block));
        self.rows[b][(i - range.start) * range.end + i]
    }

    pub(super) fn add_diagonal(&mut self, value: f64) {
        for b in 0..self.rows.len() {
            let range = self.range(b);
            range.clone().for_each(|i| self.rows[b][(i - range.start) * range.end + i] += value);
        }
    }

    /// All of a lower triangle, row-major, with zeros above.
    pub(super) fn dense_lower(&self) -> Vec<f64> {
        let n = self.n;
        let mut out = vec![0.0; n * n];
        for (b, rows) in self.rows.iter().enumerate() {
            let range = self.range(b);
            for (i, row) in range.clone().zip(rows.chunks(range.end)) {
                out[i * n..=i * n + i].copy_from_slice(&row[..=i]);
            }
        }
        out
    }

    /// All of a symmetric matrix, row-major.
    pub(super) fn dense(&self) -> Vec<f64> {
        let (n, mut out) = (self.n, self.dense_lower());
        for i in 0..n {
            (0..i).for_each(|j| out[j * n + i] = out[i * n + j]);
        }
        out
    }

    /// A ← L, where A = L Lᵀ.
    pub(super) fn factor(&mut self) -> Result<()> {
        let mut panel = Vec::new();
        for k in 0..self.rows.len() {
            let own = self.range(k);
            let (from, to, b) = (own.start, own.end, own.len());
            let (above, below) = self.rows.split_at_mut(k + 1);
            let row = &mut above[k];
            let tile: Vec<f64> = (0..b).flat_map(|i| row[i * to + from..(i + 1) * to].iter().copied()).collect();
            if tile.iter().enumerate().any(|(i, v)| i % b <= i / b && !v.is_finite()) {
                return Err(indefinite(from));
            }
            let factor = Llt::new(MatRef::from_row_major_slice(&tile, b, b), Side::Lower).map_err(
                |faer::linalg::cholesky::llt::factor::LltError::NonPositivePivot { index }| indefinite(from + index),
            )?;
            let l = factor.L();
            for i in 0..b {
                for j in 0..b {
                    row[i * to + from + j] = if j <= i { l[(i, j)] } else { 0.0 };
                }
            }
            if below.is_empty() {
                break;
            }
            let (n, block) = (self.n, self.block);
            let diagonal: Vec<f64> = (0..b).flat_map(|i| row[i * to + from..(i + 1) * to].iter().copied()).collect();
            panel.resize((n - to) * b, 0.0);
            // P = A_{below, k} L_kk⁻ᵀ, kept apart, so that blocks can read one another's.
            below.par_iter_mut().zip(panel.par_chunks_mut(block * b)).enumerate().for_each(|(i, (rows, panel))| {
                let width = n.min(to + (i + 1) * block);
                for (p, row) in panel.chunks_mut(b).zip(rows.chunks(width)) {
                    p.copy_from_slice(&row[from..to]);
                }
                let own = panel.len() / b;
                let right = MatMut::from_row_major_slice_mut(&mut *panel, own, b).transpose_mut();
                solve_lower_triangular_in_place(MatRef::from_row_major_slice(&diagonal, b, b), right, Par::Seq);
                for (p, row) in panel.chunks(b).zip(rows.chunks_mut(width)) {
                    row[from..to].copy_from_slice(p);
                }
            });
            let panel = &panel;
            below.par_iter_mut().enumerate().for_each(|(i, rows)| {
                let (first, width) = (to + i * block, n.min(to + (i + 1) * block));
                let (own, reach) = (width - first, width - to);
                let left = MatRef::from_row_major_slice(&panel[(first - to) * b..(width - to) * b], own, b);
                let right = MatRef::from_row_major_slice(&panel[..reach * b], reach, b).transpose();
                let into = MatMut::from_row_major_slice_mut(rows, own, width).submatrix_mut(0, to, own, reach);
                matmul(into, Accum::Add, left, right, -1.0, Par::Seq);
            });
        }
        Ok(())
    }

    /// ln det A of A = L Lᵀ.
    pub(super) fn log_det(&self) -> f64 {
        2.0 * (0..self.n).map(|i| self.diagonal(i).ln()).sum::<f64>()
    }

    /// b ← L⁻¹ b.
    pub(super) fn solve(&self, b: &mut [f64]) {
        for (k, rows) in self.rows.iter().enumerate() {
            let range = self.range(k);
            for (i, row) in range.clone().zip(rows.chunks(range.end)) {
                b[i] = (b[i] - dot(&row[..i], &b[..i])) / row[i];
            }
        }
    }

    /// b ← L⁻ᵀ b.
    pub(super) fn solve_transposed(&self, b: &mut [f64]) {
        for (k, rows) in self.rows.iter().enumerate().rev() {
            let range = self.range(k);
            for (i, row) in range.clone().zip(rows.chunks(range.end)).rev() {
                let x = b[i] / row[i];
                b[i] = x;
                b[..i].iter_mut().zip(row).for_each(|(v, l)| *v -= x * l);
            }
        }
    }

    /// B ← L⁻¹ B on this thread, for a row-major matrix of n rows and `cols` columns.
    pub(super) fn solve_matrix(&self, b: &mut [f64], cols: usize) {
        for (k, rows) in self.rows.iter().enumerate() {
            let range = self.range(k);
            let (own, width) = (range.len(), range.end);
            let rows = MatRef::from_row_major_slice(rows, own, width);
            let (above, here) = b.split_at_mut(range.start * cols);
            let mut into = MatMut::from_row_major_slice_mut(&mut here[..own * cols], own, cols);
            if range.start > 0 {
                let above = MatRef::from_row_major_slice(above, range.start, cols);
                matmul(into.rb_mut(), Accum::Add, rows.subcols(0, range.start), above, -1.0, Par::Seq);
            }
            solve_lower_triangular_in_place(rows.subcols(range.start, own), into, Par::Seq);
        }
    }

    /// For every column of a matrix of n × `cols`: what `work` makes of L⁻¹ times PANEL columns at a time, which `fill` gives; in order.
    pub(super) fn solve_panels<T: Send>(
        &self,
        cols: usize,
        fill: impl Fn(Range<usize>, &mut [f64]) + Sync,
        work: impl Fn(Range<usize>, &[f64], &[f64]) -> T + Sync,
    ) -> Vec<T> {
        let starts: Vec<usize> = (0..cols).step_by(PANEL).collect();
        let one = |from: usize| {
            let range = from..cols.min(from + PANEL);
            let mut plain = vec![0.0; self.n * range.len()];
            fill(range.clone(), &mut plain);
            let mut solved = plain.clone();
            self.solve_matrix(&mut solved, range.len());
            work(range, &plain, &solved)
        };
        starts.into_par_iter().map(one).collect()
    }

    /// L ← the lower triangle of A⁻¹.
    pub(super) fn invert(&mut self) {
        let (n, block) = (self.n, self.block);
        // U = L⁻ᵀ by blocks of rows, from the diagonal on: block j is the solution of L X = (identity's columns of j), transposed.
        let lower = &*self;
        let upper: Vec<Vec<f64>> = (0..self.rows.len())
            .into_par_iter()
            .map(|j| {
                let range = lower.range(j);
                let (own, width) = (range.len(), n - range.start);
                let mut x = vec![0.0; own * width];
                (0..own).for_each(|i| x[i * width + i] = 1.0);
                for (k, rows) in lower.rows.iter().enumerate().skip(j) {
                    let here = lower.range(k);
                    let (count, before) = (here.len(), here.start - range.start);
                    let rows = MatRef::from_row_major_slice(rows, count, here.end);
                    let all = MatMut::from_row_major_slice_mut(&mut x, own, width).transpose_mut();
                    let (above, below) = all.split_at_row_mut(before);
                    let mut into = below.subrows_mut(0, count);
                    if before > 0 {
                        let left = rows.subcols(range.start, before);
                        matmul(into.rb_mut(), Accum::Add, left, above.rb(), -1.0, Par::Seq);
                    }
                    solve_lower_triangular_in_place(rows.subcols(here.start, count), into, Par::Seq);
                }
                x
            })
            .collect();
        let upper = &upper;
        self.rows.par_iter_mut().enumerate().for_each(|(i, rows)| {
            let (from, to) = (i * block, n.min((i + 1) * block));
            let mut into = MatMut::from_row_major_slice_mut(rows, to - from, to);
            let left = MatRef::from_row_major_slice(&upper[i], to - from, n - from);
            for (j, other) in upper[..=i].iter().enumerate() {
                let (first, last) = (j * block, n.min((j + 1) * block));
                let right = MatRef::from_row_major_slice(other, last - first, n - first);
                let right = right.subcols(from - first, n - from).transpose();
                let tile = into.rb_mut().submatrix_mut(0, first, to - from, last - first);
                matmul(tile, Accum::Replace, left, right, 1.0, Par::Seq);
            }
        });
    }
}

fn indefinite(row: usize) -> Error {
    Error::numerical(
        format!("the covariance of the rows is not positive definite at row {}", row + 1),
        "add noise, or a white kernel",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::linalg::Cholesky;
    use crate::rng::{Key, fill_normals};

    /// G Gᵀ/n + I/4, of moderate condition.
    fn positive(n: usize) -> Vec<f64> {
        let mut g = vec![0.0; n * n];
        fill_normals(Key::new(n as u64), &mut g);
        let mut a = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..n {
                a[i * n + j] = dot(&g[i * n..(i + 1) * n], &g[j * n..(j + 1) * n]) / n as f64;
            }
            a[i * n + i] += 0.25;
        }
        a
    }

    #[test]
    fn agrees_with_the_small_factorisation_and_has_the_same_bits_on_any_threads() {
        for n in [1, 2, 63, 64, 65, 200] {
            let a = positive(n);
            let exact = Cholesky::new(&a, n).unwrap();
            let run = || {
                let mut lower = Lower::zeros(n);
                lower.fill(|rows, out| {
                    let width = rows.end;
                    rows.zip(out.chunks_mut(width)).for_each(|(i, out)| out.copy_from_slice(&a[i * n..i * n + width]));
                });
                lower.factor().unwrap();
                let mut inverse = lower.clone();
                inverse.invert();
                (lower, inverse)
            };
            let (lower, inverse) = run();
            // n·ε times a condition number of about 20: 1e-12 has a digit to spare.
            assert!((lower.log_det() - exact.log_det()).abs() < 1e-12 * n as f64);
            let expected = exact.inverse();
            for i in 0..n {
                let (b, range) = (i / inverse.block, inverse.range(i / inverse.block));
                for j in 0..=i {
                    let got = inverse.rows[b][(i - range.start) * range.end + j];
                    assert!((got - expected[i * n + j]).abs() < 1e-11, "{n}: {i} {j}");
                }
            }
            let b: Vec<f64> = (0..n).map(|i| (i as f64).sin()).collect();
            let (mut x, mut y) = (b.clone(), b.clone());
            exact.solve(&mut x);
            lower.solve(&mut y);
            let mut matrix: Vec<f64> = b.iter().flat_map(|v| [*v, 2.0 * v]).collect();
            lower.solve_matrix(&mut matrix, 2);
            (0..n).for_each(|i| assert!((matrix[2 * i + 1] - 2.0 * y[i]).abs() < 1e-11));
            lower.solve_transposed(&mut y);
            x.iter().zip(&y).for_each(|(x, y)| assert!((x - y).abs() < 1e-11));
            let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(run);
            assert_eq!((alone.0.rows, alone.1.rows), (lower.rows.clone(), inverse.rows));
            assert_eq!(Lower::from_flat(n, &lower.flat()).unwrap().rows, lower.rows);
            assert!(Lower::from_flat(n, &lower.flat()[1..]).is_none());
        }
    }

    #[test]
    fn what_is_not_positive_definite_is_an_error() {
        let mut lower = Lower::zeros(70);
        assert!(lower.clone().factor().is_err());
        lower.add_diagonal(f64::NAN);
        assert!(lower.factor().is_err());
    }
}
