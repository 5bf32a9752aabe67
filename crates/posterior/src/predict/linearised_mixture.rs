//! The predictive of a mixture of Gaussians over weights: every member linearised at its own mean, 1/S Σₖ p_k(y | x).
//!
//! Mean and covariance of the outputs follow by the law of total variance: what members are unsure of by themselves, and what they differ in.
//! Members get the same number of components, at least two: one point would have no spread.
//! Reference: Eschenhagen et al. (2021), Mixtures of Laplace Approximations. Cost: that of `linearised.rs` for each member.

use super::linearised::{LinearisedPredictor, Link};
use super::predictive::{Predictive, TargetScale};
use super::predictor::Predictor;
use crate::data::Values;
use crate::error::{Error, Result};
use crate::likelihood::Likelihood;
use crate::nn::AnyNetwork;
use crate::posterior::Posterior;
use std::sync::Arc;

/// Linearised networks, one for each member of a posterior; one alone where it is no mixture.
#[derive(Debug)]
pub struct LinearisedMixture {
    members: Vec<LinearisedPredictor>,
    components: usize,
    scale: TargetScale,
}

impl LinearisedMixture {
    /// With about `components` of them in all. An error where a member is not a Gaussian over blocks of the network's last layers.
    pub fn new(
        network: Arc<dyn AnyNetwork>,
        likelihood: Arc<dyn Likelihood>,
        posterior: &dyn Posterior,
        components: usize,
        link: Link,
        scale: TargetScale,
    ) -> Result<LinearisedMixture> {
        let gaussians = posterior.gaussians();
        if gaussians.is_empty() {
            let what = format!("a posterior of kind '{}' cannot be linearised", posterior.kind());
            return Err(Error::setting(what, "predict from draws of the weights, or fit with laplace"));
        }
        let each = match gaussians.len() {
            1 => components,
            members => components.div_ceil(members).max(2),
        };
        let member = |q| LinearisedPredictor::new(network.clone(), likelihood.clone(), q, each, link, scale.clone());
        Ok(LinearisedMixture { members: gaussians.into_iter().map(member).collect::<Result<_>>()?, components, scale })
    }

    /// Whether it was made for so many components and this scale.
    pub(crate) fn is_for(&self, components: usize, scale: &TargetScale) -> bool {
        self.components == components && self.scale == *scale
    }

    /// One for each member.
    pub fn members(&self) -> &[LinearisedPredictor] {
        &self.members
    }
}

impl Predictor for LinearisedMixture {
    fn predict(&self, x: &Values) -> Predictive {
        Predictive::joined(self.members.iter().map(|m| m.predict(x)).collect())
    }
}
