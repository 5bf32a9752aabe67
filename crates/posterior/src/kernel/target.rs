//! A density as kernels see it: every evaluation is counted, and what is not finite is a rejected point and no error.

use crate::error::{Error, Result};
use crate::problem::{LogDensity, Rejection};
use crate::snapshot::{State, Stateful};

/// A density with its counts.
pub struct Target<'a> {
    density: Box<dyn LogDensity + 'a>,
    /// Evaluations with a gradient, and those without.
    pub evaluations: u64,
    /// How many of them were not finite.
    pub not_finite: u64,
    /// What was wrong at the last of those.
    pub reason: Option<String>,
}

/// Of the density itself, nothing: it is a function of w.
impl Stateful for Target<'_> {
    fn state(&mut self, state: &mut State<'_>) -> Result<()> {
        state.count("evaluations", &mut self.evaluations)?;
        state.count("not_finite", &mut self.not_finite)
    }
}

impl<'a> Target<'a> {
    /// Of a density.
    pub fn new(density: Box<dyn LogDensity + 'a>) -> Self {
        Target { density, evaluations: 0, not_finite: 0, reason: None }
    }

    /// P.
    pub fn dim(&self) -> usize {
        self.density.dim()
    }

    /// From now on log p(w) + β log p(D | w); false where the density does not know them apart.
    pub fn temper(&mut self, beta: f64) -> bool {
        self.density.temper(beta)
    }

    fn judge<T>(&mut self, value: std::result::Result<T, Rejection>, finite: fn(&T) -> bool) -> Result<Option<T>> {
        self.evaluations += 1;
        match value {
            Ok(value) if finite(&value) => Ok(Some(value)),
            Ok(_) => {
                self.not_finite += 1;
                self.reason = Some("the log density is not finite".to_owned());
                Ok(None)
            }
            Err(Rejection::Recoverable(reason)) => {
                self.not_finite += 1;
                self.reason = Some(reason);
                Ok(None)
            }
            Err(Rejection::Fatal(reason)) => {
                Err(Error::numerical(format!("the density cannot be evaluated: {reason}"), "mend the density"))
            }
        }
    }

    /// log p(w); nothing where it is not finite.
    pub fn value(&mut self, w: &[f64]) -> Result<Option<f64>> {
        let value = self.density.value(w);
        self.judge(value, |v| v.is_finite())
    }

    /// log p(w) and its gradient; nothing where they are not finite.
    pub fn value_and_gradient(&mut self, w: &[f64], gradient: &mut [f64]) -> Result<Option<f64>> {
        let value = self.density.value_and_gradient(w, gradient);
        self.judge(value, |v| v.is_finite())
    }

    /// A gradient to move along, and the value if it came with it; nothing where they are not finite.
    pub fn force(&mut self, w: &[f64], gradient: &mut [f64]) -> Result<Option<Option<f64>>> {
        let value = self.density.force(w, gradient);
        self.judge(value, |v| v.is_none_or(f64::is_finite))
    }
}
