//! Convolution, with bias, activation and max pool in the same pass.
//!
//! out[o] = pool(φ(Σ_{c,u,v} w[o,c,u,v] · x[c, i·s + u·d − p, j·s + v·d − p] + b[o])), where pool is optional. A monotone φ and the maximum
//! change places: φ(max(raw) + b) needs φ once per window.
//! Its arithmetic is in `conv_pass`.

use super::activation::Activation;
use super::affine::{Affine, AffineBlock, AffineKind};
use super::im2col::{Epilogue, Geometry};
use super::layout::{BlockSpec, Role};
use super::node::Shape;
use super::pool::{Windows, image_of};
use crate::error::{Error, Result};
use crate::memory::product;

/// Images in a group, unless they are large.
const GROUP: usize = 8;
/// Numbers of columns in a group, at most (one image may need more).
const COLUMNS: usize = 1 << 22;
/// Teams of a batch, at most.
const TEAMS: usize = 8;
/// Numbers of all teams' gradients together, at most (two teams may need more).
const GRADIENTS: usize = 1 << 23;

/// A convolution of images. `w` is the kernels `[out, in, kh, kw]`, then a bias for every output channel.
#[derive(Debug, Clone)]
pub struct Conv {
    pub(super) geometry: Geometry,
    pub(super) channels: usize,
    pub(super) epilogue: Epilogue,
    /// Images that are made into columns together.
    pub(super) group: usize,
    /// Teams of a batch, at most.
    pub(super) teams: usize,
}

impl Conv {
    /// A convolution with `channels` kernels of `kernel` (height, width), `stride` apart, on images with `padding` zeros around;
    /// then the activation; then, if asked for, the maximum over `pool × pool` windows side by side (what does not fill a
    /// window is dropped). With a pool the activation must be monotone.
    pub fn new(
        input: Shape,
        channels: usize,
        kernel: (usize, usize),
        stride: usize,
        padding: usize,
        activation: Activation,
        pool: Option<usize>,
    ) -> Result<Conv> {
        Conv::dilated(input, channels, kernel, stride, padding, 1, activation, pool)
    }

    /// The same with kernels whose taps are `dilation` pixels apart.
    pub fn dilated(
        input: Shape,
        channels: usize,
        kernel: (usize, usize),
        stride: usize,
        padding: usize,
        dilation: usize,
        activation: Activation,
        pool: Option<usize>,
    ) -> Result<Conv> {
        let (in_channels, height, width) = image_of(input, "a convolution")?;
        let (kh, kw) = kernel;
        if channels == 0 || kh == 0 || kw == 0 || stride == 0 || dilation == 0 {
            return Err(Error::setting(
                format!("a convolution of {channels} channels with a {kh} × {kw} kernel and stride {stride} is empty"),
                "give channels, kernel, stride and dilation as 1 or more",
            ));
        }
        let too_large = || {
            Error::setting(
                format!("a convolution of {channels} channels, kernel {kh} × {kw}, padding {padding} is too large"),
                "choose smaller numbers",
            )
        };
        let padded = |n: usize| padding.checked_mul(2).and_then(|p| p.checked_add(n)).ok_or_else(too_large);
        let (tall, wide) = (padded(height)?, padded(width)?);
        let reach = |k: usize| (k - 1).checked_mul(dilation).and_then(|n| n.checked_add(1)).ok_or_else(too_large);
        let (reach_h, reach_w) = (reach(kh)?, reach(kw)?);
        if reach_h > tall || reach_w > wide {
            return Err(Error::setting(
                format!(
                    "a {reach_h} × {reach_w} kernel is larger than the {height} × {width} image with padding {padding}"
                ),
                "choose a smaller kernel or more padding",
            ));
        }
        let (out_height, out_width) = ((tall - reach_h) / stride + 1, (wide - reach_w) / stride + 1);
        let product = |sizes: &[usize]| {
            sizes.iter().try_fold(1usize, |a, b| a.checked_mul(*b)).filter(|n| *n < 1 << 48).ok_or_else(too_large)
        };
        let patch = product(&[in_channels, kh, kw])?;
        let columns = product(&[patch, out_height, out_width])?;
        product(&[channels, out_height, out_width])?;
        let parameters = product(&[channels, patch + 1])?;
        let pool = match pool {
            Some(_) if !activation.monotone() => {
                return Err(Error::setting(
                    format!("the activation {activation:?} rises and falls, so it cannot be fused with a max pool"),
                    "put the pool in a layer of its own",
                ));
            }
            Some(k) => Some(Windows::largest((out_height, out_width), k, k)?),
            None => None,
        };
        Ok(Conv {
            geometry: Geometry {
                channels: in_channels,
                height,
                width,
                kernel,
                stride,
                padding,
                dilation,
                out_height,
                out_width,
            },
            channels,
            epilogue: Epilogue { area: out_height * out_width, activation, pool },
            group: (COLUMNS / columns).clamp(1, GROUP),
            teams: (GRADIENTS / parameters).clamp(2, TEAMS),
        })
    }

    /// Kernels without the bias.
    pub(super) fn weights(&self) -> usize {
        self.channels * self.geometry.patch()
    }
}

impl Affine for Conv {
    fn describe(&self) -> String {
        let g = &self.geometry;
        let mut text = format!("conv {}@{}×{}", self.channels, g.kernel.0, g.kernel.1);
        if g.stride != 1 {
            text += &format!(" stride {}", g.stride);
        }
        if g.padding != 0 {
            text += &format!(" padding {}", g.padding);
        }
        if g.dilation != 1 {
            text += &format!(" dilation {}", g.dilation);
        }
        if self.epilogue.activation != Activation::Identity {
            text += &format!(" {}", self.epilogue.activation.name());
        }
        if let Some(pool) = &self.epilogue.pool {
            text += &format!(" max pool {}", pool.kernel);
        }
        text
    }

    fn input(&self) -> Shape {
        let g = &self.geometry;
        Shape::Image { channels: g.channels, height: g.height, width: g.width }
    }

    fn output(&self) -> Shape {
        let (height, width) = self.epilogue.pool.map_or((self.geometry.out_height, self.geometry.out_width), |p| p.to);
        Shape::Image { channels: self.channels, height, width }
    }

    fn parameters(&self) -> Vec<BlockSpec> {
        let g = &self.geometry;
        let shape = vec![self.channels, g.channels, g.kernel.0, g.kernel.1];
        vec![
            BlockSpec::new("weight", shape, Role::Weight, g.patch()).gain(self.epilogue.activation.gain()),
            BlockSpec::new("bias", vec![self.channels], Role::Bias, g.patch()),
        ]
    }

    fn space_numbers(&self, rows: usize) -> u128 {
        let (area, group) = (self.geometry.area(), self.group.min(rows));
        let lanes = rows.div_ceil(self.group).min(self.teams);
        let columns = product(&[self.geometry.patch() + self.channels, area, group, lanes]);
        let gradients = product(&[lanes, self.weights() + self.channels]);
        // Outputs, their gradients, inputs of the activation and positions of maxima.
        let outputs = product(&[4, rows, self.output().len()]);
        outputs.saturating_add(columns).saturating_add(gradients)
    }

    fn block(&self) -> AffineBlock {
        let g = &self.geometry;
        AffineBlock {
            kind: AffineKind::Convolution { taps: g.kernel.0 * g.kernel.1, pixels: g.height * g.width },
            start: 0,
            inputs: g.patch(),
            units: self.channels,
            positions: g.area(),
            bias: true,
            transposed: true,
            activation: self.epilogue.activation,
            layer: 0,
        }
    }
}
