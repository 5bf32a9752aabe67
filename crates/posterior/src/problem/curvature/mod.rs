//! Curvature of the log-likelihood: the generalised Gauss–Newton matrix G = Σₙ ωₙ JₙᵀHₙJₙ, whole, as Kronecker factors, or its diagonal.
//!
//! Jₙ = df(xₙ)/dw, Hₙ = −d² log p/df² ([`crate::likelihood::Likelihood::hessian_row`]), ωₙ the row's weight. With Jₙ = x̃ₙ ⊗ gₙ layer by layer
//! (`problem/jacobian.rs`) rows are streamed and no N × K × P array exists. Everything in f64, the same bits on any number of threads.
//!
//! | structure | what | memory | work a row |
//! |---|---|---|---|
//! | full | every block between layers | P²/4; P² where weights are shared by positions | P²/2, whatever the number of outputs; K·P² where weights are shared by positions |
//! | kron | A ⊗ B per layer, A = mean of x̃x̃ᵀ, B = Σ gᵀHg | Σ (in² + out²) | Σ (in² + K·out²) |
//! | diagonal | the diagonal of full | P | P |
//!
//! References: Schraudolph (2002), Neural Computation 14; Martens & Grosse (2015), ICML; Grosse & Martens (2016), ICML, for convolutions.

mod diagonal;
mod full;
mod kron;
mod packed;
mod pass;
#[cfg(test)]
mod tests;

pub(crate) use full::{outer, pair_sizes, pairs, write_jacobians};
pub use kron::KronFactor;
pub use packed::FullCurvature;

use super::Problem;
use crate::error::{Error, Result};
use crate::nn::{AffineBlock, AnyNetwork};
use std::ops::Range;

/// How much of the curvature is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Structure {
    /// All of it.
    Full,
    /// Kronecker factors of each layer.
    Kron,
    /// The diagonal.
    Diagonal,
}

/// The parameters that curvature is taken over: the affine blocks of a network from some layer on, which are one range of w.
#[derive(Debug, Clone, PartialEq)]
pub struct Subset {
    /// Layer by layer.
    pub affines: Vec<AffineBlock>,
}

impl Subset {
    /// All weights and biases of the network.
    pub fn all(network: &dyn AnyNetwork) -> Result<Subset> {
        let affines = network.affine_blocks().to_vec();
        if affines.is_empty() {
            return Err(Error::setting("the network has no parameters", "give it a layer that has"));
        }
        Ok(Subset { affines })
    }

    /// Those of the last layer alone.
    pub fn last_layer(network: &dyn AnyNetwork) -> Result<Subset> {
        match network.output_block() {
            Some(last) if last.positions == 1 => Ok(Subset { affines: vec![*last] }),
            _ => {
                let lines = network.describe();
                let last = lines.last().map_or("nothing", String::as_str);
                let what = format!("a last layer of its own has to be dense, and this network ends in '{last}'");
                Err(Error::setting(what, "take all layers (subset=all)"))
            }
        }
    }

    /// Where the parameters stand in w.
    pub fn range(&self) -> Range<usize> {
        let start = self.affines.first().map_or(0, |l| l.start);
        start..self.affines.last().map_or(start, |l| l.start + l.len())
    }

    /// P of the subset.
    pub fn len(&self) -> usize {
        self.range().len()
    }

    /// Whether it has no parameters.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that the curvature, its decomposition and the posterior made of it take at the same time, about.
    pub fn bytes(&self, structure: Structure) -> u128 {
        let square = |n: usize| (n as u128).pow(2);
        let numbers = match structure {
            // The matrix in tridiagonal form, its eigenvectors, and as much twice for finding them.
            Structure::Full => 4 * square(self.len()),
            Structure::Kron => self.affines.iter().map(|l| 12 * (square(l.rows()) + square(l.units))).sum::<u128>(),
            Structure::Diagonal => 4 * self.len() as u128,
        };
        8 * numbers
    }

    /// Bytes of the posterior alone.
    pub fn posterior_bytes(&self, structure: Structure) -> u128 {
        let square = |n: usize| (n as u128).pow(2);
        let numbers = match structure {
            Structure::Full => square(self.len()),
            Structure::Kron => self.affines.iter().map(|l| square(l.rows()) + square(l.units)).sum::<u128>(),
            Structure::Diagonal => 0,
        };
        4 * (numbers + 2 * self.len() as u128)
    }
}

/// G in one of its structures.
#[derive(Debug, Clone)]
pub enum Curvature {
    /// All of the subset's range.
    Full(FullCurvature),
    /// One pair of factors per affine block.
    Kron(Vec<KronFactor>),
    /// One number per parameter of the subset's range.
    Diagonal(Vec<f64>),
}

/// G at a point, with what the same pass over the rows gives besides.
#[derive(Debug, Clone)]
pub struct Ggn {
    /// G.
    pub curvature: Curvature,
    /// log p(D | w).
    pub log_likelihood: f64,
    /// Σ ωₙ.
    pub weight: f64,
}

impl Problem {
    /// G of a subset of the parameters at w, the likelihood's own parameters at the end of it.
    pub fn ggn(&self, w: &[f64], subset: &Subset, structure: Structure) -> Ggn {
        match structure {
            Structure::Full => full::ggn(self, w, subset),
            Structure::Kron => kron::ggn(self, w, subset),
            Structure::Diagonal => diagonal::ggn(self, w, subset),
        }
    }
}
