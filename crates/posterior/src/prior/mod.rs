//! p(w): what is believed of the weights before any data. One file per prior, one line each in [`PRIORS`].
//!
//! log p(w) = Σ log p_block(wᵢ), blocks and parameters independent. `weight_std` and `bias_std` are standard deviations in
//! every prior; with `scaling = fan-in` that of a weight is divided by √fan_in, so that the output of a layer does not grow
//! with its width (Neal 1996). Long blocks are cut into chunks of fixed size, summed in order: the number of threads
//! changes nothing.

mod centred;
mod laplace;
mod log_uniform;
mod normal;
mod scale_mixture;
#[cfg(test)]
mod tests;

pub use centred::CentredNormal;
pub use laplace::Laplace;
pub use log_uniform::LogUniform;
pub use normal::Normal;
pub use scale_mixture::ScaleMixture;

use crate::Precision;
use crate::error::{Error, Result};
use crate::math::Real;
use crate::nn::{Layout, Role};
use crate::registry::Registry;
use crate::rng::Key;
use crate::settings::{Allowed, Default, Setting, Settings, Value};
use crate::simd_fn;
use rayon::prelude::*;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

/// The density of each parameter of one block, in one precision.
pub trait BlockPriorOps<R: Real>: Send + Sync {
    /// Σ log p(wᵢ), with normalising constants, summed in f64; with `grad`, scale·d/dwᵢ is **added** to it. `w` begins at parameter
    /// number `first` of the block: long blocks come in parts.
    fn log_density(&self, first: usize, w: &[R], scale: f64, grad: Option<&mut [R]>) -> f64;
}

/// Independent densities over the parameters of one block: the same for all, or one for each.
pub trait BlockPrior: BlockPriorOps<f32> + BlockPriorOps<f64> + Debug {
    /// Fills `out` with draws.
    fn sample(&self, key: Key, out: &mut [f32]);
    /// Σ KL[N(mᵢ, σᵢ²) ‖ p], where it has a closed form.
    fn kl_from_normal(&self, mean: &[f32], std: &[f32]) -> Option<f64>;
    /// Mean and standard deviation, if the densities are normal: methods with closed forms need it, and where it is one normal for all the variational
    /// update is fused.
    fn as_normal(&self) -> Option<NormalBlock<'_>>;
}

/// Normal densities of a block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NormalBlock<'a> {
    /// One for all parameters.
    Same {
        /// Its mean.
        mean: f64,
        /// Its standard deviation.
        std: f64,
    },
    /// One for each.
    Each {
        /// Means.
        mean: &'a [f32],
        /// Standard deviations.
        std: &'a [f32],
    },
}

impl NormalBlock<'_> {
    /// Mean and standard deviation of parameter i.
    pub fn at(&self, i: usize) -> (f64, f64) {
        match self {
            NormalBlock::Same { mean, std } => (*mean, *std),
            NormalBlock::Each { mean, std } => (f64::from(mean[i]), f64::from(std[i])),
        }
    }

    /// Mean and standard deviation, where they are those of all parameters.
    pub fn same(self) -> Option<(f64, f64)> {
        match self {
            NormalBlock::Same { mean, std } => Some((mean, std)),
            NormalBlock::Each { .. } => None,
        }
    }
}

/// A row of [`PRIORS`].
#[derive(Debug, Clone, Copy)]
pub struct PriorEntry {
    /// What a user writes.
    pub name: &'static str,
    /// One line of help.
    pub summary: &'static str,
    /// Its settings.
    pub settings: &'static [Setting],
    /// The standard deviation the settings give to a weight or a bias before any scaling; none if it has none.
    pub std: fn(&Settings, Role) -> Option<f64>,
    /// Makes the density of a block with this standard deviation.
    pub build: BuildPrior,
}

/// Makes the density of a block from checked settings and its standard deviation.
pub type BuildPrior = fn(&Settings, Option<f64>) -> Result<Arc<dyn BlockPrior>>;

/// Every prior there is.
pub const PRIORS: &[PriorEntry] = &[normal::ENTRY, laplace::ENTRY, scale_mixture::ENTRY, log_uniform::ENTRY];

static REGISTERED: Registry<PriorEntry> = Registry::new("prior", PRIORS, |p| p.name);

/// Every prior, those of other crates included.
pub fn priors() -> Vec<&'static PriorEntry> {
    REGISTERED.all()
}

/// Adds a prior of another crate: it is then found by its name, in configurations and model files too. An error where the name is taken.
pub fn register_prior(entry: PriorEntry) -> Result<()> {
    REGISTERED.add(entry)
}

/// The row of that name; an unknown name is an error that tells the nearest one.
pub fn find(name: &str) -> Result<&'static PriorEntry> {
    REGISTERED.find(name)
}

const WEIGHT_STD: Setting = Setting {
    name: "weight_std",
    help: "standard deviation of a weight, before scaling",
    default: Default::Float(1.0),
    allowed: Allowed::Float(1e-6, 1e6),
};
const BIAS_STD: Setting = Setting {
    name: "bias_std",
    help: "standard deviation of a bias",
    default: Default::Float(1.0),
    allowed: Allowed::Float(1e-6, 1e6),
};
const SCALING: Setting = Setting {
    name: "scaling",
    help: "fan-in divides the standard deviation of a weight by the root of how many inputs add up",
    default: Default::Text("fan-in"),
    allowed: Allowed::OneOf(&["none", "fan-in"]),
};

fn layer_std(settings: &Settings, role: Role) -> Option<f64> {
    Some(settings.float(if role == Role::Bias { "bias_std" } else { "weight_std" }))
}

/// The prior of all parameters: one density per block of a layout.
#[derive(Debug, Clone)]
pub struct Prior {
    entry: &'static PriorEntry,
    settings: Settings,
    layout: Layout,
    blocks: Vec<(Range<usize>, Arc<dyn BlockPrior>)>,
}

/// A block longer than this is cut into chunks of this many parameters, which may go to the thread pool.
const CHUNK: usize = 65_536;
/// Chunks in flight: their sums stand in an array, so that nothing is allocated.
const WAVE: usize = 64;

impl Prior {
    /// Resolves a prior over the blocks of a layout. `noise_prior` is the mean and standard deviation of the likelihood's
    /// own parameters ([`Role::Noise`]), which are normal whatever the prior of the weights.
    pub fn new(name: &str, settings: &Settings, layout: &Layout, noise_prior: (f64, f64)) -> Result<Prior> {
        let entry = find(name)?;
        let (mean, std) = noise_prior;
        if !(mean.is_finite() && std.is_finite() && std > 0.0) {
            let what = format!("the prior of the noise cannot have mean {mean} and standard deviation {std}");
            return Err(Error::setting(what, "both must be finite, the second above 0"));
        }
        let mut blocks: Vec<(Range<usize>, Arc<dyn BlockPrior>)> = Vec::with_capacity(layout.blocks().len());
        for block in layout.blocks() {
            let density: Arc<dyn BlockPrior> = match block.role {
                Role::Noise => Arc::new(Normal::new(mean, std)),
                role => build(entry, settings, (entry.std)(settings, role), role, block.fan_in)?,
            };
            blocks.push((block.range.clone(), density));
        }
        Ok(Prior { entry, settings: settings.clone(), layout: layout.clone(), blocks })
    }

    /// Independent normals around means, one for each parameter of a layout: a posterior that is the next prior. An error where a number is not finite or a
    /// standard deviation not positive.
    pub fn centred(layout: &Layout, mean: &[f32], std: &[f32]) -> Result<Prior> {
        if mean.len() != layout.len() || std.len() != layout.len() {
            let what = format!(
                "{} means and {} standard deviations do not fit {} parameters",
                mean.len(),
                std.len(),
                layout.len()
            );
            return Err(Error::setting(what, "give one of each for every parameter"));
        }
        if let Some(i) = (0..mean.len()).find(|i| !(mean[*i].is_finite() && std[*i].is_finite() && std[*i] > 0.0)) {
            let what =
                format!("parameter {i} cannot have the prior mean {} and standard deviation {}", mean[i], std[i]);
            return Err(Error::setting(what, "both must be finite, the second above 0"));
        }
        let entry = find(normal::ENTRY.name)?;
        let settings = Settings::resolve(entry.settings, &[], "prior 'normal'")?;
        let block = |b: &crate::nn::Block| {
            let part = |v: &[f32]| v[b.range.clone()].to_vec();
            let density: Arc<dyn BlockPrior> = Arc::new(CentredNormal::new(part(mean), part(std)));
            (b.range.clone(), density)
        };
        Ok(Prior { entry, settings, layout: layout.clone(), blocks: layout.blocks().iter().map(block).collect() })
    }

    /// Another standard deviation for the weights and the biases of one layer; scaling applies to it as to the setting.
    pub fn with_layer_std(mut self, layer: usize, weight_std: f64, bias_std: f64) -> Result<Prior> {
        let mut found = false;
        for (block, (_, density)) in self.layout.blocks().iter().zip(&mut self.blocks) {
            if block.layer != layer || block.role == Role::Noise {
                continue;
            }
            found = true;
            if (self.entry.std)(&self.settings, block.role).is_none() {
                let what =
                    format!("the prior '{}' has no standard deviation to set for layer {layer}", self.entry.name);
                return Err(Error::setting(what, "leave it out, or choose the prior 'normal'"));
            }
            let std = if block.role == Role::Bias { bias_std } else { weight_std };
            if !(1e-6..=1e6).contains(&std) {
                let what = format!("the prior standard deviation of layer {layer} cannot be {std}");
                return Err(Error::setting(what, "it takes a number from 0.000001 to 1000000"));
            }
            *density = build(self.entry, &self.settings, Some(std), block.role, block.fan_in)?;
        }
        if found {
            Ok(self)
        } else {
            let mut layers: Vec<String> = Vec::new();
            for block in self.layout.blocks().iter().filter(|b| b.role != Role::Noise) {
                let number = block.layer.to_string();
                if layers.last() != Some(&number) {
                    layers.push(number);
                }
            }
            let what = format!("layer {layer} has no parameters to put a prior on");
            Err(Error::setting(what, format!("choose one of: {}", layers.join(", "))))
        }
    }

    /// P: how many parameters the layout has.
    pub fn len(&self) -> usize {
        self.layout.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.layout.is_empty()
    }

    /// The blocks that are not one normal for all, or nothing if all are: fused updates pull those themselves.
    pub fn without_normal(&self) -> Option<Prior> {
        let mut rest = self.clone();
        rest.blocks.retain(|(_, density)| density.as_normal().and_then(NormalBlock::same).is_none());
        (!rest.blocks.is_empty()).then_some(rest)
    }

    /// With other standard deviations of the normal blocks, by where they stand in w and what they were; the others stay.
    pub fn with_normal_std(&self, std: impl Fn(&Range<usize>, f64) -> f64) -> Prior {
        let mut changed = self.clone();
        for (range, density) in &mut changed.blocks {
            if let Some((mean, before)) = density.as_normal().and_then(NormalBlock::same) {
                *density = Arc::new(Normal::new(mean, std(range, before)));
            }
        }
        changed
    }

    /// The priors of biases and of the likelihood's parameters alone: for methods with a law of their own for weights.
    pub fn without_weights(&self) -> Prior {
        let mut rest = self.clone();
        let roles = self.layout.blocks().iter().map(|b| (b.range.start, b.role)).collect::<Vec<_>>();
        rest.blocks.retain(|(range, _)| {
            roles.contains(&(range.start, Role::Bias)) || roles.contains(&(range.start, Role::Noise))
        });
        rest
    }

    /// The densities of the last blocks, as many as `layout` has, over a model that has no others.
    ///
    /// # Panics
    /// If the blocks of the layout are not as long as the last ones here.
    pub fn of_last_blocks(&self, layout: &Layout) -> Prior {
        let last = &self.blocks[self.blocks.len() - layout.blocks().len()..];
        let blocks = last.iter().zip(layout.blocks()).map(|((range, density), block)| {
            assert_eq!(range.len(), block.range.len(), "blocks of one length");
            (block.range.clone(), density.clone())
        });
        Prior { blocks: blocks.collect(), layout: layout.clone(), settings: self.settings.clone(), entry: self.entry }
    }

    /// The name in [`PRIORS`].
    pub fn name(&self) -> &'static str {
        self.entry.name
    }

    /// The settings it was made with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Where each block stands in w, and its density.
    pub fn blocks(&self) -> &[(Range<usize>, Arc<dyn BlockPrior>)] {
        &self.blocks
    }

    /// log p(w), summed in f64; with `grad`, scale·d/dw is **added** to it (the value is not scaled).
    ///
    /// # Panics
    /// If `w` or `grad` is shorter than the layout.
    pub fn log_density<R: Precision>(&self, w: &[R], scale: f64, mut grad: Option<&mut [R]>) -> f64 {
        let mut total = 0.0;
        for (range, density) in &self.blocks {
            let grad = grad.as_deref_mut().map(|g| &mut g[range.clone()]);
            total += block_density(R::prior(&**density), &w[range.clone()], scale, grad);
        }
        total
    }

    /// One draw of all parameters: block i from `key.derive(i)`.
    pub fn sample(&self, key: Key, w: &mut [f32]) {
        for (i, (range, density)) in self.blocks.iter().enumerate() {
            density.sample(key.derive(i as u64), &mut w[range.clone()]);
        }
    }

    /// Σ KL[N(mᵢ, σᵢ²) ‖ p], if every block has a closed form.
    pub fn kl_from_normal(&self, mean: &[f32], std: &[f32]) -> Option<f64> {
        let mut total = 0.0;
        for (range, density) in &self.blocks {
            total += density.kl_from_normal(&mean[range.clone()], &std[range.clone()])?;
        }
        Some(total)
    }
}

fn build(
    entry: &PriorEntry,
    settings: &Settings,
    std: Option<f64>,
    role: Role,
    fan_in: usize,
) -> Result<Arc<dyn BlockPrior>> {
    // A prior of another crate need not have this setting.
    let by_fan_in = settings.iter().any(|(name, value)| name == "scaling" && *value == Value::Text("fan-in".into()));
    let scaled = role == Role::Weight && std.is_some() && by_fan_in;
    let divisor = if scaled { (fan_in.max(1) as f64).sqrt() } else { 1.0 };
    (entry.build)(settings, std.map(|std| std / divisor))
}

/// The chunks and the order of their sums depend on the length alone.
fn block_density<R: Real>(ops: &dyn BlockPriorOps<R>, w: &[R], scale: f64, grad: Option<&mut [R]>) -> f64 {
    if w.len() <= CHUNK {
        return ops.log_density(0, w, scale, grad);
    }
    let mut total = 0.0;
    let mut sums = [0.0; WAVE];
    match grad {
        None => {
            for (wave, w) in w.chunks(WAVE * CHUNK).enumerate() {
                let used = &mut sums[..w.len().div_ceil(CHUNK)];
                let chunks = used.par_iter_mut().zip(w.par_chunks(CHUNK)).enumerate();
                chunks.for_each(|(c, (s, w))| *s = ops.log_density((wave * WAVE + c) * CHUNK, w, scale, None));
                total += used.iter().sum::<f64>();
            }
        }
        Some(grad) => {
            for (wave, (w, g)) in w.chunks(WAVE * CHUNK).zip(grad.chunks_mut(WAVE * CHUNK)).enumerate() {
                let used = &mut sums[..w.len().div_ceil(CHUNK)];
                let chunks = w.par_chunks(CHUNK).zip(g.par_chunks_mut(CHUNK));
                used.par_iter_mut().zip(chunks).enumerate().for_each(|(c, (s, (w, g)))| {
                    *s = ops.log_density((wave * WAVE + c) * CHUNK, w, scale, Some(g));
                });
                total += used.iter().sum::<f64>();
            }
        }
    }
    total
}

/// Numbers that go through together.
const LANES: usize = 16;

/// log p of one parameter up to constants, and what is added to its gradient. A trait and not a closure: a closure may
/// stay out of line, and is then compiled without AVX2.
trait Term<R: Real>: Copy {
    fn at<const F: bool>(self, w: R) -> (R, R);
}

/// Σ value(wᵢ) in lanes of f64; with `grad`, the slope is added to it.
#[inline(always)]
fn lanes_body<R: Real, T: Term<R>, const F: bool>(term: T, w: &[R], grad: Option<&mut [R]>) -> f64 {
    let mut sums = [0.0_f64; LANES];
    let (chunks, rest) = w.as_chunks::<LANES>();
    match grad {
        Some(grad) => {
            let (grads, rest_grad) = grad[..w.len()].as_chunks_mut::<LANES>();
            for (w, g) in chunks.iter().zip(grads) {
                let (mut values, mut slopes) = ([R::ZERO; LANES], [R::ZERO; LANES]);
                for l in 0..LANES {
                    let (value, slope) = term.at::<F>(w[l]);
                    values[l] = value;
                    slopes[l] = slope;
                }
                for l in 0..LANES {
                    sums[l] += values[l].f64();
                    g[l] += slopes[l];
                }
            }
            for (l, (w, g)) in rest.iter().zip(rest_grad).enumerate() {
                let (value, slope) = term.at::<F>(*w);
                sums[l] += value.f64();
                *g += slope;
            }
        }
        None => {
            for w in chunks {
                let mut values = [R::ZERO; LANES];
                for l in 0..LANES {
                    values[l] = term.at::<F>(w[l]).0;
                }
                for l in 0..LANES {
                    sums[l] += values[l].f64();
                }
            }
            for (l, w) in rest.iter().enumerate() {
                sums[l] += term.at::<F>(*w).0.f64();
            }
        }
    }
    sums.iter().sum()
}

simd_fn! {
    /// [`lanes_body`], compiled for AVX2.
    fn lanes_sum<R>(term: impl Term<R>, w: &[R], grad: Option<&mut [R]>) -> f64 {
        lanes_body::<R, _, F>(term, w, grad)
    }
}
