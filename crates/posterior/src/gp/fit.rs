//! Fits a Gaussian process: checks what it is given, says what it will take, and finds the parameters.
//!
//! With many rows the parameters are first found on [`SUBSET`] of them, and then on all; `sparse` and `nearest` choose their rows with what was found on the subset, climb, and choose
//! again. With few rows the parameters are integrated out. Under a likelihood that is not normal the mode and its curvature stand for the posterior, and parameters of more than twice
//! [`SUBSET`] rows are those of the subset.

use super::exact::{self, Exact, log_marginal};
use super::fitted::{GpFit, Member};
use super::kernel::Kernel;
use super::laplace::{self, Laplace, laplace_evidence};
use super::nearest::{self, Nearest};
use super::objective::{Evidence, Search};
use super::sparse::{self, Sparse};
use super::{hyper, restore};
use crate::data::{Dataset, Inputs};
use crate::error::{Error, ErrorKind, Result};
use crate::fitted::LeaveOneOut;
use crate::fitted::{Estimator, ModelEntry, ModelFit};
use crate::inference::{EpochRecord, FitSummary, Flow, Observer, Progress};
use crate::likelihood::Likelihood;
use crate::memory;
use crate::rng::{Key, Purpose, Stream};
use crate::settings::{Allowed, Default, Setting, Settings};
use std::sync::Arc;
use std::time::Instant;

/// Rows up to which `auto` is exact.
const MOST_EXACT: usize = 5000;
/// Inputs up to which `auto` conditions on neighbours beyond.
const FEW_INPUTS: usize = 3;
/// Rows up to which `auto` integrates the parameters out.
const FEW_ROWS: usize = 500;
/// Rows of the subset that parameters are first found on, where there are more than twice as many.
const SUBSET: usize = 1000;
/// Steps on all rows after that, where an evaluation is an approximation.
const REFINING: usize = 25;

/// Settings of every Gaussian process.
pub(super) const SHARED: [Setting; 7] = [
    Setting {
        name: "inference",
        help: "exact (time of rows³), sparse (through inducing rows) or nearest (by neighbours) with normal noise, laplace (rows³) with any likelihood; auto is laplace unless noise is normal, and else exact up to 5000 rows, then nearest for at most 3 inputs, else sparse",
        default: Default::Text("auto"),
        allowed: Allowed::OneOf(&["auto", "exact", "sparse", "nearest", "laplace"]),
    },
    Setting {
        name: "parameters",
        help: "optimised (one set of parameters) or sampled (integrated out by HMC, exact inference alone); auto samples up to 500 rows",
        default: Default::Text("auto"),
        allowed: Allowed::OneOf(&["auto", "optimised", "sampled"]),
    },
    Setting {
        name: "draws",
        help: "of sampled parameters: so many Gaussian processes are the mixture",
        default: Default::Int(20),
        allowed: Allowed::Int(1, 1000),
    },
    Setting {
        name: "inducing",
        help: "inducing rows of sparse",
        default: Default::Int(1000),
        allowed: Allowed::Int(1, 20_000),
    },
    Setting {
        name: "neighbours",
        help: "rows that nearest conditions on",
        default: Default::Int(30),
        allowed: Allowed::Int(1, 1000),
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
];

pub(crate) const ENTRY: ModelEntry = ModelEntry {
    name: super::NAME,
    summary: "Gaussian process with a kernel of your own, for numbers, classes and counts; parameters by marginal likelihood or integrated out",
    gives: "a Gaussian process, or a mixture of some",
    settings: &[
        Setting {
            name: "kernel",
            help: "kernels joined by + and *, as in \"matern52(ard) + linear\": rbf, matern12, matern32, matern52, rq, periodic, linear, polynomial, constant, white, hamming, nngp(depth=2, activation=relu) and ntk (wide networks); \
                   arguments: ard, columns=[a, b], and lengthscale=0.5 (held) or lengthscale~0.5 (where the fit starts) and the like",
            default: Default::Text("matern52(ard)"),
            allowed: Allowed::Text,
        },
        SHARED[0],
        SHARED[1],
        SHARED[2],
        SHARED[3],
        SHARED[4],
        SHARED[5],
        SHARED[6],
    ],
    real_likelihood: "gaussian",
    build: |settings, inputs| Ok(Box::new(GpEstimator::new(settings, inputs)?)),
    restore: |r| restore::restore(r, super::NAME, Arc::new(Kernel::parse(r.settings.text("kernel")?, r.inputs)?)),
};

/// The method with its settings, for given columns.
#[derive(Debug)]
pub struct GpEstimator {
    settings: Settings,
    kernel: Arc<Kernel>,
    name: &'static str,
}

impl GpEstimator {
    /// With a kernel of another method's.
    pub(super) fn named(name: &'static str, settings: Settings, kernel: Kernel) -> GpEstimator {
        GpEstimator { settings, kernel: Arc::new(kernel), name }
    }

    /// Reads the kernel and finds its columns.
    pub fn new(settings: &Settings, inputs: &Inputs) -> Result<GpEstimator> {
        let kernel = Kernel::parse(settings.text("kernel")?, inputs)?;
        Ok(GpEstimator { settings: settings.clone(), kernel: Arc::new(kernel), name: super::NAME })
    }
}

/// What a fit looks at while it runs.
struct Watch<'a> {
    observer: &'a mut dyn Observer,
    steps: u64,
    /// Evaluations of earlier searches.
    before: usize,
    stopped: bool,
}

impl Watch<'_> {
    fn go(&mut self, evaluations: usize, best: f64) -> bool {
        let progress = Progress {
            step: ((self.before + evaluations) as u64).min(self.steps),
            steps: self.steps,
            epoch: 1,
            epochs: 1,
            objective: if best.is_finite() { best } else { f64::NAN },
        };
        self.stopped |= self.observer.progress(&progress) == Flow::Stop;
        !self.stopped
    }

    fn check(&self) -> Result<()> {
        if self.stopped { Err(ErrorKind::Interrupted.into()) } else { Ok(()) }
    }
}

/// How rows are conditioned on.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Inference {
    Exact,
    Sparse(usize),
    Nearest(usize),
    Laplace,
}

impl GpEstimator {
    fn inference(&self, n: usize, likelihood: &dyn Likelihood, normal: bool) -> Result<Inference> {
        let (s, few) = (&self.settings, self.kernel.inputs_used() <= FEW_INPUTS);
        let (inducing, neighbours) = (s.count("inducing")?.min(n), s.count("neighbours")?);
        Ok(match s.text("inference")? {
            "laplace" => Inference::Laplace,
            "auto" if !normal => Inference::Laplace,
            other if !normal => {
                let what =
                    format!("inference={other} takes normal noise, and the likelihood is '{}'", likelihood.name());
                return Err(Error::setting(what, "set inference=laplace, or use the likelihood gaussian"));
            }
            "exact" => Inference::Exact,
            "sparse" => Inference::Sparse(inducing),
            "nearest" => Inference::Nearest(neighbours),
            _ if n <= MOST_EXACT => Inference::Exact,
            _ if few => Inference::Nearest(neighbours),
            _ => Inference::Sparse(inducing),
        })
    }

    /// Whether parameters are integrated out; an error where that was asked for and cannot be.
    fn samples(&self, inference: Inference, n: usize) -> Result<bool> {
        match self.settings.text("parameters")? {
            "optimised" => Ok(false),
            "sampled" if inference != Inference::Exact => Err(Error::setting(
                "parameters are integrated out with exact inference alone",
                "set parameters=optimised, or inference=exact",
            )),
            "sampled" => Ok(true),
            _ => Ok(inference == Inference::Exact && n <= FEW_ROWS && self.settings.count("steps")? > 0),
        }
    }
}

/// Says what the fit takes; an error where it does not fit into memory.
fn plan(inference: Inference, n: usize, outputs: usize, observer: &mut dyn Observer) -> Result<()> {
    let threads = rayon::current_num_threads().clamp(1, 16) as f64;
    let (bytes, seconds, what, fix) = match inference {
        Inference::Exact => {
            let fix = "set inference=sparse, or fit fewer rows";
            (exact::bytes(n), exact::seconds(n), format!("an exact Gaussian process of {n} rows"), fix)
        }
        Inference::Sparse(m) => {
            let work = 4.0 * n as f64 * (m as f64).powi(2);
            let what = format!("a sparse Gaussian process of {n} rows and {m} inducing ones");
            (sparse::bytes(n, m), work / (15e9 * threads), what, "set inducing to a smaller number")
        }
        Inference::Nearest(m) => {
            let work = n as f64 * (m as f64).powi(2) * (m as f64 + 100.0);
            let what = format!("a Gaussian process of {n} rows by {m} neighbours");
            (n as u128 * (m as u128 * 4 + 64), work / (3e9 * threads), what, "set neighbours to a smaller number")
        }
        Inference::Laplace => {
            // A dozen steps to the mode, and the gradient.
            let work = if outputs == 1 { 6.0 } else { 20.0 * outputs as f64 } * (n as f64).powi(3);
            let what = format!("a Gaussian process of {n} rows and {outputs} outputs by Laplace's method");
            (laplace::bytes(n, outputs), work / (15e9 * threads), what, "fit fewer rows, or a network")
        }
    };
    memory::request(bytes, what.clone(), fix)?;
    if seconds > 0.3 {
        let memory = memory::show(bytes);
        observer.warn(&format!("{what}: {memory} of memory, about {seconds:.1} s for each step of the search"));
    }
    Ok(())
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
        let (n, s, kernel) = (data.rows, &self.settings, &*self.kernel);
        let (noise, normal) = check(&data, &*likelihood)?;
        let inference = self.inference(n, &*likelihood, normal)?;
        let sampled = self.samples(inference, n)?;
        plan(inference, n, likelihood.outputs(), observer)?;
        let (x, y) = rows(&data, inference, key);
        // Of ln σ² from ln σ.
        let learned = !likelihood.blocks().is_empty();
        let (mean, std) = likelihood.noise_prior();
        let search = Search::new(kernel, noise, learned.then_some((2.0 * mean, 2.0 * std)));
        let (starts, steps, draws) = (s.count("starts")?, s.count("steps")?, s.count("draws")?);
        let chain = if sampled { hyper::transitions(draws) } else { 0 };
        let mut watch = Watch { observer, steps: (starts * 25 + steps + chain) as u64, before: 0, stopped: false };
        let init = key.purpose(Purpose::Init);
        let mut log = search.start.clone();
        let mut from = None;
        if steps > 0 && n > 2 * SUBSET {
            // Every so many rows: their parameters are near those of all.
            let rows: Vec<usize> = (0..SUBSET).map(|i| i * n / SUBSET).collect();
            let width = kernel.width();
            let part: Vec<f64> = rows.iter().flat_map(|r| x[r * width..(r + 1) * width].iter().copied()).collect();
            let targets: Vec<f64> = rows.iter().map(|r| y[*r]).collect();
            let mut evidence = |log: &[f64], gradient: &mut [f64]| match inference {
                Inference::Laplace => laplace_evidence(kernel, &*likelihood, &part, &targets, log, Some(gradient)).ok(),
                _ => log_marginal(kernel, &part, &targets, log, Some(gradient)).ok(),
            };
            let found = search.maximise(None, starts, steps, init, &mut evidence, &mut |e, b| watch.go(e, b));
            watch.before += found.1;
            log.clone_from(&found.0);
            from = Some(found.0);
        }
        let mut climb = |log: &mut Vec<f64>, steps: usize, evidence: &mut Evidence<'_>| {
            if steps > 0 && !watch.stopped {
                let starts = if from.is_some() { 1 } else { starts };
                let found = search.maximise(from.as_deref(), starts, steps, init, evidence, &mut |e, b| watch.go(e, b));
                watch.before += found.1;
                *log = found.0;
            }
        };
        let refining = if n > 2 * SUBSET { steps.min(REFINING) } else { steps };
        let (members, log_evidence, leave_one_out) = match inference {
            Inference::Exact => {
                climb(&mut log, steps, &mut |log, gradient| log_marginal(kernel, &x, &y, log, Some(gradient)).ok());
                let mut logs = Vec::new();
                if sampled && !watch.stopped && !search.free.is_empty() {
                    let evidence =
                        |log: &[f64], gradient: &mut [f64]| log_marginal(kernel, &x, &y, log, Some(gradient)).ok();
                    logs = hyper::sample(&search, &log, draws, key, evidence, &mut |e, b| watch.go(e, b))?;
                    watch.before += chain;
                }
                watch.check()?;
                let mode = Exact::new(self.kernel.clone(), log.clone(), x.clone(), y.clone())?;
                let (evidence, jitter) = (mode.log_marginal(), mode.jitter);
                if jitter > 0.0 {
                    watch.observer.warn(&format!(
                        "the covariance of the rows is singular in double precision: {jitter:.1e} was added to its diagonal"
                    ));
                }
                let again = |log| Exact::new(self.kernel.clone(), log, x.clone(), y.clone());
                let members: Vec<Exact> = match logs.is_empty() {
                    true => vec![mode],
                    false => logs.into_iter().map(again).collect::<Result<_>>()?,
                };
                let out: Vec<LeaveOneOut> = members.iter().map(Exact::leave_one_out).collect();
                (members.into_iter().map(Member::Exact).collect(), evidence, LeaveOneOut::joined(&out))
            }
            Inference::Laplace => {
                let steps = if n > 2 * SUBSET { 0 } else { steps };
                climb(&mut log, steps, &mut |log, gradient| {
                    laplace_evidence(kernel, &*likelihood, &x, &y, log, Some(gradient)).ok()
                });
                watch.check()?;
                let (member, evidence) = Laplace::new(self.kernel.clone(), &*likelihood, log.clone(), x, y)?;
                (vec![Member::Laplace(member)], evidence, LeaveOneOut::default())
            }
            Inference::Sparse(m) => {
                let width = kernel.width();
                let inducing = |log: &[f64]| -> Arc<[f64]> {
                    let rows = sparse::choose(kernel, log, &x, m);
                    rows.iter().flat_map(|r| x[r * width..(r + 1) * width].iter().copied()).collect()
                };
                let z = inducing(&log);
                climb(&mut log, refining, &mut |log, gradient| {
                    sparse::bound(kernel, &x, &y, &z, log, Some(gradient)).ok()
                });
                watch.check()?;
                let z = inducing(&log);
                let (member, bound) = Sparse::new(self.kernel.clone(), log.clone(), &x, &y, z)?;
                (vec![Member::Sparse(member)], bound, LeaveOneOut::default())
            }
            Inference::Nearest(count) => {
                let near = nearest::neighbours(kernel, &log, &x, count);
                climb(&mut log, refining, &mut |log, gradient| {
                    nearest::log_density(kernel, &x, &y, &near, log, Some(gradient)).ok()
                });
                watch.check()?;
                let near = nearest::neighbours(kernel, &log, &x, count);
                let evidence = nearest::log_density(kernel, &x, &y, &near, &log, None)?;
                let member = Nearest { kernel: self.kernel.clone(), log: log.clone(), x, y, count };
                (vec![Member::Nearest(member)], evidence, LeaveOneOut::default())
            }
        };
        let free = search.free_of(&log);
        let penalty = -search.log_prior(&free, &mut vec![0.0; free.len()]);
        let objective = log_evidence - penalty;
        let record = EpochRecord { epoch: 1, objective, nll: -log_evidence, penalty, beta: 1.0 };
        let summary = FitSummary {
            steps: watch.before as u64,
            seconds: started.elapsed().as_secs_f64(),
            stopped_early: false,
            penalty_name: "-log prior".to_owned(),
            epochs: 1,
            trace: vec![record],
        };
        let fitted = GpFit { name: self.name, likelihood, input: data.shape, members, leave_one_out, log_evidence };
        Ok(ModelFit { fitted: Arc::new(fitted), summary })
    }
}

/// Inputs and targets; shuffled where the order of rows is part of the approximation.
fn rows(data: &Dataset, inference: Inference, key: Key) -> (Arc<[f64]>, Arc<[f64]>) {
    if !matches!(inference, Inference::Nearest(_)) {
        return (data.x.to::<f64>(), data.y.clone());
    }
    let mut order: Vec<usize> = (0..data.rows).collect();
    Stream::new(key.purpose(Purpose::Batches)).shuffle(&mut order);
    let y = order.iter().map(|r| data.y[*r]).collect();
    (data.x.rows(&order, data.shape.len()).to::<f64>(), y)
}

/// ln σ² where it starts or is held, and whether noise is normal; an error where the data or the likelihood is none for this model.
fn check(data: &Dataset, likelihood: &dyn Likelihood) -> Result<(f64, bool)> {
    let own = vec![likelihood.initial_noise(); likelihood.blocks().iter().map(|b| b.len()).sum()];
    let variances = likelihood.as_gaussian(&own);
    let outputs = likelihood.outputs();
    let (mut d, mut v) = (vec![0.0; outputs], vec![0.0; outputs]);
    let softmax = outputs > 1 && likelihood.hessian_parts(&vec![0.0; outputs], &mut d, &mut v);
    if data.targets == 1 && likelihood.targets() == 1 && outputs > 1 && !softmax || likelihood.sites() != 1 {
        let what = format!("gp has no way to the mode under the likelihood '{}'", likelihood.name());
        return Err(Error::setting(
            what,
            "use gaussian, student-t, bernoulli, categorical or poisson, or fit a network",
        ));
    }
    if data.targets != 1 || likelihood.targets() != 1 {
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
    let held = own.first().map_or(0.0, |log_std| 2.0 * log_std);
    Ok((variances.as_ref().map_or(held, |v| v[0].ln()), variances.is_some()))
}
