//! Functions drawn from the prior GP(0, k): f(x) = Σₘ wₘ zₘ(x)/√M with w ~ N(0, 1) and random functions z whose product has E[z(x) z(x′)] = k(x, x′).
//!
//! Stationary kernels: z = √2v cos(ωᵀx/ℓ + b) with ω from the spectral density (normal; Student's t with 2ν degrees of freedom for Matérn-ν; a normal with a gamma precision for the
//! rational quadratic; the difference of two Poisson numbers of mean 1/2ℓ² for the periodic kernel, whose functions are waves on a circle). Linear: a random plane; polynomial: a
//! product of planes. A product of kernels is a product of independent z, a sum of kernels a sum of functions. A white kernel is a number keyed by x itself.
//! Reference: Rahimi & Recht (2007); Wilson et al. (2021), Pathwise conditioning of Gaussian processes. Cost: M × inputs per row and draw.

use super::covariance::{Covariance, Points};
use super::kernel::{Leaf, Node};
use super::parse::Kind;
use crate::rng::{Key, Stream};
use rand_distr::{Distribution, Gamma, Poisson};

/// M, for every product of kernels in a sum.
const FEATURES: usize = 1024;
/// Mean of a Poisson number beyond which the difference of two is a rounded normal to all that matters.
const MANY: f64 = 1e6;

/// A random function of one kernel.
#[derive(Debug, Clone)]
enum Feature {
    Wave { omega: Vec<f64>, phase: f64 },
    Planes(Vec<(Vec<f64>, f64)>),
    One,
    White(Key),
}

#[derive(Debug, Clone)]
struct Product {
    weight: f64,
    parts: Vec<(usize, Feature)>,
}

/// One function drawn from the prior.
#[derive(Debug, Clone, Default)]
pub(super) struct PriorFunction {
    products: Vec<Product>,
}

/// A sum of products of kernels that equals the expression.
fn expand(node: &Node) -> Vec<Vec<usize>> {
    match node {
        Node::Leaf(l) => vec![vec![*l]],
        Node::Sum(parts) => parts.iter().flat_map(expand).collect(),
        Node::Product(parts) => parts.iter().fold(vec![Vec::new()], |sofar, part| {
            let own = expand(part);
            sofar.iter().flat_map(|a| own.iter().map(move |b| [a.as_slice(), b].concat())).collect()
        }),
    }
}

impl PriorFunction {
    pub(super) fn draw(covariance: &Covariance<'_>, key: Key) -> PriorFunction {
        let (leaves, values) = (&covariance.kernel.leaves, covariance.values());
        let terms = expand(&covariance.kernel.root);
        let each = (FEATURES / terms.len()).max(FEATURES / 8);
        let mut products = Vec::with_capacity(terms.len() * each);
        for (t, term) in terms.iter().enumerate() {
            // The variance of a linear kernel is in its points already.
            let variance = |l: &usize| match leaves[*l].kind {
                Kind::Linear => 1.0,
                _ => values[leaves[*l].variance.start],
            };
            let scale = (term.iter().map(variance).product::<f64>() / each as f64).sqrt();
            for m in 0..each {
                let own = key.step(t as u64).step(m as u64);
                let mut stream = Stream::new(own);
                let weight = scale * stream.normal();
                let part =
                    |(i, l): (usize, &usize)| (*l, feature(&leaves[*l], values, &mut stream, own.block(i as u64)));
                products.push(Product { weight, parts: term.iter().enumerate().map(part).collect() });
            }
        }
        PriorFunction { products }
    }

    /// f at row i; with `dx`, adds `seed` · ∂f/∂x to it.
    pub(super) fn value(
        &self,
        covariance: &Covariance<'_>,
        points: &Points,
        i: usize,
        dx: Option<(f64, &mut [f64])>,
    ) -> f64 {
        let leaves = &covariance.kernel.leaves;
        let mut dx = dx;
        let rows: Vec<Vec<f64>> = (0..leaves.len()).map(|l| points.row(l, i)).collect();
        let mut sum = 0.0;
        let mut factors = Vec::new();
        for product in &self.products {
            factors.clear();
            factors.extend(product.parts.iter().map(|(l, feature)| feature.value(&rows[*l])));
            sum += product.weight * factors.iter().product::<f64>();
            if let Some((seed, dx)) = &mut dx {
                for (k, (l, feature)) in product.parts.iter().enumerate() {
                    let others: f64 = factors.iter().enumerate().filter(|(j, _)| *j != k).map(|(_, v)| v).product();
                    let outer = *seed * product.weight * others;
                    feature.gradient(&rows[*l], |d, slope| {
                        dx[leaves[*l].dims[d].input] += outer * slope * covariance.factor(*l, d);
                    });
                }
            }
        }
        sum
    }
}

fn feature(leaf: &Leaf, values: &[f64], stream: &mut Stream, key: Key) -> Feature {
    let dims = leaf.dims.len();
    let normals =
        |n: usize, scale: f64, stream: &mut Stream| -> Vec<f64> { (0..n).map(|_| scale * stream.normal()).collect() };
    // A gamma number of mean 1.
    let gamma = |shape: f64, stream: &mut Stream| Gamma::new(shape, 1.0 / shape).map_or(1.0, |g| g.sample(stream));
    let scale = match leaf.kind {
        Kind::Constant => return Feature::One,
        Kind::White => return Feature::White(key),
        Kind::Linear => return Feature::Planes(vec![(normals(dims, 1.0, stream), 0.0)]),
        Kind::Polynomial => {
            let offset = leaf.extra.map_or(0.0, |c| values[c].sqrt());
            let plane = |_| (normals(dims, 1.0, stream), offset * stream.normal());
            return Feature::Planes((0..leaf.degree).map(plane).collect());
        }
        Kind::Periodic => {
            let frequency = |d: &super::kernel::Dim| {
                let mean = 0.5 * values[leaf.scale_of(d.group)].powi(-2);
                match Poisson::new(mean) {
                    Ok(poisson) if mean < MANY => poisson.sample(stream) - poisson.sample(stream),
                    _ => ((2.0 * mean).sqrt() * stream.normal()).round(),
                }
            };
            let omega = leaf.dims.iter().map(frequency).collect();
            return Feature::Wave { omega, phase: std::f64::consts::TAU * stream.uniform() };
        }
        Kind::Matern12 => gamma(0.5, stream).sqrt().recip(),
        Kind::Matern32 => gamma(1.5, stream).sqrt().recip(),
        Kind::Matern52 => gamma(2.5, stream).sqrt().recip(),
        Kind::RationalQuadratic => gamma(leaf.extra.map_or(1.0, |a| values[a]), stream).sqrt(),
        // Functions of wide networks are never asked for.
        Kind::Rbf | Kind::Hamming | Kind::Nngp | Kind::Ntk => 1.0,
    };
    Feature::Wave { omega: normals(dims, scale, stream), phase: std::f64::consts::TAU * stream.uniform() }
}

fn along(omega: &[f64], x: &[f64]) -> f64 {
    omega.iter().zip(x).map(|(o, x)| o * x).sum()
}

impl Feature {
    /// Without the kernel's variance.
    fn value(&self, x: &[f64]) -> f64 {
        match self {
            Feature::Wave { omega, phase } => std::f64::consts::SQRT_2 * (along(omega, x) + phase).cos(),
            Feature::Planes(planes) => planes.iter().map(|(g, offset)| along(g, x) + offset).product(),
            Feature::One => 1.0,
            Feature::White(key) => {
                let own = x.iter().fold(*key, |key, v| key.step((v + 0.0).to_bits()));
                Stream::new(own).normal()
            }
        }
    }

    /// Hands over the slope in every dimension.
    fn gradient(&self, x: &[f64], mut take: impl FnMut(usize, f64)) {
        match self {
            Feature::Wave { omega, phase } => {
                let outer = -std::f64::consts::SQRT_2 * (along(omega, x) + phase).sin();
                omega.iter().enumerate().for_each(|(d, o)| take(d, outer * o));
            }
            Feature::Planes(planes) => {
                for (k, (g, _)) in planes.iter().enumerate() {
                    let others = planes.iter().enumerate().filter(|(j, _)| *j != k);
                    let outer: f64 = others.map(|(_, (g, offset))| along(g, x) + offset).product();
                    g.iter().enumerate().for_each(|(d, g)| take(d, outer * g));
                }
            }
            Feature::One | Feature::White(_) => {}
        }
    }
}
