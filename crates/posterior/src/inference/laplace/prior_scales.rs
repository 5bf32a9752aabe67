//! How wide a normal prior should be, layer by layer, by the evidence: argmax over δ of log p(D | δ) by Laplace's approximation.
//!
//! TrainingOptions and evidence take turns, as with `online`: the mode under the present prior, its curvature, the δ under which the data are most likely, the
//! mode again. A method that takes the prior as given (chains, ensembles) can then be given one of the right size, without anybody choosing it.
//!
//! References: MacKay (1992), Neural Computation 4; Immer et al. (2021), ICML. Cost: that of `laplace` with [`ROUNDS`] rounds.

use super::approximation::{LaplaceApproximation, normal_prior};
use super::mode::{rescaled, train};
use super::{Laplace, PriorPrecision};
use crate::error::Result;
use crate::inference::observer::Silent;
use crate::inference::train::epochs;
use crate::memory;
use crate::problem::Problem;
use crate::problem::curvature::Subset;
use crate::rng::Key;

/// Turns of training and evidence.
const ROUNDS: usize = 4;
/// Factors stay between these. A layer that the data say little about should not lose its prior altogether; and where a few rows show no effect of the
/// inputs, the evidence would have it that there is none anywhere: sure of what it cannot know.
const NARROWEST: f64 = 0.5;
const WIDEST: f64 = 8.0;

/// What to multiply the prior's standard deviations by: the number of a layer and its factor. An error where the prior is not normal or a
/// layer has no curvature.
pub fn prior_scales(problem: &Problem, key: Key) -> Result<Vec<(usize, f64)>> {
    problem.whole("the evidence")?;
    let laplace = Laplace { prior_precision: PriorPrecision::Layer, ..Laplace::default() };
    let share = Laplace { epochs: epochs(problem, &(&laplace).into()).div_ceil(ROUNDS), ..laplace };
    let subset = Subset::all(&**problem.network())?;
    normal_prior(problem, &subset)?;
    let structure = laplace.structure_of(&subset);
    let what = format!("choosing the prior's scales of {} parameters", subset.len());
    memory::request(subset.bytes(structure), what, "name a method or a prior")?;
    let options = laplace.approximation(structure);
    let (mut now, mut scales) = (problem.clone(), vec![1.0; subset.affines.len()]);
    for round in 0..ROUNDS {
        let (w, _) = train(&now, &share, key.derive(round as u64), &mut Silent)?;
        let at = LaplaceApproximation::new(&now, w, &subset, options)?;
        let factors = at.prior_factors();
        for (l, scale) in scales.iter_mut().enumerate() {
            let next: f64 = *scale / factors[l.min(factors.len() - 1)].sqrt();
            *scale = if next.is_finite() { next.clamp(NARROWEST, WIDEST) } else { *scale };
        }
        now = rescaled(problem, &subset, |l| scales[l], at.mean())?;
    }
    // Of several parts of a layer the first one's.
    let mut out: Vec<(usize, f64)> =
        subset.affines.iter().zip(scales).map(|(affine, scale)| (affine.layer, scale)).collect();
    out.dedup_by_key(|(layer, _)| *layer);
    Ok(out)
}
