//! f_w(x): networks made of layers over one flat parameter vector.

mod activation;
mod conv;
mod dropout;
mod flatten;
mod im2col;
mod layer;
mod layout;
mod pool;
mod residual;

pub use activation::Activation;
pub use conv::Conv;
pub use dropout::Dropout;
pub use flatten::Flatten;
pub use layer::{Layer, LayerOps, LayerSpace, Mode, Pass, Shape};
pub use layout::{Block, BlockSpec, Layout, Role};
pub use pool::{AvgPool, MaxPool};
pub use residual::Residual;
