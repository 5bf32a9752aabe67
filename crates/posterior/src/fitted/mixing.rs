//! How well the predictions of chains have mixed, at rows that a fit knows.
//!
//! R-hat and effective draws of every output (probability, for classes) at up to 100 rows. Cost: a prediction of these rows by every draw, and some sorts.

use super::{How, NetworkFit};
use crate::convergence::{GroupReport, Quality, Trace};
use crate::data::{Dataset, Values};
use crate::likelihood::Outcome;
use crate::nn::Role;
use crate::posterior::Chains;
use crate::predict::Predictor;
use crate::problem::full_layout;
use crate::rng::Key;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Rows at which predictions are judged.
const ROWS: usize = 100;
/// Most predictions that are in memory at once.
const NUMBERS: usize = 1 << 24;

/// How well the predictions of chains have mixed at some rows: what cannot be told from the draws alone. A fit works it out at its own
/// rows and the model file keeps it, so that a model is judged in the same way with and without them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mixing {
    /// Rows at which predictions were judged.
    pub rows: usize,
    /// Outputs of the network there (probabilities, for classes), and parameters of the noise.
    pub predictions: GroupReport,
}

impl Mixing {
    /// At some of the rows of `data`, evenly, as many as are judged.
    pub fn new(fit: &NetworkFit, chains: &Chains, data: &Dataset) -> Mixing {
        let most = (NUMBERS / (chains.draws() * fit.network.outputs()).max(1)).clamp(1, ROWS);
        let chosen = evenly(data.rows, most);
        let x = data.x.rows(&chosen, fit.network.input().len());
        let layout = full_layout(&*fit.network, &*fit.likelihood);
        let noise = layout.blocks().iter().filter(|b| b.role == Role::Noise).flat_map(|b| b.range.clone());
        let mut qualities = predicted(fit, chains, &x);
        qualities.extend(noise.map(|p| parameter(chains, fit.posterior.dim(), p)));
        let predictions = GroupReport::new("predictions", qualities.len(), &qualities, chains.chains.len());
        Mixing { rows: chosen.len(), predictions }
    }
}

/// Quality of parameter p.
pub(crate) fn parameter(chains: &Chains, dim: usize, p: usize) -> Quality {
    Quality::of(&trace(chains, |c, i| f64::from(chains.chains[c].w[i * dim + p])))
}

/// The draws of a number in all chains, from the number of draw i of chain c.
pub(crate) fn trace(chains: &Chains, of: impl Fn(usize, usize) -> f64) -> Trace {
    let draws = chains.shortest();
    let values = (0..chains.chains.len()).flat_map(|c| (0..draws).map(move |i| (c, i)));
    Trace::new(values.map(|(c, i)| of(c, i)).collect(), chains.chains.len())
}

/// Qualities of what each draw predicts: outputs, or the probability of every class but the first.
fn predicted(fit: &NetworkFit, chains: &Chains, x: &Values) -> Vec<Quality> {
    let predictive = fit.by_draws(&How::new(chains.draws(), Key::new(0))).predict(x);
    let (classes, outputs) = (fit.likelihood.classes(), fit.likelihood.outputs());
    let class = fit.likelihood.outcome() == Outcome::Class;
    let rows = predictive.rows();
    let width = if class { classes.saturating_sub(1) } else { outputs };
    let of_draw = |s: usize| -> Vec<f64> {
        let f = predictive.draw(s).unwrap_or_default().iter().map(|v| f64::from(*v));
        if !class {
            return f.collect();
        }
        let (f, mut p) = (f.collect::<Vec<f64>>(), vec![0.0; classes]);
        let mut all = Vec::with_capacity(rows * width);
        for f in f.chunks(outputs) {
            fit.likelihood.probabilities(f, &mut p);
            all.extend(&p[1..]);
        }
        all
    };
    let draws: Vec<Vec<f64>> = (0..predictive.draws()).into_par_iter().map(of_draw).collect();
    let mut first = Vec::with_capacity(chains.chains.len());
    chains.chains.iter().fold(0, |at, c| {
        first.push(at);
        at + c.draws()
    });
    let quality = |q: usize| Quality::of(&trace(chains, |c, i| draws[first[c] + i][q]));
    (0..rows * width).into_par_iter().map(quality).collect()
}

/// The numbers of at most `most` rows of `rows`, evenly.
pub(crate) fn evenly(rows: usize, most: usize) -> Vec<usize> {
    let count = rows.min(most);
    (0..count).map(|i| (2 * i + 1) * rows / (2 * count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_spread_evenly_and_none_is_taken_twice() {
        assert_eq!(evenly(3, 10), [0, 1, 2]);
        assert_eq!(evenly(10, 5), [1, 3, 5, 7, 9]);
        for (rows, most) in [(1, 1), (7, 5), (1000, 100), (0, 3)] {
            let chosen = evenly(rows, most);
            assert!(chosen.len() == rows.min(most) && chosen.is_sorted_by(|a, b| a < b));
            assert!(chosen.iter().all(|r| *r < rows));
        }
    }
}
