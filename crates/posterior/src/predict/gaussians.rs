//! Gaussian outputs under a likelihood with a closed form: moments, quantiles, log-likelihood and CRPS without draws.
//!
//! At a site f ~ (1/M) Σₘ N(mₘ, Cₘ), one member for each Gaussian of the posterior, and the likelihood's own parameters stand at weighted nodes. Every marginal is a
//! mixture of normals ([`ClosedForm`]); with one member and normal noise, one normal. Several targets at once are jointly normal under normal noise; under other
//! noise their joint density is averaged over [`POINTS`] evenly spread points of f, with an error of the order of 1/√POINTS of its logarithm.

use super::moments::normal_scores;
use super::normals;
use crate::likelihood::closed_form::log_normal_density;
use crate::likelihood::{ClosedForm, Likelihood, NormalPart};
use crate::math::special::log_sum_exp;

/// Points of f for the joint density of several targets under noise that is not normal.
const POINTS: usize = 512;

/// The likelihood's own parameters at a node of their distribution.
#[derive(Debug, Clone, PartialEq)]
pub struct NoiseNode {
    /// Its share; those of one member sum to 1.
    pub weight: f64,
    /// Unconstrained values.
    pub values: Vec<f64>,
}

/// A Gaussian over the outputs of every site, or a mixture of several of equal weight.
#[derive(Debug, Clone, PartialEq)]
pub struct Gaussians {
    /// Members × sites × outputs.
    pub mean: Vec<f64>,
    /// Members × sites × outputs².
    pub covariance: Vec<f64>,
    /// For every member.
    pub noise: Vec<Vec<NoiseNode>>,
}

/// The moments of one target at one site, in standardised units.
pub(super) struct Moments {
    pub mean: f64,
    pub epistemic: f64,
    pub aleatoric: f64,
}

impl Gaussians {
    /// M.
    pub fn members(&self) -> usize {
        self.noise.len()
    }

    fn member(&self, m: usize, n: usize, sites: usize, k: usize) -> (&[f64], &[f64]) {
        let at = m * sites + n;
        (&self.mean[at * k..(at + 1) * k], &self.covariance[at * k * k..(at + 1) * k * k])
    }

    /// One after another, of equal weight.
    pub(super) fn join(&mut self, other: Gaussians) {
        self.mean.extend(other.mean);
        self.covariance.extend(other.covariance);
        self.noise.extend(other.noise);
    }

    /// The marginal of a target at site n.
    pub(super) fn parts(
        &self,
        form: &dyn ClosedForm,
        n: usize,
        sites: usize,
        k: usize,
        t: usize,
        out: &mut Vec<NormalPart>,
    ) {
        out.clear();
        let share = 1.0 / self.members() as f64;
        for (m, nodes) in self.noise.iter().enumerate() {
            let (mean, covariance) = self.member(m, n, sites, k);
            for node in nodes {
                let weight = share * node.weight;
                form.normals(t, mean, covariance, &node.values, &mut |part| {
                    out.push(NormalPart { weight: weight * part.weight, ..part });
                });
            }
        }
    }

    /// By the law of total variance, over f within members and between them.
    pub(super) fn moments(&self, form: &dyn ClosedForm, n: usize, sites: usize, k: usize, t: usize) -> Moments {
        let share = 1.0 / self.members() as f64;
        let mean = (0..self.members()).map(|m| self.member(m, n, sites, k).0[t]).sum::<f64>() * share;
        let (mut epistemic, mut aleatoric) = (0.0, 0.0);
        for (m, nodes) in self.noise.iter().enumerate() {
            let (own, covariance) = self.member(m, n, sites, k);
            epistemic += share * ((own[t] - mean).powi(2) + covariance[t * k + t].max(0.0));
            let noise = nodes.iter().map(|node| node.weight * form.noise_variance(t, own, covariance, &node.values));
            aleatoric += share * noise.sum::<f64>();
        }
        Moments { mean, epistemic, aleatoric }
    }

    /// ln p(y) of all targets at site n; `y` standardised.
    pub(super) fn log_likelihood(
        &self,
        likelihood: &dyn Likelihood,
        form: &dyn ClosedForm,
        n: usize,
        sites: usize,
        y: &[f64],
    ) -> f64 {
        let k = likelihood.outputs();
        if let [one] = y {
            let mut parts = Vec::new();
            self.parts(form, n, sites, k, 0, &mut parts);
            return normals::log_density(&parts, *one);
        }
        let share = -(self.members() as f64).ln();
        let mut logs = Vec::new();
        for (m, nodes) in self.noise.iter().enumerate() {
            let (mean, covariance) = self.member(m, n, sites, k);
            for node in nodes {
                let log = match likelihood.as_gaussian(&node.values) {
                    Some(variances) => {
                        let mut whole = covariance.to_vec();
                        variances.iter().enumerate().for_each(|(t, v)| whole[t * k + t] += v);
                        log_normal_density(y, mean, &mut whole).unwrap_or(f64::NEG_INFINITY)
                    }
                    None => at_points(likelihood, mean, covariance, &node.values, y),
                };
                logs.push(share + node.weight.ln() + log);
            }
        }
        log_sum_exp(&logs)
    }
}

/// ln of the mean of p(y | f) over evenly spread points of f.
fn at_points(likelihood: &dyn Likelihood, mean: &[f64], covariance: &[f64], noise: &[f64], y: &[f64]) -> f64 {
    let k = mean.len();
    let mut root = vec![0.0; k * k];
    super::linearised::root(covariance, k, &mut root);
    let mut f = vec![0.0; k];
    let logs: Vec<f64> = normal_scores(POINTS, k)
        .chunks_exact(k)
        .map(|z| {
            for i in 0..k {
                let spread: f64 = (0..=i).map(|j| root[i * k + j] * f64::from(z[j])).sum();
                f[i] = mean[i] + spread;
            }
            likelihood.log_prob_row(&f, y, noise)
        })
        .collect();
    log_sum_exp(&logs) - (POINTS as f64).ln()
}

/// What a query about the marginal of one target needs; made once for a block of sites.
pub(super) struct Marginals<'a> {
    pub gaussians: &'a Gaussians,
    pub form: &'a dyn ClosedForm,
    pub sites: usize,
    pub outputs: usize,
}

impl Marginals<'_> {
    fn of(&self, n: usize, t: usize) -> Vec<NormalPart> {
        let mut parts = Vec::new();
        self.gaussians.parts(self.form, n, self.sites, self.outputs, t, &mut parts);
        parts
    }

    pub fn cdf(&self, n: usize, t: usize, y: f64) -> f64 {
        normals::cdf(&self.of(n, t), y)
    }

    pub fn log_density(&self, n: usize, t: usize, y: f64) -> f64 {
        normals::log_density(&self.of(n, t), y)
    }

    pub fn quantiles(&self, n: usize, t: usize, levels: &[f64], out: &mut [f64]) {
        normals::quantiles(&self.of(n, t), levels, out);
    }

    pub fn crps(&self, n: usize, t: usize, y: f64) -> f64 {
        normals::crps(&self.of(n, t), y)
    }

    pub fn moments(&self, n: usize, t: usize) -> Moments {
        self.gaussians.moments(self.form, n, self.sites, self.outputs, t)
    }
}
