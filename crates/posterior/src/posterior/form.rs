//! What a posterior is: one exhaustive list, from which everything that depends on it follows.
//!
//! A new form is a new row of [`Form`], and the compiler names every place that has to know it: nothing is answered by a default that may be wrong.

use super::{
    BlockGaussian, Chains, DropoutPosterior, FullCovariancePosterior, LowRankPosterior, Posterior, SparsePosterior,
    WeightedPosterior,
};

/// What a posterior is.
#[derive(Debug, Clone, Copy)]
pub enum Form<'a> {
    /// One vector of parameters.
    Point(&'a [f32]),
    /// Independent Gaussians.
    Diagonal {
        /// Means.
        mean: &'a [f32],
        /// Standard deviations; 0 where a parameter is fixed.
        std: &'a [f32],
    },
    /// A Gaussian whose covariance is diagonal plus low rank.
    LowRank(&'a LowRankPosterior),
    /// A Gaussian with a full covariance over a range of the parameters; the others are fixed.
    Full(&'a FullCovariancePosterior),
    /// Independent Gaussians over blocks.
    Blocks(&'a BlockGaussian),
    /// Members of equal weight.
    Mixture(&'a [Box<dyn Posterior>]),
    /// Independent Gaussians, or a point, over some of the parameters; the others are 0.
    Sparse(&'a SparsePosterior),
    /// A vector of parameters of which units are dropped at random.
    Dropout(&'a DropoutPosterior),
    /// Draws of Markov chains.
    Draws(&'a Chains),
    /// Draws of a proposal, with weights.
    Weighted(&'a WeightedPosterior),
    /// The prior itself.
    Prior,
    /// A form of another crate: it can be drawn from, and no more is known of it.
    Other,
}

impl dyn Posterior + '_ {
    /// How many different draws there are, where they can be counted: more are of no use.
    pub fn distinct(&self) -> Option<usize> {
        match self.form() {
            Form::Point(_) => Some(1),
            Form::Sparse(q) => q.std().is_none().then_some(1),
            Form::Mixture(members) => members.iter().all(|m| m.is_point()).then_some(members.len()),
            Form::Draws(chains) => Some(chains.draws()),
            Form::Weighted(q) => Some(q.distinct()),
            Form::Diagonal { .. }
            | Form::LowRank(_)
            | Form::Full(_)
            | Form::Blocks(_)
            | Form::Dropout(_)
            | Form::Prior
            | Form::Other => None,
        }
    }

    /// Whether all draws are the same, so that one is enough.
    pub fn is_point(&self) -> bool {
        self.distinct() == Some(1)
    }

    /// One vector of parameters that stands for it: its point or its mean, where it has one.
    pub fn centre(&self) -> Option<Vec<f32>> {
        match self.form() {
            Form::Point(w) => Some(w.to_vec()),
            Form::Diagonal { mean, .. } => Some(mean.to_vec()),
            Form::LowRank(q) => Some(q.mean().to_vec()),
            Form::Full(q) => Some(q.mean().to_vec()),
            Form::Blocks(q) => Some(q.mean().to_vec()),
            Form::Mixture([one]) => one.centre(),
            _ if self.is_point() => Some(self.draw(crate::rng::Key::new(0)).w),
            Form::Mixture(_) | Form::Sparse(_) | Form::Dropout(_) | Form::Draws(_) | Form::Weighted(_) => None,
            Form::Prior | Form::Other => None,
        }
    }

    /// Mean and standard deviation of every parameter where q is a diagonal Gaussian.
    pub fn diagonal(&self) -> Option<(&[f32], &[f32])> {
        match self.form() {
            Form::Diagonal { mean, std } => Some((mean, std)),
            Form::Mixture([one]) => one.diagonal(),
            _ => None,
        }
    }

    /// The posterior itself where it is a Gaussian over blocks.
    pub fn as_blocks(&self) -> Option<&BlockGaussian> {
        match self.form() {
            Form::Blocks(q) => Some(q),
            _ => None,
        }
    }

    /// The members of a mixture, all of the same weight; empty where it is none.
    pub fn members(&self) -> &[Box<dyn Posterior>] {
        match self.form() {
            Form::Mixture(members) => members,
            _ => &[],
        }
    }

    /// The Gaussians over blocks that it is or is a mixture of; empty where it is something else, even in part.
    pub fn gaussians(&self) -> Vec<&BlockGaussian> {
        match self.form() {
            Form::Blocks(one) => vec![one],
            Form::Mixture(members) => members.iter().map(|m| m.as_blocks()).collect::<Option<_>>().unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    /// The positions of the parameters that are not 0 in every draw, increasing, where the others were pruned.
    pub fn kept(&self) -> Option<&[u32]> {
        match self.form() {
            Form::Sparse(q) => Some(q.kept()),
            _ => None,
        }
    }

    /// The Markov chains it was drawn by.
    pub fn chains(&self) -> Option<&Chains> {
        match self.form() {
            Form::Draws(chains) => Some(chains),
            _ => None,
        }
    }

    /// Log weights of the draws it was made from, up to a constant, where they were not all alike.
    pub fn log_weights(&self) -> Option<&[f64]> {
        match self.form() {
            Form::Weighted(q) => Some(q.log_weights()),
            _ => None,
        }
    }

    /// log q of the parameters that are not fixed, given those that are: what can be weighed against the log joint even where
    /// q as a whole has no density.
    pub fn free_log_density(&self, w: &[f32]) -> Option<f64> {
        match self.form() {
            Form::Full(q) => q.free_log_density(w),
            Form::Blocks(q) => q.free_log_density(w),
            _ => self.log_density(w),
        }
    }
}
