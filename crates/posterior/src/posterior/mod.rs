//! What a fit returns: an approximation of p(w | D) that can be drawn from and saved.

mod block_gaussian;
mod draws;
mod dropout;
mod form;
mod full_covariance;
mod low_rank;
mod mean_field;
mod mixture;
mod point;
mod positions;
mod prior;
mod sparse;
mod weighted;

pub use block_gaussian::{BlockGaussian, ExactGaussian, GaussianBlock};
pub use draws::{Chain, Chains, DrawsPosterior};
pub use dropout::DropoutPosterior;
pub(crate) use dropout::{DropoutBlock, drop_units, dropout_blocks};
pub use form::Form;
pub use full_covariance::FullCovariancePosterior;
pub use low_rank::LowRankPosterior;
pub use mean_field::MeanFieldPosterior;
pub use mixture::MixturePosterior;
pub use point::PointPosterior;
pub use prior::PriorDraws;
pub use sparse::SparsePosterior;
pub use weighted::WeightedPosterior;

use crate::error::{Error, Result, suggest};
use crate::nn::Mode;
use crate::rng::Key;
use std::fmt::Debug;

/// One draw: parameters, and how the network's random parts behave under them. A draw is a function of x.
#[derive(Debug, Clone)]
pub struct Draw {
    /// All parameters, the likelihood's included.
    pub w: Vec<f32>,
    /// Fixes dropout masks, if there are any.
    pub mode: Mode,
}

/// A tensor of a model file.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Unique name.
    pub name: String,
    /// Row-major shape.
    pub shape: Vec<usize>,
    /// The numbers.
    pub data: Vec<f32>,
}

/// An approximation of p(w | D).
///
/// What is known of it beyond its draws follows from [`Posterior::form`]; see the methods of `dyn Posterior`.
pub trait Posterior: Send + Sync + Debug {
    /// The name in [`POSTERIORS`].
    fn kind(&self) -> &'static str;

    /// P.
    fn dim(&self) -> usize;

    /// What it is.
    fn form(&self) -> Form<'_>;

    /// The draw of a key, into buffers that are used again.
    fn draw_into(&self, key: Key, draw: &mut Draw);

    /// log q(w), where q has a density.
    fn log_density(&self, w: &[f32]) -> Option<f64>;

    /// An estimate of log p(D), or a lower bound of it, where the method gives one; targets as the network sees them
    /// (standardised where they are real).
    fn log_evidence(&self) -> Option<f64>;

    /// Numbers that are saved to disk.
    fn tensors(&self) -> Vec<Tensor>;

    /// Bytes that are saved beside the tensors, by name.
    fn packed(&self) -> Vec<(String, Vec<u8>)>;

    /// The draw of a key.
    fn draw(&self, key: Key) -> Draw {
        let mut draw = Draw { w: vec![0.0; self.dim()], mode: Mode::Plain };
        self.draw_into(key, &mut draw);
        draw
    }

    /// Draw `s` of `of` that are to be averaged over: the draw of `key`, unless the posterior can spread them better.
    fn draw_of_into(&self, _s: usize, _of: usize, key: Key, draw: &mut Draw) {
        self.draw_into(key, draw);
    }
}

/// Makes a posterior from the tensors of a model file with `dim` parameters, which were checked to be finite; packed bytes
/// come as numbers from 0 to 255.
pub type Restore =
    fn(dim: usize, log_evidence: Option<f64>, tensors: &dyn Fn(&str) -> Option<Vec<f32>>) -> Result<Box<dyn Posterior>>;

/// Every kind of posterior, and how it comes back from a model file.
pub const POSTERIORS: &[(&str, Restore)] = &[
    ("point", PointPosterior::restore),
    ("mean-field", MeanFieldPosterior::restore),
    ("dropout", DropoutPosterior::restore),
    ("mixture", MixturePosterior::restore),
    ("sparse", SparsePosterior::restore),
    ("low-rank", LowRankPosterior::restore),
    ("full-covariance", FullCovariancePosterior::restore),
    ("draws", DrawsPosterior::restore),
    ("weighted", WeightedPosterior::restore),
    ("block-gaussian", BlockGaussian::restore),
];

/// Makes a posterior of the named kind from the tensors of a model file.
pub fn restore(
    kind: &str,
    dim: usize,
    log_evidence: Option<f64>,
    tensors: &dyn Fn(&str) -> Option<Vec<f32>>,
) -> Result<Box<dyn Posterior>> {
    match POSTERIORS.iter().find(|(name, _)| *name == kind) {
        Some((_, restore)) => restore(dim, log_evidence, tensors),
        None => {
            let names: Vec<_> = POSTERIORS.iter().map(|(n, _)| *n).collect();
            Err(Error::setting(format!("there is no posterior of kind '{kind}'"), suggest(kind, names)))
        }
    }
}

/// What to do about tensors that cannot be.
const DAMAGED: &str = "the file is damaged: fit the model again";

/// The tensor `name` with `dim` numbers.
fn take(name: &str, dim: usize, tensors: &dyn Fn(&str) -> Option<Vec<f32>>) -> Result<Vec<f32>> {
    let data = tensors(name).ok_or_else(|| Error::setting(format!("the tensor '{name}' is missing"), DAMAGED))?;
    if data.len() != dim {
        return Err(Error::setting(format!("the tensor '{name}' has {} numbers, not {dim}", data.len()), DAMAGED));
    }
    Ok(data)
}
