//! Actions that are numbers: the number of least expected loss.
//!
//! Squared: the mean, at a cost of Var[y]. Under-prediction at a price u and over-prediction at a price o a unit: the quantile of τ = u/(u + o), at a cost of
//! (u + o)(τ E[y] − ∫₀^τ Q(p) dp). A label saves all of it; knowing the function saves the cost minus the mean over draws of their own least costs.
//! Reference: Koenker & Bassett (1978). Cost: [`NODES`] quantiles a row and draw.

use super::draws::{Draws, RealDraws};
use crate::error::{Error, Result};
use crate::likelihood::{Likelihood, Outcome};
use crate::predict::{Outputs, Predictive, TargetScale};
use std::sync::Arc;

/// Quantiles that the integral is taken over.
const NODES: usize = 48;

/// What being wrong costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Loss {
    /// (y − a)²
    Squared,
    /// u (y − a) where a is below y, o (a − y) where it is above.
    Linear {
        /// Price of a unit too low.
        under: f64,
        /// Price of a unit too high.
        over: f64,
    },
}

/// A number to act on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NumberDecision {
    /// The number.
    pub action: f64,
    /// Its expected loss.
    pub expected_cost: f64,
    /// What knowing the outcome would save on average: all of it.
    pub saved_by_label: f64,
    /// What knowing the function would save on average.
    pub saved_by_data: f64,
}

impl Loss {
    /// `squared`, `absolute`, or prices as in `under=3,over=1`.
    pub fn parse(text: &str) -> Result<Loss> {
        let fix = "it is squared, absolute, or prices as in under=3,over=1";
        match text {
            "squared" => return Ok(Loss::Squared),
            "absolute" => return Ok(Loss::Linear { under: 1.0, over: 1.0 }),
            _ => {}
        }
        let (mut under, mut over) = (None, None);
        for part in text.split(',') {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let price = value.trim().parse::<f64>().ok().filter(|p| *p > 0.0 && p.is_finite());
            match (name.trim(), price) {
                ("under", Some(p)) => under = Some(p),
                ("over", Some(p)) => over = Some(p),
                _ => return Err(Error::setting(format!("'{text}' is no loss"), fix)),
            }
        }
        match (under, over) {
            (Some(under), Some(over)) => Ok(Loss::Linear { under, over }),
            _ => Err(Error::setting(format!("'{text}' gives one price of two"), fix)),
        }
    }

    /// What acting on `a` costs under the outcome y.
    pub fn of(self, a: f64, y: f64) -> f64 {
        match self {
            Loss::Squared => (y - a) * (y - a),
            Loss::Linear { under, over } => {
                if y > a {
                    under * (y - a)
                } else {
                    over * (a - y)
                }
            }
        }
    }

    /// The best number and its cost for every row of a predictive distribution.
    fn best(self, p: &Predictive) -> Vec<(f64, f64)> {
        let real = p.real();
        let Loss::Linear { under, over } = self else {
            return (0..p.rows()).map(|n| (real.mean[n], real.epistemic[n] + real.aleatoric[n])).collect();
        };
        let tau = under / (under + over);
        // p = τ t² puts more nodes where quantiles fall away; the middle of every step, and τ itself at the end.
        let middle = |k: usize| (k as f64 + 0.5) / NODES as f64;
        let mut levels: Vec<f64> = (0..NODES).map(|k| tau * middle(k).powi(2)).collect();
        levels.push(tau);
        let quantiles = p.quantiles(&levels);
        let one = |(n, q): (usize, &[f64])| {
            let integral: f64 = (0..NODES).map(|k| q[k] * 2.0 * tau * middle(k) / NODES as f64).sum();
            (q[NODES], (under + over) * (tau * real.mean[n] - integral).max(0.0))
        };
        quantiles.chunks_exact(levels.len()).enumerate().map(one).collect()
    }

    /// What to act on in every row: `own` is the predictive by the model's own route, `drawn` by draws.
    pub fn decide(
        self,
        own: &Predictive,
        drawn: &Predictive,
        likelihood: &Arc<dyn Likelihood>,
    ) -> Result<Vec<NumberDecision>> {
        if likelihood.outcome() == Outcome::Class {
            return Err(Error::setting("a loss for numbers does not suit classes", "give a table of costs"));
        }
        let draws = Draws::of(drawn)?;
        let (Draws::Real(real), Outputs::Draws(outputs)) = (&draws, drawn.outputs()) else {
            return Err(Error::setting("a loss for numbers needs draws", "predict by draws"));
        };
        let best = self.best(own);
        let learned = match self {
            Loss::Squared => (0..own.rows()).map(|n| real.moments(n).2).collect(),
            Loss::Linear { .. } => self.learned(real, outputs.noise.len(), drawn, likelihood),
        };
        let one = |((action, cost), learned): (&(f64, f64), &f64)| NumberDecision {
            action: *action,
            expected_cost: *cost,
            saved_by_label: *cost,
            saved_by_data: (cost - learned).clamp(0.0, cost.max(0.0)),
        };
        Ok(best.iter().zip(&learned).map(one).collect())
    }

    /// Mean over draws of the least cost under each.
    fn learned(
        self,
        real: &RealDraws,
        noises: usize,
        drawn: &Predictive,
        likelihood: &Arc<dyn Likelihood>,
    ) -> Vec<f64> {
        let (draws, own) = (real.weights.len(), noises / real.weights.len().max(1));
        let Outputs::Draws(outputs) = drawn.outputs() else { return Vec::new() };
        let scale = match likelihood.outcome() {
            Outcome::Real => TargetScale { targets: vec![drawn.target_scale(0)] },
            _ => TargetScale::default(),
        };
        let mut sums = vec![0.0; drawn.rows()];
        for s in 0..draws {
            let noise = outputs.noise[s * own..(s + 1) * own].iter().map(|v| *v as f32).collect();
            let f = drawn.draw(s).unwrap_or_default().to_vec();
            let one = Predictive::new(likelihood.clone(), f, noise, 1, drawn.rows(), scale.clone());
            sums.iter_mut().zip(self.best(&one)).for_each(|(sum, b)| *sum += real.weights[s] * b.1);
        }
        sums
    }
}
