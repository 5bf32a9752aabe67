//! f_w(x): networks made of layers over one flat parameter vector.

pub(crate) mod activation;
mod dense;
mod layer;
mod layout;
mod network;

pub use activation::{ACTIVATIONS, Activation, ActivationLayer};
pub use dense::Dense;
pub use layer::{Layer, LayerOps, LayerSpace, Mode, Pass, Shape};
pub use layout::{Block, BlockSpec, Layout, Role};
pub use network::{AnyNetwork, Network, Sequential, Workspace, initialise};
