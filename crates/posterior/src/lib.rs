//! Neural networks that know what they do not know.
//!
//! Everything is p(w|D) ∝ p(D|w) p(w), an approximation of it that can be drawn from, and an average over the draws.
//!
//! | symbol | in the code | meaning |
//! |---|---|---|
//! | D = {(xₙ, yₙ)}, N | `Dataset`, `rows` | the data |
//! | w ∈ ℝᴾ | `w: &[R]` | all parameters, flat; named blocks in a `Layout` |
//! | f_w(x) | `Network` | the network's outputs |
//! | p(y \| f) | `Likelihood` | how outcomes scatter |
//! | p(w) | `Prior` | belief before data |
//! | log p(w, D) | `Problem`, `Density` | log joint: a **sum** over all rows; a mini-batch is scaled by N/\|B\| |
//! | q(w) | `Posterior` | an approximation of p(w \| D) that can be drawn from |
//!
//! ```
//! use posterior::prelude::*;
//! # use posterior::data::Column;
//!
//! # fn main() -> posterior::Result<()> {
//! # let x: Vec<f64> = (0..50).map(|i| i as f64 / 10.0).collect();
//! # let y = x.iter().map(|v| v.sin()).collect();
//! # let table = Table::from_columns(vec![("x".into(), Column::Number(x)), ("y".into(), Column::Number(y))])?;
//! // let table = Table::read("data.csv".as_ref(), &ReadOptions::default())?;
//! let options = EncodeOptions { target: "y".into(), ..EncodeOptions::default() };
//! let recipe = Recipe::new(NetworkSpec::parse("20", Activation::Tanh)?)
//!     .method(options::MeanField { epochs: 200, ..Default::default() });
//! let model = Model::fit(&recipe, &table, &options, 0, &mut Silent)?;
//!
//! let predictive = model.predict(&model.encoder.encode(&table, false)?.data.x, &model.how(50))?;
//! let real = predictive.real();
//! let (total, epistemic, aleatoric) = real.std(0);
//! assert!((total.powi(2) - epistemic.powi(2) - aleatoric.powi(2)).abs() < 1e-9);
//! let interval = predictive.quantiles(&[0.05, 0.95]);
//! assert!(interval[0] < real.mean[0] && real.mean[0] < interval[1]);
//! # Ok(())
//! # }
//! ```

pub mod apply;
pub mod artifact;
pub mod convergence;
pub mod data;
pub mod decide;
pub mod diagnose;
pub mod distribution;
pub mod error;
pub mod exact;
pub mod family;
pub mod fitted;
pub mod gp;
pub mod inference;
pub mod kernel;
pub mod likelihood;
#[doc(hidden)]
pub mod math;
pub mod memory;
pub mod model;
pub mod nn;
pub mod optim;
pub mod options;
pub mod posterior;
mod precision;
pub mod predict;
pub mod prelude;
pub mod prior;
pub mod problem;
pub mod registry;
pub mod remedy;
pub mod rng;
pub mod score;
pub mod settings;
pub mod snapshot;

pub use error::{Error, ErrorKind, Result};
pub use math::Real;
pub use precision::Precision;
