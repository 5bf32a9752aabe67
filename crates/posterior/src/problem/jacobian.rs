//! The Jacobian df/dw of a chunk of rows, kept as its factors: never rows × outputs × parameters.
//!
//! For every affine block (a dense or convolutional layer) and row, df_k/dW̃ = Σ_positions x̃ gₖᵀ with x̃ = (x, 1) and gₖ = df_k/dz. One pass forward
//! and one vjp per output. Cost: (1 + outputs) passes; memory: rows · positions · (inputs + 1 + outputs · units) per affine block.

use crate::math::{MatRef, Threads};
use crate::nn::{AffineBlock, AnyNetwork, Mode, Pass, Workspace};
use crate::precision::Precision;
use std::sync::Arc;

/// Factors of the Jacobians of up to a fixed number of rows, for the affine blocks asked for.
#[derive(Debug)]
pub struct JacobianFactors<R: Precision = f64> {
    network: Arc<dyn AnyNetwork>,
    affines: Vec<AffineBlock>,
    /// Layers below hold none of the affine blocks: nothing is pulled back through them.
    first: usize,
    workspace: Workspace<R>,
    inputs: Vec<Vec<R>>,
    deltas: Vec<Vec<R>>,
    rows: usize,
}

impl<R: Precision> JacobianFactors<R> {
    /// Buffers for up to `rows` rows. `affines` are those of the network from some layer on.
    pub fn new(network: Arc<dyn AnyNetwork>, affines: &[AffineBlock], rows: usize) -> Self {
        let outputs = network.outputs();
        let inputs = affines.iter().map(|l| vec![R::ONE; rows * l.positions * (l.rows())]).collect();
        let deltas = affines.iter().map(|l| vec![R::ZERO; rows * outputs * l.positions * l.units]).collect();
        let workspace = R::network(&*network).workspace(rows);
        let first = affines.first().map_or(0, |l| l.layer);
        JacobianFactors { network, affines: affines.to_vec(), first, workspace, inputs, deltas, rows: 0 }
    }

    /// Runs the network at w over rows x, and keeps f and all factors.
    pub fn run(&mut self, w: &[R], x: MatRef<'_, R>, threads: Threads) {
        let (network, outputs, first) = (R::network(&*self.network), self.network.outputs(), self.first);
        let pass = Pass { mode: Mode::Plain, layer: 0, first_row: 0, threads };
        self.rows = x.rows;
        network.forward(w.into(), x, &pass, &mut self.workspace);
        let mut each = self.affines.iter().zip(&mut self.inputs);
        network.block_inputs(x, &self.workspace, first, &mut |from| {
            if let Some((affine, to)) = each.next() {
                let rows = to.chunks_exact_mut(affine.rows()).zip(from.chunks_exact(affine.inputs.max(1)));
                rows.for_each(|(to, from)| to[..affine.inputs].copy_from_slice(from));
            }
        });
        for k in 0..outputs {
            let (_, delta) = self.workspace.output_and_delta();
            delta[..x.rows * outputs].fill(R::ZERO);
            delta[..x.rows * outputs].iter_mut().skip(k).step_by(outputs).for_each(|d| *d = R::ONE);
            network.vjp(w, x, &pass, &mut self.workspace, first, None);
            let mut each = self.affines.iter().zip(&mut self.deltas);
            network.block_deltas(x.rows, &self.workspace, first, &mut |from| {
                if let Some((affine, to)) = each.next() {
                    let n = affine.positions * affine.units;
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

    /// x̃ of affine block number l, `(rows · positions) × (inputs + 1)`.
    pub fn inputs(&self, l: usize) -> &[R] {
        let affine = &self.affines[l];
        &self.inputs[l][..self.rows * affine.positions * (affine.rows())]
    }

    /// df/dz of affine block number l, `rows × outputs × area × units`.
    pub fn deltas(&self, l: usize) -> &[R] {
        let affine = &self.affines[l];
        &self.deltas[l][..self.rows * self.network.outputs() * affine.positions * affine.units]
    }

    /// The Jacobian of one row and output with respect to affine block number l, `(inputs + 1) × units`, written out.
    pub fn jacobian(&self, l: usize, row: usize, output: usize, out: &mut [R]) {
        let affine = &self.affines[l];
        let (na, nb, area) = (affine.rows(), affine.units, affine.positions);
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
    pub fn numbers(affines: &[AffineBlock], outputs: usize) -> usize {
        affines.iter().map(|l| l.positions * (l.rows() + outputs * l.units)).sum()
    }
}
