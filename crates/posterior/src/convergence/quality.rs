//! What the draws of a quantity, and of a group of quantities, tell: R-hat, effective draws, Monte Carlo error, and whether they have mixed.
//!
//! A quantity has mixed where its R-hat is at most 1.01 and its bulk and tail ESS at least 100 for each chain (Vehtari et al. 2021).
//! At that ESS R-hat of a chain that has mixed is itself 1.01 ± 0.005, so that among many quantities some exceed it by
//! chance: a group has mixed where 95 % of its quantities have and none has an R-hat above 1.05. Cost: some sorts of the draws.

use super::ess::{ess_bulk, ess_tail};
use super::mcse::mcse_mean;
use super::r_hat::r_hat;
use super::trace::{Trace, mean};
use serde::{Deserialize, Serialize};

/// R-hat up to which a quantity has mixed.
const R_HAT: f64 = 1.01;
/// R-hat up to which a group has, if few quantities are above the first bound.
pub(crate) const R_HAT_WORST: f64 = 1.05;
/// ESS of bulk and tail for each chain.
const ESS: f64 = 100.0;
/// Part of a group's quantities that must have mixed.
const PART: f64 = 0.95;

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
    pub fn new(name: &str, count: usize, qualities: &[Quality], chains: usize) -> GroupReport {
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
