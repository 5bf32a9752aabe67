//! Infinitely wide networks: the covariance of their outputs under the prior (NNGP) and the kernel of their training by gradient steps (NTK).
//!
//! Weights N(0, σ_w²/fan-in), biases N(0, σ_b²): K⁰ = σ_b² + σ_w² x·x′/D, K^{l+1} = σ_b² + σ_w² E[φ(u)φ(v)] with (u, v) ~ N(0, K^l); Θ⁰ = K⁰, Θ^{l+1} = K^{l+1} + Θ^l σ_w² E[φ′(u)φ′(v)].
//! relu: E[φφ] = √(kk′)/2π · (sin θ + (π − θ) cos θ), E[φ′φ′] = (π − θ)/2π, cos θ = K/√(kk′); erf: (2/π) asin(2K/√((1 + 2k)(1 + 2k′))), (4/π)/√((1 + 2k)(1 + 2k′) − 4K²).
//! The variances go the same way as K, so that two equal rows have θ = 0 to the bit: an arc cosine near 1 would lose half the digits.
//! Reference: Neal (1996); Cho & Saul (2009); Williams (1997); Lee et al. (2018); Jacot et al. (2018). Cost: depth × some dozens of operations for a pair of rows.

use std::f64::consts::{FRAC_2_PI, PI, TAU};
use std::ops::{Add, Mul};

/// Activation of a wide network, of those with a closed form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WideActivation {
    /// max(z, 0).
    Relu,
    /// erf z, near tanh(2z/√π).
    Erf,
    /// z.
    Identity,
}

/// The activations, by name.
pub(super) const WIDE_ACTIVATIONS: [(&str, WideActivation); 3] =
    [("relu", WideActivation::Relu), ("erf", WideActivation::Erf), ("identity", WideActivation::Identity)];

impl WideActivation {
    /// Its name.
    pub fn name(self) -> &'static str {
        WIDE_ACTIVATIONS.iter().find(|(_, a)| *a == self).map_or("relu", |(n, _)| n)
    }
}

/// A number with its derivatives by N others.
#[derive(Debug, Clone, Copy)]
pub(super) struct Jet<const N: usize> {
    pub v: f64,
    pub d: [f64; N],
}

impl<const N: usize> Jet<N> {
    /// A constant.
    pub(super) fn of(v: f64) -> Self {
        Jet { v, d: [0.0; N] }
    }

    /// Number i of those that derivatives are taken by, times its own value: derivatives are by logarithms.
    pub(super) fn parameter(v: f64, i: usize) -> Self {
        let mut jet = Jet::of(v);
        if i < N {
            jet.d[i] = v;
        }
        jet
    }

    /// g of it, with g′.
    fn map(self, v: f64, slope: f64) -> Self {
        Jet { v, d: self.d.map(|d| if d == 0.0 { 0.0 } else { slope * d }) }
    }

    fn times(self, factor: f64) -> Self {
        Jet { v: self.v * factor, d: self.d.map(|d| d * factor) }
    }

    fn sqrt(self) -> Self {
        let root = self.v.sqrt();
        self.map(root, 0.5 / root)
    }

    fn recip(self) -> Self {
        let one = 1.0 / self.v;
        self.map(one, -one * one)
    }
}

impl<const N: usize> Add for Jet<N> {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Jet { v: self.v + other.v, d: std::array::from_fn(|i| self.d[i] + other.d[i]) }
    }
}

impl<const N: usize> Mul for Jet<N> {
    type Output = Self;
    #[allow(clippy::suspicious_arithmetic_impl)] // the product rule
    fn mul(self, other: Self) -> Self {
        let d = std::array::from_fn(|i| self.d[i] * other.v + self.v * other.d[i]);
        Jet { v: self.v * other.v, d }
    }
}

/// The smallest variance: below, a row and no bias give nothing to divide by.
const SMALLEST: f64 = 1e-300;

/// (E[φφ], E[φ′φ′]) of two normals with variances a and b and covariance c.
fn layer<const N: usize>(activation: WideActivation, a: Jet<N>, b: Jet<N>, c: Jet<N>) -> (Jet<N>, Jet<N>) {
    match activation {
        WideActivation::Identity => (c, Jet::of(1.0)),
        WideActivation::Relu => {
            // The root of a product of two equal numbers is that number to the bit.
            let scale = (a * b).sqrt();
            if scale.v.is_nan() || scale.v <= SMALLEST {
                return (Jet::of(0.0), Jet::of(0.25));
            }
            let cos = c * scale.recip();
            let rho = if c.v == scale.v { 1.0 } else { cos.v.clamp(-1.0, 1.0) };
            let (sin, theta) = (((1.0 - rho) * (1.0 + rho)).sqrt(), rho.acos());
            let arc = cos.map(sin + (PI - theta) * rho, PI - theta);
            // Of two rows that are the same, θ stays 0 whatever the parameters.
            let slope = if sin > 1e-7 { 1.0 / sin } else { 0.0 };
            let open = cos.map((PI - theta) / TAU, slope / TAU);
            ((scale * arc).times(1.0 / TAU), open)
        }
        WideActivation::Erf => {
            let one = Jet::of(1.0);
            let both = (one + a.times(2.0)) * (one + b.times(2.0));
            let part = c.times(2.0) * both.sqrt().recip();
            let t = part.v.clamp(-1.0, 1.0);
            let rest = both + (c * c).times(-4.0);
            let value = part.map(FRAC_2_PI * t.asin(), FRAC_2_PI / ((1.0 - t) * (1.0 + t)).sqrt());
            (value, rest.sqrt().recip().times(2.0 * FRAC_2_PI))
        }
    }
}

/// A wide network: `weight` and `bias` are σ_w² and σ_b².
#[derive(Debug, Clone, Copy)]
pub(super) struct WideNetwork {
    pub activation: WideActivation,
    /// Hidden layers.
    pub depth: usize,
    pub weight: f64,
    pub bias: f64,
    /// The NTK, and not the NNGP.
    pub tangent: bool,
}

impl WideNetwork {
    /// The kernel of two rows from x·x/D, x′·x′/D and x·x′/D; with N = 2, derivatives by ln σ_w² and ln σ_b².
    pub(super) fn of<const N: usize>(&self, own: f64, other: f64, both: f64) -> Jet<N> {
        let (w, b) = (Jet::<N>::parameter(self.weight, 0), Jet::<N>::parameter(self.bias, 1));
        let first = |q: f64| b + w.times(q);
        let (mut k, mut l, mut c) = (first(own), first(other), first(both));
        let mut tangent = c;
        for _ in 0..self.depth {
            let (value, slopes) = layer(self.activation, k, l, c);
            k = b + w * layer(self.activation, k, k, k).0;
            l = b + w * layer(self.activation, l, l, l).0;
            c = b + w * value;
            tangent = c + tangent * w * slopes;
        }
        if self.tangent { tangent } else { c }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Derivatives against differences, and equal rows to the bit.
    #[test]
    fn derivatives_are_differences() {
        for (_, activation) in WIDE_ACTIVATIONS {
            for tangent in [false, true] {
                let net = WideNetwork { activation, depth: 3, weight: 1.6, bias: 0.2, tangent };
                for (q, r, s) in [(0.7, 1.3, 0.4), (0.7, 1.3, -0.6), (1.1, 1.1, 1.1)] {
                    let jet = net.of::<2>(q, r, s);
                    assert_eq!(jet.v, net.of::<0>(q, r, s).v);
                    let h = 1e-5_f64;
                    let at = |w: f64, b: f64| {
                        WideNetwork { weight: 1.6 * w.exp(), bias: 0.2 * b.exp(), ..net }.of::<0>(q, r, s).v
                    };
                    let by = [(at(h, 0.0) - at(-h, 0.0)) / (2.0 * h), (at(0.0, h) - at(0.0, -h)) / (2.0 * h)];
                    for i in 0..2 {
                        // h² of third derivatives of some dozen times the value, ε/h.
                        let scale = by[i].abs().max(1.0);
                        assert!(
                            (jet.d[i] - by[i]).abs() < 1e-8 * scale,
                            "{activation:?} {tangent} {i}: {} {}",
                            jet.d[i],
                            by[i]
                        );
                    }
                }
                let (a, b) = (net.of::<0>(0.3, 0.3, 0.3).v, net.of::<0>(0.3, 0.3, 0.3 - 1e-15).v);
                assert!(a >= b);
            }
        }
    }

    /// A row of zeros without biases is 0, and not a division by 0.
    #[test]
    fn nothing_is_nothing() {
        let net = WideNetwork { activation: WideActivation::Relu, depth: 2, weight: 2.0, bias: 0.0, tangent: true };
        assert_eq!(net.of::<2>(0.0, 1.0, 0.0).v, 0.0);
        assert_eq!(net.of::<0>(0.0, 0.0, 0.0).v, 0.0);
    }
}
