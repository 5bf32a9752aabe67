//! What is fitted where the user names no method: Hamiltonian Monte Carlo where rows × parameters are at most [`FEW`], else a deep ensemble, whose
//! noise is of one scale unless the user says otherwise.
//!
//! Draws of the posterior itself predict best wherever there is time for them (figures in `bench/README.md`; `posterior-bench published ranks` makes the whole
//! table), and they need no tuning: chains find their own steps, the noise is a part of what is drawn, and there is nothing that could be
//! trained too long. A gradient costs some rows × parameters operations; with at most [`FEW`] of them, a fit stays within a minute on two cores.

use super::{Choice, Recipe};
use crate::data::{Encoder, TargetKind};
use crate::error::Result;
use crate::settings::Value;

/// Rows × parameters up to which chains are affordable.
pub const FEW: usize = 1_500_000;

/// The method up to there, and where rows are not known yet.
pub(super) const WITH_FEW_ROWS: &str = "hmc";
const WITH_MANY_ROWS: &str = "ensemble";

/// Settings of `hmc` here: predictions need fewer draws than a posterior that is itself looked at.
const HMC: [(&str, i64); 2] = [("warmup", 200), ("draws", 200)];

impl Recipe {
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
            // An ensemble's own likelihood, noise by input, is too sure of itself where rows are few for it, and nobody has said that they are enough.
            if recipe.likelihood.name.is_none() && matches!(encoder.target_kind(), TargetKind::Real(_)) {
                recipe.likelihood.name = Some("gaussian".to_owned());
            }
        } else {
            HMC.iter().for_each(|(key, value)| {
                recipe.method.settings.insert((*key).to_owned(), Value::Int(*value));
            });
        }
        recipe.method.settings.extend(settings);
        Ok(recipe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Column, EncodeOptions, Table};

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
            assert_eq!(resolved.recipe.likelihood.name.as_deref(), Some("gaussian"), "{rows} rows");
        }
    }

    #[test]
    fn what_the_user_names_is_kept() {
        let encoder = encoder();
        let named = Recipe { method: Choice::named("map"), ..Recipe::default() };
        assert_eq!(named.with_default_method(&encoder, 20).unwrap(), named);
        let mut own = Recipe { likelihood: Choice::named("student-t"), ..Recipe::default() };
        own.method = own.method.with("draws", Value::Int(7));
        let taken = own.with_default_method(&encoder, 20).unwrap();
        assert_eq!(taken.likelihood, own.likelihood);
        assert_eq!(taken.method.settings["draws"], Value::Int(7));
    }
}
