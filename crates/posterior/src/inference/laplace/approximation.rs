//! A Gaussian at a point of the parameters with the precision G/c + δS⁻¹, and the evidence that goes with it.

use super::evidence::{Evidence, Group, Noise, by_layer};
use super::spectrum::{Part, Spectrum, affine_ranges};
use crate::error::{Error, Result};
use crate::math::special::HALF_LN_TAU;
use crate::posterior::BlockGaussian;
use crate::problem::Problem;
use crate::problem::curvature::{Curvature, Ggn, Structure, Subset};

/// What is approximated, and what the evidence decides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LaplaceOptions {
    /// What is kept of the curvature.
    pub structure: Structure,
    /// One factor of the prior's precision per layer, not one for all.
    pub per_layer: bool,
    /// For Kronecker factors: no correlations between a layer's weights and its bias.
    pub separate_bias: bool,
    /// Whether the evidence chooses the prior's precision.
    pub learn_prior: bool,
    /// Whether the evidence chooses the noise, where it is normal and not fixed.
    pub learn_noise: bool,
}

/// Laplace's approximation at a point.
#[derive(Debug, Clone)]
pub struct LaplaceApproximation {
    w: Vec<f64>,
    size: usize,
    spectrum: Spectrum,
    evidence: Evidence,
    /// δ by group.
    precision: Vec<f64>,
    /// What was already multiplied into S before it was decomposed, by layer.
    folded: Vec<f64>,
    noise_factor: f64,
    per_layer: bool,
    notes: Vec<String>,
}

/// The prior's mean and standard deviation of every parameter of a subset; an error where it is not normal.
pub(super) fn normal_prior(problem: &Problem, subset: &Subset) -> Result<Vec<(f64, f64)>> {
    let (range, mut out) = (subset.range(), Vec::with_capacity(subset.len()));
    let inside = problem.prior().blocks().iter().filter(|(r, _)| r.start >= range.start && r.end <= range.end);
    for (block, density) in inside {
        let normal = density.as_normal().ok_or_else(|| {
            let what = format!("laplace needs a normal prior, and this one is '{}'", problem.prior().name());
            Error::setting(what, "choose the prior 'normal'")
        })?;
        out.extend((0..block.len()).map(|i| normal.at(i)));
    }
    Ok(out)
}

impl LaplaceApproximation {
    /// At w (all parameters, the likelihood's included), over a subset of the network's.
    pub fn new(problem: &Problem, w: Vec<f64>, subset: &Subset, options: LaplaceOptions) -> Result<Self> {
        problem.whole("laplace")?;
        normal_prior(problem, subset)?;
        let ggn = problem.ggn(&w, subset, options.structure);
        LaplaceApproximation::from_ggn(problem, w, &ggn, subset, options)
    }

    /// From the curvature at w. Of a whole matrix it finds the eigenvalues, which is enough for the evidence; eigenvectors when they are needed.
    pub fn from_ggn(
        problem: &Problem,
        w: Vec<f64>,
        ggn: &Ggn,
        subset: &Subset,
        options: LaplaceOptions,
    ) -> Result<Self> {
        let prior = normal_prior(problem, subset)?;
        let size = problem.network().layout().len();
        let (start, layers) = (subset.range().start, affine_ranges(&subset.affines).collect::<Vec<_>>());
        let mut std: Vec<f64> = prior.iter().map(|(_, s)| *s).collect();
        let squares: Vec<f64> = prior.iter().zip(&w[start..]).map(|((m, s), w)| ((w - m) / s).powi(2)).collect();
        let mut scatters: Vec<f64> = layers.iter().map(|l| squares[l.clone()].iter().sum()).collect();
        let noise = noise(problem, &w[size..], ggn);
        let mut folded = vec![1.0; layers.len()];
        let mut noise_factor = 1.0;
        let dense = matches!(ggn.curvature, Curvature::Full(_));
        if let (Curvature::Full(matrix), true) = (&ggn.curvature, options.per_layer && options.learn_prior) {
            let lower = matrix.scaled_lower(&std);
            let noise = noise.as_ref().filter(|_| options.learn_noise);
            (folded, noise_factor) = by_layer(&lower, &layers, &scatters, noise)?;
            for ((layer, factor), scatter) in layers.iter().zip(&folded).zip(&mut scatters) {
                std[layer.clone()].iter_mut().for_each(|s| *s /= factor.sqrt());
                *scatter *= factor;
            }
        }
        let mut notes = Vec::new();
        let spectrum = Spectrum::new(&ggn.curvature, subset, &std, options.separate_bias, &mut notes)?;
        let per_layer = options.per_layer && !dense;
        let count = if per_layer { layers.len() } else { 1 };
        let groups = (0..count).map(|g| {
            let own = spectrum.parts.iter().filter(|p| !per_layer || p.affine == g);
            let scatter = if per_layer { scatters[g] } else { scatters.iter().sum() };
            Group { values: own.flat_map(|p| p.values.iter().copied()).collect(), scatter }
        });
        let evidence = Evidence { groups: groups.collect(), log_likelihood: ggn.log_likelihood, noise };
        let mut precision = vec![1.0; count];
        let over_prior = options.learn_prior && !(dense && options.per_layer);
        // Where the layers' factors were found, the noise was found with them.
        let over_noise = options.learn_noise && (over_prior || !options.learn_prior);
        evidence.maximise(&mut precision, &mut noise_factor, over_prior, over_noise);
        Ok(LaplaceApproximation { w, size, spectrum, evidence, precision, folded, noise_factor, per_layer, notes })
    }

    /// Chooses the prior's precision, the noise or both by the evidence, from where they are; costs P per evaluation.
    pub fn maximise_evidence(&mut self, prior: bool, noise: bool) {
        self.evidence.maximise(&mut self.precision, &mut self.noise_factor, prior, noise);
    }

    fn delta(&self, part: &Part) -> f64 {
        self.precision[if self.per_layer { part.affine } else { 0 }]
    }

    /// What the prior's precision is multiplied by: one number, or one per layer.
    pub fn prior_factors(&self) -> Vec<f64> {
        match &self.precision[..] {
            [one] => {
                let same = self.folded.iter().all(|f| *f == self.folded[0]);
                self.folded.iter().take(if same { 1 } else { self.folded.len() }).map(|f| f * one).collect()
            }
            many => many.to_vec(),
        }
    }

    /// Sets one factor of the prior's precision for all parameters.
    pub fn set_prior_factor(&mut self, factor: f64) {
        self.precision.fill(factor);
    }

    /// What the noise variance is multiplied by; 1 unless the evidence chose it.
    pub fn noise_factor(&self) -> f64 {
        self.noise_factor
    }

    /// Sets what the noise variance is multiplied by, where it is normal and not fixed.
    pub fn set_noise_factor(&mut self, factor: f64) {
        if self.evidence.noise.is_some() {
            self.noise_factor = factor;
        }
    }

    /// log p(D) at the present factors.
    pub fn log_evidence(&self) -> f64 {
        self.evidence.value(&self.precision, self.noise_factor)
    }

    /// log p(D) at given factors of the prior's precision (as many as there are groups) and of the noise variance, and its slopes in their
    /// logarithms (the last one is the noise's, where there is room for it). Costs P.
    pub fn evidence_at(&self, prior: &[f64], noise: f64, slopes: &mut [f64]) -> f64 {
        self.evidence.slopes(prior, noise, slopes)
    }

    /// How many parameters the data determine, γ = Σ λ/(λ + cδ).
    pub fn determined(&self) -> f64 {
        self.evidence.determined(&self.precision, self.noise_factor)
    }

    /// gᵀΣg of a gradient over the subset: the squared length of a Newton step in posterior standard deviations.
    pub fn decrement(&mut self, gradient: &[f64]) -> Result<f64> {
        self.spectrum.complete()?;
        Ok(self.spectrum.decrement(gradient, |p| self.delta(p), self.noise_factor))
    }

    /// Σ over the subset, written out; for small ones.
    pub fn covariance(&mut self) -> Result<Vec<f64>> {
        self.spectrum.complete()?;
        Ok(self.spectrum.covariance(|p| self.delta(p), self.noise_factor))
    }

    /// The point, with the noise as the evidence has it.
    pub fn mean(&self) -> Vec<f64> {
        let mut w = self.w.clone();
        w[self.size..].iter_mut().for_each(|v| *v += 0.5 * self.noise_factor.ln());
        w
    }

    /// What was mended on the way.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The Gaussian, in the precision of model files.
    pub fn posterior(&mut self) -> Result<BlockGaussian> {
        self.spectrum.complete()?;
        let mean = self.mean().iter().map(|v| *v as f32).collect();
        Ok(self.spectrum.posterior(mean, |p| self.delta(p), self.noise_factor, self.log_evidence()))
    }
}

/// The noise where it is normal and has parameters: one ln σ per target.
fn noise(problem: &Problem, own: &[f64], ggn: &Ggn) -> Option<Noise> {
    let variances = problem.likelihood().as_gaussian(own).filter(|v| v.len() == own.len())?;
    let (mean, std) = problem.likelihood().noise_prior();
    let constants: f64 = variances.iter().map(|v| 0.5 * v.ln() + HALF_LN_TAU).sum();
    Some(Noise {
        squares: -2.0 * (ggn.log_likelihood + ggn.weight * constants),
        count: ggn.weight * variances.len() as f64,
        scales: own.iter().map(|s| (*s, mean, std)).collect(),
    })
}
