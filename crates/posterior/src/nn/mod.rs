//! f_w(x): networks made of layers over one flat parameter vector.

mod layer;
mod layout;

pub use layer::{Layer, LayerOps, LayerSpace, Mode, Pass, Shape};
pub use layout::{Block, BlockSpec, Layout, Role};
