//! Fits a Gaussian process: checks what it is given, says what it will take, and finds the parameters.

use super::exact::{self, Exact, log_marginal};
use super::fitted::GpFit;
use super::kernel::Kernel;
use super::objective::Search;
use crate::data::{Dataset, Inputs};
use crate::error::{Error, ErrorKind, Result};
use crate::fitted::{Estimator, ModelEntry, ModelFit};
use crate::inference::{EpochRecord, FitSummary, Flow, Observer, Progress};
use crate::likelihood::Likelihood;
use crate::memory;
use crate::rng::{Key, Purpose};
use crate::settings::{Allowed, Default, Setting, Settings};
use std::sync::Arc;
use std::time::Instant;

/// Rows up to which `auto` is exact.
const MOST_EXACT: usize = 5000;
/// Rows of the subset that parameters are first found on, where there are more.
const SUBSET: usize = 1000;

pub(crate) const ENTRY: ModelEntry = ModelEntry {
    name: super::NAME,
    summary: "Gaussian process regression with a kernel of your own; parameters by marginal likelihood",
    gives: "a Gaussian process, exact at its parameters",
    settings: &[
        Setting {
            name: "kernel",
            help: "kernels joined by + and *, as in \"matern52(ard) + linear\": rbf, matern12, matern32, matern52, rq, periodic, linear, polynomial, constant, white, hamming; \
                   arguments: ard, columns=[a, b], and lengthscale=0.5 (held) or lengthscale~0.5 (where the fit starts) and the like",
            default: Default::Text("matern52(ard)"),
            allowed: Allowed::Text,
        },
        Setting {
            name: "inference",
            help: "exact needs memory of rows² and time of rows³; auto is exact up to 5000 rows",
            default: Default::Text("auto"),
            allowed: Allowed::OneOf(&["auto", "exact"]),
        },
        Setting {
            name: "starts",
            help: "values of the parameters that the search starts from; the best is continued",
            default: Default::Int(3),
            allowed: Allowed::Int(1, 1000),
        },
        Setting {
            name: "steps",
            help: "steps of the search at most; 0 keeps the parameters where they start",
            default: Default::Int(200),
            allowed: Allowed::Int(0, 100_000),
        },
    ],
    real_likelihood: "gaussian",
    build: |settings, inputs| Ok(Box::new(GpEstimator::new(settings, inputs)?)),
    restore: |r| {
        let kernel = Kernel::parse(r.settings.text("kernel")?, r.inputs)?;
        GpFit::restore(r, Arc::new(kernel))
    },
};

/// The method with its settings, for given columns.
#[derive(Debug)]
pub struct GpEstimator {
    settings: Settings,
    kernel: Arc<Kernel>,
}

impl GpEstimator {
    /// Reads the kernel and finds its columns.
    pub fn new(settings: &Settings, inputs: &Inputs) -> Result<GpEstimator> {
        let kernel = Kernel::parse(settings.text("kernel")?, inputs)?;
        Ok(GpEstimator { settings: settings.clone(), kernel: Arc::new(kernel) })
    }
}

/// What a fit looks at while it runs.
struct Watch<'a> {
    observer: &'a mut dyn Observer,
    steps: u64,
    stopped: bool,
}

impl Watch<'_> {
    fn go(&mut self, evaluations: usize, best: f64) -> bool {
        let progress = Progress {
            step: (evaluations as u64).min(self.steps),
            steps: self.steps,
            epoch: 1,
            epochs: 1,
            objective: if best.is_finite() { best } else { f64::NAN },
        };
        self.stopped |= self.observer.progress(&progress) == Flow::Stop;
        !self.stopped
    }
}

impl Estimator for GpEstimator {
    fn fit(
        &self,
        data: Dataset,
        likelihood: Arc<dyn Likelihood>,
        key: Key,
        observer: &mut dyn Observer,
    ) -> Result<ModelFit> {
        let started = Instant::now();
        let (n, s) = (data.rows, &self.settings);
        let noise = check(&data, &*likelihood)?;
        if s.text("inference")? == "auto" && n > MOST_EXACT {
            let what = format!("{n} rows are more than the {MOST_EXACT} that inference=auto fits exactly");
            return Err(Error::setting(what, "set inference=exact, or fit fewer rows"));
        }
        memory::request(exact::bytes(n), format!("an exact Gaussian process of {n} rows"), "fit fewer rows")?;
        let each = exact::seconds(n);
        if each > 0.5 {
            let memory = memory::show(exact::bytes(n));
            observer.warn(&format!("exact on {n} rows: {memory} of memory, about {each:.1} s for each step"));
        }
        let x: Arc<[f64]> = data.x.to::<f64>();
        let y: Arc<[f64]> = data.y.clone();
        // Of ln σ² from ln σ.
        let learned = !likelihood.blocks().is_empty();
        let (mean, std) = likelihood.noise_prior();
        let search = Search::new(&self.kernel, noise, learned.then_some((2.0 * mean, 2.0 * std)));
        let (starts, steps) = (s.count("starts")?, s.count("steps")?);
        let mut watch = Watch { observer, steps: (starts * 25 + steps) as u64, stopped: false };
        let kernel = &*self.kernel;
        let key = key.purpose(Purpose::Init);
        let (mut log, mut evaluations, mut from) = (search.start.clone(), 0, None);
        if steps > 0 && n > 2 * SUBSET {
            // Every so many rows: parameters of these are near those of all.
            let rows: Vec<usize> = (0..SUBSET).map(|i| i * n / SUBSET).collect();
            let part = data.x.rows(&rows, self.kernel.width()).to::<f64>();
            let targets: Vec<f64> = rows.iter().map(|r| y[*r]).collect();
            let mut evidence =
                |log: &[f64], gradient: &mut [f64]| log_marginal(kernel, &part, &targets, log, Some(gradient)).ok();
            let found = search.maximise(None, starts, steps, key, &mut evidence, &mut |e, b| watch.go(e, b));
            (from, evaluations) = (Some(found.0), found.1);
        }
        if steps > 0 {
            let mut evidence =
                |log: &[f64], gradient: &mut [f64]| log_marginal(kernel, &x, &y, log, Some(gradient)).ok();
            let starts = if from.is_some() { 1 } else { starts };
            let done = evaluations;
            let mut go = |e: usize, b: f64| watch.go(done + e, b);
            let found = search.maximise(from.as_deref(), starts, steps, key, &mut evidence, &mut go);
            (log, evaluations) = (found.0, done + found.1);
        }
        if watch.stopped {
            return Err(ErrorKind::Interrupted.into());
        }
        let observer = watch.observer;
        let member = Exact::new(self.kernel.clone(), log, x, y)?;
        if member.jitter > 0.0 {
            observer.warn(&format!(
                "the covariance of the rows is singular in double precision: {:.1e} was added to its diagonal",
                member.jitter
            ));
        }
        let log_evidence = member.log_marginal();
        let free = search.free_of(&member.log);
        let penalty = -search.log_prior(&free, &mut vec![0.0; free.len()]);
        let leave_one_out = member.leave_one_out();
        let record =
            EpochRecord { epoch: 1, objective: log_evidence - penalty, nll: -log_evidence, penalty, beta: 1.0 };
        let summary = FitSummary {
            steps: evaluations as u64,
            seconds: started.elapsed().as_secs_f64(),
            stopped_early: false,
            penalty_name: "-log prior".to_owned(),
            epochs: 1,
            trace: vec![record],
        };
        let fitted = GpFit { likelihood, input: data.shape, members: vec![member], leave_one_out, log_evidence };
        Ok(ModelFit { fitted: Arc::new(fitted), summary })
    }
}

/// ln σ² where it starts or is held; an error where the data or the likelihood is none for this model.
fn check(data: &Dataset, likelihood: &dyn Likelihood) -> Result<f64> {
    let own = vec![likelihood.initial_noise(); likelihood.blocks().iter().map(|b| b.len()).sum()];
    let Some(variances) = likelihood.as_gaussian(&own) else {
        let what = format!("gp takes normal noise, and the likelihood is '{}'", likelihood.name());
        return Err(Error::setting(what, "use the likelihood gaussian, or fit a network"));
    };
    if data.targets != 1 || variances.len() != 1 {
        return Err(Error::setting(
            format!("gp has one target, and there are {}", data.targets),
            "fit them one by one",
        ));
    }
    if data.weights.is_some() {
        return Err(Error::setting("gp takes rows without weights", "leave the weights out"));
    }
    if data.rows < 2 {
        return Err(Error::data("a Gaussian process needs two rows at least, and there is one", "give more rows"));
    }
    Ok(variances[0].ln())
}
