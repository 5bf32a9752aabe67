//! Gated linear units: out = a · sigmoid(b) for a row of the halves a and b.
//!
//! `glu` has no weights: forward and vector-Jacobian product of one row are all there is to it. `gated-dense` puts an affine map before it; noise by row,
//! curvature, dropout and import follow from the affine map. Dauphin et al. (2017), ICML. Cost: one exponential for each output.

use posterior::nn::{Activation, Dense, LayerEntry, Op, RowMap, Shape};
use posterior::settings::{Allowed, Default, Setting};
use posterior::{Error, Real};

#[derive(Debug)]
struct Glu {
    half: usize,
}

impl RowMap for Glu {
    fn describe(&self) -> String {
        format!("glu {}", self.half)
    }

    fn output(&self) -> Shape {
        Shape::Flat(self.half)
    }

    fn forward<R: Real>(&self, x: &[R], out: &mut [R]) {
        let (a, b) = x.split_at(self.half);
        out.iter_mut().zip(a.iter().zip(b)).for_each(|(out, (a, b))| *out = *a * b.sigmoid::<false>());
    }

    fn vjp<R: Real>(&self, x: &[R], out: &[R], d_out: &[R], dx: &mut [R]) {
        for i in 0..self.half {
            let gate = x[self.half + i].sigmoid::<false>();
            dx[i] = d_out[i] * gate;
            // d/db a·σ(b) = a σ(b) (1 − σ(b))
            dx[self.half + i] = d_out[i] * out[i] * (R::ONE - gate);
        }
    }
}

/// `kind = "glu"`
pub const GLU: LayerEntry = LayerEntry {
    name: "glu",
    summary: "the first half of a row, gated by the second",
    settings: &[],
    build: |_, builder, from| match from {
        [x] if x.shape.len() % 2 == 0 => builder.add(Op::rows(x.shape, Glu { half: x.shape.len() / 2 }), from),
        _ => Err(Error::setting("a gated linear unit takes one row of two halves", "give it an even number of units")),
    },
};

const UNITS: Setting =
    Setting { name: "units", help: "outputs", default: Default::Int(20), allowed: Allowed::Int(1, 1 << 20) };

/// `kind = "gated-dense"`
pub const GATED: LayerEntry = LayerEntry {
    name: "gated-dense",
    summary: "a dense layer whose units are gated by as many others",
    settings: &[UNITS],
    build: |settings, builder, from| match from {
        [x] => {
            let units = settings.count("units")?;
            let both = builder.add(Op::affine(Dense::new(x.shape, 2 * units, Activation::Identity)), &[*x])?;
            builder.add(Op::rows(both.shape, Glu { half: units }), &[both])
        }
        _ => Err(Error::setting("a gated dense layer takes one input", "join several by 'concat' first")),
    },
};
