//! Laplace's approximation: a Gaussian at the MAP whose precision is the curvature there.
//!
//! q(w) = N(w*, (G + δS⁻¹)⁻¹), w* = argmax log p(w, D), G the generalised Gauss–Newton matrix (`problem/curvature`) whole, as Kronecker
//! factors or its diagonal, of all weights or of the last layer's; S the prior's covariance. δ (one, or one per layer) and normal noise are chosen
//! after the fit by the evidence (`evidence.rs`) or by the log-likelihood of rows held back; or in turns with the training (`online`). The
//! linearised predictive is `predict/linearised.rs`. Several side by side are a mixture (`mixture.rs`).
//!
//! (a) MAP by Adam, or the weights a model was started from. (b) L-BFGS on all rows towards the mode, where that is cheap. (c) One pass for G. (d) One
//! decomposition, after which every δ costs P.
//!
//! References: MacKay (1992), Neural Computation 4; Immer et al. (2021), AISTATS, and ICML for `online`; Daxberger et al. (2021), NeurIPS.
//! Cost beside MAP: full P²/2 per row and 9P³, kron Σ (in² + K·out²) per row and 9 Σ (in³ + out³), diag P per row.

mod approximation;
mod evidence;
mod mixture;
mod mode;
mod prior_scales;
mod spectrum;

pub use approximation::{LaplaceApproximation, LaplaceOptions};
pub use prior_scales::prior_scales;

use super::observer::Observer;
use super::train::{FitSummary, has_training, training_fields};
use super::{Fit, Method, MethodEntry};
use crate::data::split;
use crate::error::Result;
use crate::family::check_memory;
use crate::likelihood::Outcome;
use crate::optim::Decay;
use crate::posterior::{BlockGaussian, Posterior};
use crate::predict::{LinearisedPredictor, Link, Predictor, TargetScale};
use crate::problem::Problem;
use crate::problem::curvature::{Structure, Subset};
use crate::rng::Key;
use crate::settings::{Checked, NamedOptions, Options, Settings};
use approximation::normal_prior;
use std::time::Instant;

crate::word_enum! {
    /// What is kept of the curvature.
    pub enum CurvatureStructure {
        /// Full up to 2000 parameters, Kronecker-factored beyond.
        Auto = "auto",
        /// The whole matrix.
        Full = "full",
        /// Kronecker factors of every layer.
        Kron = "kron",
        /// The diagonal.
        Diag = "diag",
    }
}

crate::word_enum! {
    /// Which weights are uncertain.
    pub enum UncertainWeights {
        /// All of them.
        All = "all",
        /// Those of the last layer; the others stay at the MAP.
        LastLayer = "last-layer",
    }
}

crate::word_enum! {
    /// What chooses the prior precision.
    pub enum Tuning {
        /// The evidence, which also chooses normal noise.
        Evidence = "evidence",
        /// Rows held back.
        Validation = "validation",
        /// Nothing.
        None = "none",
    }
}

crate::word_enum! {
    /// Factors of the prior's precision.
    pub enum PriorPrecision {
        /// One for all layers.
        Scalar = "scalar",
        /// One for each, by evidence only.
        Layer = "layer",
    }
}

crate::word_enum! {
    /// How a layer's bias enters its Kronecker factors.
    pub enum KronBias {
        /// As one more input.
        Joint = "joint",
        /// Uncorrelated with the weights.
        Separate = "separate",
    }
}

crate::word_enum! {
    /// How a Laplace approximation predicts.
    pub enum LaplacePredictive {
        /// By the linearised network in closed form, with averages over outputs.
        Linearised = "linearised",
        /// The same, by probit for classes.
        Probit = "probit",
        /// From weights drawn.
        Sampling = "sampling",
    }
}

crate::options! {
    /// Laplace's approximation: a Gaussian at the MAP from the curvature there.
    pub struct Laplace: "laplace" {
        /// Gaussians, each at a mode of its own; more than 1 is a mixture of them
        members: usize = 1 => Int(1, 1000),
        ..training_fields!,
        /// what is kept of the curvature; auto is full up to 2000 parameters and kron beyond
        structure: CurvatureStructure = CurvatureStructure::Auto,
        /// which weights are uncertain; the others stay at the MAP
        subset: UncertainWeights = UncertainWeights::All,
        /// what chooses the prior precision and, for evidence, normal noise: the evidence, rows held back, or nothing
        tune: Tuning = Tuning::Evidence,
        /// one factor of the prior's precision for all layers, or one each (by evidence only)
        prior_precision: PriorPrecision = PriorPrecision::Scalar,
        /// fraction of the rows held back where tune is validation; nothing is fitted to them
        validation: f64 = 0.1 => Float(0.01, 0.9),
        /// rounds of training with the evidence choosing prior and noise after each; 0 means after the fit only
        online: usize = 0 => Int(0, 1000),
        /// for kron: a layer's bias is one more input (joint), or uncorrelated with its weights (separate)
        kron_bias: KronBias = KronBias::Joint,
        /// steps of L-BFGS on all rows after the training, at most; fewer where rows times parameters are many
        polish: usize = 200 => Int(0, 100_000),
        /// linearised network in closed form, with averages over outputs or by probit for classes; or weights drawn
        predictive: LaplacePredictive = LaplacePredictive::Linearised,
    }
}
has_training!(Laplace);

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: Laplace::NAME,
    summary: "a Gaussian at the MAP from the curvature there; prior and noise by evidence; with members, a mixture",
    gives: "a Gaussian (full, Kronecker-factored or diagonal), or a mixture of them",
    settings: Laplace::SETTINGS,
    build: |settings| Box::new(Checked::<Laplace>::from(settings)),
};

/// Parameters up to which `structure = auto` keeps everything.
const AUTO_FULL: usize = 2000;
/// Bytes that curvature may take.
const MOST_BYTES: u128 = 4 << 30;
/// Bytes from which on a run is told what it will take.
const TOLD_FROM: u128 = 256 << 20;
/// Components of the mixture by which a factor of the prior's precision is judged on held-back rows.
const COMPONENTS: usize = 100;
/// gᵀΣg above this part of the number of determined parameters: a tenth of a standard deviation each.
const CONVERGED: f64 = 0.01;

/// One Gaussian.
#[derive(Debug)]
struct Member {
    options: Checked<Laplace>,
}

impl Laplace {
    fn uncertain(&self, problem: &Problem) -> Result<Subset> {
        match self.subset {
            UncertainWeights::LastLayer => Subset::last_layer(&**problem.network()),
            UncertainWeights::All => Subset::all(&**problem.network()),
        }
    }

    fn structure_of(&self, subset: &Subset) -> Structure {
        match self.structure {
            CurvatureStructure::Full => Structure::Full,
            CurvatureStructure::Kron => Structure::Kron,
            CurvatureStructure::Diag => Structure::Diagonal,
            CurvatureStructure::Auto if subset.len() <= AUTO_FULL => Structure::Full,
            CurvatureStructure::Auto => Structure::Kron,
        }
    }

    fn approximation(&self, structure: Structure) -> LaplaceOptions {
        let by_evidence = self.tune == Tuning::Evidence;
        LaplaceOptions {
            structure,
            per_layer: self.prior_precision == PriorPrecision::Layer,
            separate_bias: self.kron_bias == KronBias::Separate,
            learn_prior: by_evidence,
            learn_noise: by_evidence,
        }
    }

    /// The rows to learn from and those held back.
    fn parts(&self, problem: &Problem, key: Key) -> Result<(Problem, Option<Problem>)> {
        if self.tune != Tuning::Validation {
            return Ok((problem.clone(), None));
        }
        let data = problem.data();
        let classes = (problem.likelihood().outcome() == Outcome::Class).then_some(&data.y[..]);
        let rows = split(data.rows, self.validation, classes, key)?;
        let part = |rows: &[usize]| problem.with_data(data.select(rows));
        Ok((part(&rows.train)?, Some(part(&rows.validation)?)))
    }
}

/// Bytes as people say them.
fn size(bytes: u128) -> String {
    match bytes as f64 {
        b if b >= 1e9 => format!("{:.1} GB", b / 1e9),
        b if b >= 1e6 => format!("{:.0} MB", b / 1e6),
        b => format!("{:.0} kB", (b / 1e3).ceil()),
    }
}

/// Tells what a large run takes, and refuses what does not fit. As many members are in work as there are threads; the Gaussians of the others wait.
fn plan(subset: &Subset, structure: Structure, members: usize, observer: &mut dyn Observer) -> Result<()> {
    let at_work = members.min(rayon::current_num_threads().max(1));
    let needed =
        |s: Structure| at_work as u128 * subset.bytes(s) + (members - at_work) as u128 * subset.posterior_bytes(s);
    let bytes = needed(structure);
    let of = |s: Structure| size(needed(s));
    let (kron, diagonal) = (of(Structure::Kron), of(Structure::Diagonal));
    let fits = |s: Structure| needed(s) <= MOST_BYTES;
    let (name, fix) = match structure {
        Structure::Full if fits(Structure::Kron) => {
            ("laplace with structure=full", format!("use structure=kron ({kron}) or subset=last-layer"))
        }
        Structure::Full | Structure::Kron => {
            let name = if structure == Structure::Kron {
                "laplace with structure=kron"
            } else {
                "laplace with structure=full"
            };
            (name, format!("use structure=diag ({diagonal}) or subset=last-layer"))
        }
        Structure::Diagonal => ("laplace with structure=diag", "use subset=last-layer".to_owned()),
    };
    check_memory(name, subset.len(), bytes, MOST_BYTES, &fix)?;
    if bytes >= TOLD_FROM {
        let full = of(Structure::Full);
        let of_members = if members > 1 { format!(" by {members} members") } else { String::new() };
        observer.warn(&format!(
            "curvature of {} parameters{of_members} takes about {}: full {full}, kron {kron}, diag {diagonal}",
            subset.len(),
            size(bytes)
        ));
    }
    Ok(())
}

/// Warns where the point is no mode, since a Gaussian there means nothing.
fn check_mode(
    problem: &Problem,
    at: &mut LaplaceApproximation,
    w: &[f64],
    subset: &Subset,
    observer: &mut dyn Observer,
) -> Result<()> {
    let gradient = &mode::gradient(problem, w)[subset.range()];
    let norm = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
    let (length, allowed) = (at.decrement(gradient)?, CONVERGED * at.determined().max(1.0));
    if length.is_nan() || length > allowed {
        let step = length.sqrt();
        let step = if step < 1e4 { format!("{step:.2}") } else { format!("{step:.2e}") };
        observer.warn(&format!(
            "the fit has not converged: the gradient of the log joint has norm {norm:.3e}, and a Newton step would go {step} posterior \
             standard deviations; a Gaussian there means little: train longer (more epochs, or polish)"
        ));
    }
    Ok(())
}

/// The factor of the prior's precision under which held-back rows are most likely: on a grid from 1e-4 to 1e4.
fn by_validation(problem: &Problem, held: &Problem, at: &mut LaplaceApproximation) -> Result<()> {
    let mut best = (f64::NEG_INFINITY, 1.0);
    for step in -10..=10 {
        let factor = 10f64.powf(0.4 * f64::from(step));
        at.set_prior_factor(factor);
        let q = at.posterior()?;
        let scale = TargetScale::default();
        let (network, likelihood) = (problem.network().clone(), problem.likelihood().clone());
        let predictor = LinearisedPredictor::new(network, likelihood, &q, COMPONENTS, Link::Average, scale)?;
        let scores = predictor.predict(&held.data().x).log_likelihood(&held.data().y);
        let weights = held.data().weights.clone();
        let score: f64 = scores.iter().enumerate().map(|(n, l)| l * weights.as_ref().map_or(1.0, |w| w[n])).sum();
        if score > best.0 {
            best = (score, factor);
        }
    }
    at.set_prior_factor(best.1);
    Ok(())
}

/// What the user should know of the factors chosen.
fn told(at: &LaplaceApproximation, observer: &mut dyn Observer) {
    at.notes().iter().for_each(|n| observer.warn(n));
    let factors = at.prior_factors();
    let text: Vec<String> = factors.iter().map(|f| format!("{f:.3e}")).collect();
    if factors.iter().any(|f| !(1e-3..=1e3).contains(f)) {
        observer.warn(&format!(
            "the prior's precision was multiplied by {}: the prior (prior.weight_std) is far from what the data say",
            text.join(", ")
        ));
    }
}

impl Method for Checked<Laplace> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn settings(&self) -> &Settings {
        self.settings()
    }

    fn bytes(&self, problem: &Problem) -> u128 {
        // Beside curvature, which its plan asks for: the mode is polished on all rows in double precision.
        let one = super::needs::by_gradient(problem, self.batch_size, 48);
        super::needs::by_members(problem, self.members, one, 2)
    }

    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        problem.whole(ENTRY.name)?;
        let member = Member { options: self.clone() };
        let subset = self.uncertain(problem)?;
        normal_prior(problem, &subset)?;
        plan(&subset, self.structure_of(&subset), self.members, observer)?;
        match self.members {
            1 => member.fit(problem, key, observer),
            members => mixture::fit(&member, members, problem, key, observer),
        }
    }
}

impl Method for Member {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn settings(&self) -> &Settings {
        self.options.settings()
    }

    fn fit(&self, problem: &Problem, key: Key, observer: &mut dyn Observer) -> Result<Fit> {
        let (s, started) = (&*self.options, Instant::now());
        let subset = s.uncertain(problem)?;
        let structure = s.structure_of(&subset);
        let options = s.approximation(structure);
        let (problem, held) = s.parts(problem, key)?;
        let (w, problem, summary) = mode::find(&problem, s, &subset, options, key, observer)?;
        let mut at = LaplaceApproximation::new(
            &problem,
            w.clone(),
            &subset,
            LaplaceOptions { learn_prior: false, learn_noise: false, ..options },
        )?;
        check_mode(&problem, &mut at, &w, &subset, observer)?;
        if options.per_layer && options.learn_prior && structure == Structure::Full {
            // No eigenvectors serve all layers' factors: they are found before the decomposition.
            at = LaplaceApproximation::new(&problem, w, &subset, options)?;
        } else {
            at.maximise_evidence(options.learn_prior, options.learn_noise);
        }
        if let Some(held) = &held {
            by_validation(&problem, held, &mut at)?;
        }
        told(&at, observer);
        let posterior: BlockGaussian = at.posterior()?;
        debug_assert_eq!(posterior.dim(), problem.dim());
        let summary = FitSummary { seconds: started.elapsed().as_secs_f64(), ..summary };
        Ok(Fit { posterior: Box::new(posterior), summary })
    }
}
