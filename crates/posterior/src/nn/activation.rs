//! Element-wise non-linearities a = φ(z) and their slopes φ′.

use crate::math::Real;

/// A non-linearity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// z
    Identity,
    /// max(z, 0)
    Relu,
    /// tanh z
    Tanh,
    /// ½ z (1 + tanh(√(2/π)(z + 0.044715 z³)))
    Gelu,
    /// 1/(1 + e⁻ᶻ)
    Sigmoid,
    /// z/(1 + e⁻ᶻ)
    Silu,
}

impl Activation {
    /// φ(z)
    #[inline(always)]
    pub fn value<R: Real, const F: bool>(self, z: R) -> R {
        match self {
            Activation::Identity => z,
            Activation::Relu => z.max(R::ZERO),
            Activation::Tanh => z.tanh::<F>(),
            Activation::Gelu => R::HALF * z * (R::ONE + gelu_inner::<R, F>(z).tanh::<F>()),
            Activation::Sigmoid => z.sigmoid::<F>(),
            Activation::Silu => z * z.sigmoid::<F>(),
        }
    }

    /// φ′ from the pre-activation z and the output a = φ(z); where φ is monotone only a is looked at.
    #[inline(always)]
    pub fn slope<R: Real, const F: bool>(self, z: R, a: R) -> R {
        match self {
            Activation::Identity => R::ONE,
            Activation::Relu => {
                if a > R::ZERO {
                    R::ONE
                } else {
                    R::ZERO
                }
            }
            Activation::Tanh => R::ONE - a * a,
            Activation::Gelu => {
                let t = gelu_inner::<R, F>(z).tanh::<F>();
                let inner = R::of(0.797_884_560_802_865_4) * (R::ONE + R::of(3.0 * 0.044_715) * z * z);
                R::HALF * (R::ONE + t) + R::HALF * z * (R::ONE - t * t) * inner
            }
            Activation::Sigmoid => a * (R::ONE - a),
            Activation::Silu => {
                let s = z.sigmoid::<F>();
                s + a * (R::ONE - s)
            }
        }
    }

    /// Whether φ never falls.
    pub fn monotone(self) -> bool {
        !self.slope_needs_input()
    }

    /// Whether φ′ cannot be had from the output alone.
    pub fn slope_needs_input(self) -> bool {
        matches!(self, Activation::Gelu | Activation::Silu)
    }
}

#[inline(always)]
fn gelu_inner<R: Real, const F: bool>(z: R) -> R {
    R::of(0.797_884_560_802_865_4) * (z + R::of(0.044_715) * z * z * z)
}
