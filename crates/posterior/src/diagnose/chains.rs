//! Markov chains judged, parameter by parameter and at reference inputs.
//!
//! A quantity has mixed where its R-hat is at most 1.01 and its bulk and tail ESS at least 100 for each chain (Vehtari et al. 2021).
//! At that ESS R-hat of a chain that has mixed is itself 1.01 ± 0.005, so that among many quantities some exceed it by
//! chance: a group has mixed where 95 % of its quantities have and none has an R-hat above 1.05.
//! Cost: some sorts of all draws for each quantity; of a large block, parameters are taken evenly.

use super::verdict::{Finding, Trust};
use crate::convergence::{GroupReport, Quality, R_HAT_WORST, e_bfmi};
use crate::fitted::{Mixing, NetworkFit, evenly, parameter, trace};
use crate::posterior::Chains;
use crate::problem::full_layout;
use rayon::prelude::*;

/// Least E-BFMI.
const E_BFMI: f64 = 0.3;
/// Part of the transitions that may diverge before the draws are not believed at all.
const DIVERGENT: f64 = 0.01;
/// Parameters of a block that are judged.
const PARAMETERS: usize = 200;

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
                find(Trust::Predictions, reason, "");
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
