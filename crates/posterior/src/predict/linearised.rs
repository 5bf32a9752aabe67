//! The predictive of a Gaussian over weights through the linearised network: f(x) ~ N(f_m(x), J Σ Jᵀ), J = df/dw at the mean m.
//!
//! Every row has its mean and covariance in closed form (`linearised_forms.rs`), and the predictive keeps them ([`super::Gaussians`]): a prediction has no random seed. For classes the
//! probit link gives one component instead, f_k/√(1 + π v_k/8) (MacKay 1992): probabilities without averaging, and no mutual information.
//! Every row's own distribution is what this gives: rows of one component are not a function drawn from the posterior.
//!
//! Reference: Immer, Korzepa & Bauer (2021), AISTATS. Cost: 1 + outputs passes, then as in `linearised_forms.rs` and `linearised_unit.rs`.

use super::gaussians::NoiseNode;
use super::linearised_forms::{Form, Scratch};
use super::linearised_unit::UnitForm;
use super::predictive::{Predictive, TargetScale};
use super::predictor::Predictor;
use crate::data::Values;
use crate::error::{Error, Result};
use crate::likelihood::{Likelihood, Outcome};
use crate::math::{MatRef, Threads};
use crate::nn::{AffineBlock, AnyNetwork};
use crate::posterior::BlockGaussian;
use crate::precision::Precision;
use crate::problem::JacobianFactors;
use rayon::prelude::*;
use std::f64::consts::PI;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How a Gaussian over outputs becomes a prediction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// The likelihood is averaged over the Gaussian.
    Average,
    /// Classes: outputs are shrunk by their variance. Other outcomes are averaged.
    Probit,
}

/// A linearised network under a Gaussian over blocks of its weights.
#[derive(Debug)]
pub struct LinearisedPredictor {
    network: Arc<dyn AnyNetwork>,
    likelihood: Arc<dyn Likelihood>,
    noise: Vec<f32>,
    affines: Vec<AffineBlock>,
    evaluation: Evaluation,
    components: usize,
    link: Link,
    scale: TargetScale,
}

/// How a row's covariance is found, and in which precision its pass is.
#[derive(Debug)]
enum Evaluation {
    Unit(UnitForm, Passes<f32>),
    Other(Form, Passes<f64>),
}

/// Passes of the network at the mean.
#[derive(Debug)]
struct Passes<R: Precision> {
    w: Vec<R>,
    /// Buffers of those that are over, to be used again.
    spare: Mutex<Vec<Buffers<R>>>,
}

/// What a chunk of rows needs.
#[derive(Debug)]
struct Buffers<R: Precision> {
    rows: usize,
    factors: JacobianFactors<R>,
    scratch: Scratch,
}

/// Numbers of the factors of one pass, about; and rows, at most.
const NUMBERS: usize = 1 << 18;
const ROWS: usize = 128;

impl LinearisedPredictor {
    /// With S `components`. An error where the posterior's blocks are not those of the network's last layers.
    pub fn new(
        network: Arc<dyn AnyNetwork>,
        likelihood: Arc<dyn Likelihood>,
        posterior: &BlockGaussian,
        components: usize,
        link: Link,
        scale: TargetScale,
    ) -> Result<LinearisedPredictor> {
        let odd = |what: String| Error::setting(what, "predict from draws of the weights (sampling) instead");
        if likelihood.sites() > 1 {
            return Err(odd("a network that predicts images cannot be linearised".to_owned()));
        }
        let first = posterior.blocks().iter().map(|b| b.start).min().unwrap_or(0);
        let affines: Vec<AffineBlock> =
            network.affine_blocks().iter().copied().filter(|l| l.start + l.len() > first).collect();
        let size = network.layout().len();
        let mean = &posterior.mean()[..size];
        let evaluation = match (posterior.exact(), UnitForm::of(posterior, &affines)) {
            (None, Some(unit)) => Some(Evaluation::Unit(unit, Passes::at(mean))),
            (exact, _) => Form::new(posterior, &affines).map(|form| {
                let mut passes = Passes::<f64>::at(mean);
                if let (Some(exact), Some(block)) = (exact, posterior.blocks().first()) {
                    passes.w[block.start..block.start + exact.mean.len()].copy_from_slice(&exact.mean);
                }
                Evaluation::Other(form, passes)
            }),
        };
        let evaluation = evaluation.ok_or_else(|| {
            odd("the posterior's blocks are not those of the network's layers, so it cannot be linearised".to_owned())
        })?;
        let noise = posterior.mean()[size..].to_vec();
        let components = components.max(1);
        Ok(LinearisedPredictor { network, likelihood, noise, affines, evaluation, components, link, scale })
    }

    /// Mean (`rows × outputs`) and covariance (`rows × outputs²`) of the network's outputs, in standardised units; those of one unit with a
    /// whole covariance come from a pass in f32.
    pub fn moments(&self, x: &Values) -> (Vec<f64>, Vec<f64>) {
        let (affines, k) = (&self.affines[..], self.network.outputs());
        match &self.evaluation {
            Evaluation::Unit(unit, passes) => {
                self.by_chunks(passes, 0, x, |b, _, covariance| unit.covariance(&b.factors, k, covariance))
            }
            Evaluation::Other(form, passes) => {
                self.by_chunks(passes, form.numbers(affines, k), x, |b, rows, covariance| {
                    form.covariance(&b.factors, affines, rows, k, &mut b.scratch, covariance)
                })
            }
        }
    }

    /// Means and covariances, chunk by chunk; `covariance` writes a chunk's and needs `numbers` numbers a row beside the factors.
    fn by_chunks<R: Precision>(
        &self,
        passes: &Passes<R>,
        numbers: usize,
        x: &Values,
        covariance: impl Fn(&mut Buffers<R>, usize, &mut [f64]) + Sync,
    ) -> (Vec<f64>, Vec<f64>) {
        let x = x.to::<R>();
        let (width, k) = (self.network.input().len(), self.network.outputs());
        let rows = x.len() / width.max(1);
        let numbers = JacobianFactors::numbers(&self.affines, k) + numbers;
        let chunk = (NUMBERS / numbers.max(1)).clamp(1, ROWS).min(rows.max(1));
        let (mut mean, mut spread) = (vec![0.0; rows * k], vec![0.0; rows * k * k]);
        let parts = mean.par_chunks_mut(chunk * k).zip(spread.par_chunks_mut(chunk * k * k)).enumerate();
        parts.for_each(|(part, (mean, spread))| {
            let mut buffers = passes.buffers(self, chunk);
            let (from, n) = (part * chunk, mean.len() / k);
            let x = MatRef::new(&x[from * width..(from + n) * width], n, width);
            buffers.factors.run(&passes.w, x, Threads::One);
            mean.iter_mut().zip(buffers.factors.outputs()).for_each(|(to, f)| *to = f.f64());
            covariance(&mut buffers, n, spread);
            passes.spare().push(buffers);
        });
        (mean, spread)
    }

    /// Outputs shrunk by their variance, f_k/√(1 + π v_k/8): what a link for classes takes instead of an average.
    pub fn probit_outputs(&self, x: &Values) -> Vec<f64> {
        let k = self.network.outputs();
        let (mut mean, covariance) = self.moments(x);
        for (f, v) in mean.chunks_exact_mut(k).zip(covariance.chunks_exact(k * k)) {
            (0..k).for_each(|i| f[i] /= (1.0 + PI / 8.0 * v[i * k + i]).sqrt());
        }
        mean
    }

    /// Class probabilities by the probit link, `rows × classes`; empty where outcomes are no classes.
    pub fn probit(&self, x: &Values) -> Vec<f64> {
        let (k, classes) = (self.network.outputs(), self.likelihood.classes());
        let f = self.probit_outputs(x);
        let mut out = vec![0.0; f.len() / k * classes];
        for (f, p) in f.chunks_exact(k).zip(out.chunks_exact_mut(classes.max(1))) {
            self.likelihood.probabilities(f, p);
        }
        out
    }
}

impl<R: Precision> Passes<R> {
    fn at(mean: &[f32]) -> Self {
        Passes { w: mean.iter().map(|v| R::of(f64::from(*v))).collect(), spare: Mutex::default() }
    }

    fn spare(&self) -> MutexGuard<'_, Vec<Buffers<R>>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Buffers for so many rows; fresh memory only where none are free, since its pages cost as much as the arithmetic.
    fn buffers(&self, of: &LinearisedPredictor, rows: usize) -> Buffers<R> {
        let free = self.spare().pop().filter(|b| b.rows >= rows);
        free.unwrap_or_else(|| {
            let factors = JacobianFactors::new(of.network.clone(), &of.affines, rows);
            Buffers { rows, factors, scratch: Scratch::default() }
        })
    }
}

/// A lower triangle C with C Cᵀ = v for a covariance that may be singular: directions without variance get none.
pub(super) fn root(v: &[f64], k: usize, c: &mut [f64]) {
    c.fill(0.0);
    for i in 0..k {
        for j in 0..=i {
            let inner: f64 = (0..j).map(|t| c[i * k + t] * c[j * k + t]).sum();
            let rest = v[i * k + j] - inner;
            c[i * k + j] = match i == j {
                // What rounding may leave of nothing.
                true => {
                    if rest > 1e-14 * v[i * k + i] {
                        rest.sqrt()
                    } else {
                        0.0
                    }
                }
                false => {
                    if c[j * k + j] > 0.0 {
                        rest / c[j * k + j]
                    } else {
                        0.0
                    }
                }
            };
        }
    }
}

impl Predictor for LinearisedPredictor {
    fn predict(&self, x: &Values) -> Predictive {
        let k = self.network.outputs();
        let narrow = |v: &[f64]| v.iter().map(|v| *v as f32).collect::<Vec<f32>>();
        if self.link == Link::Probit && self.likelihood.outcome() == Outcome::Class {
            let f = narrow(&self.probit_outputs(x));
            let rows = f.len() / k;
            return Predictive::new(self.likelihood.clone(), f, self.noise.clone(), 1, rows, self.scale.clone());
        }
        let (mean, covariance) = self.moments(x);
        let values = self.noise.iter().map(|v| f64::from(*v)).collect();
        let noise = vec![NoiseNode { weight: 1.0, values }];
        Predictive::gaussian(self.likelihood.clone(), mean, covariance, noise, self.components, self.scale.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::root;

    #[test]
    fn roots_of_whole_and_singular_covariances() {
        for v in [[4.0, 2.0, 2.0, 5.0], [1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 3.0]] {
            let mut c = [0.0; 4];
            root(&v, 2, &mut c);
            let back = [c[0] * c[0], c[0] * c[2], c[0] * c[2], c[2] * c[2] + c[3] * c[3]];
            assert!(c[1] == 0.0 && v.iter().zip(back).all(|(v, b)| (v - b).abs() < 1e-14), "{c:?}");
        }
    }
}
