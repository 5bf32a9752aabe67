//! A likelihood at every site of a row: an image whose pixels are predicted.
//!
//! log p(y | f) = Σ over sites of log p(y_site | f_site). A row of f is sites × outputs and a row of y sites × targets, the numbers of one site side by side
//! (channels last); noise parameters are shared by all sites. Cost: that of the likelihood, for every site.

use super::{ClosedForm, Likelihood, LikelihoodGradient, LikelihoodOps, Outcome};
use crate::error::{Error, Result};
use crate::math::Real;
use crate::math::special::Standard;
use crate::nn::BlockSpec;
use crate::rng::Stream;
use crate::settings::Settings;
use std::ops::Range;
use std::sync::Arc;

/// A likelihood, so many times in a row of the data.
#[derive(Debug, Clone)]
pub struct AtSites {
    inner: Arc<dyn Likelihood>,
    sites: usize,
}

impl AtSites {
    /// At `sites` sites, at least 1.
    pub fn new(inner: Arc<dyn Likelihood>, sites: usize) -> Result<AtSites> {
        if sites == 0 || inner.sites() != 1 {
            let what = format!("the likelihood '{}' cannot be put at {sites} sites", inner.name());
            return Err(Error::setting(what, "give a likelihood of one site, and at least one site"));
        }
        Ok(AtSites { inner, sites })
    }
}

macro_rules! ops {
    ($($real:ty),*) => {$(
        impl LikelihoodOps<$real> for AtSites {
            fn log_prob(
                &self,
                f: &[$real],
                y: &[$real],
                noise: &[$real],
                weights: Option<&[$real]>,
                scale: f64,
                gradient: Option<LikelihoodGradient<'_, $real>>,
            ) -> f64 {
                let inner: &dyn LikelihoodOps<$real> = &*self.inner;
                let Some(weights) = weights else { return inner.log_prob(f, y, noise, None, scale, gradient) };
                // A row's weight is that of all its sites: rows one by one, so that no list of sites' weights has to be made.
                let (wide, targets) = (self.sites * self.inner.outputs(), self.sites * self.inner.targets());
                let rows = f.chunks_exact(wide).zip(y.chunks_exact(targets)).zip(weights);
                match gradient {
                    None => rows.map(|((f, y), w)| inner.log_prob(f, y, noise, None, scale * w.f64(), None)).sum(),
                    Some(LikelihoodGradient { d_f, d_noise }) => rows
                        .zip(d_f.chunks_exact_mut(wide))
                        .map(|(((f, y), w), d_f)| {
                            let gradient = LikelihoodGradient { d_f, d_noise: &mut *d_noise };
                            inner.log_prob(f, y, noise, None, scale * w.f64(), Some(gradient))
                        })
                        .sum(),
                }
            }
        }
    )*};
}
ops!(f32, f64);

impl Likelihood for AtSites {
    fn name(&self) -> &'static str {
        self.inner.name()
    }
    fn settings(&self) -> &Settings {
        self.inner.settings()
    }
    fn outcome(&self) -> Outcome {
        self.inner.outcome()
    }
    fn sites(&self) -> usize {
        self.sites
    }
    fn targets(&self) -> usize {
        self.inner.targets()
    }
    fn outputs(&self) -> usize {
        self.inner.outputs()
    }
    fn noise_outputs(&self) -> Range<usize> {
        self.inner.noise_outputs()
    }
    fn classes(&self) -> usize {
        self.inner.classes()
    }
    fn blocks(&self) -> Vec<BlockSpec> {
        self.inner.blocks()
    }
    fn noise_prior(&self) -> (f64, f64) {
        self.inner.noise_prior()
    }
    fn initial_noise(&self) -> f64 {
        self.inner.initial_noise()
    }
    fn as_gaussian(&self, noise: &[f64]) -> Option<Vec<f64>> {
        self.inner.as_gaussian(noise)
    }
    fn is_normal(&self) -> bool {
        self.inner.is_normal()
    }
    fn standard(&self) -> Option<&Standard> {
        self.inner.standard()
    }
    fn closed_form(&self) -> Option<&dyn ClosedForm> {
        self.inner.closed_form()
    }
    fn log_prob_row(&self, f: &[f64], y: &[f64], noise: &[f64]) -> f64 {
        self.inner.log_prob_row(f, y, noise)
    }
    fn log_prob_target(&self, target: usize, f: &[f64], y: f64, noise: &[f64]) -> Option<f64> {
        self.inner.log_prob_target(target, f, y, noise)
    }
    fn hessian_row(&self, f: &[f64], y: &[f64], noise: &[f64], out: &mut [f64]) {
        self.inner.hessian_row(f, y, noise, out);
    }
    fn hessian_parts(&self, f: &[f64], diagonal: &mut [f64], vector: &mut [f64]) -> bool {
        self.inner.hessian_parts(f, diagonal, vector)
    }
    fn moments(&self, f: &[f64], noise: &[f64], mean: &mut [f64], variance: &mut [f64]) {
        self.inner.moments(f, noise, mean, variance);
    }
    fn moments_rows(&self, f: &[f32], noise: &[f64], mean: &mut [f64], variance: &mut [f64]) {
        self.inner.moments_rows(f, noise, mean, variance);
    }
    fn cdf(&self, target: usize, value: f64, f: &[f64], noise: &[f64]) -> f64 {
        self.inner.cdf(target, value, f, noise)
    }
    fn smooth_cdf(&self, target: usize, value: f64, f: &[f64], noise: &[f64]) -> f64 {
        self.inner.smooth_cdf(target, value, f, noise)
    }
    fn probabilities(&self, f: &[f64], out: &mut [f64]) {
        self.inner.probabilities(f, out);
    }
    fn sample(&self, f: &[f64], noise: &[f64], stream: &mut Stream, y: &mut [f64]) {
        self.inner.sample(f, noise, stream, y);
    }
}
