//! Network + likelihood + prior + data: the log joint log p(w, D) = Σₙ log p(yₙ | f_w(xₙ)) + log p(w).
//!
//! The log joint is a **sum** over all rows. A mini-batch B stands for all of them and is scaled by N/|B|, so that
//! neither a method nor a user ever needs to know N.

pub mod curvature;
mod density;
mod jacobian;
mod log_density;
mod moments;
mod rows;

pub use density::Density;
pub use jacobian::JacobianFactors;
pub use log_density::{FnDensity, LogDensity, MixedDensity, Rejection, RoughDensity};
pub use moments::MomentsDensity;
pub use rows::Rows;

use crate::Precision;
use crate::data::{Dataset, Source, Values};
use crate::error::{Error, Result};
use crate::likelihood::{Likelihood, Outcome};
use crate::nn::{AnyNetwork, Layout, Role};
use crate::optim::{GaussianPenalty, Law};
use crate::posterior::Posterior;
use crate::prior::{NormalBlock, Prior};
use std::sync::Arc;

/// Everything that defines a posterior.
#[derive(Debug, Clone)]
pub struct Problem {
    network: Arc<dyn AnyNetwork>,
    likelihood: Arc<dyn Likelihood>,
    prior: Prior,
    data: Dataset,
    layout: Layout,
    start: Option<Arc<dyn Posterior>>,
    /// Where rows come from that are not in memory; `data` then knows how many there are, and of what shape, and holds none.
    source: Option<Arc<dyn Source>>,
}

/// What is said of a method that needs all rows at once.
pub(crate) fn not_streamed(method: &str) -> Error {
    Error::setting(
        format!("{method} needs all rows in memory, and these are read in mini-batches"),
        "use a method of mini-batches, such as mean-field, ensemble, swag or sgld, or load the rows",
    )
}

/// Whether outcomes are classes that the likelihood has, where it is one of classes; `row` is the row of an outcome.
pub(crate) fn check_classes(likelihood: &dyn Likelihood, y: &[f64], row: impl Fn(usize) -> usize) -> Result<()> {
    let classes = likelihood.outputs().max(2);
    let wrong = |y: &f64| y.fract() != 0.0 || !(0.0..classes as f64).contains(y);
    match y.iter().position(wrong).filter(|_| likelihood.outcome() == Outcome::Class) {
        None => Ok(()),
        Some(i) => {
            let what = format!("the class of row {} is {}, and there are {classes} classes", row(i) + 1, y[i]);
            Err(Error::data(what, format!("number the classes from 0 to {}", classes - 1)))
        }
    }
}

/// The layout of all parameters: the network's, then the likelihood's own.
pub fn full_layout(network: &dyn AnyNetwork, likelihood: &dyn Likelihood) -> Layout {
    let mut layout = network.layout().clone();
    let layer = layout.blocks().last().map_or(0, |b| b.layer + 1);
    for spec in likelihood.blocks() {
        layout.push(layer, &spec);
    }
    layout
}

impl Problem {
    /// Puts the parts together and checks that they fit.
    pub fn new(
        network: Arc<dyn AnyNetwork>,
        likelihood: Arc<dyn Likelihood>,
        prior: Prior,
        data: Dataset,
    ) -> Result<Problem> {
        let mismatch = |what: String| Err(Error::setting(what, "make the parts of the problem agree"));
        if network.input().len() != data.shape.len() {
            return mismatch(format!(
                "the network takes {} inputs but the data have {}",
                network.input().len(),
                data.shape.len()
            ));
        }
        let sites = likelihood.sites();
        if network.outputs() != sites * likelihood.outputs() {
            return mismatch(format!(
                "the network has {} outputs but the likelihood '{}' needs {}",
                network.outputs(),
                likelihood.name(),
                sites * likelihood.outputs()
            ));
        }
        if sites * likelihood.targets() != data.targets {
            return mismatch(format!(
                "the data have {} targets but the likelihood '{}' is for {}",
                data.targets,
                likelihood.name(),
                sites * likelihood.targets()
            ));
        }
        if data.rows == 0 {
            return Err(Error::data("there are no rows", "give at least one"));
        }
        check_classes(&*likelihood, &data.y, |i| i / data.targets.max(1))?;
        let layout = full_layout(&*network, &*likelihood);
        if prior.len() != layout.len() {
            return mismatch(format!(
                "the prior is over {} parameters but the model has {}",
                prior.len(),
                layout.len()
            ));
        }
        Ok(Problem { network, likelihood, prior, data, layout, start: None, source: None })
    }

    /// Of rows on demand: a problem for methods that take mini-batches. Where all rows are in memory, it is as [`Problem::new`] of them.
    pub fn of_source(
        network: Arc<dyn AnyNetwork>,
        likelihood: Arc<dyn Likelihood>,
        prior: Prior,
        source: Arc<dyn Source>,
    ) -> Result<Problem> {
        if let Some(data) = source.whole() {
            return Problem::new(network, likelihood, prior, data.clone());
        }
        let (rows, shape, targets) = (source.rows(), source.shape(), source.targets());
        if u32::try_from(rows).is_err() {
            return Err(Error::data(format!("there are {rows} rows"), "give fewer than 2³²"));
        }
        let (x, y) = (Values::F32(Arc::from([])), Arc::from([]));
        let none = Dataset { x, y, rows, shape, targets, weights: None };
        Ok(Problem { source: Some(source), ..Problem::new(network, likelihood, prior, none)? })
    }

    /// Where the rows come from, if they are not in memory.
    pub fn source(&self) -> Option<&dyn Source> {
        self.source.as_deref()
    }

    /// All rows, for a method that needs them at once.
    pub fn whole(&self, method: &str) -> Result<&Dataset> {
        match self.source {
            None => Ok(&self.data),
            Some(_) => Err(not_streamed(method)),
        }
    }

    /// The same problem with a posterior that was fitted before: gradient methods begin at its centre, chains at its draws.
    pub fn with_start(mut self, start: Arc<dyn Posterior>) -> Result<Problem> {
        if start.dim() != self.dim() {
            let what = format!("a start of {} parameters is given and the model has {}", start.dim(), self.dim());
            return Err(Error::setting(what, "start from a model with the same network and likelihood"));
        }
        self.start = Some(start);
        Ok(self)
    }

    /// The same problem with fresh initial values for gradient methods: for fits that are to differ.
    pub fn without_start(&self) -> Problem {
        Problem { start: None, ..self.clone() }
    }

    /// Where methods begin, if it was given.
    pub fn start(&self) -> Option<&dyn Posterior> {
        self.start.as_deref()
    }

    /// The same problem with another prior.
    pub fn with_prior(&self, prior: Prior) -> Result<Problem> {
        let (network, likelihood) = (self.network.clone(), self.likelihood.clone());
        let (start, source) = (self.start.clone(), self.source.clone());
        Ok(Problem { start, source, ..Problem::new(network, likelihood, prior, self.data.clone())? })
    }

    /// The same problem on other rows, or with other weights of the rows.
    pub fn with_data(&self, data: Dataset) -> Result<Problem> {
        let (network, likelihood) = (self.network.clone(), self.likelihood.clone());
        Ok(Problem { start: self.start.clone(), ..Problem::new(network, likelihood, self.prior.clone(), data)? })
    }

    /// The same problem with dropout on the inputs of the network's layers.
    pub fn with_dropout(&self, input_rate: f64, rate: f64) -> Result<Problem> {
        Ok(Problem { network: self.network.with_dropout(input_rate, rate)?, ..self.clone() })
    }

    /// P: how many parameters, the likelihood's included.
    pub fn dim(&self) -> usize {
        self.layout.len()
    }

    /// Named blocks of w.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// f_w.
    pub fn network(&self) -> &Arc<dyn AnyNetwork> {
        &self.network
    }

    /// p(y | f).
    pub fn likelihood(&self) -> &Arc<dyn Likelihood> {
        &self.likelihood
    }

    /// p(w).
    pub fn prior(&self) -> &Prior {
        &self.prior
    }

    /// D; where the rows are not in memory, how many there are and of what shape, and nothing else ([`Problem::whole`]).
    pub fn data(&self) -> &Dataset {
        &self.data
    }

    /// The log joint in precision `R`, with buffers for evaluations over up to `max_rows` rows at once.
    pub fn density<R: Precision>(&self, max_rows: usize) -> Density<'_, R> {
        Density::new(self, max_rows)
    }

    /// Bytes that a [`Problem::density`] holds, with `each` per number: what memory is asked for before it is made.
    pub fn density_bytes(&self, each: usize, max_rows: usize) -> u128 {
        density::bytes(self, each, max_rows)
    }

    /// Initial values for gradient methods: the centre of the start (a draw, where it has none), if there is one, else fresh ones.
    pub fn initial(&self, key: crate::rng::Key) -> Vec<f32> {
        if let Some(start) = &self.start {
            return start.centre().unwrap_or_else(|| start.draw(key).w);
        }
        let mut w = vec![0.0; self.dim()];
        crate::nn::initialise(&self.layout, self.likelihood.initial_noise(), key, &mut w);
        w
    }

    /// All weights and biases 0, noise at its initial value.
    pub fn initial_zero(&self) -> Vec<f32> {
        let mut w = vec![0.0; self.dim()];
        for block in self.layout.blocks().iter().filter(|b| b.role == Role::Noise) {
            w[block.range.clone()].fill(self.likelihood.initial_noise() as f32);
        }
        w
    }

    /// The prior as gradient methods use it: range by range, how it penalties where it is normal.
    pub fn penalties(&self) -> Vec<GaussianPenalty> {
        let blocks = self.prior.blocks().iter();
        blocks
            .map(|(range, prior)| match prior.as_normal().and_then(NormalBlock::same) {
                Some((mean, std)) => GaussianPenalty {
                    range: range.clone(),
                    centre: mean as f32,
                    precision: (1.0 / (std * std)) as f32,
                    kl_constant: std.ln() - 0.5,
                    law: Law::Normal,
                },
                None => GaussianPenalty {
                    range: range.clone(),
                    centre: 0.0,
                    precision: 0.0,
                    kl_constant: -0.5 * (std::f64::consts::TAU.ln() + 1.0),
                    law: Law::Normal,
                },
            })
            .collect()
    }
}
