//! Pruning by signal-to-noise: a dense model in, a sparse one out.
//!
//! A weight with mean θ and standard deviation σ that the data say little about has a large log α = ln(σ²/θ²) =
//! −2 ln(|θ|/σ): it may as well be 0. [`Rule::LogAlpha`] prunes above a threshold (Molchanov, Ashukha & Vetrov 2017),
//! [`Rule::Keep`] keeps a fraction of all weights, those with the highest |θ|/σ (Blundell et al. 2015). Biases and noise scales
//! stay. Cost: one pass over the weights, and a selection for [`Rule::Keep`].

use crate::error::{Error, Result};
use crate::model::Model;
use crate::nn::{Block, Layout, Role};
use crate::posterior::SparsePosterior;
use crate::problem::full_layout;
use std::sync::Arc;

/// Which weights are pruned.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Rule {
    /// Those with log α above this number; 3 is usual.
    LogAlpha(f64),
    /// All but this fraction of them, in (0, 1].
    Keep(f64),
}

/// What is remembered of a weight that stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Memory {
    /// Mean and standard deviation: the compressed model is still a distribution.
    MeanAndStd,
    /// The mean alone: a sparse network with one set of weights, and a smaller file.
    Mean,
}

/// What became of one block of parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerReport {
    /// The block's name, e.g. `0.weight`.
    pub name: String,
    /// How many there were.
    pub parameters: usize,
    /// How many are left.
    pub kept: usize,
}

impl LayerReport {
    /// Of a block, given the increasing positions of all that is kept.
    pub fn new(block: &Block, kept: &[u32]) -> LayerReport {
        let before = |end: usize| kept.partition_point(|i| (*i as usize) < end);
        let kept = before(block.range.end) - before(block.range.start);
        LayerReport { name: block.name.clone(), parameters: block.range.len(), kept }
    }

    /// The share that was pruned.
    pub fn sparsity(&self) -> f64 {
        1.0 - self.kept as f64 / self.parameters.max(1) as f64
    }

    /// |W| / |W ≠ 0|; ∞ if nothing is left.
    pub fn compression(&self) -> f64 {
        self.parameters as f64 / self.kept as f64
    }
}

/// A compressed model, and what became of its weights.
#[derive(Debug, Clone)]
pub struct Pruned {
    /// The model with a sparse posterior. Its evidence is not known any more, and of the trace of its fit the end is left.
    pub model: Model,
    /// The blocks of weights, in the order of w.
    pub layers: Vec<LayerReport>,
}

impl Pruned {
    /// All weights together.
    pub fn total(&self) -> LayerReport {
        let sum = |of: fn(&LayerReport) -> usize| self.layers.iter().map(of).sum();
        LayerReport { name: "all".to_owned(), parameters: sum(|l| l.parameters), kept: sum(|l| l.kept) }
    }
}

/// log α = ln(σ²/θ²). A weight that is 0 for sure carries no signal: ∞.
pub fn log_alpha(mean: f32, std: f32) -> f64 {
    -2.0 * signal_to_noise(mean, std).ln()
}

/// |θ|/σ
fn signal_to_noise(mean: f32, std: f32) -> f64 {
    if mean == 0.0 { 0.0 } else { f64::from(mean.abs()) / f64::from(std) }
}

/// Prunes the weights of a model whose posterior is a diagonal Gaussian.
pub fn prune(model: &Model, rule: Rule, memory: Memory) -> Result<Pruned> {
    let fit = model.network("weights are what is pruned")?;
    let Some((mean, std)) = fit.posterior.diagonal() else {
        return Err(Error::setting(
            format!(
                "weights are pruned by their standard deviations, and a posterior of kind '{}' does not give one for each",
                fit.posterior.kind()
            ),
            "fit with a method that does, such as mean-field",
        ));
    };
    let layout = full_layout(&*fit.network, &*fit.likelihood);
    let kept = select(&layout, mean, std, rule)?;
    let weights = layout.blocks().iter().filter(|b| b.role == Role::Weight);
    let layers = weights.map(|b| LayerReport::new(b, &kept)).collect();
    let std = (memory == Memory::MeanAndStd).then_some(std);
    let posterior = Arc::new(SparsePosterior::new(mean, std, kept));
    // What was learnt about the full model's mistakes is not true of the small one's.
    let mut model = model.with_posterior(posterior)?;
    // The course of a long fit would take more room in a small file than its weights: how it ended is enough.
    let before_last = model.summary.trace.len().saturating_sub(1);
    model.summary.trace.drain(..before_last);
    Ok(Pruned { model, layers })
}

/// The positions that stay, increasing: all that are no weights, and the weights that the rule spares.
fn select(layout: &Layout, mean: &[f32], std: &[f32], rule: Rule) -> Result<Vec<u32>> {
    let of_role = |weight: bool| {
        let blocks = layout.blocks().iter().filter(move |b| (b.role == Role::Weight) == weight);
        blocks.flat_map(|b| b.range.clone()).map(|i| i as u32)
    };
    let signal = |i: u32| signal_to_noise(mean[i as usize], std[i as usize]);
    let mut kept: Vec<u32> = match rule {
        Rule::LogAlpha(threshold) => {
            if threshold.is_nan() {
                return Err(Error::setting("the threshold of log α is no number", "give one, as in 3"));
            }
            of_role(true).filter(|i| log_alpha(mean[*i as usize], std[*i as usize]) <= threshold).collect()
        }
        Rule::Keep(fraction) => {
            if !(fraction > 0.0 && fraction <= 1.0) {
                return Err(Error::setting(
                    format!("a fraction of {fraction} of the weights cannot be kept"),
                    "give a number above 0 and at most 1",
                ));
            }
            let mut weights: Vec<u32> = of_role(true).collect();
            let count = (fraction * weights.len() as f64).round().max(1.0) as usize;
            if count < weights.len() {
                // Of equals the first stays, whatever the order of the selection.
                weights.select_nth_unstable_by(count, |a, b| signal(*b).total_cmp(&signal(*a)).then(a.cmp(b)));
                weights.truncate(count);
            }
            weights
        }
    };
    kept.extend(of_role(false));
    kept.sort_unstable();
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::BlockSpec;
    use crate::rng::{Key, fill_normals};

    fn layout() -> Layout {
        let mut layout = Layout::default();
        let blocks = [("weight", 300, Role::Weight), ("bias", 10, Role::Bias), ("weight", 50, Role::Weight)];
        for (layer, (name, size, role)) in blocks.into_iter().chain([("log_noise", 1, Role::Noise)]).enumerate() {
            layout.push(layer, &BlockSpec::new(name, vec![size], role, 1));
        }
        layout
    }

    /// Means and standard deviations of very different sizes, with zeros of either kind and ties among them.
    fn numbers(n: usize) -> (Vec<f32>, Vec<f32>) {
        let (mut mean, mut log_std) = (vec![0.0f32; n], vec![0.0f32; n]);
        fill_normals(Key::new(1), &mut mean);
        fill_normals(Key::new(2), &mut log_std);
        let mut std: Vec<f32> = log_std.iter().map(|v| (2.0 * v).exp()).collect();
        (mean[3], std[4], mean[5], std[5]) = (0.0, 0.0, 0.0, 0.0);
        for i in 20..60 {
            (mean[i], std[i]) = (0.5, 0.25);
        }
        (mean, std)
    }

    #[test]
    fn a_threshold_prunes_what_the_definition_says() {
        let (layout, (mean, std)) = (layout(), numbers(361));
        for threshold in [-40.0, -1.0, 0.0, 3.0, 40.0, f64::INFINITY, f64::NEG_INFINITY] {
            let kept = select(&layout, &mean, &std, Rule::LogAlpha(threshold)).unwrap();
            for i in 0..361u32 {
                let (m, s) = (f64::from(mean[i as usize]), f64::from(std[i as usize]));
                let prunable = i < 300 || (310..360).contains(&i);
                // Written otherwise than in the code: σ² > e^T θ². Ties of rounding are far from these thresholds.
                let pruned = prunable && (m == 0.0 && threshold < f64::INFINITY || s * s > threshold.exp() * m * m);
                assert_eq!(kept.binary_search(&i).is_err(), pruned, "{i} at {threshold}: {m} ± {s}");
            }
        }
    }

    #[test]
    fn a_fraction_keeps_the_highest_signal_to_noise() {
        let (layout, (mean, std)) = (layout(), numbers(361));
        let mut ranked: Vec<u32> = (0..300).chain(310..360).collect();
        // A stable sort by brute force: of equals the first comes first. θ = 0 counts as no signal, also where σ = 0.
        let ratio = |i: u32| (mean[i as usize].abs() / std[i as usize]).max(0.0);
        ranked.sort_by(|a, b| ratio(*b).total_cmp(&ratio(*a)));
        for (fraction, count) in [(1.0, 350), (0.5, 175), (0.1, 35), (0.13, 46), (1e-9, 1)] {
            let kept = select(&layout, &mean, &std, Rule::Keep(fraction)).unwrap();
            let mut expected: Vec<u32> = ranked[..count].iter().copied().chain(300..310).chain([360]).collect();
            expected.sort();
            assert_eq!(kept, expected, "{fraction}");
            let layers: Vec<_> = layout.blocks().iter().map(|b| LayerReport::new(b, &kept)).collect();
            let (parameters, left): (Vec<_>, Vec<_>) = layers.iter().map(|l| (l.parameters, l.kept)).unzip();
            assert_eq!((parameters, left[1], left[3]), (vec![300, 10, 50, 1], 10, 1));
            assert_eq!((left[0] + left[2], left[0]), (count, expected.iter().filter(|i| **i < 300).count()));
        }
    }

    #[test]
    fn figures_of_a_layer() {
        let layer = |kept| LayerReport { name: "w".into(), parameters: 400, kept };
        assert_eq!((layer(10).sparsity(), layer(10).compression()), (0.975, 40.0));
        assert_eq!((layer(0).sparsity(), layer(0).compression()), (1.0, f64::INFINITY));
        assert_eq!(log_alpha(2.0, 1.0), -(4f64.ln()));
        assert_eq!((log_alpha(0.0, 1.0), log_alpha(0.0, 0.0)), (f64::INFINITY, f64::INFINITY));
        assert_eq!(log_alpha(1.0, 0.0), f64::NEG_INFINITY);
    }

    #[test]
    fn rules_that_make_no_sense() {
        let (layout, (mean, std)) = (layout(), numbers(361));
        for rule in [Rule::LogAlpha(f64::NAN), Rule::Keep(f64::NAN), Rule::Keep(0.0), Rule::Keep(2.0), Rule::Keep(-1.0)]
        {
            assert!(select(&layout, &mean, &std, rule).is_err(), "{rule:?}");
        }
    }
}
