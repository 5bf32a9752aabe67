//! Markov chains judged, parameter by parameter and at reference inputs.
//!
//! A quantity has mixed where its R-hat is at most 1.01 and its bulk and tail ESS at least 100 for each chain (Vehtari et al. 2021).
//! At that ESS R-hat of a chain that has mixed is itself 1.01 ± 0.005, so that among many quantities some exceed it by
//! chance: a group has mixed where 95 % of its quantities have and none has an R-hat above 1.05.
//! Cost: some sorts of all draws for each quantity; of a large block, parameters are taken evenly.

use super::energy::e_bfmi;
use super::ess::{ess_bulk, ess_tail};
use super::mcse::mcse_mean;
use super::r_hat::r_hat;
use super::trace::{Trace, mean};
use super::verdict::{Finding, Trust};
use crate::data::{Dataset, Values};
use crate::fitted::{How, NetworkFit};
use crate::likelihood::Outcome;
use crate::nn::Role;
use crate::posterior::Chains;
use crate::predict::Predictor;
use crate::problem::full_layout;
use crate::rng::Key;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// R-hat up to which a quantity has mixed.
pub(super) const R_HAT: f64 = 1.01;
/// R-hat up to which a group has, if few quantities are above the first bound.
const R_HAT_WORST: f64 = 1.05;
/// ESS of bulk and tail for each chain.
const ESS: f64 = 100.0;
/// Part of a group's quantities that must have mixed.
const PART: f64 = 0.95;
/// Least E-BFMI.
const E_BFMI: f64 = 0.3;
/// Part of the transitions that may diverge before the draws are not believed at all.
const DIVERGENT: f64 = 0.01;
/// Parameters of a block that are judged.
const PARAMETERS: usize = 200;
/// Rows at which predictions are judged.
const ROWS: usize = 100;
/// Most predictions that are in memory at once.
const NUMBERS: usize = 1 << 24;

/// What the draws of one quantity tell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quality {
    /// Mean over all draws.
    pub mean: f64,
    /// Standard deviation over all draws.
    pub std: f64,
    /// Split, rank-normalised.
    pub r_hat: f64,
    /// Effective draws for the bulk.
    pub ess_bulk: f64,
    /// Effective draws for the 5 % and 95 % quantiles.
    pub ess_tail: f64,
    /// Monte Carlo standard error of the mean.
    pub mcse_mean: f64,
    /// Whether all draws are the same number.
    pub constant: bool,
}

impl Quality {
    /// Of a quantity.
    pub fn of(trace: &Trace) -> Quality {
        let first = trace.values().first().copied().unwrap_or(f64::NAN);
        Quality {
            mean: trace.mean(),
            std: trace.std(),
            r_hat: r_hat(trace),
            ess_bulk: ess_bulk(trace),
            ess_tail: ess_tail(trace),
            mcse_mean: mcse_mean(trace),
            constant: trace.values().iter().all(|v| *v == first),
        }
    }

    /// Whether chains agree and hold enough independent draws. A constant has nothing to mix.
    pub fn has_mixed(&self, chains: usize) -> bool {
        let enough = ESS * chains as f64;
        self.constant || (self.r_hat <= R_HAT && self.ess_bulk >= enough && self.ess_tail >= enough)
    }
}

/// The worst of a group of quantities.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupReport {
    /// A block of parameters, or what is predicted.
    pub name: String,
    /// Quantities there are.
    pub count: usize,
    /// Of these, judged.
    pub judged: usize,
    /// Largest R-hat, of those that are not constant.
    #[serde(with = "extended")]
    pub r_hat: f64,
    /// Median of their bulk ESS.
    #[serde(with = "extended")]
    pub ess_median: f64,
    /// Smallest bulk ESS.
    #[serde(with = "extended")]
    pub ess_bulk: f64,
    /// Smallest tail ESS.
    #[serde(with = "extended")]
    pub ess_tail: f64,
    /// Largest standard error of a mean, in standard deviations of its quantity.
    #[serde(with = "extended")]
    pub mcse: f64,
    /// Part of the judged quantities that have mixed.
    #[serde(with = "extended")]
    pub mixed: f64,
    /// Whether nothing in it moves.
    pub constant: bool,
}

impl GroupReport {
    /// Of the qualities of `count` quantities, or some of them, in so many chains.
    fn new(name: &str, count: usize, qualities: &[Quality], chains: usize) -> GroupReport {
        let moving: Vec<&Quality> = qualities.iter().filter(|q| !q.constant).collect();
        // A number that is not one is the worst there can be.
        let worst = |of: fn(&Quality) -> f64, sign: f64| {
            let values = moving.iter().map(|q| of(q)).map(|v| if v.is_nan() { sign * f64::INFINITY } else { v });
            values.max_by(|a, b| (sign * a).total_cmp(&(sign * b))).unwrap_or(f64::NAN)
        };
        let mut sizes: Vec<f64> = moving.iter().map(|q| q.ess_bulk).collect();
        sizes.sort_by(f64::total_cmp);
        GroupReport {
            name: name.to_owned(),
            count,
            judged: qualities.len(),
            r_hat: worst(|q| q.r_hat, 1.0),
            ess_median: sizes.get(sizes.len() / 2).copied().unwrap_or(f64::NAN),
            ess_bulk: worst(|q| q.ess_bulk, -1.0),
            ess_tail: worst(|q| q.ess_tail, -1.0),
            mcse: worst(|q| q.mcse_mean / q.std, 1.0),
            mixed: mean(&qualities.iter().map(|q| f64::from(u8::from(q.has_mixed(chains)))).collect::<Vec<_>>()),
            constant: moving.is_empty(),
        }
    }

    /// Whether it can be believed.
    pub fn has_mixed(&self) -> bool {
        self.constant || (self.mixed >= PART && self.r_hat <= R_HAT_WORST)
    }
}

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
fn parameter(chains: &Chains, dim: usize, p: usize) -> Quality {
    Quality::of(&trace(chains, |c, i| f64::from(chains.chains[c].w[i * dim + p])))
}

/// Numbers that JSON has no word for, as text: R-hat is infinite where chains stand still.
mod extended {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(f64),
        Text(String),
    }

    pub(super) fn serialize<S: Serializer>(v: &f64, to: S) -> Result<S::Ok, S::Error> {
        if v.is_finite() { to.serialize_f64(*v) } else { to.serialize_str(&v.to_string()) }
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<f64, D::Error> {
        match Written::deserialize(from)? {
            Written::Number(v) => Ok(v),
            Written::Text(text) => text.parse().map_err(D::Error::custom),
        }
    }
}

/// What chains tell of themselves.
#[derive(Debug, Clone, PartialEq)]
pub struct ChainReport {
    /// How many chains.
    pub chains: usize,
    /// Draws that each chain has.
    pub draws: usize,
    /// The blocks of parameters.
    pub weights: Vec<GroupReport>,
    /// Outputs of the network at reference inputs (probabilities, for classes), and parameters of the noise.
    pub predictions: GroupReport,
    /// The log density of the draws.
    pub log_density: GroupReport,
    /// Rows at which predictions were judged.
    pub rows: usize,
    /// Transitions that diverged, and of how many.
    pub divergences: (u64, u64),
    /// The smallest E-BFMI of a chain; none for samplers without momentum.
    pub e_bfmi: Option<f64>,
    /// The smallest mean probability of acceptance of a chain.
    pub acceptance: f64,
    /// Whether the sampling was stopped early.
    pub incomplete: bool,
    /// What the sampler itself gave as a reason not to trust the draws.
    pub fault: Option<String>,
}

/// The draws of a number in all chains, from the number of draw i of chain c.
fn trace(chains: &Chains, of: impl Fn(usize, usize) -> f64) -> Trace {
    let draws = chains.shortest();
    let values = (0..chains.chains.len()).flat_map(|c| (0..draws).map(move |i| (c, i)));
    Trace::new(values.map(|(c, i)| of(c, i)).collect(), chains.chains.len())
}

impl ChainReport {
    /// Of the chains of a network's posterior, and how well their predictions have mixed.
    pub fn new(fit: &NetworkFit, chains: &Chains, mixing: &Mixing) -> ChainReport {
        let count = chains.chains.len();
        let dim = fit.posterior.dim();
        let layout = full_layout(&*fit.network, &*fit.likelihood);
        let weight = |p: usize| parameter(chains, dim, p);
        let block = |b: &crate::nn::Block| {
            let judged: Vec<usize> = evenly(b.range.len(), PARAMETERS).iter().map(|i| b.range.start + i).collect();
            let qualities: Vec<Quality> = judged.into_par_iter().map(weight).collect();
            GroupReport::new(&b.name, b.range.len(), &qualities, count)
        };
        let energies: Vec<f64> = chains.chains.iter().map(|c| e_bfmi(&c.energy)).collect();
        let moved = |c: &crate::posterior::Chain| (c.draws() * c.thin.max(1)) as u64;
        ChainReport {
            chains: count,
            draws: chains.shortest(),
            weights: layout.blocks().iter().map(block).collect(),
            rows: mixing.rows,
            predictions: mixing.predictions.clone(),
            log_density: {
                let quality = Quality::of(&trace(chains, |c, i| chains.chains[c].log_density[i]));
                GroupReport::new("log density", 1, &[quality], count)
            },
            divergences: (
                chains.chains.iter().map(|c| c.divergences).sum(),
                chains.chains.iter().map(moved).sum::<u64>().max(1),
            ),
            e_bfmi: energies.iter().copied().filter(|e| !e.is_nan()).reduce(f64::min),
            acceptance: chains.chains.iter().map(|c| c.acceptance).fold(1.0, f64::min),
            incomplete: chains.incomplete,
            fault: chains.fault.clone(),
        }
    }

    /// What was found that costs belief.
    pub fn findings(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        let mut find = |leaves, reason: String, advice: &str| {
            found.push(Finding { leaves, reason, advice: advice.to_owned() });
        };
        if let Some(fault) = &self.fault {
            find(Trust::Nothing, fault.trim_end_matches('.').to_owned(), "another start or smaller steps");
        }
        let p = &self.predictions;
        if self.draws < 4 {
            let reason = format!("{} draws for each chain are too few to judge", self.draws);
            find(Trust::Nothing, reason, "more draws");
        } else if p.constant {
            find(Trust::Nothing, "the chains do not move".to_owned(), "smaller steps, or another start");
        } else if p.r_hat > R_HAT_WORST {
            let reason = format!("chains disagree on predictions (R-hat up to {})", short(p.r_hat));
            find(Trust::Nothing, reason, "a longer warm-up, a start from a fitted model, or another sampler");
        } else if !p.has_mixed() {
            let reason = format!(
                "{:.0} % of the predictions have mixed, with {:.0} effective draws where there are fewest and R-hat up to {}",
                100.0 * p.mixed,
                p.ess_bulk.min(p.ess_tail),
                short(p.r_hat)
            );
            find(Trust::Nothing, reason, "more draws, or thinning less of them away");
        }
        let (diverged, moved) = self.divergences;
        if diverged > 0 {
            let many = diverged as f64 > DIVERGENT * moved as f64;
            let reason =
                format!("{diverged} of {moved} transitions diverged, so that parts of the posterior are missing");
            let leaves = if many { Trust::Nothing } else { Trust::Predictions };
            find(leaves, reason, "smaller steps (a higher target acceptance) or a narrower prior");
        }
        if let Some(e) = self.e_bfmi.filter(|e| *e < E_BFMI) {
            let reason = format!("E-BFMI is {} where 0.3 is the least, so that tails were walked slowly", short(e));
            find(Trust::Predictions, reason, "longer chains or another prior");
        }
        if self.chains == 1 {
            let reason = "one chain cannot show that another would end elsewhere".to_owned();
            find(Trust::Predictions, reason, "several chains");
        }
        let d = &self.log_density;
        if !d.constant && d.r_hat > R_HAT_WORST {
            let reason = format!("chains differ in log density (R-hat {})", short(d.r_hat));
            find(Trust::Predictions, reason, "longer chains, if you need the weights");
        }
        let apart: Vec<&GroupReport> = self.weights.iter().filter(|g| !g.has_mixed()).collect();
        if let Some(worst) = apart.iter().max_by(|a, b| a.r_hat.total_cmp(&b.r_hat)) {
            let (r_hat, name) = (short(worst.r_hat), &worst.name);
            if worst.r_hat > R_HAT_WORST {
                let reason = format!(
                    "chains sit at different weights (R-hat up to {r_hat} in {name}), as they may in a network whose units can change places"
                );
                find(Trust::Predictions, reason, "nothing, if predictions are what you need");
            } else {
                let least = apart.iter().map(|g| g.ess_bulk.min(g.ess_tail)).fold(f64::INFINITY, f64::min);
                let reason = format!(
                    "the weights have not mixed as well (R-hat up to {r_hat} in {name}, {least:.0} effective draws where there are fewest)"
                );
                find(Trust::Predictions, reason, "more draws, if you need the weights");
            }
        }
        found
    }

    /// Why the draws can be trusted where nothing was found against them.
    pub fn praise(&self) -> String {
        let all: Vec<&GroupReport> =
            self.weights.iter().chain([&self.predictions, &self.log_density]).filter(|g| !g.constant).collect();
        let r_hat = all.iter().map(|g| g.r_hat).fold(1.0, f64::max);
        let ess = all.iter().map(|g| g.ess_bulk.min(g.ess_tail)).fold(f64::INFINITY, f64::min);
        format!(
            "{} chains agree on weights and predictions (R-hat up to {}, at least {ess:.0} effective draws)",
            self.chains,
            short(r_hat)
        )
    }
}

/// Three decimals, or fewer digits where it is large.
fn short(v: f64) -> String {
    if v.abs() < 10.0 { format!("{v:.3}") } else { format!("{v:.3e}") }
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
fn evenly(rows: usize, most: usize) -> Vec<usize> {
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
