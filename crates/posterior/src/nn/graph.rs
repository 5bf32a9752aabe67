//! A network as a graph: nodes in topological order, each with its inputs by number.
//!
//! Weights stand in affine maps alone ([`Affine`]), everything else is a [`Node`] with forward and vjp. A chain is a graph in which every node
//! takes the one before; a residual block ends in [`super::Add`], a skip connection in [`super::Concat`]. The passes are in `graph_pass`.

use super::affine::{Affine, AffineBlock, AffineKind};
use super::dropout::Dropout;
use super::layout::{BlockSpec, Layout};
use super::node::{Node, Shape};
use crate::error::{Error, Result};
use crate::memory::{product, request};
use crate::rng::Key;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Inputs of one node, at most.
pub const MOST_INPUTS: usize = 8;

/// What a node does.
#[derive(Debug, Clone)]
pub enum Op {
    /// Weights, then an activation.
    Affine(Arc<dyn Affine>),
    /// Everything that has no weights.
    Plain(Arc<dyn Node>),
}

impl Op {
    /// An affine map.
    pub fn affine(map: impl Affine + 'static) -> Op {
        Op::Affine(Arc::new(map))
    }

    /// A node without weights.
    pub fn plain(node: impl Node + 'static) -> Op {
        Op::Plain(Arc::new(node))
    }

    /// One short line.
    pub fn describe(&self) -> String {
        match self {
            Op::Affine(a) => a.describe(),
            Op::Plain(n) => n.describe(),
        }
    }

    /// Shapes of a row of each input.
    pub fn inputs(&self) -> Vec<Shape> {
        match self {
            Op::Affine(a) => vec![a.input()],
            Op::Plain(n) => n.inputs(),
        }
    }

    /// Shape of a row that comes out.
    pub fn output(&self) -> Shape {
        match self {
            Op::Affine(a) => a.output(),
            Op::Plain(n) => n.output(),
        }
    }

    fn parameters(&self) -> Vec<BlockSpec> {
        match self {
            Op::Affine(a) => a.parameters(),
            Op::Plain(_) => Vec::new(),
        }
    }

    fn space_numbers(&self, rows: usize) -> u128 {
        match self {
            Op::Affine(a) => a.space_numbers(rows),
            Op::Plain(n) => n.space_numbers(rows),
        }
    }
}

/// Where a number comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Source {
    /// The network's input.
    Input,
    /// The output of a node.
    Node(usize),
}

/// An input of a node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edge {
    pub source: Source,
    /// Numbers of a row.
    pub width: usize,
    /// Whether another edge has written the gradient of the source before, on the way back.
    pub adds: bool,
}

/// What comes out of a node or goes into the network, while a graph is being built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value {
    source: Source,
    /// As the next node sees it.
    pub shape: Shape,
}

impl Value {
    /// The same numbers as one long row.
    pub fn flat(self) -> Value {
        Value { shape: Shape::Flat(self.shape.len()), ..self }
    }
}

/// The place of a node among the layers: its number, or within a block that of the block and then its own.
#[derive(Debug, Clone, PartialEq)]
struct Place {
    number: usize,
    name: Option<String>,
    /// The word for a block of nodes, where this is one.
    block: Option<&'static str>,
}

#[derive(Debug, Clone)]
pub(super) struct GraphNode {
    pub op: Op,
    pub inputs: Vec<Edge>,
    path: Vec<Place>,
    /// Its parameters in w.
    pub range: Range<usize>,
    /// A number for keys that no other node has.
    pub stream: u64,
    /// The highest number of a layer with weights that is this node's or lies before it.
    pub weights_up_to: Option<usize>,
}

impl GraphNode {
    /// Number of the layer, from 0.
    pub fn layer(&self) -> usize {
        self.path[0].number
    }
}

/// A network whose nodes follow on each other in topological order; the last is its output.
#[derive(Debug)]
pub struct Graph {
    pub(super) input: Shape,
    pub(super) nodes: Vec<GraphNode>,
    pub(super) layout: Layout,
    pub(super) affines: Vec<AffineBlock>,
    /// Numbers of a row of the widest gradient that several nodes add to.
    pub(super) shared: usize,
}

impl Graph {
    /// Nodes one after another.
    pub fn chain(ops: Vec<Op>) -> Result<Graph> {
        let input = ops.first().and_then(|op| op.inputs().first().copied());
        let Some(input) = input else {
            return Err(Error::setting("a network has no layers", "put at least one layer in it"));
        };
        let mut builder = GraphBuilder::new(input);
        let mut value = builder.input();
        for op in ops {
            value = builder.add(op, &[value])?;
        }
        builder.finish(value)
    }

    /// Numbers that a workspace of so many rows holds, at most.
    pub(super) fn space_numbers(&self, rows: usize) -> u128 {
        let shared = product(&[rows, self.shared]);
        self.nodes.iter().fold(shared, |sum, n| sum.saturating_add(n.op.space_numbers(rows)))
    }

    /// One line for every layer; blocks with what is in them.
    pub(super) fn lines(&self) -> Vec<String> {
        lines(&self.nodes.iter().collect::<Vec<_>>(), 0)
    }

    /// The same graph with dropout of the input units of every affine map, at a rate by the number of its layer.
    pub(super) fn dropping(&self, rate: impl Fn(usize) -> f64) -> Result<Graph> {
        let mut builder = GraphBuilder::new(self.input);
        let mut values: Vec<Value> = Vec::with_capacity(self.nodes.len());
        // The blocks that are open, by their old numbers.
        let mut open: Vec<usize> = Vec::new();
        for node in &self.nodes {
            let (own, around) = node.path.split_last().unwrap_or_else(|| unreachable!("every node has a place"));
            let mut closed = None;
            while open.len() > around.len() || open.iter().zip(around).any(|(o, a)| *o != a.number) {
                open.pop();
                closed = builder.close();
            }
            for place in &around[open.len()..] {
                builder.open(place.block.unwrap_or("block"), place.name.clone());
                open.push(place.number);
            }
            let mut from: Vec<Value> = Vec::with_capacity(node.inputs.len());
            for (edge, shape) in node.inputs.iter().zip(node.op.inputs()) {
                let value = match edge.source {
                    Source::Input => builder.input(),
                    Source::Node(j) => values[j],
                };
                from.push(Value { shape, ..value });
            }
            let rate = rate(node.layer());
            let block = match &node.op {
                Op::Affine(a) if rate > 0.0 => Some(a.block()),
                _ => None,
            };
            // A unit of the input is what one row of the weights meets: a number, a channel, a category. Of an embedding, whose input is
            // an index, dropping the category is dropping the whole vector that it becomes.
            match block.map(|b| b.kind) {
                Some(AffineKind::Dense) => {
                    from[0] = builder.add(Op::plain(Dropout::new(from[0].shape, rate)?), &from[..1])?;
                }
                Some(AffineKind::Convolution { pixels, .. }) => {
                    let dropout = Dropout::of_units(from[0].shape, rate, pixels)?;
                    from[0] = builder.add(Op::plain(dropout), &from[..1])?;
                }
                Some(AffineKind::Embedding) | None => {}
            }
            let mut value = match (&own.block, closed) {
                (Some(_), Some(place)) => builder.end_block(place, node.op.clone(), &from)?,
                _ => builder.add_named(node.op.clone(), &from, own.name.clone())?,
            };
            if let Some(AffineBlock { kind: AffineKind::Embedding, units, .. }) = block {
                value = builder.add(Op::plain(Dropout::of_units(value.shape, rate, units)?), &[value])?;
            }
            values.push(value);
        }
        match values.last() {
            Some(last) => builder.finish(*last),
            None => Graph::chain(Vec::new()),
        }
    }
}

/// A number for keys that no other place has.
fn stream(path: &[Place]) -> u64 {
    path.iter().fold(0, |s, p| Key::new(s).derive(p.number as u64).0[0])
}

fn lines(nodes: &[&GraphNode], depth: usize) -> Vec<String> {
    let number = |n: &&GraphNode| n.path[depth].number;
    let mut all = Vec::new();
    for group in nodes.chunk_by(|a, b| number(a) == number(b)) {
        let inner: Vec<&GraphNode> = group.iter().copied().filter(|n| n.path.len() > depth + 1).collect();
        let place = &group[0].path[depth];
        let text = match place.block {
            Some(word) => format!("{word} ({})", lines(&inner, depth + 1).join(", ")),
            None => group[0].op.describe(),
        };
        all.push(match &place.name {
            Some(name) => format!("{name}: {text}"),
            None => text,
        });
    }
    all
}

/// Puts nodes together, each after those that it takes from.
#[derive(Debug)]
pub struct GraphBuilder {
    input: Shape,
    nodes: Vec<GraphNode>,
    /// Of all nodes so far.
    parameters: u128,
    /// The blocks that are open.
    around: Vec<Place>,
    /// The next number in each of them, and before that the next layer's.
    next: Vec<usize>,
}

/// A block that was closed and may get the node that ends it.
#[derive(Debug)]
pub(super) struct Closed(Place);

impl GraphBuilder {
    /// For rows of the given shape.
    pub fn new(input: Shape) -> GraphBuilder {
        GraphBuilder { input, nodes: Vec::new(), parameters: 0, around: Vec::new(), next: vec![0] }
    }

    /// What goes into the network.
    pub fn input(&self) -> Value {
        Value { source: Source::Input, shape: self.input }
    }

    fn place(&mut self, name: Option<String>, block: Option<&'static str>) -> Place {
        let number = self.next.last().copied().unwrap_or(0);
        self.next.iter_mut().next_back().into_iter().for_each(|n| *n += 1);
        Place { number, name, block }
    }

    /// Begins a block: what follows is numbered within it.
    pub(super) fn open(&mut self, word: &'static str, name: Option<String>) {
        let place = self.place(name, Some(word));
        self.around.push(place);
        self.next.push(0);
    }

    /// Ends a block.
    pub(super) fn close(&mut self) -> Option<Closed> {
        self.next.pop();
        self.around.pop().map(Closed)
    }

    /// Begins a layer of another crate, of however many nodes.
    pub(super) fn open_layer(&mut self, kind: &'static str, name: Option<String>) -> usize {
        self.open(kind, name);
        self.nodes.len()
    }

    /// Ends it. A single node is the layer itself, and no block.
    pub(super) fn close_layer(&mut self, first: usize) {
        let depth = self.around.len();
        self.close();
        if let [node] = &mut self.nodes[first..]
            && node.path.len() == depth + 1
        {
            node.path.pop();
            node.path.iter_mut().next_back().into_iter().for_each(|place| place.block = None);
            node.stream = stream(&node.path);
        }
    }

    /// The node that joins what a closed block gave with what went around it; it has the block's number.
    pub(super) fn end_block(&mut self, block: Closed, op: Op, from: &[Value]) -> Result<Value> {
        self.put(op, from, block.0)
    }

    /// Adds a node that takes the given values.
    pub fn add(&mut self, op: Op, from: &[Value]) -> Result<Value> {
        self.add_named(op, from, None)
    }

    /// The same, with a name for its parameters instead of its number.
    pub fn add_named(&mut self, op: Op, from: &[Value], name: Option<String>) -> Result<Value> {
        let place = self.place(name, None);
        self.put(op, from, place)
    }

    fn put(&mut self, op: Op, from: &[Value], place: Place) -> Result<Value> {
        let expected = op.inputs();
        if expected.len() != from.len() || from.len() > MOST_INPUTS {
            return Err(Error::setting(
                format!("'{}' takes {} inputs and got {}", op.describe(), expected.len(), from.len()),
                format!("give it as many, from 1 to {MOST_INPUTS}"),
            ));
        }
        for (value, expected) in from.iter().zip(&expected) {
            if value.shape.len() != expected.len() {
                return Err(Error::setting(
                    format!("'{}' takes {expected} and got {}", op.describe(), value.shape),
                    "make the shapes agree",
                ));
            }
        }
        // Asked for before they are added up in a word, and long before anything is made of them.
        let own = op.parameters().iter().fold(0, |sum: u128, b| sum.saturating_add(product(&b.shape)));
        self.parameters = self.parameters.saturating_add(own);
        let bytes = self.parameters.saturating_mul(size_of::<f32>() as u128);
        request(bytes, format!("a network of {} parameters", self.parameters), "make its layers narrower")?;
        let edge = |v: &Value| Edge { source: v.source, width: v.shape.len(), adds: false };
        let inputs = from.iter().map(edge).collect();
        let path: Vec<Place> = self.around.iter().cloned().chain([place]).collect();
        let stream = stream(&path);
        let shape = op.output();
        self.nodes.push(GraphNode { op, inputs, path, range: 0..0, stream, weights_up_to: None });
        Ok(Value { source: Source::Node(self.nodes.len() - 1), shape })
    }

    /// The graph. Its output has to be the node that was added last, and every other one be used.
    pub fn finish(self, output: Value) -> Result<Graph> {
        let GraphBuilder { input, mut nodes, .. } = self;
        let (mut layout, mut affines, mut readers) = (Layout::default(), Vec::new(), HashMap::new());
        for i in 0..nodes.len() {
            let start = layout.len();
            let (layer, path) = (nodes[i].layer(), &nodes[i].path);
            for mut spec in nodes[i].op.parameters() {
                spec.path.extend(path.iter().rev().map(|p| p.name.clone().unwrap_or_else(|| p.number.to_string())));
                layout.push(layer, &spec);
            }
            nodes[i].range = start..layout.len();
            if let Op::Affine(a) = &nodes[i].op {
                affines.push(AffineBlock { start, layer, ..a.block() });
            }
            let own = matches!(nodes[i].op, Op::Affine(_)).then_some(layer);
            let before = nodes[i].inputs.iter().filter_map(|e| match e.source {
                Source::Input => None,
                Source::Node(j) => nodes[j].weights_up_to,
            });
            nodes[i].weights_up_to = before.max().max(own);
        }
        let mut shared = 0;
        for node in nodes.iter_mut().rev() {
            for edge in &mut node.inputs {
                let count: &mut usize = readers.entry(edge.source).or_default();
                edge.adds = *count > 0;
                *count += 1;
                if edge.adds {
                    shared = shared.max(edge.width);
                }
            }
        }
        let last = nodes.len().checked_sub(1).map(Source::Node);
        let unused = (0..nodes.len().saturating_sub(1)).find(|i| !readers.contains_key(&Source::Node(*i)));
        match unused {
            None if last == Some(output.source) => Ok(Graph { input, nodes, layout, affines, shared }),
            unused => {
                let line = unused.map(|i| nodes[i].op.describe()).unwrap_or_default();
                let fix = "take it into another node, or leave it out";
                Err(Error::setting(format!("the output of the node '{line}' is used by no other"), fix))
            }
        }
    }
}
