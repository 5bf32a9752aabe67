//! Nodes that only move numbers: the sum of several inputs, one behind the other, and chosen columns.
//!
//! Add: out = Σ xₖ (residual connections; He et al. 2016). Concat: the channels of images of one size, or the numbers of flat rows, in
//! the order given (skip connections; Ronneberger et al. 2015). Select: some columns of a flat row. Cost: a copy each way.

use super::node::{Node, NodeOps, NodeSpace, Pass, Shape};
use crate::error::{Error, Result};
use crate::math::elementwise::axpy;
use crate::math::{MatRef, Real};

/// The sum of inputs of one shape.
#[derive(Debug, Clone)]
pub struct Add {
    shape: Shape,
    count: usize,
}

impl Add {
    /// Of inputs that have the same shape.
    pub fn new(inputs: &[Shape]) -> Result<Add> {
        match inputs {
            [first, rest @ ..] if rest.iter().all(|s| s == first) => Ok(Add { shape: *first, count: inputs.len() }),
            [] => Err(Error::setting("a sum has no inputs", "name the nodes to be added")),
            [first, rest @ ..] => {
                let other = rest.iter().find(|s| *s != first).unwrap_or(first);
                let what = format!("{first} and {other} cannot be added");
                Err(Error::setting(what, "choose sizes and padding that give the same shape"))
            }
        }
    }
}

impl<R: Real> NodeOps<R> for Add {
    fn space(&self, rows: usize) -> NodeSpace<R> {
        NodeSpace::with_output(rows * self.shape.len())
    }

    fn forward(&self, x: &[MatRef<'_, R>], _pass: &Pass, space: &mut NodeSpace<R>) {
        let out = &mut space.out[..x[0].data.len()];
        out.copy_from_slice(x[0].data);
        x[1..].iter().for_each(|x| axpy(R::ONE, x.data, out));
    }

    fn vjp(&self, input: usize, x: &[MatRef<'_, R>], _pass: &Pass, space: &mut NodeSpace<R>, dx: &mut [R]) {
        let n = x[input].data.len();
        dx[..n].copy_from_slice(&space.delta[..n]);
    }
}

impl Node for Add {
    fn describe(&self) -> String {
        "add".to_owned()
    }
    fn inputs(&self) -> Vec<Shape> {
        vec![self.shape; self.count]
    }
    fn output(&self) -> Shape {
        self.shape
    }
    fn is_random(&self) -> bool {
        false
    }
}

/// Inputs one behind the other.
#[derive(Debug, Clone)]
pub struct Concat {
    inputs: Vec<Shape>,
    output: Shape,
    /// Where each input begins in a row that comes out.
    starts: Vec<usize>,
}

impl Concat {
    /// Of images of one height and width, whose channels are joined, or of flat rows.
    pub fn new(inputs: &[Shape]) -> Result<Concat> {
        let too_large = || Error::setting("joined inputs are too large", "make them smaller");
        let mut all = inputs.iter().copied();
        let first =
            all.next().ok_or_else(|| Error::setting("nothing is to be joined", "name the nodes to be joined"))?;
        let output = all.try_fold(first, |sum, next| match (sum, next) {
            (Shape::Flat(a), Shape::Flat(b)) => a.checked_add(b).map(Shape::Flat).ok_or_else(too_large),
            (Shape::Image { channels, height, width }, Shape::Image { channels: more, height: h, width: w })
                if (h, w) == (height, width) =>
            {
                let channels = channels.checked_add(more).ok_or_else(too_large)?;
                Ok(Shape::Image { channels, height, width })
            }
            (sum, next) => {
                let what = format!("{sum} and {next} cannot be joined");
                Err(Error::setting(what, "join images of one height and width, or flat rows"))
            }
        })?;
        let ends = inputs.iter().scan(0, |end, s| {
            let start = *end;
            *end += s.len();
            Some(start)
        });
        Ok(Concat { inputs: inputs.to_vec(), output, starts: ends.collect() })
    }
}

impl<R: Real> NodeOps<R> for Concat {
    fn space(&self, rows: usize) -> NodeSpace<R> {
        NodeSpace::with_output(rows * self.output.len())
    }

    fn forward(&self, x: &[MatRef<'_, R>], _pass: &Pass, space: &mut NodeSpace<R>) {
        let n = self.output.len().max(1);
        for (x, start) in x.iter().zip(&self.starts) {
            for (out, x) in space.out.chunks_exact_mut(n).zip(x.data.chunks_exact(x.cols.max(1))) {
                out[*start..*start + x.len()].copy_from_slice(x);
            }
        }
    }

    fn vjp(&self, input: usize, x: &[MatRef<'_, R>], _pass: &Pass, space: &mut NodeSpace<R>, dx: &mut [R]) {
        let (n, cols, start) = (self.output.len().max(1), x[input].cols.max(1), self.starts[input]);
        for (dx, delta) in dx.chunks_exact_mut(cols).zip(space.delta.chunks_exact(n)).take(x[input].rows) {
            dx.copy_from_slice(&delta[start..start + cols]);
        }
    }
}

impl Node for Concat {
    fn describe(&self) -> String {
        format!("concat {}", self.inputs.len())
    }
    fn inputs(&self) -> Vec<Shape> {
        self.inputs.clone()
    }
    fn output(&self) -> Shape {
        self.output
    }
    fn is_random(&self) -> bool {
        false
    }
}

/// Some columns of a flat row.
#[derive(Debug, Clone)]
pub struct Select {
    inputs: usize,
    columns: Vec<usize>,
}

impl Select {
    /// By number, from 0, in the order wanted.
    pub fn new(input: Shape, columns: &[usize]) -> Result<Select> {
        let Shape::Flat(inputs) = input else {
            return Err(Error::setting(format!("columns of {input} cannot be selected"), "flatten it first"));
        };
        match columns.iter().find(|c| **c >= inputs) {
            _ if columns.is_empty() => Err(Error::setting("no columns are selected", "name at least one, from 0")),
            Some(c) => {
                let what = format!("column {c} cannot be selected from {inputs} numbers");
                Err(Error::setting(what, "columns are numbered from 0"))
            }
            None => Ok(Select { inputs, columns: columns.to_vec() }),
        }
    }
}

impl<R: Real> NodeOps<R> for Select {
    fn space(&self, rows: usize) -> NodeSpace<R> {
        NodeSpace::with_output(rows * self.columns.len())
    }

    fn forward(&self, x: &[MatRef<'_, R>], _pass: &Pass, space: &mut NodeSpace<R>) {
        let rows = space.out.chunks_exact_mut(self.columns.len()).zip(x[0].data.chunks_exact(self.inputs));
        for (out, x) in rows {
            out.iter_mut().zip(&self.columns).for_each(|(out, c)| *out = x[*c]);
        }
    }

    fn vjp(&self, _input: usize, x: &[MatRef<'_, R>], _pass: &Pass, space: &mut NodeSpace<R>, dx: &mut [R]) {
        let rows = dx.chunks_exact_mut(self.inputs).zip(space.delta.chunks_exact(self.columns.len()));
        for (dx, delta) in rows.take(x[0].rows) {
            dx.fill(R::ZERO);
            delta.iter().zip(&self.columns).for_each(|(d, c)| dx[*c] += *d);
        }
    }
}

impl Node for Select {
    fn describe(&self) -> String {
        format!("select {} of {}", self.columns.len(), self.inputs)
    }
    fn inputs(&self) -> Vec<Shape> {
        vec![Shape::Flat(self.inputs)]
    }
    fn output(&self) -> Shape {
        Shape::Flat(self.columns.len())
    }
    fn is_random(&self) -> bool {
        false
    }
}
