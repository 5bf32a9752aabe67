//! Activation functions with their slopes: relu, tanh, gelu, sigmoid, silu; fused into dense and convolutional layers,
//! or a layer of their own.

use super::node::{Node, NodeOps, NodeSpace, Pass, Shape};
use crate::error::{Error, Result, suggest};
use crate::math::{MatRef, Real};
use crate::simd_fn;
use serde::{Deserialize, Serialize};

/// An activation function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Activation {
    /// z
    Identity,
    /// max(z, 0)
    Relu,
    /// tanh z
    Tanh,
    /// ½z(1 + tanh(√(2/π)(z + 0.044715z³))), the usual approximation of z·Φ(z)
    Gelu,
    /// 1/(1 + e⁻ᶻ)
    Sigmoid,
    /// z/(1 + e⁻ᶻ)
    Silu,
}

/// The activations a user can name.
pub const ACTIVATIONS: &[(&str, Activation)] = &[
    ("relu", Activation::Relu),
    ("tanh", Activation::Tanh),
    ("gelu", Activation::Gelu),
    ("sigmoid", Activation::Sigmoid),
    ("silu", Activation::Silu),
    ("identity", Activation::Identity),
];

impl Activation {
    /// By name.
    pub fn find(name: &str) -> Result<Activation> {
        ACTIVATIONS.iter().find(|(n, _)| *n == name).map(|(_, a)| *a).ok_or_else(|| {
            let names: Vec<_> = ACTIVATIONS.iter().map(|(n, _)| *n).collect();
            Error::setting(format!("there is no activation '{name}'"), suggest(name, names))
        })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        ACTIVATIONS.iter().find(|(_, a)| *a == self).map_or("identity", |(n, _)| n)
    }

    /// a = φ(z)
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

    /// φ′(z), given z and a = φ(z). Where [`Activation::slope_needs_input`] is false, z is not looked at.
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
                let inner = R::of(GELU_A) * (R::ONE + R::of(3.0 * GELU_B) * z * z);
                R::HALF * (R::ONE + t) + R::HALF * z * (R::ONE - t * t) * inner
            }
            Activation::Sigmoid => a * (R::ONE - a),
            Activation::Silu => {
                let s = z.sigmoid::<F>();
                s * (R::ONE + z * (R::ONE - s))
            }
        }
    }

    /// Whether φ never falls: then it can be taken after a maximum instead of before.
    pub fn monotone(self) -> bool {
        !self.slope_needs_input()
    }

    /// Whether the slope needs the pre-activation, so that it must be kept.
    pub fn slope_needs_input(self) -> bool {
        matches!(self, Activation::Gelu | Activation::Silu)
    }

    /// How much larger than 1/fan-in the variance of initial weights should be before this activation.
    pub fn gain(self) -> f64 {
        match self {
            Activation::Relu | Activation::Gelu | Activation::Silu => 2.0,
            _ => 1.0,
        }
    }
}

const GELU_A: f64 = 0.797_884_560_802_865_4; // √(2/π)
const GELU_B: f64 = 0.044_715;

#[inline(always)]
fn gelu_inner<R: Real, const F: bool>(z: R) -> R {
    R::of(GELU_A) * (R::of(GELU_B) * z * z).mul_add::<F>(z, z)
}

/// Runs `$body` with the constant `$A` equal to `$activation`, so that the choice is made outside of the loops in it.
macro_rules! with_activation {
    ($activation:expr, $A:ident => $body:expr) => {
        with_activation!(@arms $activation, $A, $body, Identity Relu Tanh Gelu Sigmoid Silu)
    };
    (@arms $activation:expr, $A:ident, $body:expr, $($name:ident)*) => {
        match $activation {
            $(Activation::$name => {
                const $A: Activation = Activation::$name;
                $body
            })*
        }
    };
}
pub(crate) use with_activation;

/// An activation as a layer of its own, where it cannot be fused into the layer before it.
#[derive(Debug, Clone)]
pub struct ActivationLayer {
    shape: Shape,
    activation: Activation,
}

impl ActivationLayer {
    /// Over activations of the given shape.
    pub fn new(shape: Shape, activation: Activation) -> Self {
        ActivationLayer { shape, activation }
    }
}

simd_fn! {
    fn apply<R>(activation: Activation, z: &[R], a: &mut [R]) {
        let z = &z[..a.len()];
        with_activation!(activation, A => for i in 0..a.len() {
            a[i] = A.value::<R, F>(z[i]);
        });
    }
}

simd_fn! {
    fn apply_slope<R>(activation: Activation, z: &[R], a: &[R], d: &[R], dz: &mut [R]) {
        let n = dz.len();
        let (z, a, d) = (&z[..n], &a[..n], &d[..n]);
        with_activation!(activation, A => for i in 0..n {
            dz[i] = d[i] * A.slope::<R, F>(z[i], a[i]);
        });
    }
}

impl<R: Real> NodeOps<R> for ActivationLayer {
    fn space(&self, rows: usize) -> NodeSpace<R> {
        NodeSpace::with_output(rows * self.shape.len())
    }

    fn forward(&self, x: &[MatRef<'_, R>], _pass: &Pass, space: &mut NodeSpace<R>) {
        let x = x[0];
        apply(self.activation, x.data, &mut space.out[..x.data.len()]);
    }

    fn vjp(&self, _input: usize, x: &[MatRef<'_, R>], _pass: &Pass, space: &mut NodeSpace<R>, dx: &mut [R]) {
        let x = x[0];
        apply_slope(self.activation, x.data, &space.out, &space.delta, &mut dx[..x.data.len()]);
    }
}

impl Node for ActivationLayer {
    fn describe(&self) -> String {
        self.activation.name().to_owned()
    }
    fn inputs(&self) -> Vec<Shape> {
        vec![self.shape]
    }
    fn output(&self) -> Shape {
        self.shape
    }
    fn is_random(&self) -> bool {
        false
    }
}
