//! The Jacobian df/dw of a chunk of rows, kept as its factors: never rows × outputs × parameters.
//!
//! For every leaf (a dense or convolutional layer) and row, df_k/dW̃ = Σ_positions x̃ gₖᵀ with x̃ = (x, 1) and gₖ = df_k/dz. One pass forward
//! and one pull-back per output. Cost: (1 + outputs) passes; memory: rows · area · (inputs + 1 + outputs · units) per leaf.

use super::layer::{Mode, Pass};
use super::leaf::Leaf;
use super::network::{AnyNetwork, Workspace};
use crate::math::{MatRef, Threads};
use crate::precision::Precision;
use std::sync::Arc;

/// Factors of the Jacobians of up to a fixed number of rows, for the leaves asked for.
#[derive(Debug)]
pub struct JacobianFactors<R: Precision = f64> {
    network: Arc<dyn AnyNetwork>,
    leaves: Vec<Leaf>,
    /// Layers below hold none of the leaves: nothing is pulled back through them.
    first: usize,
    workspace: Workspace<R>,
    inputs: Vec<Vec<R>>,
    deltas: Vec<Vec<R>>,
    rows: usize,
}

impl<R: Precision> JacobianFactors<R> {
    /// Buffers for up to `rows` rows. `leaves` are those of the network from some layer on.
    pub fn new(network: Arc<dyn AnyNetwork>, leaves: &[Leaf], rows: usize) -> Self {
        let outputs = network.outputs();
        let inputs = leaves.iter().map(|l| vec![R::ONE; rows * l.area * (l.inputs + 1)]).collect();
        let deltas = leaves.iter().map(|l| vec![R::ZERO; rows * outputs * l.area * l.units]).collect();
        let workspace = R::network(&*network).workspace(rows);
        let first = leaves.first().map_or(0, |l| l.layer);
        JacobianFactors { network, leaves: leaves.to_vec(), first, workspace, inputs, deltas, rows: 0 }
    }

    /// Runs the network at w over rows x, and keeps f and all factors.
    pub fn run(&mut self, w: &[R], x: MatRef<'_, R>, threads: Threads) {
        let (network, outputs, first) = (R::network(&*self.network), self.network.outputs(), self.first);
        let pass = Pass { mode: Mode::Plain, layer: 0, first_row: 0, threads };
        self.rows = x.rows;
        network.forward(w.into(), x, &pass, &mut self.workspace);
        let mut each = self.leaves.iter().zip(&mut self.inputs);
        network.leaf_inputs(x, &self.workspace, first, &mut |from| {
            if let Some((leaf, to)) = each.next() {
                let rows = to.chunks_exact_mut(leaf.inputs + 1).zip(from.chunks_exact(leaf.inputs.max(1)));
                rows.for_each(|(to, from)| to[..leaf.inputs].copy_from_slice(from));
            }
        });
        for k in 0..outputs {
            let (_, delta) = self.workspace.output_and_delta();
            delta[..x.rows * outputs].fill(R::ZERO);
            delta[..x.rows * outputs].iter_mut().skip(k).step_by(outputs).for_each(|d| *d = R::ONE);
            network.pull_back(w, x, &pass, &mut self.workspace, first, None);
            let mut each = self.leaves.iter().zip(&mut self.deltas);
            network.leaf_deltas(x.rows, &self.workspace, first, &mut |from| {
                if let Some((leaf, to)) = each.next() {
                    let n = leaf.area * leaf.units;
                    for (to, from) in to.chunks_exact_mut(outputs * n).zip(from.chunks_exact(n)) {
                        to[k * n..(k + 1) * n].copy_from_slice(from);
                    }
                }
            });
        }
    }

    /// f of the last run, `rows × outputs`.
    pub fn outputs(&mut self) -> &[R] {
        let n = self.rows * self.network.outputs();
        &self.workspace.output_and_delta().0[..n]
    }

    /// x̃ of leaf number l, `(rows · area) × (inputs + 1)`.
    pub fn inputs(&self, l: usize) -> &[R] {
        let leaf = &self.leaves[l];
        &self.inputs[l][..self.rows * leaf.area * (leaf.inputs + 1)]
    }

    /// df/dz of leaf number l, `rows × outputs × area × units`.
    pub fn deltas(&self, l: usize) -> &[R] {
        let leaf = &self.leaves[l];
        &self.deltas[l][..self.rows * self.network.outputs() * leaf.area * leaf.units]
    }

    /// The Jacobian of one row and output with respect to leaf number l, `(inputs + 1) × units`, written out.
    pub fn jacobian(&self, l: usize, row: usize, output: usize, out: &mut [R]) {
        let leaf = &self.leaves[l];
        let (na, nb, area) = (leaf.inputs + 1, leaf.units, leaf.area);
        let x = &self.inputs[l][row * area * na..(row + 1) * area * na];
        let g = &self.deltas[l][(row * self.network.outputs() + output) * area * nb..][..area * nb];
        out.fill(R::ZERO);
        for (x, g) in x.chunks_exact(na).zip(g.chunks_exact(nb.max(1))) {
            for (out, x) in out.chunks_exact_mut(nb.max(1)).zip(x) {
                out.iter_mut().zip(g).for_each(|(out, g)| *out += *x * *g);
            }
        }
    }
}

impl JacobianFactors {
    /// Numbers that one row takes.
    pub fn numbers(leaves: &[Leaf], outputs: usize) -> usize {
        leaves.iter().map(|l| l.area * (l.inputs + 1 + outputs * l.units)).sum()
    }
}
