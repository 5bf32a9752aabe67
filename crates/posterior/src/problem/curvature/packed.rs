//! A whole curvature as the numbers in it that differ: for dense layers about P²/4 of them, a quarter of what is written out.
//!
//! Between layers l ≤ m it is a matrix of products of inputs × numbers of gᵀHg, as `full.rs` adds them up; a layer with itself has two triangles, since
//! G[(i, o), (j, q)] is the same for i and j swapped and for o and q swapped. Written out it is only where it is decomposed.

use super::full::pairs;
use crate::nn::AffineBlock;

/// G over a range of parameters.
#[derive(Debug, Clone)]
pub struct FullCurvature {
    n: usize,
    start: usize,
    parts: Parts,
}

#[derive(Debug, Clone)]
enum Parts {
    /// One matrix for every pair of layers. A layer with one unit alone has (inputs + 1)², both triangles of them.
    Pairs(Vec<AffineBlock>, Vec<Vec<f64>>),
    /// n², for layers whose positions share weights.
    Written(Vec<f64>),
}

impl FullCurvature {
    pub(super) fn of_pairs(affines: &[AffineBlock], sums: Vec<Vec<f64>>) -> FullCurvature {
        let (start, n) = (affines[0].start, affines.iter().map(AffineBlock::len).sum());
        FullCurvature { n, start, parts: Parts::Pairs(affines.to_vec(), sums) }
    }

    pub(super) fn written(n: usize, start: usize, matrix: Vec<f64>) -> FullCurvature {
        FullCurvature { n, start, parts: Parts::Written(matrix) }
    }

    /// P of the range.
    pub fn dim(&self) -> usize {
        self.n
    }

    /// diag(s) G diag(s), column after column, the lower triangle alone: the rest is 0 and its memory untouched.
    pub fn scaled_lower(&self, s: &[f64]) -> Vec<f64> {
        let n = self.n;
        let mut out = vec![0.0; n * n];
        self.visit(|r, c, value| {
            let (r, c) = (r.max(c), r.min(c));
            out[c * n + r] = s[r] * value * s[c];
        });
        out
    }

    /// G written out, n².
    pub fn dense(&self) -> Vec<f64> {
        let n = self.n;
        let mut out = vec![0.0; n * n];
        self.visit(|r, c, value| (out[r * n + c], out[c * n + r]) = (value, value));
        out
    }

    /// Every entry of one triangle, at least; some of the other.
    fn visit(&self, mut put: impl FnMut(usize, usize, f64)) {
        let n = self.n;
        let (affines, all) = match &self.parts {
            Parts::Pairs(affines, all) => (affines, all),
            Parts::Written(matrix) => {
                (0..n).for_each(|r| (0..=r).for_each(|c| put(r, c, matrix[r * n + c])));
                return;
            }
        };
        for ((l, m), sums) in pairs(affines.len()).zip(all) {
            let (a, b, same) = (&affines[l], &affines[m], l == m);
            let mut put = |r: usize, c: usize, value: f64| put(r - self.start, c - self.start, value);
            let mut values = sums.iter();
            if same && a.units == 1 {
                let inputs = a.rows();
                (0..inputs * inputs)
                    .zip(values)
                    .for_each(|(k, v)| put(a.index(k / inputs, 0), a.index(k % inputs, 0), *v));
                continue;
            }
            for i in 0..a.rows() {
                for j in if same { i } else { 0 }..b.rows() {
                    for o in 0..a.units {
                        for q in if same { o } else { 0 }..b.units {
                            let Some(value) = values.next() else { return };
                            put(a.index(i, o), b.index(j, q), *value);
                            if same {
                                put(a.index(i, q), b.index(j, o), *value);
                            }
                        }
                    }
                }
            }
        }
    }
}
