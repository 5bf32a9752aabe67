//! Where in the flat parameter vector w each block of parameters stands, and what it is.

use serde::{Deserialize, Serialize};
use std::ops::Range;

/// What a block of parameters does; priors and reports tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Role {
    /// Multiplies inputs.
    Weight,
    /// Is added.
    Bias,
    /// A scale of the likelihood, in unconstrained form (a logarithm).
    Noise,
}

/// A block as a layer or likelihood asks for it.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockSpec {
    /// `weight`, `bias`, `log_noise` …
    pub name: &'static str,
    /// Row-major shape.
    pub shape: Vec<usize>,
    /// What it does.
    pub role: Role,
    /// How many inputs add up in one output.
    pub fan_in: usize,
    /// Name of the layer within the network, outermost last, e.g. `["0", "residual"]`; filled in by containers.
    pub path: Vec<String>,
    /// Initial values have variance `gain / fan_in`; larger before an activation that discards half of its input.
    pub gain: f64,
}

impl BlockSpec {
    /// A block of the layer that asks for it.
    pub fn new(name: &'static str, shape: Vec<usize>, role: Role, fan_in: usize) -> Self {
        BlockSpec { name, shape, role, fan_in, path: Vec::new(), gain: 1.0 }
    }

    /// With another gain.
    pub fn gain(mut self, gain: f64) -> Self {
        self.gain = gain;
        self
    }

    /// How many parameters.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A block placed in w.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// Unique name, e.g. `0.weight`, `log_noise`.
    pub name: String,
    /// Where in w.
    pub range: Range<usize>,
    /// Row-major shape.
    pub shape: Vec<usize>,
    /// What it does.
    pub role: Role,
    /// How many inputs add up in one output.
    pub fan_in: usize,
    /// Number of the layer it belongs to; the likelihood's blocks come after the last layer.
    pub layer: usize,
    /// Variance of initial values times fan-in.
    pub gain: f64,
}

/// Named blocks of the flat parameter vector, in order and without gaps.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Layout {
    blocks: Vec<Block>,
}

impl Layout {
    /// Appends a block of layer number `layer`.
    pub fn push(&mut self, layer: usize, spec: &BlockSpec) {
        let start = self.len();
        let mut name: Vec<&str> = spec.path.iter().rev().map(String::as_str).collect();
        name.push(spec.name);
        self.blocks.push(Block {
            name: name.join("."),
            range: start..start + spec.len(),
            shape: spec.shape.clone(),
            role: spec.role,
            fan_in: spec.fan_in,
            layer,
            gain: spec.gain,
        });
    }

    /// All blocks.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// How many parameters in all.
    pub fn len(&self) -> usize {
        self.blocks.last().map_or(0, |b| b.range.end)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
