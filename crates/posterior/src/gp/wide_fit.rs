//! `nngp` and `ntk`: Gaussian processes with the kernel of an infinitely wide network, depth and scales by evidence.
//!
//! Of the depths [`DEPTHS`] the one of the highest evidence is taken, each with the weight and bias variances that are best for it; more rows than [`ROWS`] are thinned for the choice.
//! With `ntk` the kernel is that of training by gradient steps: its predictive mean is that of a wide network trained to the end, and its variances are those of a Gaussian process of that kernel,
//! which is not the Bayesian posterior of the network (that is `nngp`).
//! Cost: that of `gp`, once for every depth.

use super::fit::{GpEstimator, SHARED};
use super::kernel::Kernel;
use super::parse::DEEPEST_NETWORK;
use super::restore;
use crate::data::{Dataset, Inputs};
use crate::error::{Error, Result};
use crate::fitted::{Estimator, Fitted, ModelEntry, ModelFit, Restoring};
use crate::inference::{Observer, Silent};
use crate::likelihood::Likelihood;
use crate::rng::Key;
use crate::settings::{Allowed, Default, Setting, Settings, Value};
use std::sync::Arc;

/// Depths that are tried.
const DEPTHS: [usize; 4] = [1, 2, 3, 5];
/// Rows that the depth is chosen by, at most.
const ROWS: usize = 1000;

const SETTINGS: &[Setting] = &[
    Setting {
        name: "activation",
        help: "of the hidden layers, of those whose kernel has a closed form; erf is near tanh",
        default: Default::Text("relu"),
        allowed: Allowed::OneOf(&["relu", "erf", "identity"]),
    },
    Setting {
        name: "depth",
        help: "hidden layers; 0 takes the one of 1, 2, 3 and 5 with the highest evidence",
        default: Default::Int(0),
        allowed: Allowed::Int(0, DEEPEST_NETWORK as i64),
    },
    SHARED[0],
    SHARED[1],
    SHARED[2],
    SHARED[3],
    SHARED[4],
    SHARED[5],
    SHARED[6],
];

pub(crate) const NNGP: ModelEntry = ModelEntry {
    name: "nngp",
    summary: "Gaussian process of an infinitely wide network under its prior; depth and scales by evidence",
    gives: "a Gaussian process, or a mixture of some",
    settings: SETTINGS,
    real_likelihood: "gaussian",
    build: |settings, inputs| build("nngp", settings, inputs),
    restore: |r| again("nngp", r),
};

pub(crate) const NTK: ModelEntry = ModelEntry {
    name: "ntk",
    summary: "Gaussian process with the neural tangent kernel of an infinitely wide network; depth and scales by evidence",
    gives: "a Gaussian process, or a mixture of some",
    settings: SETTINGS,
    real_likelihood: "gaussian",
    build: |settings, inputs| build("ntk", settings, inputs),
    restore: |r| again("ntk", r),
};

fn kernel(name: &str, settings: &Settings, depth: usize, inputs: &Inputs) -> Result<Kernel> {
    let activation = settings.text("activation")?;
    Kernel::parse(&format!("{name}(depth={depth}, activation={activation})"), inputs)
}

fn build(name: &'static str, settings: &Settings, inputs: &Inputs) -> Result<Box<dyn Estimator>> {
    // Inputs that no kernel can be on are an error before any data.
    kernel(name, settings, 1, inputs)?;
    Ok(Box::new(WideEstimator { name, settings: settings.clone(), inputs: inputs.clone() }))
}

fn again(name: &'static str, r: &Restoring<'_>) -> Result<Arc<dyn Fitted>> {
    let depth = r.tensor("depth", 1)?[0];
    if depth.fract() != 0.0 || !(1.0..=DEEPEST_NETWORK as f64).contains(&depth) {
        return Err(Error::setting("the depth is outside of its range", "the file is damaged: fit the model again"));
    }
    restore::restore(r, name, Arc::new(kernel(name, r.settings, depth as usize, r.inputs)?))
}

/// The method with its settings, for given columns.
#[derive(Debug)]
struct WideEstimator {
    name: &'static str,
    settings: Settings,
    inputs: Inputs,
}

impl WideEstimator {
    fn at(&self, depth: usize, settings: Settings) -> Result<GpEstimator> {
        Ok(GpEstimator::named(self.name, settings, kernel(self.name, &self.settings, depth, &self.inputs)?))
    }

    /// The depth of the highest evidence.
    fn choose(&self, data: &Dataset, likelihood: &Arc<dyn Likelihood>, key: Key) -> Result<usize> {
        let mut pairs = self.settings.to_pairs();
        pairs.iter_mut().filter(|(k, _)| k == "parameters").for_each(|(_, v)| *v = Value::Text("optimised".to_owned()));
        let settings = Settings::resolve(SETTINGS, &pairs, &format!("method '{}'", self.name))?;
        let rows: Vec<usize> = (0..data.rows.min(ROWS)).map(|i| i * data.rows / data.rows.min(ROWS)).collect();
        let part = data.select(&rows);
        let mut best: Option<(f64, usize)> = None;
        for depth in DEPTHS {
            let fit = self.at(depth, settings.clone())?.fit(part.clone(), likelihood.clone(), key, &mut Silent)?;
            let evidence = fit.fitted.log_evidence().unwrap_or(f64::NEG_INFINITY);
            if best.is_none_or(|(b, _)| evidence > b) {
                best = Some((evidence, depth));
            }
        }
        Ok(best.map_or(1, |b| b.1))
    }
}

impl Estimator for WideEstimator {
    fn fit(
        &self,
        data: Dataset,
        likelihood: Arc<dyn Likelihood>,
        key: Key,
        observer: &mut dyn Observer,
    ) -> Result<ModelFit> {
        let depth = match self.settings.count("depth")? {
            0 => self.choose(&data, &likelihood, key)?,
            depth => depth,
        };
        self.at(depth, self.settings.clone())?.fit(data, likelihood, key, observer)
    }
}
