//! From "works in both precisions" to "works in this one": what generic code calls on layers, networks and likelihoods.
//!
//! A [`Node`] is `NodeOps<f32> + NodeOps<f64>`; code generic over `R` reaches the one it needs through here, at the
//! price of a pointer.

use crate::likelihood::{Likelihood, LikelihoodOps};
use crate::nn::{Affine, AffineOps, AnyNetwork, Network, Node, NodeOps};
use crate::prior::{BlockPrior, BlockPriorOps};
use crate::rng::Normals;

/// `f32` or `f64` and no other type, since [`Real`](crate::Real) is sealed, with the seams seen in that precision.
pub trait Precision: Normals {
    /// A node without weights.
    fn node(node: &dyn Node) -> &dyn NodeOps<Self>;
    /// An affine map.
    fn affine(map: &dyn Affine) -> &dyn AffineOps<Self>;
    /// A network.
    fn network(network: &dyn AnyNetwork) -> &dyn Network<Self>;
    /// A likelihood.
    fn likelihood(likelihood: &dyn Likelihood) -> &dyn LikelihoodOps<Self>;
    /// The prior of a block.
    fn prior(prior: &dyn BlockPrior) -> &dyn BlockPriorOps<Self>;
}

macro_rules! precision {
    ($t:ty) => {
        impl Precision for $t {
            fn node(node: &dyn Node) -> &dyn NodeOps<$t> {
                node
            }
            fn affine(map: &dyn Affine) -> &dyn AffineOps<$t> {
                map
            }
            fn network(network: &dyn AnyNetwork) -> &dyn Network<$t> {
                network
            }
            fn likelihood(likelihood: &dyn Likelihood) -> &dyn LikelihoodOps<$t> {
                likelihood
            }
            fn prior(prior: &dyn BlockPrior) -> &dyn BlockPriorOps<$t> {
                prior
            }
        }
    };
}
precision!(f32);
precision!(f64);
