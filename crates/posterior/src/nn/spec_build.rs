//! From a network as written to its graph: shapes are checked, activations and pooling fused into the layers before them.

use super::activation::{Activation, ActivationLayer};
use super::channels_last::ChannelsLast;
use super::conv::Conv;
use super::dense::Dense;
use super::dropout::Dropout;
use super::embedding::Embedding;
use super::features::Features;
use super::graph::{Graph, GraphBuilder, MOST_INPUTS, Op, Value};
use super::group_norm::GroupNorm;
use super::join::{Add, Concat, Select};
use super::node::Shape;
use super::pool::{AvgPool, MaxPool};
use super::resize::{PixelShuffle, Upsample};
use super::spec::{LARGEST, LayerSpec, NetworkSpec, NodeSpec};
use crate::error::{Error, Result, suggest};

impl NetworkSpec {
    /// Makes the network for rows of the given shape and so many outputs.
    pub fn build(&self, input: Shape, outputs: usize) -> Result<Graph> {
        let mut builder = GraphBuilder::new(input);
        let x = builder.input();
        let last = add_layers(&mut builder, &self.layers, x)?;
        check_weights(last.shape, outputs)?;
        let output = builder.add(Op::affine(Dense::new(last.shape, outputs, Activation::Identity)), &[last])?;
        builder.finish(output)
    }

    /// Makes the network for rows of the given shape whose outputs are `outputs` numbers at each of `sites` pixels, those of a pixel side by side: the layers end
    /// in an image of so many pixels, and a convolution of 1 × 1 gives the outputs of each.
    pub fn build_at_sites(&self, input: Shape, sites: usize, outputs: usize) -> Result<Graph> {
        let mut builder = GraphBuilder::new(input);
        let x = builder.input();
        let last = add_layers(&mut builder, &self.layers, x)?;
        match last.shape {
            Shape::Image { height, width, .. } if height * width == sites => {}
            shape => {
                return Err(Error::setting(
                    format!("the network's layers give {shape}, and {sites} pixels are to be predicted"),
                    "end in an image of as many pixels as the targets have",
                ));
            }
        }
        let conv = Conv::dilated(last.shape, outputs, (1, 1), 1, 0, 1, Activation::Identity, None)?;
        let image = builder.add(Op::affine(conv), &[last])?;
        let output = builder.add(Op::plain(ChannelsLast::new(image.shape)?), &[image])?;
        builder.finish(output)
    }
}

fn add_layers(builder: &mut GraphBuilder, specs: &[LayerSpec], x: Value) -> Result<Value> {
    let (mut value, mut rest) = (x, specs);
    while let [first, after @ ..] = rest {
        (value, rest) = match first {
            LayerSpec::Dense { .. } | LayerSpec::Conv { .. } => add_affine(builder, first, after, value, None)?,
            other => (add_layer(builder, other, &[value], None)?, after),
        };
    }
    Ok(value)
}

/// A layer with weights, and with it what can be fused of the layers after it.
fn add_affine<'s>(
    builder: &mut GraphBuilder,
    spec: &LayerSpec,
    mut after: &'s [LayerSpec],
    x: Value,
    name: Option<String>,
) -> Result<(Value, &'s [LayerSpec])> {
    let mut fused = |own: Activation| match after {
        // An activation written as a layer of its own right after a layer without one becomes that layer's.
        [LayerSpec::Activation { activation }, later @ ..] if own == Activation::Identity => {
            after = later;
            *activation
        }
        _ => own,
    };
    let op = match spec {
        LayerSpec::Conv { channels, kernel, stride, padding, dilation, activation } => {
            check("channels", *channels, LARGEST)?;
            check("kernel", *kernel, 1024)?;
            check("stride", *stride, 1024)?;
            check("dilation", *dilation, 1024)?;
            if *padding > (*kernel - 1) * *dilation {
                return Err(Error::setting(
                    format!("a layer's padding of {padding} is not below its kernel of {kernel}"),
                    "the rest would see zeros only: lower it",
                ));
            }
            let activation = fused(*activation);
            let pool = match after {
                [LayerSpec::MaxPool { size }, later @ ..] if activation.monotone() && *size > 0 => {
                    after = later;
                    Some(*size)
                }
                _ => None,
            };
            let kernel = (*kernel, *kernel);
            Op::affine(Conv::dilated(x.shape, *channels, kernel, *stride, *padding, *dilation, activation, pool)?)
        }
        LayerSpec::Dense { units, activation } => {
            check("units", *units, LARGEST)?;
            check_weights(x.shape, *units)?;
            Op::affine(Dense::new(x.shape, *units, fused(*activation)))
        }
        other => return Ok((add_layer(builder, other, &[x], name)?, after)),
    };
    Ok((builder.add_named(op, &[x], name)?, after))
}

/// A layer that takes `from`: one value, or several where it joins them.
fn add_layer(builder: &mut GraphBuilder, spec: &LayerSpec, from: &[Value], name: Option<String>) -> Result<Value> {
    let joins = matches!(spec, LayerSpec::Add | LayerSpec::Concat);
    let &[x, ..] = from else {
        return Err(Error::setting("a node takes nothing", "name the nodes that it takes from"));
    };
    let custom = matches!(spec, LayerSpec::Custom(_));
    if (!custom && joins != (from.len() > 1)) || from.len() > MOST_INPUTS {
        let (what, fix) = match joins {
            true => (
                format!("a sum or concatenation of {} nodes", from.len()),
                format!("put it in a layer of the kind 'graph' and name from 2 to {MOST_INPUTS} nodes in 'from'"),
            ),
            false => (
                format!("a layer takes one input and got {}", from.len()),
                "join them by a node of the kind 'add' or 'concat' first".to_owned(),
            ),
        };
        return Err(Error::setting(what, fix));
    }
    let shapes: Vec<Shape> = from.iter().map(|v| v.shape).collect();
    let shape = x.shape;
    let op = match spec {
        LayerSpec::Dense { .. } | LayerSpec::Conv { .. } => return Ok(add_affine(builder, spec, &[], x, name)?.0),
        // Images are one long row in memory already.
        LayerSpec::Flatten => return Ok(x.flat()),
        LayerSpec::Residual { layers } => return block(builder, "residual", layers, x, name),
        LayerSpec::Skip { layers } => return block(builder, "skip", layers, x, name),
        LayerSpec::Graph { nodes } => return add_graph(builder, nodes, x),
        LayerSpec::Custom(layer) => {
            let (entry, settings) = layer.settings()?;
            let first = builder.open_layer(entry.name, name);
            let value = (entry.build)(&settings, builder, from)?;
            builder.close_layer(first);
            return Ok(value);
        }
        LayerSpec::MaxPool { size } => Op::plain(MaxPool::new(shape, *size, *size)?),
        LayerSpec::AvgPool { size } => Op::plain(AvgPool::new(shape, *size, *size)?),
        LayerSpec::Activation { activation } => Op::plain(ActivationLayer::new(shape, *activation)),
        LayerSpec::Dropout { rate } => Op::plain(Dropout::new(shape, *rate)?),
        LayerSpec::Polynomial { degree } => Op::plain(Features::polynomial(shape, *degree)?),
        LayerSpec::Fourier { frequencies, period } => Op::plain(Features::fourier(shape, *frequencies, *period)?),
        LayerSpec::RandomFeatures { count, length_scale, seed } => {
            Op::plain(Features::random(shape, *count, *length_scale, *seed)?)
        }
        LayerSpec::Upsample { factor, interpolation } => Op::plain(Upsample::new(shape, *factor, *interpolation)?),
        LayerSpec::PixelShuffle { factor } => Op::plain(PixelShuffle::new(shape, *factor)?),
        LayerSpec::GroupNorm { groups, epsilon } => Op::plain(GroupNorm::new(shape, *groups, *epsilon)?),
        LayerSpec::Embedding { categories, size } => Op::affine(Embedding::new(shape, *categories, *size)?),
        LayerSpec::Select { columns } => Op::plain(Select::new(shape, columns)?),
        LayerSpec::Add => Op::plain(Add::new(&shapes)?),
        LayerSpec::Concat => Op::plain(Concat::new(&shapes)?),
    };
    builder.add_named(op, from, name)
}

/// Layers and a path around them, joined by a sum or one behind the other.
fn block(
    builder: &mut GraphBuilder,
    word: &'static str,
    layers: &[LayerSpec],
    x: Value,
    name: Option<String>,
) -> Result<Value> {
    builder.open(word, name);
    let inner = add_layers(builder, layers, x)?;
    let closed = builder.close();
    if inner == x || layers.is_empty() {
        return Err(Error::setting(format!("a {word} block has no layers"), "put at least one layer in it"));
    }
    let op = match word {
        "residual" if inner.shape == x.shape => Op::plain(Add::new(&[x.shape, inner.shape])?),
        "residual" => {
            return Err(Error::setting(
                format!("a residual block takes {} and its layers give {}", x.shape, inner.shape),
                "choose sizes and padding that keep the shape, since the input is added to the output",
            ));
        }
        _ => Op::plain(Concat::new(&[x.shape, inner.shape])?),
    };
    match closed {
        Some(closed) => builder.end_block(closed, op, &[x, inner]),
        None => builder.add(op, &[x, inner]),
    }
}

/// The name of what goes into a graph.
const INPUT: &str = "input";

/// Named nodes; each is a layer of its own.
fn add_graph(builder: &mut GraphBuilder, nodes: &[NodeSpec], x: Value) -> Result<Value> {
    let mut named: Vec<(&str, Value)> = vec![(INPUT, x)];
    let mut value = x;
    for node in nodes {
        let mut from = Vec::with_capacity(node.from.len());
        for name in &node.from {
            let found = named.iter().find(|(n, _)| n == name).map(|(_, v)| *v);
            from.push(found.ok_or_else(|| {
                let names = named.iter().map(|(n, _)| *n);
                Error::setting(
                    format!("no node before it is called '{name}'"),
                    suggest(name, names.collect::<Vec<_>>()),
                )
            })?);
        }
        if from.is_empty() {
            from.push(value);
        }
        if let Some(name) = &node.name {
            check_name(name, &named)?;
        }
        value = add_layer(builder, &node.layer, &from, node.name.clone())?;
        named.extend(node.name.as_deref().map(|n| (n, value)));
    }
    Ok(value)
}

/// Names stand in the names of parameters, beside the numbers of layers without one.
fn check_name(name: &str, named: &[(&str, Value)]) -> Result<()> {
    if named.iter().any(|(n, _)| *n == name) {
        return Err(Error::setting(format!("two nodes are called '{name}'"), "give each a name of its own"));
    }
    let first = name.chars().next().is_some_and(|c| c.is_alphabetic());
    if first && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-') {
        return Ok(());
    }
    let fix = "begin with a letter and use letters, digits, _ and -";
    Err(Error::setting(format!("'{name}' cannot be the name of a node"), fix))
}

/// Weights in a layer, at most: more are taken for a typing error or a damaged file.
const MOST_WEIGHTS: usize = 1 << 32;

fn check_weights(input: Shape, units: usize) -> Result<()> {
    match input.len().checked_mul(units) {
        Some(n) if n <= MOST_WEIGHTS => Ok(()),
        _ => Err(Error::setting(
            format!("a dense layer from {input} to {units} has more than {MOST_WEIGHTS} weights"),
            "make it narrower",
        )),
    }
}

fn check(what: &str, value: usize, largest: usize) -> Result<()> {
    if (1..=largest).contains(&value) {
        return Ok(());
    }
    Err(Error::setting(
        format!("a layer's {what} cannot be {value}"),
        format!("it takes a whole number from 1 to {largest}"),
    ))
}
