//! The passes over a graph: forward in the order of the nodes, gradients in reverse.
//!
//! A node's gradient in an input goes straight to where the node before keeps dL/d(output); where several nodes read the same output, the first on
//! the way back writes and the others add through a spare buffer. Which does what is decided when the graph is built, so a pass decides nothing and
//! allocates nothing. Cost beside the nodes': one addition a number for every further reader.

use super::affine::AffineBlock;
use super::graph::{Edge, Graph, GraphNode, MOST_INPUTS, Op, Source};
use super::layout::Layout;
use super::network::{AnyNetwork, Network, Workspace};
use super::node::{NodeSpace, Pass, Shape};
use super::noisy::{Gradient, Weights};
use crate::Precision;
use crate::error::Result;
use crate::math::MatRef;
use crate::math::elementwise::axpy;
use std::sync::Arc;

impl Edge {
    /// What comes in: x, or the output of a node before.
    fn view<'a, R: Precision>(&self, x: MatRef<'a, R>, before: &'a [NodeSpace<R>]) -> MatRef<'a, R> {
        match self.source {
            Source::Input => x,
            Source::Node(j) => MatRef::new(&before[j].out[..x.rows * self.width], x.rows, self.width),
        }
    }

    /// Calls `run` with where the gradient in this input goes, if it is wanted.
    fn gradient<R: Precision>(
        &self,
        rows: usize,
        wanted: bool,
        before: &mut [NodeSpace<R>],
        (dx, spare): (&mut Option<&mut [R]>, &mut [R]),
        run: impl FnOnce(&[NodeSpace<R>], Option<&mut [R]>),
    ) {
        let n = rows * self.width;
        let mut own = match self.source {
            Source::Node(j) if wanted => Some((j, std::mem::take(&mut before[j].delta))),
            _ => None,
        };
        let to = match (&mut own, dx) {
            (Some((_, delta)), _) => Some(&mut delta[..n]),
            (None, Some(dx)) if wanted => Some(&mut dx[..n]),
            _ => None,
        };
        match to {
            Some(to) if self.adds => {
                run(before, Some(&mut spare[..n]));
                axpy(R::ONE, &spare[..n], to);
            }
            to => run(before, to),
        }
        if let Some((j, delta)) = own {
            before[j].delta = delta;
        }
    }
}

impl GraphNode {
    /// Calls `run` with all inputs.
    fn with_inputs<'a, R: Precision>(
        &self,
        x: MatRef<'a, R>,
        before: &'a [NodeSpace<R>],
        run: impl FnOnce(&[MatRef<'a, R>]),
    ) {
        let mut inputs = [x; MOST_INPUTS];
        inputs.iter_mut().zip(&self.inputs).for_each(|(to, edge)| *to = edge.view(x, before));
        run(&inputs[..self.inputs.len()]);
    }
}

impl Graph {
    /// Whether a gradient is to go on to a source: x where it is asked for, else weights of layer `first` or a later one.
    fn wanted(&self, source: Source, first: usize, dx: bool) -> bool {
        dx || match source {
            Source::Input => false,
            Source::Node(j) => self.nodes[j].weights_up_to.is_some_and(|l| l >= first),
        }
    }

    /// The way back from the last node to those with weights of layer `first` or a later one; `affine` gets every one of these.
    fn backwards<R: Precision>(
        &self,
        x: MatRef<'_, R>,
        pass: &Pass,
        ws: &mut Workspace<R>,
        (first, mut dx): (usize, Option<&mut [R]>),
        mut affine: impl FnMut(&GraphNode, MatRef<'_, R>, &Pass, &mut NodeSpace<R>, Option<&mut [R]>),
    ) {
        let Workspace { nodes: spaces, spare, .. } = ws;
        let with_dx = dx.is_some();
        for (i, node) in self.nodes.iter().enumerate().rev() {
            if !self.wanted(Source::Node(i), first, with_dx) {
                continue;
            }
            let (before, after) = spaces.split_at_mut(i);
            let (pass, space) = (Pass { layer: node.stream, ..*pass }, &mut after[0]);
            for (k, edge) in node.inputs.iter().enumerate() {
                let wanted = self.wanted(edge.source, first, with_dx);
                edge.gradient(x.rows, wanted, before, (&mut dx, spare), |before, d| match (&node.op, d) {
                    (Op::Affine(_), d) => affine(node, edge.view(x, before), &pass, space, d),
                    (Op::Plain(n), Some(d)) => {
                        node.with_inputs(x, before, |x| R::node(&**n).vjp(k, x, &pass, space, d));
                    }
                    (Op::Plain(_), None) => {}
                });
            }
        }
    }
}

impl<R: Precision> Network<R> for Graph {
    fn workspace(&self, rows: usize) -> Workspace<R> {
        let space = |n: &GraphNode| match &n.op {
            Op::Affine(a) => R::affine(&**a).space(rows),
            Op::Plain(n) => R::node(&**n).space(rows),
        };
        let last = self.nodes.last().and_then(|n| match n.inputs[0].source {
            Source::Input => None,
            Source::Node(j) => Some(j),
        });
        let spare = vec![R::ZERO; rows * self.shared];
        Workspace { nodes: self.nodes.iter().map(space).collect(), spare, last_input: last, rows }
    }

    fn forward<'s>(&self, w: Weights<'_, R>, x: MatRef<'_, R>, pass: &Pass, ws: &'s mut Workspace<R>) -> MatRef<'s, R> {
        for (i, node) in self.nodes.iter().enumerate() {
            let (before, after) = ws.nodes.split_at_mut(i);
            let (pass, space) = (Pass { layer: node.stream, ..*pass }, &mut after[0]);
            match &node.op {
                Op::Affine(a) => {
                    let input = node.inputs[0].view(x, before);
                    R::affine(&**a).forward(w.slice(node.range.clone()), input, &pass, space);
                }
                Op::Plain(n) => node.with_inputs(x, before, |x| R::node(&**n).forward(x, &pass, space)),
            }
        }
        let (last, width) = (self.nodes.len() - 1, self.outputs());
        MatRef::new(&ws.nodes[last].out[..x.rows * width], x.rows, width)
    }

    fn backward(
        &self,
        w: Weights<'_, R>,
        x: MatRef<'_, R>,
        pass: &Pass,
        ws: &mut Workspace<R>,
        mut grad: Gradient<'_, R>,
        accumulate: bool,
        dx: Option<&mut [R]>,
    ) {
        self.backwards(x, pass, ws, (0, dx), |node, x, pass, space, dx| {
            if let Op::Affine(a) = &node.op {
                let (w, grad) = (w.slice(node.range.clone()), grad.slice(node.range.clone()));
                R::affine(&**a).backward(w, x, pass, space, grad, accumulate, dx);
            }
        });
    }

    fn vjp(&self, w: &[R], x: MatRef<'_, R>, pass: &Pass, ws: &mut Workspace<R>, first: usize, dx: Option<&mut [R]>) {
        let dx = dx.filter(|_| first == 0);
        self.backwards(x, pass, ws, (first, dx), |node, x, pass, space, dx| {
            if let Op::Affine(a) = &node.op {
                R::affine(&**a).vjp(&w[node.range.clone()], x, pass, space, dx);
            }
        });
    }

    fn block_inputs(&self, x: MatRef<'_, R>, ws: &Workspace<R>, first: usize, visit: &mut dyn FnMut(&[R])) {
        for node in self.nodes.iter().filter(|n| n.layer() >= first) {
            if let Op::Affine(a) = &node.op {
                R::affine(&**a).block_inputs(node.inputs[0].view(x, &ws.nodes), visit);
            }
        }
    }

    fn block_deltas(&self, rows: usize, ws: &Workspace<R>, first: usize, visit: &mut dyn FnMut(&[R])) {
        for (node, space) in self.nodes.iter().zip(&ws.nodes).filter(|(n, _)| n.layer() >= first) {
            if let Op::Affine(a) = &node.op {
                R::affine(&**a).block_deltas(rows, space, visit);
            }
        }
    }
}

impl AnyNetwork for Graph {
    fn layout(&self) -> &Layout {
        &self.layout
    }
    fn input(&self) -> Shape {
        self.input
    }
    fn outputs(&self) -> usize {
        self.nodes[self.nodes.len() - 1].op.output().len()
    }
    fn describe(&self) -> Vec<String> {
        self.lines()
    }
    fn space_numbers(&self, rows: usize) -> u128 {
        Graph::space_numbers(self, rows)
    }
    fn activations(&self) -> usize {
        self.nodes.iter().map(|n| n.op.output().len()).sum()
    }
    fn with_dropout(&self, input_rate: f64, rate: f64) -> Result<Arc<dyn AnyNetwork>> {
        let first = self.affines.first().map_or(0, |b| b.layer);
        Ok(Arc::new(self.dropping(|layer| if layer == first { input_rate } else { rate })?))
    }
    fn affine_blocks(&self) -> &[AffineBlock] {
        &self.affines
    }
    fn output_block(&self) -> Option<&AffineBlock> {
        let last = self.nodes.last().filter(|n| matches!(n.op, Op::Affine(_)));
        last.and_then(|_| self.affines.last())
    }
    fn is_chain(&self) -> bool {
        let before = |i: usize| i.checked_sub(1).map_or(Source::Input, Source::Node);
        self.nodes.iter().enumerate().all(|(i, n)| n.inputs.len() == 1 && n.inputs[0].source == before(i))
    }
    fn is_random(&self) -> bool {
        self.nodes.iter().any(|n| matches!(&n.op, Op::Plain(n) if n.is_random()))
    }
    fn first_without_weights(&self) -> Option<usize> {
        self.nodes.iter().find(|n| matches!(n.op, Op::Plain(_))).map(GraphNode::layer)
    }
}
