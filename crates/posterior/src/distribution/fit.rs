//! A normal q fitted to a density p by either direction of the Kullback–Leibler divergence.
//!
//! Reverse, KL[q ‖ p] = E_q[log q − log p]: q must not be where p is not, so it seeks one mode. With q = N(m, L Lᵀ) and
//! z ~ N(0, I) it is minimal where the ELBO E_z[log p(m + L z)] + Σᵢ ln Lᵢᵢ is maximal; its gradients are E[∇log p] and
//! E[∇log p zᵀ] + diag(1/Lᵢᵢ). Forward, KL[p ‖ q] = E_p[log p − log q]: q must be wherever p is, so it covers all the mass;
//! it is minimal where q has p's mean and covariance.
//!
//! Both expectations are taken by the trapezoid rule on a grid, which for smooth functions that vanish at both ends is exact
//! to rounding once it resolves them: no randomness, so that an optimum is an optimum. Cost: the grid's points
//! (2.6·10⁴ in two dimensions) per step. Reference: Bishop (2006), Pattern Recognition and Machine Learning, 10.1.2.

use super::{MultiDistribution, MultivariateNormal};
use crate::error::{Error, Result};
use crate::math::linalg::{Cholesky, dot};
use crate::optim::maximise;

/// Standard deviations to either side of the mean that a grid covers.
const REACH: f64 = 8.0;
/// Points of a grid along each axis, for one, two and three dimensions.
const POINTS: [usize; 3] = [1025, 161, 49];
/// Mass of p at the edge of its grid above which the grid is too small.
const EDGE: f64 = 1e-9;

/// A density over one to three numbers, known up to its constant and normalised on a grid.
///
/// ```
/// use posterior::distribution::{MultivariateNormal, fit::Normalised};
/// // Two peaks, at −2 and 2.
/// let log_p = |x: &[f64], gradient: &mut [f64]| {
///     let [a, b] = [-2.0, 2.0].map(|m| (-2.0 * (x[0] - m).powi(2)).exp());
///     gradient[0] = -4.0 * (a * (x[0] + 2.0) + b * (x[0] - 2.0)) / (a + b);
///     (a + b).ln()
/// };
/// let p = Normalised::new(log_p, MultivariateNormal::new(vec![0.0], &[1.0])?)?;
/// let covering = p.forward()?;
/// assert!(covering.mean()[0].abs() < 1e-9 && (covering.variance()[0] - 4.25).abs() < 1e-9);
/// let seeking = p.reverse(&MultivariateNormal::new(vec![1.0], &[1.0])?)?;
/// assert!((seeking.mean()[0] - 2.0).abs() < 0.01 && seeking.variance()[0] < 0.3);
/// # Ok::<(), posterior::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Normalised<F> {
    log_p: F,
    log_normaliser: f64,
    /// Points of the grid one after the other, and p's mass at each.
    points: Vec<f64>,
    masses: Vec<f64>,
    dim: usize,
}

/// Every point of a grid of n points per axis in [−REACH, REACH]ᵈ, and whether it lies at the edge.
fn grid(dim: usize) -> impl Iterator<Item = (Vec<f64>, bool)> {
    let n = POINTS[dim - 1];
    (0..n.pow(dim as u32)).map(move |k| {
        let index = |axis: usize| k / n.pow(axis as u32) % n;
        let z = (0..dim).map(|axis| step(dim) * index(axis) as f64 - REACH).collect();
        (z, (0..dim).any(|axis| index(axis) == 0 || index(axis) == n - 1))
    })
}

/// Between neighbours of the grid.
fn step(dim: usize) -> f64 {
    2.0 * REACH / (POINTS[dim - 1] - 1) as f64
}

/// The points of the grid under a standard normal and their probabilities, without those too far out to count.
fn normal_nodes(dim: usize) -> Vec<(Vec<f64>, f64)> {
    let near = grid(dim).map(|(z, _)| (dot(&z, &z), z)).filter(|(square, _)| *square <= REACH * REACH);
    let mut nodes: Vec<_> = near.map(|(square, z)| (z, (-0.5 * square).exp())).collect();
    let total: f64 = nodes.iter().map(|n| n.1).sum();
    nodes.iter_mut().for_each(|n| n.1 /= total);
    nodes
}

impl<F: Fn(&[f64], &mut [f64]) -> f64> Normalised<F> {
    /// From log p up to a constant, which writes its gradient to its second argument, and a normal whose eight standard
    /// deviations hold all of p's mass.
    pub fn new(log_p: F, cover: MultivariateNormal) -> Result<Normalised<F>> {
        let dim = cover.dim();
        if !(1..=POINTS.len()).contains(&dim) {
            return Err(Error::setting(
                format!("a density over {dim} numbers cannot be laid out on a grid"),
                format!("from 1 to {} are possible", POINTS.len()),
            ));
        }
        let (root, mut ignored) = (Cholesky::new(&cover.covariance(), dim)?, vec![0.0; dim]);
        let (mut points, mut logs, mut edges) = (Vec::new(), Vec::new(), Vec::new());
        for (mut x, edge) in grid(dim) {
            root.multiply_lower(&mut x);
            x.iter_mut().zip(cover.mean()).for_each(|(x, m)| *x += m);
            logs.push(log_p(&x, &mut ignored));
            edges.push(edge);
            points.extend(x);
        }
        let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if !largest.is_finite() || logs.iter().any(|l| l.is_nan()) {
            return Err(Error::numerical("a log density is not a number on its grid", "correct it, or move the cover"));
        }
        let mut masses: Vec<f64> = logs.iter().map(|l| (l - largest).exp()).collect();
        let total: f64 = masses.iter().sum();
        masses.iter_mut().for_each(|m| *m /= total);
        let at_edge: f64 = masses.iter().zip(&edges).filter(|(_, edge)| **edge).map(|(m, _)| m).sum();
        if at_edge > EDGE {
            return Err(Error::numerical("a density reaches beyond its cover", "give a wider cover"));
        }
        let volume = dim as f64 * step(dim).ln() + 0.5 * cover.log_det();
        let p = Normalised { log_p, log_normaliser: largest + total.ln() + volume, points, masses, dim };
        // Fewer than one step of the grid to a standard deviation, and sums are no integrals.
        let (_, covariance) = p.moments();
        let narrow = (0..dim).any(|i| covariance[i * dim + i] < step(dim).powi(2) * cover.variance()[i]);
        if narrow {
            return Err(Error::numerical("a density is too narrow for its grid", "give a narrower cover"));
        }
        Ok(p)
    }

    /// log ∫ p of the density as it was given.
    pub fn log_normaliser(&self) -> f64 {
        self.log_normaliser
    }

    /// log p(x), normalised.
    pub fn log_density(&self, x: &[f64]) -> f64 {
        (self.log_p)(x, &mut vec![0.0; self.dim]) - self.log_normaliser
    }

    /// p's mean and covariance.
    fn moments(&self) -> (Vec<f64>, Vec<f64>) {
        let d = self.dim;
        let weighted = || self.points.chunks(d).zip(&self.masses);
        let mut mean = vec![0.0; d];
        weighted().for_each(|(x, w)| (0..d).for_each(|i| mean[i] += w * x[i]));
        let mut covariance = vec![0.0; d * d];
        for (x, w) in weighted() {
            for k in 0..d * d {
                covariance[k] += w * (x[k / d] - mean[k / d]) * (x[k % d] - mean[k % d]);
            }
        }
        (mean, covariance)
    }

    /// The q with the least KL[p ‖ q]: p's mean and covariance.
    pub fn forward(&self) -> Result<MultivariateNormal> {
        let (mean, covariance) = self.moments();
        MultivariateNormal::new(mean, &covariance)
    }

    /// The q with the least KL[q ‖ p] that is reached uphill from `start`; another start may find another one.
    pub fn reverse(&self, start: &MultivariateNormal) -> Result<MultivariateNormal> {
        let d = self.same_dim(start)?;
        let nodes = normal_nodes(d);
        let lower: Vec<(usize, usize)> = (0..d).flat_map(|i| (0..=i).map(move |j| (i, j))).collect();
        let root = Cholesky::new(&start.covariance(), d)?;
        // m, then L by rows, its diagonal as logarithms.
        let mut parameters = start.mean().to_vec();
        parameters.extend(lower.iter().map(|&(i, j)| {
            let l = root.factor()[i * d + j];
            if i == j { l.ln() } else { l }
        }));
        let unpack = |parameters: &[f64]| {
            let mut l = vec![0.0; d * d];
            for (&(i, j), v) in lower.iter().zip(&parameters[d..]) {
                l[i * d + j] = if i == j { v.exp() } else { *v };
            }
            l
        };
        let (mut x, mut slope) = (vec![0.0; d], vec![0.0; d]);
        let elbo = |parameters: &[f64], gradient: &mut [f64]| {
            let l = unpack(parameters);
            let mut value = 0.0;
            gradient.fill(0.0);
            for (z, weight) in &nodes {
                (0..d).for_each(|i| x[i] = parameters[i] + dot(&l[i * d..(i + 1) * d], z));
                value += weight * (self.log_p)(&x, &mut slope);
                (0..d).for_each(|i| gradient[i] += weight * slope[i]);
                lower.iter().zip(&mut gradient[d..]).for_each(|(&(i, j), g)| *g += weight * slope[i] * z[j]);
            }
            for (k, &(i, j)) in lower.iter().enumerate() {
                if i == j {
                    value += parameters[d + k];
                    gradient[d + k] = gradient[d + k] * l[i * d + i] + 1.0;
                }
            }
            value
        };
        let best = maximise(parameters, elbo)?;
        MultivariateNormal::from_cholesky(best[..d].to_vec(), Cholesky::from_factor(unpack(&best), d)?)
    }

    /// KL[q ‖ p].
    pub fn kl_from(&self, q: &MultivariateNormal) -> Result<f64> {
        let d = self.same_dim(q)?;
        let root = Cholesky::new(&q.covariance(), d)?;
        let expected = normal_nodes(d).into_iter().map(|(mut x, weight)| {
            root.multiply_lower(&mut x);
            x.iter_mut().zip(q.mean()).for_each(|(x, m)| *x += m);
            weight * self.log_density(&x)
        });
        Ok(-q.entropy() - expected.sum::<f64>())
    }

    /// KL[p ‖ q].
    pub fn kl_to(&self, q: &MultivariateNormal) -> Result<f64> {
        let present = self.points.chunks(self.same_dim(q)?).zip(&self.masses).filter(|(_, mass)| **mass > 0.0);
        Ok(present.map(|(x, mass)| mass * (self.log_density(x) - q.log_density(x))).sum())
    }

    fn same_dim(&self, q: &MultivariateNormal) -> Result<usize> {
        super::same_length("normal's mean", q.dim(), self.dim)?;
        Ok(self.dim)
    }
}

#[cfg(test)]
#[path = "fit_tests.rs"]
mod tests;
