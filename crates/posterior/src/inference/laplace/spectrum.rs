//! Curvature in the prior's units, S^½ G S^½ = V Λ Vᵀ, decomposed once: after that every prior precision δS⁻¹ and noise scale costs O(P).
//!
//! The posterior's precision is G/c + δS⁻¹ = S^-½ V (Λ/c + δ) Vᵀ S^-½, its covariance S^½ V (Λ/c + δ)⁻¹ Vᵀ S^½. A Kronecker block A ⊗ B with the
//! same S for all units of an input has S^½AS^½ ⊗ B, and the eigenvalues αβ.
//!
//! Cost: 4/3 n³ for the eigenvalues of the whole matrix and 9n³ once its eigenvectors are needed, Σ 9(in³ + out³) for factors, P for a diagonal.

use crate::error::{Error, Result};
use crate::math::linalg::{Eigen, Tridiagonal, dot};
use crate::nn::AffineBlock;
use crate::posterior::{BlockGaussian, GaussianBlock};
use crate::problem::curvature::{Curvature, Subset};

/// A negative eigenvalue below this part of the largest is rounding.
const ROUNDING: f64 = 1e-9;
/// A negative eigenvalue up to this part of the largest is mended by adding as much to all; a larger one is an error.
const MOST_JITTER: f64 = 1e-3;

/// A block of parameters with its eigenvectors, as [`GaussianBlock`] has them.
#[derive(Debug, Clone)]
pub(super) struct Part {
    start: usize,
    rows: usize,
    columns: usize,
    turned: usize,
    scale: Vec<f64>,
    left: Option<Eigen>,
    right: Option<Eigen>,
    /// λ, rows × columns.
    pub values: Vec<f64>,
    /// Number of the affine block it belongs to; 0 for the whole matrix.
    pub affine: usize,
    /// Where `left` is still to be found.
    halfway: Option<Tridiagonal>,
}

/// All parts of a subset.
#[derive(Debug, Clone)]
pub(super) struct Spectrum {
    pub parts: Vec<Part>,
    start: usize,
    len: usize,
}

impl Spectrum {
    /// `std` holds the prior's standard deviation of every parameter of the subset. With `separate` a Kronecker block has no
    /// correlations between a layer's weights and its bias. What was mended is said in `notes`.
    pub fn new(
        curvature: &Curvature,
        subset: &Subset,
        std: &[f64],
        separate: bool,
        notes: &mut Vec<String>,
    ) -> Result<Spectrum> {
        let (start, len) = (subset.range().start, subset.len());
        let mut parts = Vec::new();
        match curvature {
            Curvature::Full(matrix) => {
                let halfway = Tridiagonal::new(matrix.scaled_lower(std), len)?;
                let values = mended(halfway.values()?, "", notes)?;
                let diagonal = Part::diagonal(start, std.to_vec(), values, 0);
                parts.push(Part { halfway: Some(halfway), ..diagonal });
            }
            Curvature::Diagonal(values) => {
                for (i, affine) in subset.affines.iter().enumerate() {
                    let range = affine.start - start..affine.start - start + affine.len();
                    let scale = std[range.clone()].to_vec();
                    let values = values[range].iter().zip(&scale).map(|(v, s)| v * s * s).collect();
                    let values = mended(values, &format!(" of layer {}", affine.layer), notes)?;
                    parts.push(Part::diagonal(affine.start, scale, values, i));
                }
            }
            Curvature::Kron(factors) => {
                for (i, factor) in factors.iter().enumerate() {
                    let affine = factor.affine;
                    let std = |input: usize| std[affine.index(input, 0) - start];
                    let scale: Vec<f64> = (0..affine.rows()).map(std).collect();
                    let name = format!(" of layer {}", affine.layer);
                    let b = Eigen::new(&factor.b, affine.units)?;
                    let units = mended(b.values().to_vec(), &name, notes)?;
                    // All inputs together; or the weights', then the bias.
                    let cut = if separate { affine.inputs } else { affine.rows() };
                    for rows in [0..cut, cut..affine.rows()].into_iter().filter(|r| !r.is_empty()) {
                        let (n, scale) = (rows.len(), scale[rows.clone()].to_vec());
                        let entry = |k: usize| {
                            let (r, c) = (k / n, k % n);
                            factor.a[(rows.start + r) * (affine.rows()) + rows.start + c] * scale[r] * scale[c]
                        };
                        let a = Eigen::new(&(0..n * n).map(entry).collect::<Vec<_>>(), n)?;
                        let inputs = mended(a.values().to_vec(), &name, notes)?;
                        let values = inputs.iter().flat_map(|a| units.iter().map(move |b| a * b)).collect();
                        parts.push(Part {
                            start: affine.start + rows.start * affine.units,
                            rows: n,
                            columns: affine.units,
                            turned: if affine.transposed && rows.start == 0 { affine.inputs } else { 0 },
                            scale,
                            left: Some(a),
                            right: Some(b.clone()),
                            values,
                            affine: i,
                            halfway: None,
                        });
                    }
                }
            }
        }
        Ok(Spectrum { parts, start, len })
    }

    /// Finds the eigenvectors that are missing; before everything below.
    pub fn complete(&mut self) -> Result<()> {
        for part in &mut self.parts {
            if let Some(halfway) = part.halfway.take() {
                part.left = Some(halfway.eigen()?);
            }
        }
        Ok(())
    }

    /// gᵀ (G/c + δS⁻¹)⁻¹ g for a gradient over the subset: what a Newton step promises, twice. `precision` is δ by part.
    pub fn decrement(&self, gradient: &[f64], precision: impl Fn(&Part) -> f64, noise_factor: f64) -> f64 {
        let mut total = 0.0;
        for part in &self.parts {
            let delta = precision(part);
            let rotated = part.rotate(gradient, self.start);
            let terms = rotated.iter().zip(&part.values).map(|(r, v)| r * r / (v / noise_factor + delta));
            total += terms.sum::<f64>();
        }
        total
    }

    /// The covariance over the subset, written out; for small ones.
    pub fn covariance(&self, precision: impl Fn(&Part) -> f64, noise_factor: f64) -> Vec<f64> {
        let mut out = vec![0.0; self.len * self.len];
        // Column by column: F eₖ for F = S^½ V (Λ/c + δ)^-½, then F Fᵀ.
        for part in &self.parts {
            let (delta, n) = (precision(part), part.rows * part.columns);
            let mut factor = vec![0.0; n * n];
            for k in 0..n {
                let (i, j, std) =
                    (k / part.columns, k % part.columns, (part.values[k] / noise_factor + delta).powf(-0.5));
                for r in 0..part.rows {
                    let left =
                        part.left.as_ref().map_or(f64::from(u8::from(r == i)), |l| l.vectors()[r * part.rows + i]);
                    for c in 0..part.columns {
                        let right = part
                            .right
                            .as_ref()
                            .map_or(f64::from(u8::from(c == j)), |v| v.vectors()[c * part.columns + j]);
                        factor[(r * part.columns + c) * n + k] = part.scale[r] * left * right * std;
                    }
                }
            }
            for a in 0..n {
                for b in 0..n {
                    let (p, q) = (part.index(a) - self.start, part.index(b) - self.start);
                    out[p * self.len + q] = dot(&factor[a * n..(a + 1) * n], &factor[b * n..(b + 1) * n]);
                }
            }
        }
        out
    }

    /// The Gaussian with this covariance around `mean`.
    pub fn posterior(
        &self,
        mean: Vec<f32>,
        precision: impl Fn(&Part) -> f64,
        noise_factor: f64,
        log_evidence: f64,
    ) -> BlockGaussian {
        let narrow = |v: &[f64]| v.iter().map(|v| *v as f32).collect::<Vec<f32>>();
        let block = |part: &Part| {
            let delta = precision(part);
            let std = part.values.iter().map(|v| (v / noise_factor + delta).powf(-0.5) as f32).collect();
            GaussianBlock {
                start: part.start,
                rows: part.rows,
                columns: part.columns,
                turned: part.turned,
                scale: narrow(&part.scale),
                left: part.left.as_ref().map_or(Vec::new(), |l| narrow(l.vectors())),
                right: part.right.as_ref().map_or(Vec::new(), |r| narrow(r.vectors())),
                std,
            }
        };
        BlockGaussian::new(mean, self.parts.iter().map(block).collect(), Some(log_evidence))
    }
}

impl Part {
    /// Independent parameters.
    fn diagonal(start: usize, scale: Vec<f64>, values: Vec<f64>, affine: usize) -> Part {
        let (rows, columns, turned) = (scale.len(), 1, 0);
        Part { start, rows, columns, turned, scale, left: None, right: None, values, affine, halfway: None }
    }

    /// Where number k = row · columns + column stands in w.
    fn index(&self, k: usize) -> usize {
        let (i, j) = (k / self.columns, k % self.columns);
        self.start + if i < self.turned { j * self.turned + i } else { i * self.columns + j }
    }

    /// Vᵀ S^½ g of the part, rows × columns.
    fn rotate(&self, gradient: &[f64], start: usize) -> Vec<f64> {
        let (m, n) = (self.rows, self.columns);
        let mut x: Vec<f64> = (0..m * n).map(|k| self.scale[k / n] * gradient[self.index(k) - start]).collect();
        if let Some(left) = &self.left {
            let mut out = vec![0.0; m * n];
            for (row, x) in left.vectors().chunks_exact(m).zip(x.chunks_exact(n)) {
                for (out, v) in out.chunks_exact_mut(n).zip(row) {
                    out.iter_mut().zip(x).for_each(|(o, x)| *o += v * x);
                }
            }
            x = out;
        }
        if let Some(right) = &self.right {
            let mut out = vec![0.0; m * n];
            for (x, out) in x.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
                for (x, row) in x.iter().zip(right.vectors().chunks_exact(n)) {
                    out.iter_mut().zip(row).for_each(|(o, v)| *o += x * v);
                }
            }
            x = out;
        }
        x
    }
}

/// Eigenvalues that are at least 0: rounding is cut off, a little more is mended and said, too much is an error.
fn mended(mut values: Vec<f64>, of: &str, notes: &mut Vec<String>) -> Result<Vec<f64>> {
    let largest = values.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
    let lowest = values.iter().fold(f64::INFINITY, |m, v| m.min(*v));
    if values.iter().any(|v| !v.is_finite()) {
        return Err(Error::numerical(
            format!("the curvature{of} is not finite"),
            "lower the learning rate, or look for extreme values in the data",
        ));
    }
    if lowest < -MOST_JITTER * largest {
        return Err(Error::numerical(
            format!("the curvature{of} is indefinite: its eigenvalues go from {lowest:.3e} to {largest:.3e}"),
            "train longer, check that no row has a negative weight, or use structure=diag",
        ));
    }
    let jitter = if lowest < -ROUNDING * largest { -lowest } else { 0.0 };
    if jitter > 0.0 {
        notes.push(format!(
            "the curvature{of} is indefinite: {jitter:.3e} was added to its eigenvalues, which go up to {largest:.3e}"
        ));
    }
    values.iter_mut().for_each(|v| *v = (*v + jitter).max(0.0));
    Ok(values)
}

/// Ranges of the affine blocks within the subset.
pub(super) fn affine_ranges(affines: &[AffineBlock]) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
    let start = affines.first().map_or(0, |l| l.start);
    affines.iter().map(move |l| l.start - start..l.start - start + l.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_little_is_mended_and_said_and_too_much_is_an_error() {
        let mut notes = Vec::new();
        assert_eq!(mended(vec![-1e-12, 1.0], "", &mut notes).unwrap(), [0.0, 1.0]);
        assert!(notes.is_empty());
        let values = mended(vec![-1e-4, 0.0, 1.0], " of layer 2", &mut notes).unwrap();
        assert!(values[0] == 0.0 && values[1] == 1e-4 && (values[2] - 1.0001).abs() < 1e-15);
        assert_eq!(
            notes,
            ["the curvature of layer 2 is indefinite: 1.000e-4 was added to its eigenvalues, which go up to 1.000e0"]
        );
        let message = mended(vec![-0.5, 1.0], "", &mut notes).unwrap_err().to_string();
        assert!(message.starts_with("the curvature is indefinite: its eigenvalues go from -5.000e-1 to 1.000e0; "));
        assert!(mended(vec![f64::NAN], "", &mut notes).unwrap_err().to_string().contains("not finite"));
        assert_eq!(mended(vec![0.0, 0.0], "", &mut notes).unwrap(), [0.0, 0.0]);
    }
}
