//! Any log-density with its gradient: what samplers see of a problem, and what a user can hand them instead.

use super::{Density, Problem, Rows};
use crate::nn::Mode;

/// Why a point has no usable value.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Rejection {
    /// Not finite here; a sampler rejects the move and goes on.
    Recoverable(String),
    /// No point in going on.
    Fatal(String),
}

/// log p(w) up to a constant, and its gradient.
pub trait LogDensity: Send {
    /// How many parameters.
    fn dim(&self) -> usize;

    /// The value; the gradient is written to `gradient`.
    fn value_and_gradient(&mut self, w: &[f64], gradient: &mut [f64]) -> Result<f64, Rejection>;

    /// The value alone, where it is cheaper than with the gradient.
    fn value(&mut self, w: &[f64]) -> Result<f64, Rejection> {
        let mut gradient = vec![0.0; w.len()];
        self.value_and_gradient(w, &mut gradient)
    }

    /// A gradient to move along, which may be rounded more coarsely than the value; the value, if it came with it unrounded.
    ///
    /// It has to be a function of w: Hamiltonian moves along any such field keep volume and can be reversed, and the accept step with
    /// [`LogDensity::value`] makes them exact.
    fn force(&mut self, w: &[f64], gradient: &mut [f64]) -> Result<Option<f64>, Rejection> {
        self.value_and_gradient(w, gradient).map(Some)
    }

    /// From now on log p(w) + β log p(D | w), where prior and data are known apart; false where they are not, and nothing changes.
    fn temper(&mut self, _beta: f64) -> bool {
        false
    }
}

impl<D: LogDensity + ?Sized> LogDensity for Box<D> {
    fn dim(&self) -> usize {
        (**self).dim()
    }
    fn value_and_gradient(&mut self, w: &[f64], gradient: &mut [f64]) -> Result<f64, Rejection> {
        (**self).value_and_gradient(w, gradient)
    }
    fn value(&mut self, w: &[f64]) -> Result<f64, Rejection> {
        (**self).value(w)
    }
    fn force(&mut self, w: &[f64], gradient: &mut [f64]) -> Result<Option<f64>, Rejection> {
        (**self).force(w, gradient)
    }
    fn temper(&mut self, beta: f64) -> bool {
        (**self).temper(beta)
    }
}

/// A closure as a density: it gets w, writes the gradient and returns the value. What is not finite is rejected.
///
/// ```
/// use posterior::problem::{FnDensity, LogDensity};
/// let mut normal = FnDensity::new(2, |w: &[f64], gradient: &mut [f64]| {
///     gradient.copy_from_slice(&[-w[0], -w[1]]);
///     -0.5 * (w[0] * w[0] + w[1] * w[1])
/// });
/// assert_eq!(normal.value(&[3.0, 4.0]), Ok(-12.5));
/// ```
#[derive(Debug, Clone)]
pub struct FnDensity<F> {
    density: F,
    scratch: Vec<f64>,
}

impl<F: FnMut(&[f64], &mut [f64]) -> f64 + Send> FnDensity<F> {
    /// Over `dim` parameters.
    pub fn new(dim: usize, density: F) -> Self {
        FnDensity { density, scratch: vec![0.0; dim] }
    }
}

fn finite(value: f64, gradient: &[f64]) -> Result<f64, Rejection> {
    if !value.is_finite() {
        Err(Rejection::Recoverable(format!("the log density is {value}")))
    } else if let Some(i) = gradient.iter().position(|g| !g.is_finite()) {
        Err(Rejection::Recoverable(format!("entry {i} of the gradient is {}", gradient[i])))
    } else {
        Ok(value)
    }
}

impl<F: FnMut(&[f64], &mut [f64]) -> f64 + Send> LogDensity for FnDensity<F> {
    fn dim(&self) -> usize {
        self.scratch.len()
    }
    fn value_and_gradient(&mut self, w: &[f64], gradient: &mut [f64]) -> Result<f64, Rejection> {
        finite((self.density)(w, gradient), gradient)
    }
    fn value(&mut self, w: &[f64]) -> Result<f64, Rejection> {
        finite((self.density)(w, &mut self.scratch), &[])
    }
}

impl LogDensity for Density<'_, f64> {
    fn dim(&self) -> usize {
        self.problem().dim()
    }
    fn value_and_gradient(&mut self, w: &[f64], gradient: &mut [f64]) -> Result<f64, Rejection> {
        finite(self.log_joint(w, Rows::All, Mode::Plain, Some(gradient)), gradient)
    }
    fn value(&mut self, w: &[f64]) -> Result<f64, Rejection> {
        finite(self.log_joint(w, Rows::All, Mode::Plain, None), &[])
    }
    fn temper(&mut self, beta: f64) -> bool {
        self.temper_unless_started(beta)
    }
}

/// The log joint with value and gradient in f32, summed in f64: half the time, at an error of about 1e-7 of the sum.
pub struct RoughDensity<'p> {
    density: Density<'p, f32>,
    w: Vec<f32>,
    gradient: Vec<f32>,
}

impl<'p> RoughDensity<'p> {
    /// Of a problem; `alone` keeps to the calling thread.
    pub fn new(problem: &'p Problem, alone: bool) -> Self {
        let zeros = vec![0.0; problem.dim()];
        RoughDensity { density: problem.density(usize::MAX).alone(alone), w: zeros.clone(), gradient: zeros }
    }
}

impl LogDensity for RoughDensity<'_> {
    fn dim(&self) -> usize {
        self.w.len()
    }
    fn value_and_gradient(&mut self, w: &[f64], gradient: &mut [f64]) -> Result<f64, Rejection> {
        for (to, from) in self.w.iter_mut().zip(w) {
            *to = *from as f32;
        }
        let value = self.density.log_joint(&self.w, Rows::All, Mode::Plain, Some(&mut self.gradient));
        for (to, from) in gradient.iter_mut().zip(&self.gradient) {
            *to = f64::from(*from);
        }
        finite(value, gradient)
    }
    fn temper(&mut self, beta: f64) -> bool {
        self.density.temper_unless_started(beta)
    }
}

/// The log joint in f64, with a force in f32: half the time per step of a kernel that accepts by the value.
pub struct MixedDensity<'p> {
    exact: Density<'p, f64>,
    rough: RoughDensity<'p>,
}

impl<'p> MixedDensity<'p> {
    /// Of a problem; `alone` keeps to the calling thread.
    pub fn new(problem: &'p Problem, alone: bool) -> Self {
        MixedDensity { exact: problem.density(usize::MAX).alone(alone), rough: RoughDensity::new(problem, alone) }
    }
}

impl LogDensity for MixedDensity<'_> {
    fn dim(&self) -> usize {
        self.exact.dim()
    }
    fn value_and_gradient(&mut self, w: &[f64], gradient: &mut [f64]) -> Result<f64, Rejection> {
        self.exact.value_and_gradient(w, gradient)
    }
    fn value(&mut self, w: &[f64]) -> Result<f64, Rejection> {
        self.exact.value(w)
    }
    fn force(&mut self, w: &[f64], gradient: &mut [f64]) -> Result<Option<f64>, Rejection> {
        self.rough.value_and_gradient(w, gradient).map(|_| None)
    }
    fn temper(&mut self, beta: f64) -> bool {
        self.exact.temper(beta) && self.rough.temper(beta)
    }
}
