//! Means and variances through dense layers whose weights are independent Gaussians: no weight is drawn.
//!
//! A layer with weights N(M, V) and biases N(b, c) and an input of mean μₓ and variance vₓ (0 at the first layer) has
//!   μ_z = μₓM + b,   v_z = μₓ²V + vₓ(V + M²) + c,
//! exactly if the input's numbers are independent; then comes the activation, for which z is taken as normal
//! (`moments_kernels`). The activations of a first hidden layer are independent, so that the moments of a network with one hidden
//! layer are exact up to the activation's; deeper ones share the inputs of the layer before, and are treated as if
//! they did not (Hernández-Lobato & Adams 2015; Wu et al. 2019, whose diagonal version this is).
//!
//! An embedding at the first layer gives the mean and the variance of the row of its table.
//!
//! Backward: dM = μₓᵀdμ + 2M ⊙ T, dV = (μₓ²)ᵀdv + T with T = vₓᵀdv; dμₓ = dμ Mᵀ + 2μₓ ⊙ (dv Vᵀ), dvₓ = dv (V + M²)ᵀ.
//! Cost: three products for each one of a plain pass, two at the first layer.

use super::activation::Activation;
use super::affine::{AffineBlock, AffineKind};
use super::embedding::{gather, scatter};
pub use super::moments_kernels::second_moments;
use super::moments_kernels::{LANES, SLOPES, activate, add_product, add_rows, add_to_rows, through_slopes};
use super::network::AnyNetwork;
use super::noisy::{Gradient, add_through_squares, squares};
use crate::error::{Error, Result};
use crate::math::{Mat, MatRef, Real, Threads, gemm};
use rayon::prelude::*;
use std::ops::Range;

/// Activations that one task works through.
const PART: usize = 256 * LANES;

/// Independent Gaussian parameters.
#[derive(Debug, Clone, Copy)]
pub struct Gaussians<'a, R> {
    /// Means.
    pub mean: &'a [R],
    /// Variances.
    pub variance: &'a [R],
    /// Means squared plus variances, by [`second_moments`].
    pub second: &'a [R],
}

impl<'a, R> Gaussians<'a, R> {
    fn slice(&self, range: Range<usize>) -> Gaussians<'a, R> {
        Gaussians {
            mean: &self.mean[range.clone()],
            variance: &self.variance[range.clone()],
            second: &self.second[range],
        }
    }
}

/// The dense layers of a network, behind an embedding or not, for passes of moments.
#[derive(Debug, Clone)]
pub struct MomentsNetwork {
    layers: Vec<(AffineBlock, Range<usize>)>,
}

/// Buffers for passes over up to a fixed number of rows.
#[derive(Debug)]
pub struct MomentsSpace<R> {
    input_squares: Vec<R>,
    stages: Vec<Stage<R>>,
    /// T, of a layer's weights.
    product: Vec<R>,
    /// dv Vᵀ, of a layer's inputs.
    back: Vec<R>,
}

/// A layer's output: means, variances, means squared; slopes of the activation; gradients.
#[derive(Debug)]
struct Stage<R> {
    mean: Vec<R>,
    variance: Vec<R>,
    squares: Vec<R>,
    slopes: Vec<R>,
    d_mean: Vec<R>,
    d_variance: Vec<R>,
}

/// Mean and variance of the outputs, and where their gradients go.
#[derive(Debug)]
pub struct Outputs<'s, R> {
    /// μ_f.
    pub mean: &'s [R],
    /// v_f.
    pub variance: &'s [R],
    /// dL/dμ_f.
    pub d_mean: &'s mut [R],
    /// dL/dv_f.
    pub d_variance: &'s mut [R],
}

fn blocks(numbers: usize) -> usize {
    numbers.div_ceil(LANES) * SLOPES * LANES
}

impl MomentsNetwork {
    /// From a network of dense layers; of another one, an error that says what to do `instead`.
    pub fn new(network: &dyn AnyNetwork, instead: &str) -> Result<MomentsNetwork> {
        let lines = network.describe();
        let passes = |(i, b): &(usize, &AffineBlock)| match b.kind {
            AffineKind::Dense => true,
            AffineKind::Embedding => *i == 0,
            AffineKind::Convolution { .. } => false,
        };
        let map = network.affine_blocks().iter().enumerate().find(|b| !passes(b)).map(|(_, b)| b.layer);
        let joined = (!network.is_chain()).then_some(lines.len().saturating_sub(1));
        let other = network.first_without_weights().into_iter().chain(map).min().or(joined);
        if let Some(other) = other.map(|layer| &lines[layer]) {
            let what = format!("moments pass through dense layers only, and this network has '{other}'");
            return Err(Error::setting(what, instead));
        }
        let layers = network.affine_blocks().iter().map(|b| (*b, b.start..b.start + b.len()));
        Ok(MomentsNetwork { layers: layers.collect() })
    }

    /// Numbers per row that go in.
    pub fn inputs(&self) -> usize {
        let first = &self.layers[0].0;
        if first.kind == AffineKind::Embedding { first.positions } else { first.inputs }
    }

    /// Numbers per row that come out.
    pub fn outputs(&self) -> usize {
        width(&self.layers[self.layers.len() - 1].0)
    }

    /// How many parameters.
    pub fn size(&self) -> usize {
        self.layers[self.layers.len() - 1].1.end
    }

    /// Buffers for up to `rows` rows; `train` makes room for a backward pass.
    pub fn space<R: Real>(&self, rows: usize, train: bool) -> MomentsSpace<R> {
        let zeros = |n: usize| vec![R::ZERO; n];
        let kept = |n: usize| zeros(if train { n } else { 0 });
        let stage = |(layer, _): &(AffineBlock, Range<usize>)| {
            let n = rows * width(layer);
            let slopes = if layer.activation == Activation::Identity { 0 } else { blocks(n) };
            Stage {
                mean: zeros(n),
                variance: zeros(n),
                squares: zeros(n),
                slopes: kept(slopes),
                d_mean: kept(n),
                d_variance: kept(n),
            }
        };
        let later = || self.layers[1..].iter().map(|(layer, _)| layer);
        MomentsSpace {
            input_squares: zeros(rows * self.inputs()),
            stages: self.layers.iter().map(stage).collect(),
            product: kept(later().map(|l| l.inputs * l.units).max().unwrap_or(0)),
            back: kept(later().map(|l| rows * l.inputs).max().unwrap_or(0)),
        }
    }

    /// Mean and variance of f at rows x, kept in the space.
    pub fn forward<'s, R: Real>(
        &self,
        w: Gaussians<'_, R>,
        x: MatRef<'_, R>,
        threads: Threads,
        space: &'s mut MomentsSpace<R>,
    ) -> Outputs<'s, R> {
        let rows = x.rows;
        squares(x.data, &mut space.input_squares[..x.data.len()]);
        for (i, (layer, range)) in self.layers.iter().enumerate() {
            let (before, after) = space.stages.split_at_mut(i);
            let Stage { mean, variance, squares: squared, slopes, .. } = &mut after[0];
            let (fan_in, units) = (layer.inputs, layer.units);
            let (size, n, cut) = ((rows, units, fan_in), rows * width(layer), fan_in * units);
            let (mean, variance) = (&mut mean[..n], &mut variance[..n]);
            let w = w.slice(range.clone());
            if layer.kind == AffineKind::Embedding {
                gather(w.mean, x.data, units, mean);
                gather(w.variance, x.data, units, variance);
                squares(mean, &mut squared[..n]);
                continue;
            }
            let product = |c: &mut [R], accumulate, x, weight| {
                gemm(size, c, accumulate, Mat::rows_of(x, fan_in), Mat::rows_of(weight, units), threads);
            };
            match before.last() {
                None => {
                    product(mean, false, x.data, &w.mean[..cut]);
                    product(variance, false, &space.input_squares, &w.variance[..cut]);
                }
                Some(input) => {
                    product(mean, false, &input.mean, &w.mean[..cut]);
                    product(variance, false, &input.squares, &w.variance[..cut]);
                    product(variance, true, &input.variance, &w.second[..cut]);
                }
            }
            add_to_rows(&w.mean[cut..], mean);
            add_to_rows(&w.variance[cut..], variance);
            if layer.activation != Activation::Identity {
                let kept = slopes.len().min(blocks(n));
                activate_all(layer.activation, mean, variance, &mut slopes[..kept], threads);
            }
            squares(mean, &mut squared[..n]);
        }
        let n = rows * self.outputs();
        let Stage { mean, variance, d_mean, d_variance, .. } = &mut space.stages[self.layers.len() - 1];
        let kept = d_mean.len().min(n);
        Outputs {
            mean: &mean[..n],
            variance: &variance[..n],
            d_mean: &mut d_mean[..kept],
            d_variance: &mut d_variance[..kept],
        }
    }

    /// With the outputs' gradients in the space and the rest as `forward` left it: dL/d(mean) of the parameters into `centre` and
    /// dL/d(variance) into `spread` (added when `accumulate`, else overwritten).
    pub fn backward<R: Real>(
        &self,
        w: Gaussians<'_, R>,
        x: MatRef<'_, R>,
        threads: Threads,
        space: &mut MomentsSpace<R>,
        mut grad: Gradient<'_, R>,
        accumulate: bool,
    ) {
        let rows = x.rows;
        for (i, (layer, range)) in self.layers.iter().enumerate().rev() {
            let (before, after) = space.stages.split_at_mut(i);
            let stage = &mut after[0];
            let (fan_in, units) = (layer.inputs, layer.units);
            let (n, cut) = (rows * width(layer), fan_in * units);
            let (dm, dv) = (&mut stage.d_mean[..n], &mut stage.d_variance[..n]);
            if !stage.slopes.is_empty() {
                through_slopes(&stage.slopes, dm, dv);
            }
            let w = w.slice(range.clone());
            let Gradient { centre, spread } = grad.slice(range.clone());
            if layer.kind == AffineKind::Embedding {
                for (d, to) in [(&*dm, centre), (&*dv, spread)] {
                    if !accumulate {
                        to.fill(R::ZERO);
                    }
                    scatter(x.data, d, units, to);
                }
                continue;
            }
            let (d_mean, d_bias_mean) = centre.split_at_mut(cut);
            let (d_variance, d_bias_variance) = spread.split_at_mut(cut);
            for (d, bias) in [(&*dm, d_bias_mean), (&*dv, d_bias_variance)] {
                if !accumulate {
                    bias.fill(R::ZERO);
                }
                add_rows(d, bias);
            }
            let to_weights = |c: &mut [R], accumulate, input, d| {
                let (input, d) = (Mat::transposed(input, fan_in), Mat::rows_of(d, units));
                gemm((fan_in, units, rows), c, accumulate, input, d, threads);
            };
            let Some(input) = before.last_mut() else {
                to_weights(d_mean, accumulate, x.data, dm);
                to_weights(d_variance, accumulate, &space.input_squares, dv);
                continue;
            };
            to_weights(d_mean, accumulate, &input.mean, dm);
            to_weights(d_variance, accumulate, &input.squares, dv);
            let product = &mut space.product[..cut];
            to_weights(product, false, &input.variance, dv);
            add_product(w.mean, product, d_mean, d_variance);
            let to_inputs = |c: &mut [R], d, weight| {
                let (d, weight) = (Mat::rows_of(d, units), Mat::transposed(weight, units));
                gemm((rows, fan_in, units), c, false, d, weight, threads);
            };
            let m = rows * fan_in;
            let back = &mut space.back[..m];
            to_inputs(&mut input.d_mean[..m], dm, &w.mean[..cut]);
            to_inputs(back, dv, &w.variance[..cut]);
            add_through_squares(&input.mean, back, &mut input.d_mean[..m]);
            to_inputs(&mut input.d_variance[..m], dv, &w.second[..cut]);
        }
    }
}

/// Numbers of a row that come out of a layer.
fn width(layer: &AffineBlock) -> usize {
    layer.positions * layer.units
}

/// [`activate`], on all threads where a pass may use them.
fn activate_all<R: Real>(a: Activation, mean: &mut [R], variance: &mut [R], slopes: &mut [R], threads: Threads) {
    if threads == Threads::One || slopes.is_empty() {
        return activate(a, mean, variance, slopes);
    }
    let parts = mean.par_chunks_mut(PART).zip(variance.par_chunks_mut(PART));
    parts.zip(slopes.par_chunks_mut(SLOPES * PART)).for_each(|((mean, variance), slopes)| {
        activate(a, mean, variance, slopes);
    });
}
