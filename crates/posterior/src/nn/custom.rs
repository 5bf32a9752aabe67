//! Layers of other crates, by name: how they are registered, written in a configuration and built.
//!
//! A layer without weights is a [`Node`], or, where rows do not depend on each other, a [`RowMap`] of two functions: out = g(x) and its vector-Jacobian product
//! dx = (∂g/∂x)ᵀ dout. A layer with weights is put together from affine maps ([`Op::affine`]) and such nodes by the [`GraphBuilder`]; noise by row, curvature
//! and dropout then follow from the affine maps.

use super::graph::{GraphBuilder, Op, Value as Wire};
use super::node::{Node, NodeOps, NodeSpace, Pass, Shape};
use super::spec::LayerSpec;
use crate::error::{Error, Result};
use crate::math::{MatRef, Real};
use crate::registry::Registry;
use crate::settings::{Setting, Settings, Value};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// A kind of layer that is not built in.
#[derive(Debug, Clone, Copy)]
pub struct LayerEntry {
    /// The `kind` that a user writes.
    pub name: &'static str,
    /// One line of help.
    pub summary: &'static str,
    /// Its options, written beside `kind`.
    pub settings: &'static [Setting],
    /// Adds the layer to a graph, after the values that it takes; one, unless it stands in a layer of the kind `graph`.
    pub build: fn(&Settings, &mut GraphBuilder, &[Wire]) -> Result<Wire>,
}

static REGISTERED: Registry<LayerEntry> = Registry::new("layer", &[], |l| l.name);

/// The layers of other crates that are registered; those built in are the variants of [`LayerSpec`].
pub fn layers() -> Vec<&'static LayerEntry> {
    REGISTERED.all()
}

/// Adds a layer of another crate: it is then found by its name, in configurations and model files too. An error where the name is taken.
pub fn register_layer(entry: LayerEntry) -> Result<()> {
    if LayerSpec::KINDS.contains(&entry.name) {
        let what = format!("there is a layer '{}' already", entry.name);
        return Err(Error::setting(what, "give the new one another name, and register it once"));
    }
    REGISTERED.add(entry)
}

/// A layer of another crate as written: its name, and options that differ from their defaults.
#[derive(Debug, Clone, PartialEq)]
pub struct CustomLayer {
    /// A name given to [`register_layer`].
    pub kind: String,
    /// By name.
    pub options: BTreeMap<String, Value>,
}

impl CustomLayer {
    /// All defaults.
    pub fn named(kind: &str) -> CustomLayer {
        CustomLayer { kind: kind.to_owned(), options: BTreeMap::new() }
    }

    /// With an option.
    pub fn with(mut self, name: &str, value: Value) -> CustomLayer {
        self.options.insert(name.to_owned(), value);
        self
    }

    fn entry(&self) -> Result<&'static LayerEntry> {
        REGISTERED.get(&self.kind).ok_or_else(|| {
            let what = format!("there is no layer '{}'", self.kind);
            let fix = crate::error::suggest(&self.kind, LayerSpec::kinds());
            Error::setting(what, format!("{fix} (a layer of another crate is registered before it is used)"))
        })
    }

    /// Its options checked, with the defaults of those that are not given.
    pub(super) fn settings(&self) -> Result<(&'static LayerEntry, Settings)> {
        let entry = self.entry()?;
        let given: Vec<_> = self.options.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        Ok((entry, Settings::resolve(entry.settings, &given, &format!("layer '{}'", self.kind))?))
    }

    /// With every option spelled out.
    pub(super) fn resolved(&self) -> Result<CustomLayer> {
        let (_, settings) = self.settings()?;
        Ok(CustomLayer { kind: self.kind.clone(), options: settings.to_pairs().into_iter().collect() })
    }
}

impl From<CustomLayer> for LayerSpec {
    fn from(layer: CustomLayer) -> LayerSpec {
        LayerSpec::Custom(layer)
    }
}

/// A function of one row without weights: all that a simple layer of another crate has to tell.
pub trait RowMap: Debug + Send + Sync {
    /// One short line.
    fn describe(&self) -> String;
    /// Shape of a row that comes out.
    fn output(&self) -> Shape;
    /// out ← g(x).
    fn forward<R: Real>(&self, x: &[R], out: &mut [R]);
    /// dx ← (∂g/∂x)ᵀ d_out, with the x and the out of the forward pass; `dx` is overwritten.
    fn vjp<R: Real>(&self, x: &[R], out: &[R], d_out: &[R], dx: &mut [R]);
}

impl Op {
    /// A [`RowMap`] at every row of inputs of this shape.
    pub fn rows(input: Shape, map: impl RowMap + 'static) -> Op {
        Op::plain(Rows { input, map })
    }
}

/// Every row by itself.
#[derive(Debug)]
struct Rows<M> {
    input: Shape,
    map: M,
}

impl<M: RowMap, R: Real> NodeOps<R> for Rows<M> {
    fn space(&self, rows: usize) -> NodeSpace<R> {
        NodeSpace::with_output(rows * self.map.output().len())
    }

    fn forward(&self, x: &[MatRef<'_, R>], _pass: &Pass, space: &mut NodeSpace<R>) {
        let rows = x[0].data.chunks_exact(self.input.len().max(1));
        for (x, out) in rows.zip(space.out.chunks_exact_mut(self.map.output().len().max(1))) {
            self.map.forward(x, out);
        }
    }

    fn vjp(&self, _input: usize, x: &[MatRef<'_, R>], _pass: &Pass, space: &mut NodeSpace<R>, dx: &mut [R]) {
        let (inputs, outputs) = (self.input.len().max(1), self.map.output().len().max(1));
        let ends = space.out.chunks_exact(outputs).zip(space.delta.chunks_exact(outputs));
        for ((x, dx), (out, delta)) in x[0].data.chunks_exact(inputs).zip(dx.chunks_exact_mut(inputs)).zip(ends) {
            self.map.vjp(x, out, delta, dx);
        }
    }
}

impl<M: RowMap> Node for Rows<M> {
    fn describe(&self) -> String {
        self.map.describe()
    }
    fn inputs(&self) -> Vec<Shape> {
        vec![self.input]
    }
    fn output(&self) -> Shape {
        self.map.output()
    }
    fn is_random(&self) -> bool {
        false
    }
}
