//! Dense layer with its activation fused: a = φ(xW + b), W of shape in × out.
//!
//! Backward, with δ = dL/da ⊙ φ′: dL/dW = xᵀδ, dL/db = Σ_rows δ, dL/dx = δWᵀ. Cost: three products of
//! rows × in × out multiply-adds in all, and one pass over rows × out each way.

use super::activation::{Activation, with_activation};
use super::affine::{Affine, AffineBlock, AffineKind, AffineOps};
use super::layout::{BlockSpec, Role};
use super::node::{NodeSpace, Pass, Shape};
use super::noisy::{
    Gradient, Noisy, Weights, add_input_gradient, add_noise_by_row, change_input, fill_factor, grow, noise_key,
    through_factor,
};
use crate::math::{Mat, MatRef, Real, gemm, over_rows, thin};
use crate::rng::Normals;
use crate::simd_fn;

/// Numbers in a repeated bias: a small part of the first-level cache.
const TILE: usize = 512;
/// Numbers of a block of rows that are read again at once.
const BLOCK: usize = 2048;

/// A dense layer.
#[derive(Debug, Clone)]
pub struct Dense {
    input: Shape,
    fan_in: usize,
    units: usize,
    activation: Activation,
}

impl Dense {
    /// From a row of the given shape (an image is read as one long row) to `units` numbers.
    pub fn new(input: Shape, units: usize, activation: Activation) -> Dense {
        Dense { input, fan_in: input.len(), units, activation }
    }
}

simd_fn! {
    /// a ← φ(z + b) on every row; z + b is kept where the slope will need it (`keep`, else empty).
    ///
    /// At the end of each short row vectors would not be full: several rows are taken as one, with the bias repeated.
    wider fn bias_activation<R>(activation: Activation, bias: &[R], a: &mut [R], keep: &mut [R]) {
        let n = bias.len();
        let mut tile = [R::ZERO; TILE];
        // A tile is worth making where it is used several times over.
        let repeats = (TILE / n.max(1)).min(a.len() / (4 * n).max(1));
        let bias = if repeats < 2 {
            bias
        } else {
            tile[..repeats * n].chunks_exact_mut(n).for_each(|t| t.copy_from_slice(bias));
            &tile[..repeats * n]
        };
        let period = bias.len().max(1);
        with_activation!(activation, A => for (i, part) in a.chunks_mut(period).enumerate() {
            let bias = &bias[..part.len()];
            if !keep.is_empty() {
                let kept = &mut keep[i * period..][..part.len()];
                for j in 0..part.len() {
                    kept[j] = part[j] + bias[j];
                }
            }
            for j in 0..part.len() {
                part[j] = A.value::<R, F>(part[j] + bias[j]);
            }
        });
    }
}

simd_fn! {
    /// a ← φ(z) in place; z is kept where the slope will need it (`keep`, else empty).
    wider fn activate<R>(activation: Activation, a: &mut [R], keep: &mut [R]) {
        if !keep.is_empty() {
            keep.copy_from_slice(a);
        }
        with_activation!(activation, A => for i in 0..a.len() {
            a[i] = A.value::<R, F>(a[i]);
        });
    }
}

simd_fn! {
    /// δ ← δ ⊙ φ′ in place.
    wider fn slope<R>(activation: Activation, z: &[R], a: &[R], delta: &mut [R]) {
        let (z, a) = (&z[..delta.len()], &a[..delta.len()]);
        with_activation!(activation, A => for i in 0..delta.len() {
            delta[i] *= A.slope::<R, F>(z[i], a[i]);
        });
    }
}

/// δ ← δ ⊙ φ′ in place, and its sum over rows added to `d_bias`; by blocks that stay in the first-level cache between the two.
fn slope_and_bias<R: Real>(activation: Activation, z: &[R], a: &[R], delta: &mut [R], d_bias: &mut [R]) {
    let n = d_bias.len();
    let block = (BLOCK / n.max(1)).max(1) * n.max(1);
    for ((delta, a), z) in delta.chunks_mut(block).zip(a.chunks(block)).zip(z.chunks(block)) {
        if activation != Activation::Identity {
            slope(activation, z, a, delta);
        }
        over_rows::column_sums(delta, d_bias);
    }
}

impl Dense {
    fn forward_fixed<R: Normals>(&self, w: &[R], x: MatRef<'_, R>, pass: &Pass, space: &mut NodeSpace<R>) {
        let (weight, bias) = w.split_at(self.fan_in * self.units);
        let out = &mut space.out[..x.rows * self.units];
        let kept = space.scratch[0].len().min(out.len());
        let keep = &mut space.scratch[0][..kept];
        // Decided by the layer's shape alone, so that a row has the same bits in whatever chunk.
        if self.units == 1 && self.fan_in > 0 {
            thin::one_column(x.data, weight, bias[0], out);
            activate(self.activation, out, keep);
        } else if (1..=thin::FEW).contains(&self.fan_in) {
            let floor = if self.activation == Activation::Relu { R::ZERO } else { R::of(f64::NEG_INFINITY) };
            thin::few_terms(self.fan_in, x.data, weight, bias, floor, out);
            if self.activation != Activation::Relu {
                activate(self.activation, out, keep);
            }
        } else {
            let (x_rows, weight) = (Mat::rows_of(x.data, self.fan_in), Mat::rows_of(weight, self.units));
            gemm((x.rows, self.units, self.fan_in), out, false, x_rows, weight, pass.threads);
            bias_activation(self.activation, bias, out, keep);
        }
    }

    fn backward_fixed<R: Normals>(
        &self,
        w: &[R],
        x: MatRef<'_, R>,
        pass: &Pass,
        space: &mut NodeSpace<R>,
        grad: &mut [R],
        accumulate: bool,
        mut dx: Option<&mut [R]>,
    ) {
        let (d_weight, d_bias) = grad.split_at_mut(self.fan_in * self.units);
        if !accumulate {
            d_bias.fill(R::ZERO);
        }
        let len = x.rows * self.units;
        let (a, delta) = (&space.out[..len], &mut space.delta[..len]);
        let z = if self.activation.slope_needs_input() { &space.scratch[0][..len] } else { a };
        slope_and_bias(self.activation, z, a, delta, d_bias);
        if let (1, Some(dx)) = (self.units, &mut dx) {
            if !accumulate {
                d_weight.fill(R::ZERO);
            }
            over_rows::weighted_column_sums(delta, x.data, d_weight);
            return thin::outer(delta, &w[..self.fan_in], dx);
        }
        let rows = Mat::rows_of(&*delta, self.units);
        if (1..=thin::FEW).contains(&self.fan_in) {
            if !accumulate {
                d_weight.fill(R::ZERO);
            }
            over_rows::few_rows(self.fan_in, x.data, delta, d_weight);
        } else {
            let size = (self.fan_in, self.units, x.rows);
            gemm(size, d_weight, accumulate, Mat::transposed(x.data, self.fan_in), rows, pass.threads);
        }
        if let Some(dx) = dx {
            let weight_t = Mat::transposed(&w[..self.fan_in * self.units], self.units);
            gemm((x.rows, self.fan_in, self.units), dx, false, rows, weight_t, pass.threads);
        }
    }

    fn forward_noisy<R: Normals>(&self, w: Noisy<'_, R>, x: MatRef<'_, R>, pass: &Pass, space: &mut NodeSpace<R>) {
        let (n, cut) = (x.rows * self.units, self.fan_in * self.units);
        let key = noise_key(pass.mode, pass.layer);
        let [kept, changed, product, factor] = noisy_space(&mut space.scratch, x.data.len(), n);
        let out = &mut space.out[..n];
        let size = (x.rows, self.units, self.fan_in);
        let work = x.rows * cut;
        let by_mean = |threads| {
            fill_factor(w.noise, key, pass.first_row, self.units, factor);
            let weight = Mat::rows_of(&w.mean[..cut], self.units);
            gemm(size, out, false, Mat::rows_of(x.data, self.fan_in), weight, threads);
        };
        let by_spread = |threads| {
            change_input(w.noise, key, pass.first_row, self.fan_in, x.data, changed);
            let weight = Mat::rows_of(&w.spread[..cut], self.units);
            gemm(size, product, false, Mat::rows_of(changed, self.fan_in), weight, threads);
        };
        pass.threads.both(work, by_mean, by_spread);
        let kept_len = kept.len().min(n);
        // Rows stand by themselves: half of them for each thread.
        let half = x.rows / 2 * self.units;
        let (out, product, factor) = (out.split_at_mut(half), product.split_at(half), factor.split_at_mut(half));
        let kept = kept[..kept_len].split_at_mut(half.min(kept_len));
        let finish = |out: &mut [R], product: &[R], factor: &mut [R], kept: &mut [R]| {
            add_noise_by_row(w.noise, &w.spread[cut..], product, out, factor);
            bias_activation(self.activation, &w.mean[cut..], out, kept);
        };
        let (first, second) = ((out.0, factor.0, kept.0), (out.1, factor.1, kept.1));
        pass.threads.both(
            work,
            |_| finish(first.0, product.0, first.1, first.2),
            |_| finish(second.0, product.1, second.1, second.2),
        );
    }

    fn backward_noisy<R: Normals>(
        &self,
        w: Noisy<'_, R>,
        x: MatRef<'_, R>,
        pass: &Pass,
        space: &mut NodeSpace<R>,
        grad: Gradient<'_, R>,
        accumulate: bool,
        dx: Option<&mut [R]>,
    ) {
        let (n, cut) = (x.rows * self.units, self.fan_in * self.units);
        let (d_mean, d_mean_bias) = grad.centre.split_at_mut(cut);
        let (d_spread, d_spread_bias) = grad.spread.split_at_mut(cut);
        if !accumulate {
            d_mean_bias.fill(R::ZERO);
            d_spread_bias.fill(R::ZERO);
        }
        let [kept, changed, e, factor] = noisy_space(&mut space.scratch, x.data.len(), n);
        let (a, delta) = (&space.out[..n], &mut space.delta[..n]);
        let z = if self.activation.slope_needs_input() { &kept[..n] } else { a };
        slope_and_bias(self.activation, z, a, delta, d_mean_bias);
        let (delta, work) = (&*delta, x.rows * cut);
        let size = (self.fan_in, self.units, x.rows);
        let back = (x.rows, self.fan_in, self.units);
        // The changed input has done its part in the gradient of the spread: its place takes the product with it.
        let mut dx = dx;
        let wanted = dx.is_some();
        let by_mean = |threads| {
            let delta = Mat::rows_of(delta, self.units);
            gemm(size, d_mean, accumulate, Mat::transposed(x.data, self.fan_in), delta, threads);
            if let Some(dx) = &mut dx {
                gemm(back, dx, false, delta, Mat::transposed(&w.mean[..cut], self.units), threads);
            }
        };
        let by_spread = |threads| {
            through_factor(delta, factor, e, d_spread_bias);
            let e = Mat::rows_of(&*e, self.units);
            gemm(size, d_spread, accumulate, Mat::transposed(&*changed, self.fan_in), e, threads);
            if wanted {
                gemm(back, changed, false, e, Mat::transposed(&w.spread[..cut], self.units), threads);
            }
        };
        pass.threads.both(work, by_mean, by_spread);
        if let Some(dx) = dx {
            let key = noise_key(pass.mode, pass.layer);
            add_input_gradient(w.noise, key, pass.first_row, self.fan_in, x.data, changed, dx);
        }
    }
}

impl<R: Normals> AffineOps<R> for Dense {
    fn space(&self, rows: usize) -> NodeSpace<R> {
        let mut space = NodeSpace::with_output(rows * self.units);
        let kept = if self.activation.slope_needs_input() { rows * self.units } else { 0 };
        space.scratch.push(vec![R::ZERO; kept]);
        space
    }

    fn forward(&self, w: Weights<'_, R>, x: MatRef<'_, R>, pass: &Pass, space: &mut NodeSpace<R>) {
        match w {
            Weights::Fixed(w) => self.forward_fixed(w, x, pass, space),
            Weights::Noisy(w) => self.forward_noisy(w, x, pass, space),
        }
    }

    fn backward(
        &self,
        w: Weights<'_, R>,
        x: MatRef<'_, R>,
        pass: &Pass,
        space: &mut NodeSpace<R>,
        grad: Gradient<'_, R>,
        accumulate: bool,
        dx: Option<&mut [R]>,
    ) {
        match w {
            Weights::Fixed(w) => self.backward_fixed(w, x, pass, space, grad.centre, accumulate, dx),
            Weights::Noisy(w) => self.backward_noisy(w, x, pass, space, grad, accumulate, dx),
        }
    }

    fn vjp(&self, w: &[R], x: MatRef<'_, R>, pass: &Pass, space: &mut NodeSpace<R>, dx: Option<&mut [R]>) {
        let len = x.rows * self.units;
        let (a, delta) = (&space.out[..len], &mut space.delta[..len]);
        if self.activation != Activation::Identity {
            let z = if self.activation.slope_needs_input() { &space.scratch[0][..len] } else { a };
            slope(self.activation, z, a, delta);
        }
        if let Some(dx) = dx {
            let weight_t = Mat::transposed(&w[..self.fan_in * self.units], self.units);
            let size = (x.rows, self.fan_in, self.units);
            gemm(size, dx, false, Mat::rows_of(&*delta, self.units), weight_t, pass.threads);
        }
    }

    fn block_inputs(&self, x: MatRef<'_, R>, visit: &mut dyn FnMut(&[R])) {
        visit(x.data);
    }

    fn block_deltas(&self, rows: usize, space: &NodeSpace<R>, visit: &mut dyn FnMut(&[R])) {
        visit(&space.delta[..rows * self.units]);
    }
}

/// Scratch of a pass with row noise: kept pre-activations, changed input, second product, factor.
fn noisy_space<R: Real>(scratch: &mut Vec<Vec<R>>, inputs: usize, outputs: usize) -> [&mut [R]; 4] {
    scratch.resize_with(4, Vec::new);
    let [kept, changed, product, factor] = &mut scratch[..] else { unreachable!("four buffers were made") };
    grow(changed, inputs);
    grow(product, outputs);
    grow(factor, outputs);
    [kept, &mut changed[..inputs], &mut product[..outputs], &mut factor[..outputs]]
}

impl Affine for Dense {
    fn describe(&self) -> String {
        match self.activation {
            Activation::Identity => format!("dense {}", self.units),
            a => format!("dense {} {}", self.units, a.name()),
        }
    }
    fn input(&self) -> Shape {
        self.input
    }
    fn output(&self) -> Shape {
        Shape::Flat(self.units)
    }
    fn parameters(&self) -> Vec<BlockSpec> {
        let gain = self.activation.gain();
        vec![
            BlockSpec::new("weight", vec![self.fan_in, self.units], Role::Weight, self.fan_in).gain(gain),
            BlockSpec::new("bias", vec![self.units], Role::Bias, self.fan_in),
        ]
    }
    fn block(&self) -> AffineBlock {
        AffineBlock {
            kind: AffineKind::Dense,
            start: 0,
            inputs: self.fan_in,
            units: self.units,
            positions: 1,
            bias: true,
            transposed: false,
            activation: self.activation,
            layer: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::Threads;
    use crate::nn::{ACTIVATIONS, Mode};
    use crate::rng::{Key, fill_normals};

    /// φ(xW + b) and the z that is kept, by every product forward chooses from.
    fn check<R: Normals>(epsilon: f64, activation: Activation, (m, n, k): (usize, usize, usize)) {
        let normals = |seed, len| {
            let mut v = vec![0.0f64; len];
            fill_normals(Key::new(seed), &mut v);
            v.into_iter().map(R::of).collect::<Vec<R>>()
        };
        let (x, w) = (normals(1, m * k), normals(2, k * n + n));
        let layer = Dense::new(Shape::Flat(k), n, activation);
        let mut space: NodeSpace<R> = layer.space(m);
        let pass = Pass { mode: Mode::Plain, layer: 0, first_row: 0, threads: Threads::One };
        layer.forward(w[..].into(), MatRef::new(&x, m, k), &pass, &mut space);
        for i in 0..m * n {
            let (row, j) = (i / n, i % n);
            let terms = (0..k).map(|t| x[row * k + t].f64() * w[t * n + j].f64());
            let bias = w[k * n + j].f64();
            let z = bias + terms.clone().sum::<f64>();
            // Rounding of the sum, as in `math::thin`; slopes are below 1.13, and an activation's own error below 4 ε,
            // times z where it is a factor.
            let rounding = (k + 1) as f64 * epsilon * (bias.abs() + terms.map(f64::abs).sum::<f64>());
            let off = (space.out[i].f64() - activation.value::<f64, false>(z)).abs();
            let tolerance = 1.13 * rounding + 4.0 * epsilon * (1.0 + z.abs());
            assert!(off <= tolerance, "{activation:?} {m} × {n} × {k} at {i}: {off:e}");
            if activation.slope_needs_input() {
                assert!((space.scratch[0][i].f64() - z).abs() <= rounding, "{activation:?} {m} × {n} × {k}: z at {i}");
            }
        }
    }

    #[test]
    fn forward_agrees_with_loops() {
        for (_, activation) in ACTIVATIONS {
            for m in [1, 3, 4, 9] {
                for n in [1, 2, 7, 8, 9, 16, 25, 50] {
                    for k in [1, 2, 8, 13, 16, 17, 50] {
                        check::<f32>(f32::EPSILON.into(), *activation, (m, n, k));
                        check::<f64>(f64::EPSILON, *activation, (m, n, k));
                    }
                }
            }
        }
    }
}
