//! k(x, x′) of an expression at given parameters, a row against a segment of columns at a time, with gradients in the parameters and in x.
//!
//! ∂/∂θ Σᵢⱼ wᵢⱼ k(xᵢ, xⱼ) goes back through sums and products to weights on each kernel, and from there to dk/d(r²): for all lengthscales of a kernel together one
//! more pass over the segment, Σⱼ wⱼ k′ⱼ (a_d − b_dj)². Nothing of the size rows × rows × inputs exists.

use super::kernel::{Kernel, Leaf, Node};
use super::parse::Kind;
use super::rows;
use super::wide::WideNetwork;
use crate::math::linalg::dot;

/// Columns of a segment: what is kept of them stays in the first-level cache.
pub(super) const SEGMENT: usize = 256;

/// A kernel at given parameters.
#[derive(Debug, Clone)]
pub(super) struct Covariance<'k> {
    pub kernel: &'k Kernel,
    /// The parameters themselves, not their logarithms.
    values: Vec<f64>,
    /// What every dimension of every kernel is multiplied by.
    factors: Vec<Vec<f64>>,
}

/// Rows as a kernel wants them: for every kernel, dimension by dimension, scaled.
#[derive(Debug, Clone)]
pub(super) struct Points {
    pub n: usize,
    leaves: Vec<Vec<f64>>,
    /// Which kernels keep an angle beside its place on the circle.
    angles: Vec<bool>,
}

/// Buffers of one thread.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    value: Vec<Vec<f64>>,
    slope: Vec<Vec<f64>>,
    weight: Vec<Vec<f64>>,
    row: Vec<f64>,
    temporary: Vec<f64>,
}

/// Arrays that a dimension is kept as.
fn arrays(kind: Kind) -> usize {
    // cos φ/ℓ, sin φ/ℓ and φ.
    if kind == Kind::Periodic { 3 } else { 1 }
}

impl<'k> Covariance<'k> {
    /// At parameters given by their logarithms.
    pub(super) fn new(kernel: &'k Kernel, log: &[f64]) -> Covariance<'k> {
        let values: Vec<f64> = log[..kernel.parameters().len()].iter().map(|v| v.exp()).collect();
        let factor = |leaf: &Leaf, dim: &super::kernel::Dim| {
            let scale = || values[leaf.scale_of(dim.group)];
            dim.unit
                * match leaf.kind {
                    Kind::Linear => scale().sqrt(),
                    Kind::Polynomial | Kind::Nngp | Kind::Ntk => 1.0 / (leaf.dims.len() as f64).sqrt(),
                    Kind::Hamming => 1.0 / scale().sqrt(),
                    Kind::Periodic => std::f64::consts::TAU / leaf.extra.map_or(1.0, |p| values[p]),
                    _ => 1.0 / scale(),
                }
        };
        let factors =
            kernel.leaves.iter().map(|leaf| leaf.dims.iter().map(|dim| factor(leaf, dim)).collect()).collect();
        Covariance { kernel, values, factors }
    }

    /// Rows of encoded inputs made ready.
    pub(super) fn points(&self, x: &[f64]) -> Points {
        let width = self.kernel.width().max(1);
        let n = x.len() / width;
        let angles = self.kernel.leaves.iter().map(|l| l.kind == Kind::Periodic).collect();
        let leaves = self
            .kernel
            .leaves
            .iter()
            .zip(&self.factors)
            .map(|(leaf, factors)| {
                if Covariance::sees_all(leaf) {
                    return (0..width).flat_map(|d| (0..n).map(move |i| x[i * width + d])).collect();
                }
                let mut out = Vec::with_capacity(arrays(leaf.kind) * leaf.dims.len() * n);
                for (dim, factor) in leaf.dims.iter().zip(factors) {
                    let scaled = (0..n).map(|i| x[i * width + dim.input] * factor);
                    if leaf.kind == Kind::Periodic {
                        let scale = 1.0 / self.values[leaf.scale_of(dim.group)];
                        out.extend(scaled.clone().map(|phi| phi.cos() * scale));
                        out.extend(scaled.clone().map(|phi| phi.sin() * scale));
                    }
                    out.extend(scaled);
                }
                if leaf.kind.is_wide() {
                    // x·x/D in the same order as of two rows, so that equal rows are seen to be.
                    for i in 0..n {
                        let row: Vec<f64> = (0..leaf.dims.len()).map(|d| out[d * n + i]).collect();
                        let mut own = [0.0];
                        rows::products(&row, &out, n, i, &mut own);
                        out.push(own[0]);
                    }
                }
                out
            })
            .collect();
        Points { n, leaves, angles }
    }

    /// k(x, x), in which a white kernel counts.
    pub(super) fn diagonal(&self, points: &Points, i: usize, scratch: &mut Scratch) -> f64 {
        let mut out = [0.0];
        self.row(points, i, points, i, true, scratch, &mut out);
        out[0]
    }

    /// out ← k(row i of a, rows `from` on of b); `same` says that a and b are the same rows, so that a white kernel counts where they meet.
    pub(super) fn row(
        &self,
        a: &Points,
        i: usize,
        b: &Points,
        from: usize,
        same: bool,
        scratch: &mut Scratch,
        out: &mut [f64],
    ) {
        for (s, out) in out.chunks_mut(SEGMENT).enumerate() {
            let first = from + s * SEGMENT;
            self.leaf_values(a, i, b, first, same, out.len(), false, scratch);
            value_of(&self.kernel.root, &scratch.value, out);
        }
    }

    /// Adds Σⱼ wⱼ ∂k(row i of a, row from + j of b)/∂ ln θ to `gradient`.
    pub(super) fn gradient(
        &self,
        a: &Points,
        i: usize,
        b: &Points,
        from: usize,
        same: bool,
        weights: &[f64],
        scratch: &mut Scratch,
        gradient: &mut [f64],
    ) {
        for (s, weights) in weights.chunks(SEGMENT).enumerate() {
            let first = from + s * SEGMENT;
            self.leaf_values(a, i, b, first, same, weights.len(), true, scratch);
            weigh(&self.kernel.root, &scratch.value, weights, &mut scratch.weight);
            for l in 0..self.kernel.leaves.len() {
                self.leaf_gradient(l, a, i, b, first, scratch, gradient);
            }
        }
    }

    /// Adds Σⱼ wⱼ ∂k(row i of a, row j of b)/∂xᵢ to `dx`.
    pub(super) fn input_gradient(
        &self,
        a: &Points,
        i: usize,
        b: &Points,
        weights: &[f64],
        scratch: &mut Scratch,
        dx: &mut [f64],
    ) {
        for (s, weights) in weights.chunks(SEGMENT).enumerate() {
            let first = s * SEGMENT;
            self.leaf_values(a, i, b, first, false, weights.len(), true, scratch);
            weigh(&self.kernel.root, &scratch.value, weights, &mut scratch.weight);
            for l in 0..self.kernel.leaves.len() {
                self.leaf_input_gradient(l, a, i, b, first, scratch, dx);
            }
        }
    }

    /// Values, and where wanted slopes, of every kernel at a segment.
    fn leaf_values(
        &self,
        a: &Points,
        i: usize,
        b: &Points,
        first: usize,
        same: bool,
        len: usize,
        slopes: bool,
        scratch: &mut Scratch,
    ) {
        let leaves = &self.kernel.leaves;
        for buffers in [&mut scratch.value, &mut scratch.slope, &mut scratch.weight] {
            buffers.resize(leaves.len(), Vec::new());
            buffers.iter_mut().for_each(|v| v.resize(len, 0.0));
        }
        for (l, leaf) in leaves.iter().enumerate() {
            let (pa, pb, row) = (&a.leaves[l], &b.leaves[l], &mut scratch.row);
            let count = leaf.dims.len() * arrays(leaf.kind);
            row.clear();
            row.extend((0..count).map(|d| pa[d * a.n + i]));
            let out = &mut scratch.value[l];
            let slope: &mut [f64] = if slopes { &mut scratch.slope[l] } else { &mut [] };
            let variance = self.values[leaf.variance.start];
            let extra = leaf.extra.map_or(1.0, |e| self.values[e]);
            match leaf.kind {
                Kind::Constant => out.fill(variance),
                Kind::White => {
                    out.fill(0.0);
                    if same && (first..first + len).contains(&i) {
                        out[i - first] = variance;
                    }
                }
                Kind::Linear => rows::products(row, pb, b.n, first, out),
                Kind::Polynomial => {
                    rows::products(row, pb, b.n, first, out);
                    let degree = leaf.degree as i32;
                    if slopes {
                        let slope_of = |t: f64| variance * f64::from(degree) * t.powi(degree - 1);
                        slope.iter_mut().zip(&*out).for_each(|(s, v)| *s = slope_of(v + extra));
                    }
                    out.iter_mut().for_each(|v| *v = variance * (*v + extra).powi(degree));
                }
                Kind::Nngp | Kind::Ntk => {
                    rows::products(row, pb, b.n, first, out);
                    let (network, last) = (self.wide(leaf), leaf.dims.len());
                    let (own, others) = (pa[last * a.n + i], &pb[last * b.n + first..]);
                    for (out, other) in out.iter_mut().zip(others) {
                        *out = variance * network.of::<0>(own, *other, *out).v;
                    }
                }
                Kind::Periodic => {
                    out.fill(0.0);
                    // Squared distances of points on circles; the third array of a dimension is the angle.
                    let temporary = &mut scratch.temporary;
                    temporary.resize(len, 0.0);
                    for d in 0..leaf.dims.len() {
                        let circle = &pb[3 * d * b.n..];
                        rows::square_distances(&row[3 * d..3 * d + 2], circle, b.n, first, temporary);
                        rows::add(out, temporary);
                    }
                    rows::of_distance(leaf.kind, variance, extra, out, slope);
                }
                kind => {
                    rows::square_distances(row, pb, b.n, first, out);
                    rows::of_distance(kind, variance, extra, out, slope);
                }
            }
        }
    }

    fn leaf_gradient(
        &self,
        l: usize,
        a: &Points,
        i: usize,
        b: &Points,
        first: usize,
        scratch: &mut Scratch,
        gradient: &mut [f64],
    ) {
        let leaf = &self.kernel.leaves[l];
        let (pa, pb) = (&a.leaves[l], &b.leaves[l]);
        let (value, weight) = (&scratch.value[l], &scratch.weight[l]);
        let len = value.len();
        let array = |d: usize| (pa[d * a.n + i], &pb[d * b.n + first..d * b.n + first + len]);
        if leaf.kind == Kind::Linear {
            for (d, dim) in leaf.dims.iter().enumerate() {
                let (x, other) = array(d);
                gradient[leaf.scale_of(dim.group)] += x * dot(weight, other);
            }
            return;
        }
        gradient[leaf.variance.start] += dot(weight, value);
        if matches!(leaf.kind, Kind::Constant | Kind::White) {
            return;
        }
        // wⱼ dk/d(r²), or wⱼ dk/d(x·x′).
        let slope = &mut scratch.slope[l];
        if let (true, Some(at)) = (leaf.kind.is_wide(), leaf.extra) {
            scratch.row.clear();
            scratch.row.extend((0..leaf.dims.len()).map(|d| pa[d * a.n + i]));
            rows::products(&scratch.row, pb, b.n, first, slope);
            let (network, last, v) = (self.wide(leaf), leaf.dims.len(), self.values[leaf.variance.start]);
            let (own, others) = (pa[last * a.n + i], &pb[last * b.n + first..]);
            for ((both, other), w) in slope.iter().zip(others).zip(weight) {
                let jet = network.of::<2>(own, *other, *both);
                gradient[at] += w * v * jet.d[0];
                gradient[at + 1] += w * v * jet.d[1];
            }
            return;
        }
        if let (Kind::RationalQuadratic, Some(alpha)) = (leaf.kind, leaf.extra) {
            let (v, a) = (self.values[leaf.variance.start], self.values[alpha]);
            // ∂k/∂ ln α = k (ln(k/v) + α (1 − 1/u)) with u = 1 + r²/2α = −k/2k′.
            let part = |((k, s), w): ((&f64, &f64), &f64)| match *k > 0.0 {
                true => w * k * ((k / v).ln() + a * (1.0 + 2.0 * s / k)),
                false => 0.0,
            };
            gradient[alpha] += value.iter().zip(&*slope).zip(weight).map(part).sum::<f64>();
        }
        rows::multiply(slope, weight);
        match (leaf.kind, leaf.extra) {
            (Kind::Polynomial, Some(offset)) => gradient[offset] += self.values[offset] * slope.iter().sum::<f64>(),
            (Kind::Periodic, Some(period)) => {
                for (d, dim) in leaf.dims.iter().enumerate() {
                    let ((c, cs), (s, ss), (p, ps)) = (array(3 * d), array(3 * d + 1), array(3 * d + 2));
                    let squares = rows::weighted_squares(slope, c, cs) + rows::weighted_squares(slope, s, ss);
                    gradient[leaf.scale_of(dim.group)] -= 2.0 * squares;
                    // d(r²)/d ln p = −2 sin(φ − φ′)(φ − φ′)/ℓ².
                    let turn = |j: usize| slope[j] * (s * cs[j] - c * ss[j]) * (p - ps[j]);
                    gradient[period] -= 2.0 * (0..len).map(turn).sum::<f64>();
                }
            }
            _ => {
                // r² goes with ℓ⁻², of the Hamming kernel with ℓ⁻¹.
                let power = if leaf.kind == Kind::Hamming { 1.0 } else { 2.0 };
                for (d, dim) in leaf.dims.iter().enumerate() {
                    let (x, other) = array(d);
                    gradient[leaf.scale_of(dim.group)] -= power * rows::weighted_squares(slope, x, other);
                }
            }
        }
    }

    fn leaf_input_gradient(
        &self,
        l: usize,
        a: &Points,
        i: usize,
        b: &Points,
        first: usize,
        scratch: &mut Scratch,
        dx: &mut [f64],
    ) {
        let leaf = &self.kernel.leaves[l];
        let (pa, pb) = (&a.leaves[l], &b.leaves[l]);
        let (weight, slope) = (&scratch.weight[l], &mut scratch.slope[l]);
        let len = weight.len();
        let array = |d: usize| (pa[d * a.n + i], &pb[d * b.n + first..d * b.n + first + len]);
        // Functions of wide networks cannot be drawn, and nothing else asks for gradients in x.
        if matches!(leaf.kind, Kind::Constant | Kind::White) || leaf.kind.is_wide() {
            return;
        }
        if leaf.kind == Kind::Linear {
            slope.copy_from_slice(weight);
        } else {
            rows::multiply(slope, weight);
        }
        for (d, (dim, factor)) in leaf.dims.iter().zip(&self.factors[l]).enumerate() {
            let sum = match leaf.kind {
                Kind::Linear | Kind::Polynomial => dot(slope, array(d).1),
                Kind::Periodic => {
                    let ((c, cs), (s, ss)) = (array(3 * d), array(3 * d + 1));
                    2.0 * (0..len).map(|j| slope[j] * (s * cs[j] - c * ss[j])).sum::<f64>()
                }
                _ => {
                    let (x, other) = array(d);
                    2.0 * (0..len).map(|j| slope[j] * (x - other[j])).sum::<f64>()
                }
            };
            dx[dim.input] += factor * sum;
        }
    }

    fn wide(&self, leaf: &Leaf) -> WideNetwork {
        let at = leaf.extra.unwrap_or(leaf.variance.start);
        WideNetwork {
            activation: leaf.activation,
            depth: leaf.degree,
            weight: self.values[at],
            bias: self.values[at + 1],
            tangent: leaf.kind == Kind::Ntk,
        }
    }

    pub(super) fn values(&self) -> &[f64] {
        &self.values
    }

    /// d(what the kernel sees of a dimension)/dx.
    pub(super) fn factor(&self, leaf: usize, dim: usize) -> f64 {
        self.factors[leaf][dim]
    }

    /// All encoded inputs of rows, for kernels that look at none: a white kernel is told rows apart by them.
    fn sees_all(leaf: &Leaf) -> bool {
        leaf.kind == Kind::White
    }
}

impl Points {
    /// What a kernel sees of a row: scaled inputs, or angles.
    pub(super) fn row(&self, leaf: usize, i: usize) -> Vec<f64> {
        let (data, n) = (&self.leaves[leaf], self.n);
        let (each, at) = if self.angles[leaf] { (3, 2) } else { (1, 0) };
        let dims = data.len().checked_div(each * n).unwrap_or(0);
        (0..dims).map(|d| data[(each * d + at) * n + i]).collect()
    }
}

/// The value of an expression from those of its kernels.
fn value_of(node: &Node, values: &[Vec<f64>], out: &mut [f64]) {
    match node {
        Node::Leaf(l) => out.copy_from_slice(&values[*l]),
        Node::Sum(parts) | Node::Product(parts) => {
            let product = matches!(node, Node::Product(_));
            let mut own = Vec::new();
            for (i, part) in parts.iter().enumerate() {
                if i == 0 {
                    value_of(part, values, out);
                    continue;
                }
                let other: &[f64] = match part {
                    Node::Leaf(l) => &values[*l],
                    part => {
                        own.resize(out.len(), 0.0);
                        value_of(part, values, &mut own);
                        &own
                    }
                };
                if product { rows::multiply(out, other) } else { rows::add(out, other) }
            }
        }
    }
}

/// Weights on an expression to weights on its kernels: through a product goes the value of everything else.
fn weigh(node: &Node, values: &[Vec<f64>], weights: &[f64], out: &mut [Vec<f64>]) {
    match node {
        Node::Leaf(l) => out[*l].copy_from_slice(weights),
        Node::Sum(parts) => parts.iter().for_each(|part| weigh(part, values, weights, out)),
        Node::Product(parts) => {
            let (mut own, mut other) = (vec![0.0; weights.len()], vec![0.0; weights.len()]);
            for i in 0..parts.len() {
                own.copy_from_slice(weights);
                for (j, part) in parts.iter().enumerate().filter(|(j, _)| *j != i) {
                    debug_assert_ne!(i, j);
                    value_of(part, values, &mut other);
                    rows::multiply(&mut own, &other);
                }
                weigh(&parts[i], values, &own, out);
            }
        }
    }
}
