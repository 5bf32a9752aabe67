//! The predictive of a diagonal Gaussian by one pass of moments instead of S passes of draws.
//!
//! (μ_f, v_f) of every row by [`MomentsNetwork`], which the predictive keeps; the likelihood's own parameters stand at nodes. Where the likelihood has no closed form,
//! and for several parameters of its own, points f_s = μ_f + √v_f ⊙ z_s are taken: each dimension of z holds the quantiles Φ⁻¹((r + ½)/S), in the order r of
//! u_s = ½ + s√p mod 1, p its prime (Richtmyer 1951); beyond eight dimensions, where so few points of a recurrence fall into
//! line, in a pseudo-random order (McKay, Beckman & Conover 1979). The dimensions are then made uncorrelated and of variance 1, so
//! that mean and covariance of f over the mixture are μ_f and diag v_f exactly. A prediction has no random seed.
//!
//! Every row's own distribution is what this gives. Rows of one component are not a function drawn from the posterior.
//! Cost: three passes of the network, whatever S, and S·N·outputs multiply-adds.

use super::gaussians::NoiseNode;
use super::predictive::{Predictive, TargetScale};
use super::predictor::Predictor;
use crate::data::Values;
use crate::error::{Error, Result};
use crate::likelihood::Likelihood;
use crate::math::special::{normal_quadrature, normal_quantile};
use crate::math::{MatRef, Threads};
use crate::nn::{AnyNetwork, Gaussians, MomentsNetwork, second_moments};
use crate::posterior::Posterior;
use crate::rng::{Key, fill_normals};
use rayon::prelude::*;
use std::sync::Arc;

/// Nodes of one parameter of the likelihood's own.
const NOISE_NODES: usize = 9;
/// Rows per pass.
const ROWS: usize = 256;

/// A dense network under a posterior of independent Gaussians.
#[derive(Debug, Clone)]
pub struct MomentsPredictor {
    network: MomentsNetwork,
    likelihood: Arc<dyn Likelihood>,
    mean: Vec<f32>,
    variance: Vec<f32>,
    second: Vec<f32>,
    components: usize,
    scale: TargetScale,
}

impl MomentsPredictor {
    /// With S `components`. An error where the posterior is not a diagonal Gaussian or a layer of the network is not dense.
    pub fn new(
        network: &dyn AnyNetwork,
        likelihood: Arc<dyn Likelihood>,
        posterior: &dyn Posterior,
        components: usize,
        scale: TargetScale,
    ) -> Result<MomentsPredictor> {
        let instead = "predict from draws of the weights instead";
        let Some((mean, std)) = posterior.diagonal() else {
            let kind = posterior.kind();
            let what =
                format!("moments need a posterior that is a diagonal Gaussian, and this one is of kind '{kind}'");
            return Err(Error::setting(what, instead));
        };
        if likelihood.sites() > 1 {
            return Err(Error::setting("moments are not propagated to images that are predicted", instead));
        }
        let network = MomentsNetwork::new(network, instead)?;
        let variance: Vec<f32> = std.iter().map(|s| s * s).collect();
        let mut second = vec![0.0; network.size()];
        second_moments(mean, &variance, &mut second);
        let (mean, components) = (mean.to_vec(), components.max(1));
        Ok(MomentsPredictor { network, likelihood, mean, variance, second, components, scale })
    }

    /// Mean and variance of the network's outputs, `rows × outputs` each, in standardised units.
    pub fn moments(&self, x: &Values) -> (Vec<f32>, Vec<f32>) {
        let x = x.to::<f32>();
        let (width, outputs, size) = (self.network.inputs(), self.network.outputs(), self.network.size());
        let rows = x.len() / width.max(1);
        let (mut mean, mut variance) = (vec![0.0; rows * outputs], vec![0.0; rows * outputs]);
        let w = Gaussians { mean: &self.mean[..size], variance: &self.variance[..size], second: &self.second };
        let parts = mean.par_chunks_mut(ROWS * outputs).zip(variance.par_chunks_mut(ROWS * outputs)).enumerate();
        let space = || self.network.space(ROWS.min(rows), false);
        parts.for_each_init(space, |space, (part, (mean, variance))| {
            let (from, n) = (part * ROWS, mean.len() / outputs);
            let x = MatRef::new(&x[from * width..(from + n) * width], n, width);
            let f = self.network.forward(w, x, Threads::One, space);
            mean.copy_from_slice(f.mean);
            variance.copy_from_slice(f.variance);
        });
        (mean, variance)
    }
}

impl MomentsPredictor {
    /// The likelihood's own parameters: one at the nodes of a rule, several at evenly spread points.
    fn noise(&self) -> Vec<NoiseNode> {
        let size = self.network.size();
        let own: Vec<(f64, f64)> = self.mean[size..]
            .iter()
            .zip(&self.variance[size..])
            .map(|(m, v)| (f64::from(*m), f64::from(*v).sqrt()))
            .collect();
        match &own[..] {
            [] => vec![NoiseNode { weight: 1.0, values: Vec::new() }],
            [(m, s)] => {
                // A few nodes: what is averaged is smooth in ln σ, whose spread is well below 1.
                let (z, w) = normal_quadrature(NOISE_NODES).unwrap_or_else(|_| (vec![0.0], vec![1.0]));
                z.iter().zip(&w).map(|(z, w)| NoiseNode { weight: *w, values: vec![m + s * z] }).collect()
            }
            _ => {
                let node = |z: &[f32]| NoiseNode {
                    weight: 1.0 / self.components as f64,
                    values: own.iter().zip(z).map(|((m, s), z)| m + s * f64::from(*z)).collect(),
                };
                normal_scores(self.components, own.len()).chunks_exact(own.len()).map(node).collect()
            }
        }
    }
}

impl Predictor for MomentsPredictor {
    fn predict(&self, x: &Values) -> Predictive {
        let (mean, variance) = self.moments(x);
        let k = self.network.outputs();
        let mut covariance = vec![0.0; variance.len() * k];
        for (c, v) in covariance.chunks_exact_mut(k * k).zip(variance.chunks_exact(k)) {
            (0..k).for_each(|i| c[i * k + i] = f64::from(v[i]));
        }
        let mean = mean.into_iter().map(f64::from).collect();
        Predictive::gaussian(
            self.likelihood.clone(),
            mean,
            covariance,
            self.noise(),
            self.components,
            self.scale.clone(),
        )
    }
}

/// The first dimensions follow additive recurrences with these roots.
const PRIMES: [f64; 8] = [2.0, 3.0, 5.0, 7.0, 11.0, 13.0, 17.0, 19.0];

/// `count × dimensions` points that fill N(0, I) evenly: every dimension has mean 0 and variance 1, and where there are more
/// points than dimensions, no two are correlated. A single point is 0.
pub(super) fn normal_scores(count: usize, dimensions: usize) -> Vec<f32> {
    let n = count as f64;
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let strata: Vec<f64> = (0..count).map(|rank| normal_quantile((rank as f64 + 0.5) / n)).collect();
    let mut columns: Vec<Vec<f64>> = Vec::with_capacity(dimensions);
    for d in 0..dimensions {
        let mut place: Vec<f64> = vec![0.0; count];
        match PRIMES.get(d) {
            Some(p) => place.iter_mut().enumerate().for_each(|(s, u)| *u = (0.5 + s as f64 * p.sqrt()).fract()),
            None => fill_normals(Key::new(d as u64), &mut place),
        }
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by(|a, b| place[*a].total_cmp(&place[*b]));
        let mut z = vec![0.0; count];
        order.iter().zip(&strata).for_each(|(s, stratum)| z[*s] = *stratum);
        if dimensions < count {
            for other in &columns {
                let r = product(&z, other) / n;
                z.iter_mut().zip(other).for_each(|(z, o)| *z -= r * o);
            }
        }
        let std = (product(&z, &z) / n).sqrt();
        z.iter_mut().for_each(|z| *z = if std > 0.0 { *z / std } else { 0.0 });
        columns.push(z);
    }
    (0..count).flat_map(|s| columns.iter().map(move |z| z[s] as f32)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_fill_the_normal_distribution() {
        for (count, dimensions) in [(1, 3), (2, 1), (100, 1), (100, 2), (100, 11), (1000, 4), (50, 60)] {
            let z = normal_scores(count, dimensions);
            let column = |d: usize| z.iter().skip(d).step_by(dimensions).map(|z| f64::from(*z));
            let product = |d: usize, e: usize| column(d).zip(column(e)).map(|(a, b)| a * b).sum::<f64>() / count as f64;
            for d in 0..dimensions {
                // What rounding to f32 leaves.
                let one = if count == 1 { 0.0 } else { 1.0 };
                assert!(column(d).sum::<f64>().abs() < 1e-4 && (product(d, d) - one).abs() < 1e-6);
                for e in 0..d {
                    // More dimensions than points cannot be uncorrelated; a pseudo-random order has 1/√S.
                    let bound = if dimensions < count { 1e-6 } else { 1.0 };
                    assert!(product(d, e).abs() < bound, "{count} {dimensions} {d} {e}: {}", product(d, e));
                }
            }
        }
        // The mean of 1000 draws is off by 0.01 for both. Strata integrate the first, nearly a sum of functions of one number;
        // for the second, which is not, the recurrence has to do at least three times better than draws.
        let z = normal_scores(1000, 2);
        let mean = |f: fn(f32, f32) -> f32| z.chunks(2).map(|z| f64::from(f(z[0], z[1]))).sum::<f64>() / 1000.0;
        let (x, w) = crate::math::special::normal_quadrature(64).unwrap();
        let exact = x.iter().zip(&w).map(|(x, w)| w * (2f64.sqrt() * x).tanh().powi(2)).sum::<f64>();
        assert!((mean(|a, b| 1.0 / (1.0 + (-a - 1.5 * b).exp())) - 0.5).abs() < 1e-3);
        assert!((mean(|a, b| (a + b).tanh().powi(2)) - exact).abs() < 3e-3);
    }
}
