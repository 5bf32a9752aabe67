//! Anything fitted: it predicts, it is a distribution over functions that can be drawn, it knows its evidence, it can be saved.
//!
//! A fit gives a distribution over functions f; a prediction is that distribution at some inputs, seen through the likelihood. [`Fitted`] is all that scores,
//! tables, attacks, model files and services ask of a model. A network with a posterior over its weights ([`NetworkFit`]) is one implementor; nothing here
//! knows of weights.

mod blocks;
mod entry;
mod leave_one_out;
mod mixing;
mod network;

pub use blocks::{BLOCK, predict_blocks};
pub use entry::{Estimator, ModelEntry, ModelFit, Restoring};
pub use leave_one_out::LeaveOneOut;
pub use mixing::Mixing;
pub(crate) use mixing::{evenly, parameter, trace};
pub use network::NetworkFit;

use crate::data::Values;
use crate::error::Result;
use crate::likelihood::Likelihood;
use crate::nn::Shape;
use crate::predict::{Link, Predictive, TargetScale};
use crate::prior::Prior;
use crate::rng::Key;
use std::fmt::Debug;
use std::sync::Arc;

/// How a predictive distribution is made.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct How {
    /// Draws, where it takes draws; a closed form ignores it.
    pub draws: usize,
    /// Names the draws.
    pub key: Key,
    /// Which route from the posterior to the outputs.
    pub route: Route,
    /// From standardised targets back to the user's units.
    pub scale: TargetScale,
}

/// Routes from a posterior to outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Route {
    /// The model's own: a closed form where it has one, else draws.
    #[default]
    Own,
    /// Draws of the posterior, even where there is a closed form.
    Draws,
    /// Moments propagated layer by layer: a dense network under independent Gaussians.
    Moments,
    /// The network linearised at the mean of a Gaussian.
    Linearised(Link),
}

impl How {
    /// By the model's own route, with so many draws if it takes draws.
    pub fn new(draws: usize, key: Key) -> How {
        How { draws: draws.max(1), key, route: Route::Own, scale: TargetScale::default() }
    }

    /// By another route.
    pub fn by(mut self, route: Route) -> How {
        self.route = route;
        self
    }

    /// With targets in the user's units.
    pub fn scaled(mut self, scale: TargetScale) -> How {
        self.scale = scale;
        self
    }
}

/// A function of a posterior, with gradients in its inputs: the same draw has the same value at the same x, wherever it is asked for.
///
/// It is one of a set of draws that are to be averaged over, and can be moved through the set: buffers are used again.
pub trait Function: Send {
    /// How many functions the set has.
    fn len(&self) -> usize;

    /// Whether the set is empty; it never is.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Becomes function s of the set.
    fn select(&mut self, s: usize);

    /// The likelihood's own parameters under this draw.
    fn noise(&self) -> &[f64];

    /// f(x): `x` of rows × inputs, `f` of rows × outputs.
    fn eval(&mut self, x: &[f64], f: &mut [f64]);

    /// vᵀ ∂f/∂x of every row at the x of the last [`Function::eval`]: `v` of rows × outputs, `dx` of rows × inputs.
    fn vjp(&mut self, x: &[f64], v: &[f64], dx: &mut [f64]);
}

/// What a model that has been fitted can do.
pub trait Fitted: Send + Sync + Debug {
    /// The name under which a model file finds it again.
    fn kind(&self) -> &str;

    /// Shape of one row's inputs.
    fn input(&self) -> Shape;

    /// p(y | f).
    fn likelihood(&self) -> &Arc<dyn Likelihood>;

    /// The predictive distribution at rows of inputs. An error where the route is none this model has.
    fn predict(&self, x: &Values, how: &How) -> Result<Predictive>;

    /// A set of functions drawn from the posterior, no more of them than differ; in single precision where `wide` is false and that is faster. None where
    /// the posterior is not one over functions that can be drawn.
    fn functions(&self, draws: usize, key: Key, wide: bool) -> Option<Box<dyn Function + '_>>;

    /// log p(D), or an estimate or lower bound of it; targets as the model sees them.
    fn log_evidence(&self) -> Option<f64>;

    /// The prior of what comes next, where this posterior can be one: independent Gaussians over a network's weights.
    fn to_prior(&self) -> Option<Prior>;

    /// What it consists of, in a few words for people.
    fn describe(&self) -> String;

    /// Numbers that were fitted or are kept of the data: its size.
    fn parameters(&self) -> usize;

    /// How it is kept in a model file.
    fn save(&self) -> Result<Saved>;

    /// Itself, where it is a network with a posterior over its weights: what weights can be inspected, compressed or diagnosed by.
    fn as_network(&self) -> Option<&NetworkFit>;

    /// Every row of the fit predicted from the others, where that has a closed form.
    fn leave_one_out(&self) -> Option<&LeaveOneOut> {
        None
    }
}

/// Numbers and bytes of a model file, by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Saved {
    /// Single precision.
    pub tensors: Vec<crate::posterior::Tensor>,
    /// Double precision.
    pub wide: Vec<WideTensor>,
    /// Bytes.
    pub packed: Vec<(String, Vec<u8>)>,
}

/// A tensor in double precision.
#[derive(Debug, Clone, PartialEq)]
pub struct WideTensor {
    /// Unique name.
    pub name: String,
    /// Row-major shape.
    pub shape: Vec<usize>,
    /// The numbers.
    pub data: Vec<f64>,
}
