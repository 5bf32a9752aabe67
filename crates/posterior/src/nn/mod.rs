//! f_w(x): networks made of layers over one flat parameter vector.

pub(crate) mod activation;
mod chain;
mod conv;
mod conv_leaf;
mod conv_pass;
mod dense;
mod dropout;
mod features;
mod im2col;
mod layer;
mod layout;
mod leaf;
mod linearise;
pub(crate) mod mask;
mod moments;
mod moments_kernels;
mod network;
pub(crate) mod noisy;
mod pool;
mod residual;
mod spec;

pub use activation::{ACTIVATIONS, Activation, ActivationLayer};
pub use conv::Conv;
pub use dense::Dense;
pub use dropout::Dropout;
pub use features::Features;
pub use layer::{Layer, LayerOps, LayerSpace, Mode, Pass, Shape};
pub use layout::{Block, BlockSpec, Layout, Role};
pub use leaf::Leaf;
pub use linearise::JacobianFactors;
pub use moments::{Gaussians, MomentsNetwork, MomentsSpace, Outputs, second_moments};
pub use network::{AnyNetwork, Network, Sequential, Workspace, initialise};
pub use noisy::{Gradient, Noisy, RowNoise, Weights};
pub use pool::{AvgPool, MaxPool};
pub use residual::Residual;
pub use spec::{LayerSpec, NETWORKS, NetworkSpec};
