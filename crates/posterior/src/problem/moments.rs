//! E_q log p(D | w) for q of independent Gaussians and its gradient in means and variances, without a draw.
//!
//! Moments pass through the network ([`MomentsNetwork`]); the expectation over its outputs is a cubature
//! ([`Cubature`]). Rows are dealt to teams as in [`super::Density`]: the same bits on any number of threads.
//! Cost per row: some three times that of a plain pass and its gradient, and 2D evaluations of the likelihood.

use super::Problem;
use super::density::deal;
use super::rows::{RowData, Rows, View};
use crate::Precision;
use crate::error::Result;
use crate::likelihood::{BeliefGradient, Beliefs, Cubature, Likelihood};
use crate::math::Threads;
use crate::math::elementwise::axpy;
use crate::nn::{Gaussians, Gradient, MomentsNetwork, MomentsSpace, second_moments};
use rayon::prelude::*;
use std::ops::Range;

/// What a team needs to work through its chunks.
struct Team<R> {
    space: MomentsSpace<R>,
    cubature: Cubature<R>,
    gradient: Vec<R>,
    d_noise_mean: Vec<f64>,
    d_noise_variance: Vec<f64>,
    value: f64,
}

/// The expected log-likelihood of a [`Problem`] in precision `R`. Owns its buffers: an evaluation allocates nothing.
pub struct MomentsDensity<'p, R: Precision> {
    problem: &'p Problem,
    network: MomentsNetwork,
    rows: RowData<R>,
    second: Vec<R>,
    teams: Vec<Team<R>>,
    chunk: usize,
}

/// What is the same for all teams.
struct Shared<'a, R> {
    network: &'a MomentsNetwork,
    likelihood: &'a dyn Likelihood,
    weights: Gaussians<'a, R>,
    noise_mean: &'a [R],
    noise_variance: &'a [R],
    view: View<'a, R>,
    chunk: usize,
}

impl<'p, R: Precision> MomentsDensity<'p, R> {
    /// The problem's network, where all of its layers are dense.
    pub fn network(problem: &Problem) -> Result<MomentsNetwork> {
        MomentsNetwork::new(&**problem.network(), "use the method 'mean-field'")
    }

    /// For evaluations over up to `max_rows` rows at once. An error where a layer of the network is not dense.
    pub fn new(problem: &'p Problem, max_rows: usize) -> Result<Self> {
        let network = Self::network(problem)?;
        let (data, size) = (problem.data(), network.size());
        let max_rows = max_rows.clamp(1, data.rows);
        let (chunk, teams) = deal(size, max_rows);
        let noises = problem.dim() - size;
        let team = || Team {
            space: network.space(chunk, true),
            cubature: Cubature::new(&**problem.likelihood(), chunk),
            gradient: vec![R::ZERO; if teams > 1 { 2 * size } else { 0 }],
            d_noise_mean: vec![0.0; noises],
            d_noise_variance: vec![0.0; noises],
            value: 0.0,
        };
        let teams = (0..teams).map(|_| team()).collect();
        let (rows, second) = (RowData::new(data, max_rows), vec![R::ZERO; size]);
        Ok(MomentsDensity { problem, network, rows, second, teams, chunk })
    }

    /// E_q log p(D | w), or a mini-batch's unbiased estimate of it, for q = N(mean, variance); its gradient in the means goes
    /// into `grad.centre`, that in the variances into `grad.spread`, both overwritten.
    pub fn expected_log_likelihood(
        &mut self,
        mean: &[R],
        variance: &[R],
        rows: Rows<'_>,
        mut grad: Gradient<'_, R>,
    ) -> f64 {
        let size = self.network.size();
        second_moments(mean, variance, &mut self.second);
        let shared = Shared {
            network: &self.network,
            likelihood: &**self.problem.likelihood(),
            weights: Gaussians { mean: &mean[..size], variance: &variance[..size], second: &self.second },
            noise_mean: &mean[size..],
            noise_variance: &variance[size..],
            view: self.rows.view(rows),
            chunk: self.chunk,
        };
        let chunks = shared.view.x.rows.div_ceil(self.chunk);
        let count = self.teams.len().min(chunks);
        let teams = &mut self.teams[..count];
        if let [team] = teams {
            shared.work(0..chunks, Threads::Pool, team, grad.slice(0..size));
        } else {
            teams.par_iter_mut().enumerate().for_each(|(t, team)| {
                let mut gradient = std::mem::take(&mut team.gradient);
                let (centre, spread) = gradient.split_at_mut(size);
                let chunks = chunks * t / count..chunks * (t + 1) / count;
                shared.work(chunks, Threads::One, team, Gradient { centre, spread });
                team.gradient = gradient;
            });
            let Gradient { centre, spread } = grad.slice(0..size);
            for (from, part) in [(0, centre), (size, spread)] {
                part.copy_from_slice(&teams[0].gradient[from..from + size]);
                for team in &teams[1..] {
                    axpy(R::ONE, &team.gradient[from..from + size], part);
                }
            }
        }
        for i in 0..mean.len() - size {
            grad.centre[size + i] = R::of(teams.iter().map(|t| t.d_noise_mean[i]).sum());
            grad.spread[size + i] = R::of(teams.iter().map(|t| t.d_noise_variance[i]).sum());
        }
        teams.iter().map(|t| t.value).sum()
    }
}

impl<R: Precision> Shared<'_, R> {
    /// One team's share: chunks of rows forward, likelihood, backward.
    fn work(&self, chunks: Range<usize>, threads: Threads, team: &mut Team<R>, mut grad: Gradient<'_, R>) {
        let targets = self.likelihood.targets();
        let size = self.network.size();
        team.d_noise_mean.fill(0.0);
        team.d_noise_variance.fill(0.0);
        team.value = 0.0;
        for (i, c) in chunks.enumerate() {
            let (from, to) = (c * self.chunk, ((c + 1) * self.chunk).min(self.view.x.rows));
            let x = self.view.x.slice(from, to);
            let f = self.network.forward(self.weights, x, threads, &mut team.space);
            let at = Beliefs {
                mean: f.mean,
                variance: f.variance,
                noise_mean: self.noise_mean,
                noise_variance: self.noise_variance,
            };
            let gradient = BeliefGradient {
                mean: f.d_mean,
                variance: f.d_variance,
                noise_mean: &mut team.d_noise_mean,
                noise_variance: &mut team.d_noise_variance,
            };
            let y = &self.view.y[from * targets..to * targets];
            let weights = self.view.weights.map(|w| &w[from..to]);
            let scale = self.view.scale;
            team.value += team.cubature.expected_log_prob(self.likelihood, at, y, weights, scale, gradient);
            self.network.backward(self.weights, x, threads, &mut team.space, grad.slice(0..size), i > 0);
        }
    }
}
