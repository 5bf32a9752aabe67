//! R = (K + W⁻¹)⁻¹ and ln|I + KW| for a curvature W that is diagonal, or of softmax: rows of diag(π) − ππᵀ, with the same K for every class.
//!
//! One output: B = I + W^½KW^½ = LLᵀ, R = W^½B⁻¹W^½ = E. Softmax: E_c of every class with D_c = π_c, M = Σ E_c, R_cd = δ_cd E_c − E_c M⁻¹E_d and
//! ln|I + KW| = Σ_c ln|B_c| + ln|M|. Eigenvalues of B are 1 at least, so that no jitter is due.
//! Reference: Rasmussen & Williams (2006), 3.4.3 and 3.5.1. Cost: n³/3 for one output, n³ for every class.

use super::factor::Lower;
use crate::error::Result;
use crate::math::linalg::dot;
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use rayon::prelude::*;
use std::ops::Range;

/// Columns that a thread takes at a time.
const PANEL: usize = 64;

/// The curvature at f, factored.
#[derive(Debug, Clone)]
pub(super) struct Curve {
    n: usize,
    /// √D of every output.
    roots: Vec<Vec<f64>>,
    /// Factor of I + √D K √D of every output.
    factors: Vec<Lower>,
    /// Of softmax.
    joint: Option<Joint>,
}

/// What classes have in common.
#[derive(Debug, Clone)]
struct Joint {
    /// E of every class.
    each: Vec<Vec<f64>>,
    /// Factor of their sum.
    sum: Lower,
}

/// K v of a symmetric matrix, for one vector after another.
pub(super) fn times(k: &[f64], n: usize, v: &[f64]) -> Vec<f64> {
    v.chunks(n).flat_map(|v| k.par_chunks(n).map(|row| dot(row, v)).collect::<Vec<_>>()).collect()
}

/// √D B⁻¹ √D, whole.
fn inverse(factor: &Lower, root: &[f64]) -> Vec<f64> {
    let mut inverse = factor.clone();
    inverse.invert();
    let mut out = inverse.dense();
    out.par_chunks_mut(root.len()).zip(root).for_each(|(row, own)| {
        row.iter_mut().zip(root).for_each(|(v, r)| *v *= own * r);
    });
    out
}

impl Curve {
    /// From K and the numbers D of every output, one output after another.
    pub(super) fn new(k: &[f64], n: usize, curvature: &[f64]) -> Result<Curve> {
        let roots: Vec<Vec<f64>> = curvature.chunks(n).map(|d| d.iter().map(|v| v.sqrt()).collect()).collect();
        let factor = |root: &Vec<f64>| {
            let mut lower = Lower::zeros(n);
            lower.fill(|rows, out| {
                let width = rows.end;
                for (i, out) in rows.zip(out.chunks_mut(width)) {
                    (0..=i).for_each(|j| out[j] = root[i] * k[i * n + j] * root[j]);
                }
            });
            lower.add_diagonal(1.0);
            lower.factor().map(|()| lower)
        };
        let factors: Vec<Lower> = roots.iter().map(factor).collect::<Result<_>>()?;
        let joint = if roots.len() > 1 {
            let each: Vec<Vec<f64>> = factors.iter().zip(&roots).map(|(f, r)| inverse(f, r)).collect();
            let mut sum = Lower::zeros(n);
            sum.fill(|rows, out| {
                let width = rows.end;
                for (i, out) in rows.zip(out.chunks_mut(width)) {
                    (0..=i).for_each(|j| out[j] = each.iter().map(|e| e[i * n + j]).sum());
                }
            });
            sum.factor()?;
            Some(Joint { each, sum })
        } else {
            None
        };
        Ok(Curve { n, roots, factors, joint })
    }

    /// ln|I + KW|.
    pub(super) fn log_det(&self) -> f64 {
        self.factors.iter().map(Lower::log_det).sum::<f64>() + self.joint.as_ref().map_or(0.0, |j| j.sum.log_det())
    }

    /// Of softmax: takes from every row D times the sum of the row.
    fn less_shared(&self, curvature: &[f64], out: &mut [f64]) {
        for i in 0..if self.joint.is_some() { self.n } else { 0 } {
            let total: f64 = out.iter().skip(i).step_by(self.n).sum();
            out.iter_mut().zip(curvature).skip(i).step_by(self.n).for_each(|(o, d)| *o -= d * total);
        }
    }

    /// W v, from the numbers D.
    pub(super) fn curvature_times(&self, curvature: &[f64], v: &[f64]) -> Vec<f64> {
        let mut out: Vec<f64> = curvature.iter().zip(v).map(|(d, v)| d * v).collect();
        self.less_shared(curvature, &mut out);
        out
    }

    /// A normal vector of covariance W, from a standard one: √D ε − D(√D·ε) row by row, since the D of a row sum to 1.
    pub(super) fn root_times(&self, curvature: &[f64], normals: &[f64]) -> Vec<f64> {
        let mut out: Vec<f64> = curvature.iter().zip(normals).map(|(d, z)| d.sqrt() * z).collect();
        self.less_shared(curvature, &mut out);
        out
    }

    /// E_c v.
    fn of_output(&self, c: usize, v: &[f64]) -> Vec<f64> {
        let root = &self.roots[c];
        let mut out: Vec<f64> = v.iter().zip(root).map(|(v, r)| v * r).collect();
        self.factors[c].solve(&mut out);
        self.factors[c].solve_transposed(&mut out);
        out.iter_mut().zip(root).for_each(|(v, r)| *v *= r);
        out
    }

    /// R v.
    pub(super) fn resolve(&self, v: &[f64]) -> Vec<f64> {
        let n = self.n;
        let mut each: Vec<Vec<f64>> = v.chunks(n).enumerate().map(|(c, v)| self.of_output(c, v)).collect();
        if let Some(joint) = &self.joint {
            let mut total: Vec<f64> = (0..n).map(|i| each.iter().map(|e| e[i]).sum()).collect();
            joint.sum.solve(&mut total);
            joint.sum.solve_transposed(&mut total);
            for (out, e) in each.iter_mut().zip(&joint.each) {
                out.iter_mut().zip(times(e, n, &total)).for_each(|(o, t)| *o -= t);
            }
        }
        each.concat()
    }

    /// Σ_c R_cc, whole.
    pub(super) fn trace_weights(&self) -> Vec<f64> {
        let n = self.n;
        let Some(joint) = &self.joint else { return inverse(&self.factors[0], &self.roots[0]) };
        let mut out = vec![0.0; n * n];
        for e in &joint.each {
            // G = L_M⁻¹E, kept by panels of columns; R_cc = E − GᵀG.
            let panels = joint.sum.solve_panels(
                n,
                |columns, out| columns_of(e, n, columns, out),
                |columns, _, g| (columns, g.to_vec()),
            );
            let mut g = vec![0.0; n * n];
            for (columns, panel) in panels {
                let cols = columns.len();
                for (row, panel) in g.chunks_mut(n).zip(panel.chunks(cols)) {
                    row[columns.clone()].copy_from_slice(panel);
                }
            }
            let whole = MatRef::from_row_major_slice(&g, n, n);
            out.par_chunks_mut(PANEL * n).enumerate().for_each(|(b, out)| {
                let rows = out.len() / n;
                out.iter_mut().zip(&e[b * PANEL * n..]).for_each(|(o, e)| *o += e);
                let left = whole.subcols(b * PANEL, rows).transpose();
                matmul(MatMut::from_row_major_slice_mut(out, rows, n), Accum::Add, left, whole, -1.0, Par::Seq);
            });
        }
        out
    }

    /// k** δ_cd − k*ᵀR_cd k* of every column k*, outputs² numbers each; `fill` gives the columns. Variances are never negative.
    pub(super) fn blocks(
        &self,
        diagonal: &[f64],
        columns: usize,
        fill: impl Fn(Range<usize>, &mut [f64]) + Sync,
    ) -> Vec<f64> {
        let (n, outputs) = (self.n, self.roots.len());
        let starts: Vec<usize> = (0..columns).step_by(PANEL).collect();
        let one = |from: usize| -> Vec<f64> {
            let range = from..columns.min(from + PANEL);
            let cols = range.len();
            let mut plain = vec![0.0; n * cols];
            fill(range.clone(), &mut plain);
            let mut out = vec![0.0; cols * outputs * outputs];
            let Some(joint) = &self.joint else {
                plain.chunks_mut(cols).zip(&self.roots[0]).for_each(|(row, r)| row.iter_mut().for_each(|v| *v *= r));
                self.factors[0].solve_matrix(&mut plain, cols);
                for row in plain.chunks(cols) {
                    out.iter_mut().zip(row).for_each(|(o, v)| *o += v * v);
                }
                out.iter_mut().zip(range).for_each(|(o, j)| *o = (diagonal[j] - *o).max(0.0));
                return out;
            };
            let mut solved = Vec::with_capacity(outputs);
            for (c, e) in joint.each.iter().enumerate() {
                let mut own = vec![0.0; n * cols];
                let (left, right) =
                    (MatRef::from_row_major_slice(e, n, n), MatRef::from_row_major_slice(&plain, n, cols));
                matmul(MatMut::from_row_major_slice_mut(&mut own, n, cols), Accum::Replace, left, right, 1.0, Par::Seq);
                for j in 0..cols {
                    let square: f64 = (0..n).map(|i| plain[i * cols + j] * own[i * cols + j]).sum();
                    out[(j * outputs + c) * outputs + c] = (diagonal[from + j] - square).max(0.0);
                }
                joint.sum.solve_matrix(&mut own, cols);
                solved.push(own);
            }
            for j in 0..cols {
                for c in 0..outputs {
                    for d in 0..outputs {
                        let sum: f64 = (0..n).map(|i| solved[c][i * cols + j] * solved[d][i * cols + j]).sum();
                        out[(j * outputs + c) * outputs + d] += sum;
                    }
                }
            }
            out
        };
        starts.into_par_iter().map(one).collect::<Vec<_>>().concat()
    }
}

/// Columns of a symmetric matrix.
fn columns_of(e: &[f64], n: usize, columns: Range<usize>, out: &mut [f64]) {
    for (row, out) in e.chunks(n).zip(out.chunks_mut(columns.len())) {
        out.copy_from_slice(&row[columns.clone()]);
    }
}
