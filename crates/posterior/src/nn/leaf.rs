//! The parameters of one dense or convolutional layer as curvature sees them: a matrix W̃ of (inputs + 1) × units, the bias its
//! last row.
//!
//! z = x̃ W̃ with x̃ = (x, 1), at each of `area` positions of a convolution (x is then a patch); so df/dW̃ = Σ_positions x̃ (df/dz)ᵀ.
//! A pass gives both factors: [`super::LayerOps::leaf_inputs`] after forward, [`super::LayerOps::leaf_deltas`] after
//! [`super::LayerOps::pull_back`].

/// One layer's parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaf {
    /// Where they begin in w.
    pub start: usize,
    /// Numbers that add up in one output, without the bias.
    pub inputs: usize,
    /// Outputs, each with a bias.
    pub units: usize,
    /// Positions that share the weights; 1 for a dense layer.
    pub area: usize,
    /// Whether w holds the weights unit after unit (a convolution) rather than input after input.
    pub transposed: bool,
    /// Number of the layer within the network, from 0.
    pub layer: usize,
}

impl Leaf {
    /// How many parameters.
    pub fn len(&self) -> usize {
        (self.inputs + 1) * self.units
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where W̃[input, unit] stands in w; the bias is input number `inputs`.
    pub fn index(&self, input: usize, unit: usize) -> usize {
        let at = match self.transposed && input < self.inputs {
            true => unit * self.inputs + input,
            false => input * self.units + unit,
        };
        self.start + at
    }
}
