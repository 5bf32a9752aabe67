//! What is fitted where the user names no method: Hamiltonian Monte Carlo where rows × parameters are at most [`FEW`], else a deep ensemble; numbers
//! with Student's t noise of one scale, unless the user says otherwise.
//!
//! Draws of the posterior itself predict best wherever there is time for them (figures in `bench/README.md`; `posterior-bench published ranks` makes the whole
//! table), and they need no tuning: chains find their own steps, the noise is a part of what is drawn, and there is nothing that could be
//! trained too long. How wide the prior is, layer by layer, the evidence chooses beforehand ([`crate::inference::prior_scales`]), unless the user says
//! anything about the prior. Noise has heavy tails, since data have outliers that nobody has named: on held-out rows that was better than normal noise on six
//! sets of seven. A gradient costs some rows × parameters operations; with at most [`FEW`] of them, a fit stays within a minute on two cores.

use super::{Choice, LayerPrior, Recipe, Resolved};
use crate::data::{Encoder, TargetKind};
use crate::error::{ErrorKind, Result};
use crate::inference::prior_scales;
use crate::problem::Problem;
use crate::rng::Key;
use crate::settings::Value;

/// Rows × parameters up to which chains are affordable.
pub const FEW: usize = 1_500_000;

/// The method up to there, and where rows are not known yet.
pub(super) const WITH_FEW_ROWS: &str = "hmc";
const WITH_MANY_ROWS: &str = "ensemble";

/// The likelihood of numbers.
const NOISE: &str = "student-t";

/// Settings of `hmc` here: predictions need fewer draws than a posterior that is itself looked at.
const HMC: [(&str, i64); 2] = [("warmup", 200), ("draws", 200)];

/// Rows × parameters, and parameters, up to which the evidence chooses how wide the prior is: a few seconds.
const SCALED: (usize, usize) = (10_000_000, 20_000);

impl Recipe {
    /// Whether method and prior are left to the program: then the evidence chooses how wide the prior of every layer is.
    pub fn leaves_prior_open(&self) -> bool {
        let untouched = |choice: &Choice| choice.name.is_none() && choice.settings.is_empty();
        self.method.name.is_none() && untouched(&self.prior) && self.layer_priors.is_empty()
    }

    /// With a method, where the user names none; for so many rows of an encoder.
    pub fn with_default_method(&self, encoder: &Encoder, rows: usize) -> Result<Recipe> {
        if self.method.name.is_some() {
            return Ok(self.clone());
        }
        let mut recipe = self.clone();
        let settings = std::mem::take(&mut recipe.method.settings);
        recipe.method = Choice::named(WITH_FEW_ROWS);
        let parameters = recipe.resolve(encoder)?.network.layout().len();
        if rows.saturating_mul(parameters) > FEW {
            recipe.method = Choice::named(WITH_MANY_ROWS);
        } else {
            HMC.iter().for_each(|(key, value)| {
                recipe.method.settings.insert((*key).to_owned(), Value::Int(*value));
            });
        }
        if recipe.likelihood.name.is_none() && matches!(encoder.target_kind(), TargetKind::Real(_)) {
            recipe.likelihood.name = Some(NOISE.to_owned());
        }
        recipe.method.settings.extend(settings);
        Ok(recipe)
    }
}

/// The recipe with a prior for every layer scale chosen by marginal likelihood; as it was where that is too much work, or has no answer.
pub(super) fn with_prior_by_evidence(resolved: &Resolved, problem: &Problem, key: Key) -> Result<Recipe> {
    let (parameters, mut recipe) = (problem.network().layout().len(), resolved.recipe.clone());
    let settings = &recipe.prior.settings;
    let std = |name: &str| match settings.get(name) {
        Some(Value::Float(std)) => Some(*std),
        _ => None,
    };
    if let (Some(weight), Some(bias)) = (std("weight_std"), std("bias_std"))
        && parameters <= SCALED.1
        && problem.data().rows.saturating_mul(parameters) <= SCALED.0
    {
        let scales = match prior_scales(problem, key) {
            Ok(scales) => scales,
            // What is fitted must not depend on how much memory there is.
            Err(e) if matches!(e.kind(), ErrorKind::Memory { .. }) => return Err(e),
            Err(_) => return Ok(recipe),
        };
        let prior = |(layer, scale): (usize, f64)| {
            // Three digits: what is said is what is used.
            let round = |v: f64| format!("{v:.2e}").parse().unwrap_or(v);
            LayerPrior { layer, weight_std: Some(round(weight * scale)), bias_std: Some(round(bias * scale)) }
        };
        recipe.layer_priors = scales.into_iter().map(prior).collect();
    }
    Ok(recipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Column, EncodeOptions, Table};
    use crate::inference::Silent;
    use crate::model::Model;

    fn encoder() -> Encoder {
        let x: Vec<f64> = (0..20).map(f64::from).collect();
        let y = Column::Number(x.iter().map(|v| v.sin()).collect());
        let table = Table::from_columns(vec![("x".into(), Column::Number(x)), ("y".into(), y)]).unwrap();
        let options = EncodeOptions { target: "y".into(), ..EncodeOptions::default() };
        Encoder::fit(&table, &options).unwrap().encoder
    }

    #[test]
    fn rows_times_parameters_decide() {
        // 1-50-1: 151 parameters.
        let encoder = encoder();
        for (rows, name) in [(20, "hmc"), (FEW / 151, "hmc"), (FEW / 151 + 1, "ensemble"), (usize::MAX, "ensemble")] {
            let recipe = Recipe::default().with_default_method(&encoder, rows).unwrap();
            assert_eq!(recipe.method.name.as_deref(), Some(name), "{rows} rows");
            let resolved = recipe.resolve(&encoder).unwrap();
            assert_eq!(resolved.recipe.likelihood.name.as_deref(), Some("student-t"), "{rows} rows");
        }
    }

    #[test]
    fn the_evidence_chooses_how_wide_a_prior_is_that_nobody_has_named() {
        let x: Vec<f64> = (0..20).map(f64::from).collect();
        let y = Column::Number(x.iter().map(|v| v.sin()).collect());
        let table = Table::from_columns(vec![("x".into(), Column::Number(x)), ("y".into(), y)]).unwrap();
        let options = EncodeOptions { target: "y".into(), ..EncodeOptions::default() };
        let layers = |recipe: &Recipe| {
            let short = recipe.method.clone().with("draws", Value::Int(2)).with("warmup", Value::Int(2));
            let recipe = Recipe { method: short, ..recipe.clone() };
            Model::fit(&recipe, &table, &options, 0, &mut Silent).unwrap().recipe.layer_priors
        };
        let found = layers(&Recipe::default());
        assert_eq!(found.iter().map(|l| l.layer).collect::<Vec<_>>(), [0, 1]);
        assert!(
            found.iter().all(|l| l.weight_std == l.bias_std && l.weight_std.is_some_and(|s| s != 1.0)),
            "{found:?}"
        );
        let named = Recipe { method: Choice::named("hmc"), ..Recipe::default() };
        assert!(layers(&named).is_empty());
        let own = Recipe { prior: Choice::default().with("weight_std", Value::Float(2.0)), ..Recipe::default() };
        assert!(!own.leaves_prior_open() && layers(&own).is_empty());
        let layer = LayerPrior { layer: 1, weight_std: Some(3.0), bias_std: None };
        let own = Recipe { layer_priors: vec![layer], ..Recipe::default() };
        assert_eq!(layers(&own), [layer]);
    }

    #[test]
    fn what_the_user_names_is_kept() {
        let encoder = encoder();
        let named = Recipe { method: Choice::named("map"), ..Recipe::default() };
        assert_eq!(named.with_default_method(&encoder, 20).unwrap(), named);
        let mut own = Recipe { likelihood: Choice::named("gaussian"), ..Recipe::default() };
        own.method = own.method.with("draws", Value::Int(7));
        let taken = own.with_default_method(&encoder, 20).unwrap();
        assert_eq!(taken.likelihood, own.likelihood);
        assert_eq!(taken.method.settings["draws"], Value::Int(7));
    }
}
