//! The predictive distribution at sites: a mixture with one component per draw, or Gaussian outputs in closed form.
//!
//! A site is a row of a table, or a pixel of an image that is predicted; the likelihood works site by site. Draws keep the outputs of every draw, and all that is
//! asked of the mixture is a sum over them. Gaussian outputs stay Gaussian ([`Gaussians`]) under likelihoods with a closed form; under others they become points with
//! weights: one output at the nodes of [`normal_nodes`](crate::likelihood::normal_nodes), several at evenly spread points (`moments.rs`).
//! Memory: draws × sites × outputs, or sites × outputs²; long tables are predicted block by block ([`super::blocks`]).

use super::gaussians::{Gaussians, Marginals, NoiseNode};
use super::linearised::root;
use super::moments::normal_scores;
use super::quantile;
use super::uncertainty::{ClassUncertainty, RealUncertainty};
use crate::likelihood::{Likelihood, Outcome, normal_nodes};
use rayon::prelude::*;
use std::sync::Arc;

/// y = mean + std · (standardised y), per target; empty where targets are not standardised.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TargetScale {
    /// Mean and standard deviation of every target.
    pub targets: Vec<(f64, f64)>,
}

impl TargetScale {
    /// Mean and standard deviation of a target.
    pub fn of(&self, target: usize) -> (f64, f64) {
        self.targets.get(target).copied().unwrap_or((0.0, 1.0))
    }
}

/// Outputs under S draws.
#[derive(Debug, Clone, PartialEq)]
pub struct DrawnOutputs {
    /// Draws × sites × outputs.
    pub f: Vec<f32>,
    /// Draws × the likelihood's own parameters.
    pub noise: Vec<f64>,
    /// S.
    pub draws: usize,
    /// Share of every draw; none where all have the same.
    pub weights: Option<Vec<f64>>,
}

/// What is known of the outputs at every site.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Outputs {
    /// Under draws of the posterior, or at weighted points.
    Draws(DrawnOutputs),
    /// In closed form.
    Gaussian(Gaussians),
}

/// Outputs at sites, with the likelihood that makes distributions of them.
#[derive(Debug, Clone)]
pub struct Predictive {
    likelihood: Arc<dyn Likelihood>,
    outputs: Outputs,
    sites: usize,
    scale: TargetScale,
}

/// Sites that one task works through at a time.
const SITES: usize = 64;
/// Fewest points that several Gaussian outputs are met at.
const FEWEST_POINTS: usize = 100;

impl Predictive {
    /// From the outputs of S draws (`draws × sites × outputs`) and the draws' noise parameters.
    ///
    /// # Panics
    /// If the lengths do not agree.
    pub fn new(
        likelihood: Arc<dyn Likelihood>,
        f: Vec<f32>,
        noise: Vec<f32>,
        draws: usize,
        sites: usize,
        scale: TargetScale,
    ) -> Predictive {
        assert_eq!(f.len(), draws * sites * likelihood.outputs(), "draws × sites × outputs");
        let noise = noise.into_iter().map(f64::from).collect();
        let outputs = Outputs::Draws(DrawnOutputs { f, noise, draws, weights: None });
        Predictive { likelihood, outputs, sites, scale }
    }

    /// From Gaussian outputs in standardised units: `mean` of `sites × outputs`, `covariance` of `sites × outputs²`, and nodes of the likelihood's own
    /// parameters. `points` is how many stand for several outputs where the likelihood has no closed form.
    ///
    /// # Panics
    /// If the lengths do not agree.
    pub fn gaussian(
        likelihood: Arc<dyn Likelihood>,
        mean: Vec<f64>,
        covariance: Vec<f64>,
        noise: Vec<NoiseNode>,
        points: usize,
        scale: TargetScale,
    ) -> Predictive {
        let k = likelihood.outputs();
        let sites = mean.len() / k;
        assert_eq!((mean.len(), covariance.len()), (sites * k, sites * k * k), "sites × outputs, sites × outputs²");
        assert!(!noise.is_empty(), "the likelihood's own parameters have a node, if an empty one");
        let outputs = if likelihood.closed_form().is_some() {
            Outputs::Gaussian(Gaussians { mean, covariance, noise: vec![noise] })
        } else {
            Outputs::Draws(at_points(&mean, &covariance, &noise, k, points))
        };
        Predictive { likelihood, outputs, sites, scale }
    }

    /// The mixture of several predictives of the same sites, of equal weight.
    ///
    /// # Panics
    /// If there is none, or their sites or kinds of outputs differ.
    pub fn joined(parts: Vec<Predictive>) -> Predictive {
        let members = parts.len() as f64;
        let mut parts = parts.into_iter();
        let mut all = parts.next().expect("a mixture has a part");
        let draws = all.draws();
        if let Outputs::Draws(d) = &mut all.outputs
            && let Some(weights) = &mut d.weights
        {
            weights.iter_mut().for_each(|w| *w /= members);
        }
        for part in parts {
            assert_eq!(part.sites, all.sites, "parts have the same sites");
            match (&mut all.outputs, part.outputs) {
                (Outputs::Draws(all), Outputs::Draws(part)) => {
                    assert!(all.weights.is_some() || part.draws == draws, "parts have as many draws");
                    all.f.extend(part.f);
                    all.noise.extend(part.noise);
                    all.draws += part.draws;
                    match (&mut all.weights, part.weights) {
                        (Some(all), Some(part)) => all.extend(part.iter().map(|w| w / members)),
                        (None, None) => {}
                        _ => panic!("parts have weights, or none has"),
                    }
                }
                (Outputs::Gaussian(all), Outputs::Gaussian(part)) => all.join(part),
                _ => panic!("parts are of one kind"),
            }
        }
        all
    }

    /// With all outputs divided by a temperature: above 1 the classes of every draw become more alike. For class outcomes.
    pub fn tempered(mut self, temperature: f64) -> Predictive {
        let factor = (1.0 / temperature) as f32;
        if let Outputs::Draws(draws) = &mut self.outputs {
            draws.f.iter_mut().for_each(|f| *f *= factor);
        }
        self
    }

    /// Sites: rows of a table, or pixels.
    pub fn rows(&self) -> usize {
        self.sites
    }

    /// Components of the mixture: S draws, or as many Gaussians.
    pub fn draws(&self) -> usize {
        match &self.outputs {
            Outputs::Draws(d) => d.draws,
            Outputs::Gaussian(g) => g.members(),
        }
    }

    /// What is known of the outputs, in standardised units.
    pub fn outputs(&self) -> &Outputs {
        &self.outputs
    }

    /// The outputs of draw s at all sites, in standardised units; none where outputs are Gaussian.
    pub fn draw(&self, s: usize) -> Option<&[f32]> {
        let n = self.sites * self.likelihood.outputs();
        match &self.outputs {
            Outputs::Draws(d) => d.f.get(s * n..(s + 1) * n),
            Outputs::Gaussian(_) => None,
        }
    }

    /// Closed forms of the marginals, where outputs are Gaussian.
    pub(super) fn marginals(&self) -> Option<Marginals<'_>> {
        match (&self.outputs, self.likelihood.closed_form()) {
            (Outputs::Gaussian(gaussians), Some(form)) => {
                Some(Marginals { gaussians, form, sites: self.sites, outputs: self.likelihood.outputs() })
            }
            _ => None,
        }
    }

    /// The draws, where there are such.
    fn drawn(&self) -> &DrawnOutputs {
        match &self.outputs {
            Outputs::Draws(d) => d,
            Outputs::Gaussian(_) => {
                unreachable!("Gaussian outputs are kept only with a closed form, which is asked first")
            }
        }
    }

    pub(super) fn noise_of(&self, s: usize) -> &[f64] {
        let d = self.drawn();
        let n = d.noise.len() / d.draws;
        &d.noise[s * n..(s + 1) * n]
    }

    /// What draw s counts for in a sum that is divided by [`Predictive::weight_sum`]: 1 each where all have the same share, so that such sums do not change.
    pub(super) fn sum_weight(&self, s: usize) -> f64 {
        self.drawn().weights.as_ref().map_or(1.0, |w| w[s])
    }

    /// See [`Predictive::sum_weight`].
    pub(super) fn weight_sum(&self) -> f64 {
        let d = self.drawn();
        if d.weights.is_some() { 1.0 } else { d.draws as f64 }
    }

    pub(crate) fn likelihood(&self) -> &dyn Likelihood {
        &*self.likelihood
    }

    /// Mean and standard deviation that take a standardised target to the user's units.
    pub(crate) fn target_scale(&self, target: usize) -> (f64, f64) {
        self.scale.of(target)
    }

    /// The outputs of draw s at site n, widened into `out`.
    pub(super) fn output(&self, s: usize, n: usize, out: &mut [f64]) {
        let k = out.len();
        let from = (s * self.sites + n) * k;
        for (o, f) in out.iter_mut().zip(&self.drawn().f[from..from + k]) {
            *o = f64::from(*f);
        }
    }

    /// The outputs of draw s at `n` sites from site `from` on.
    pub(super) fn outputs_of(&self, s: usize, from: usize, n: usize) -> &[f32] {
        let k = self.likelihood.outputs();
        &self.drawn().f[(s * self.sites + from) * k..(s * self.sites + from + n) * k]
    }

    /// Fills `width` numbers per site in parallel; `fill` gets the number of its first site and its sites' numbers, all 0.
    pub(super) fn by_blocks(&self, width: usize, fill: impl Fn(usize, &mut [f64]) + Sync) -> Vec<f64> {
        let mut out = vec![0.0; self.sites * width];
        out.par_chunks_mut((SITES * width).max(1)).enumerate().for_each(|(b, rows)| fill(b * SITES, rows));
        out
    }

    /// [`Predictive::by_blocks`] row by row.
    pub(super) fn by_rows(&self, width: usize, fill: impl Fn(usize, &mut [f64]) + Sync) -> Vec<f64> {
        self.by_blocks(width, |from, rows| {
            for (i, row) in rows.chunks_mut(width).enumerate() {
                fill(from + i, row);
            }
        })
    }

    /// Mean and variance split in two, for real and count outcomes, in the user's units.
    pub fn real(&self) -> RealUncertainty {
        RealUncertainty::of(self, &self.scale)
    }

    /// Class probabilities and entropies, for class outcomes.
    pub fn classes(&self) -> ClassUncertainty {
        ClassUncertainty::of(self)
    }

    /// E[y | w_s] of the first target (the probability of the last class, for classes) under draw s at all sites, in the user's
    /// units: the draw as a function. Gaussian outputs have no draws, and give the mean.
    pub fn draw_mean(&self, s: usize) -> Vec<f64> {
        let likelihood = self.likelihood();
        let (mean, std) = self.scale.of(0);
        if self.marginals().is_some() {
            return self.real().mean.into_iter().step_by(likelihood.targets()).collect();
        }
        self.by_rows(1, |n, out| {
            let mut f = vec![0.0; likelihood.outputs()];
            self.output(s, n, &mut f);
            if likelihood.outcome() == Outcome::Class {
                let mut p = vec![0.0; likelihood.classes()];
                likelihood.probabilities(&f, &mut p);
                out[0] = p[p.len() - 1];
            } else {
                let (mut m, mut v) = (vec![0.0; likelihood.targets()], vec![0.0; likelihood.targets()]);
                likelihood.moments(&f, self.noise_of(s), &mut m, &mut v);
                out[0] = mean + std * m[0];
            }
        })
    }

    /// Quantiles of the mixture, `rows × targets × levels`, in the user's units. For counts, the smallest count that
    /// reaches the level, infinite beyond 1e300. Not a number where a draw's location or scale is not one, or beyond 1e100 standard deviations.
    pub fn quantiles(&self, levels: &[f64]) -> Vec<f64> {
        let targets = self.likelihood.targets();
        let width = targets * levels.len();
        self.by_blocks(width, |from, rows| {
            for t in 0..targets {
                quantile::of_rows(self, from, t, levels, t * levels.len(), width, rows);
            }
            for (i, q) in rows.iter_mut().enumerate() {
                let (mean, std) = self.scale.of(i % width / levels.len());
                *q = mean + std * *q;
            }
        })
    }

    /// P(y_target ≤ value) at row n under the mixture; `value` in the user's units.
    pub fn cdf(&self, n: usize, target: usize, value: f64) -> f64 {
        let (mean, std) = self.scale.of(target);
        quantile::mixture_cdf(self, n, target, (value - mean) / std)
    }

    /// Where yₙ lies in its predictive distribution, as (P(y < yₙ), P(y ≤ yₙ)): one number twice unless outcomes are counts. For
    /// real and count outcomes, `rows × targets`; `y` in the user's units.
    pub fn pit(&self, y: &[f64]) -> Vec<(f64, f64)> {
        let (targets, count) = (self.likelihood.targets(), self.likelihood.outcome() == Outcome::Count);
        let both = self.by_rows(2 * targets, |n, out| {
            for (t, out) in out.chunks_exact_mut(2).enumerate() {
                let y = y[n * targets + t];
                out[1] = self.cdf(n, t, y);
                out[0] = if count { self.cdf(n, t, y - 1.0) } else { out[1] };
            }
        });
        both.chunks_exact(2).map(|p| (p[0], p[1])).collect()
    }

    /// log p(yₙ | xₙ, D) per row, by log-sum-exp over draws; `y` (`rows × targets`) in the user's units, and so is the density.
    pub fn log_likelihood(&self, y: &[f64]) -> Vec<f64> {
        let targets = self.likelihood.targets();
        let standardised = self.likelihood.outcome() == Outcome::Real;
        let jacobian: f64 = if standardised { (0..targets).map(|t| self.scale.of(t).1.ln()).sum() } else { 0.0 };
        let marginals = self.marginals();
        self.by_rows(1, |n, out| {
            let mut yn = y[n * targets..(n + 1) * targets].to_vec();
            if standardised {
                for (t, v) in yn.iter_mut().enumerate() {
                    let (mean, std) = self.scale.of(t);
                    *v = (*v - mean) / std;
                }
            }
            if let Some(m) = &marginals {
                out[0] = m.gaussians.log_likelihood(&*self.likelihood, m.form, n, self.sites, &yn) - jacobian;
                return;
            }
            let mut f = vec![0.0; self.likelihood.outputs()];
            out[0] = self.log_mean(n, &mut f, |f, noise| self.likelihood.log_prob_row(f, &yn, noise)) - jacobian;
        })
    }

    /// log p(yₙₜ | xₙ, D) of every real target on its own, `rows × targets`, in the user's units; none where the likelihood does not tell it of a single target.
    pub fn target_log_likelihood(&self, y: &[f64]) -> Option<Vec<f64>> {
        let (targets, outputs) = (self.likelihood.targets(), self.likelihood.outputs());
        if self.likelihood.outcome() != Outcome::Real {
            return (targets == 1).then(|| self.log_likelihood(y));
        }
        let marginals = self.marginals();
        if marginals.is_none() && self.sites > 0 {
            let mut f = vec![0.0; outputs];
            self.output(0, 0, &mut f);
            self.likelihood.log_prob_target(0, &f, 0.0, self.noise_of(0))?;
        }
        Some(self.by_rows(targets, |n, out| {
            let mut f = vec![0.0; outputs];
            for (t, out) in out.iter_mut().enumerate() {
                let (mean, std) = self.scale.of(t);
                let y = (y[n * targets + t] - mean) / std;
                let of_draw =
                    |f: &[f64], noise: &[f64]| self.likelihood.log_prob_target(t, f, y, noise).unwrap_or(f64::NAN);
                *out = match &marginals {
                    Some(m) => m.log_density(n, t, y),
                    None => self.log_mean(n, &mut f, of_draw),
                } - std.ln();
            }
        }))
    }

    /// ln of the mean over draws of e^log at site n, `log` of outputs and noise; `f` has room for the outputs.
    fn log_mean(&self, n: usize, f: &mut [f64], log: impl Fn(&[f64], &[f64]) -> f64) -> f64 {
        let (mut largest, mut sum) = (f64::NEG_INFINITY, 0.0);
        for s in 0..self.draws() {
            self.output(s, n, f);
            let l = log(f, self.noise_of(s)) + self.sum_weight(s).ln();
            if l == f64::NEG_INFINITY {
                continue; // nothing to add, and −∞ − (−∞) is no number
            }
            if l > largest {
                sum = sum * (largest - l).exp() + 1.0;
                largest = l;
            } else {
                sum += (l - largest).exp();
            }
        }
        largest + (sum / self.weight_sum()).ln()
    }

    /// Outcomes of a row of the data: all targets at all its sites.
    pub(crate) fn outcomes_per_row(&self) -> usize {
        self.likelihood.sites() * self.likelihood.targets().max(1)
    }
}

/// Gaussian outputs at points: one output at weighted nodes, several at evenly spread points, for every node of the noise.
fn at_points(mean: &[f64], covariance: &[f64], noise: &[NoiseNode], k: usize, points: usize) -> DrawnOutputs {
    let sites = mean.len() / k;
    let mut roots = vec![0.0; covariance.len()];
    roots.par_chunks_mut(k * k).zip(covariance.par_chunks(k * k)).for_each(|(c, v)| root(v, k, c));
    let (z, weights): (Vec<f64>, Vec<f64>) = if k == 1 {
        // The widest site decides how fine the nodes are, so that all sites share them.
        normal_nodes(roots.iter().copied().fold(0.0, f64::max)).unzip()
    } else {
        let count = points.max(FEWEST_POINTS);
        (normal_scores(count, k).into_iter().map(f64::from).collect(), vec![1.0 / count as f64; count])
    };
    let draws = weights.len() * noise.len();
    let mut f = vec![0.0f32; draws * sites * k];
    f.par_chunks_mut((sites * k).max(1)).enumerate().for_each(|(s, f)| {
        let z = &z[(s % weights.len()) * k..][..k];
        for ((f, mean), c) in f.chunks_exact_mut(k).zip(mean.chunks_exact(k)).zip(roots.chunks_exact(k * k)) {
            for i in 0..k {
                let spread: f64 = c[i * k..i * k + i + 1].iter().zip(z).map(|(c, z)| c * z).sum();
                f[i] = (mean[i] + spread) as f32;
            }
        }
    });
    let both = noise.iter().flat_map(|node| weights.iter().map(move |w| (node, w * node.weight)));
    let (own, shares): (Vec<&[f64]>, Vec<f64>) = both.map(|(node, w)| (&node.values[..], w)).unzip();
    DrawnOutputs { f, noise: own.concat(), draws, weights: Some(shares) }
}
