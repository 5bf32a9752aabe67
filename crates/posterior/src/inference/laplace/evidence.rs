//! The evidence of Laplace's approximation as a function of the prior's precision and the noise, and its maximum.
//!
//! log p(D | δ, c) = log p(D | w*, c) − ½ Σ_g [δ_g (w* − m)ᵀS⁻¹(w* − m) + Σ ln(1 + λ/(c δ_g))], g over groups of parameters with one δ each, c what the
//! noise variances are multiplied by (1 unless the noise is normal). In ln δ and in ln c each alone it rises to one maximum and falls: with
//! γ = Σ λ/(λ + cδ), d/d ln δ = ½(γ − δ·scatter) and d/d ln c = ½(squares/c − N + γ). Both are decreasing, so that a bracket always closes, and
//! going to and fro between them only rises.
//!
//! Reference: MacKay (1992), Neural Computation 4. Cost: P per evaluation.

use crate::error::Result;
use crate::math::linalg::Cholesky;
use std::ops::Range;

/// ln δ and ln c stay within ± this.
const FARTHEST: f64 = 25.0;
/// Rounds of going to and fro, at most, and the change of a logarithm at which it is done.
const ROUNDS: usize = 200;
const SETTLED: f64 = 1e-10;
/// The same where every round factors the whole matrix.
const DENSE_ROUNDS: usize = 50;
const DENSE_SETTLED: f64 = 1e-6;
/// δ is at least this part of the largest number on the diagonal.
const SINGULAR: f64 = 1e-12;

/// Parameters with one prior precision.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub values: Vec<f64>,
    /// (w* − m)ᵀS⁻¹(w* − m)
    pub scatter: f64,
}

/// Normal noise, whose scale can be learned with the prior.
#[derive(Debug, Clone)]
pub(super) struct Noise {
    /// Σ ω (y − f)²/σ² at c = 1.
    pub squares: f64,
    /// Σ ω times the number of targets.
    pub count: f64,
    /// ln σ of every target at c = 1, and the mean and standard deviation of its prior.
    pub scales: Vec<(f64, f64, f64)>,
}

impl Noise {
    /// d/d ln c of the log-likelihood and the prior of ln σ, for a given γ.
    fn slope(&self, log_c: f64, gamma: f64) -> f64 {
        let prior: f64 = self.scales.iter().map(|(s, mean, std)| (s + 0.5 * log_c - mean) / (std * std)).sum();
        0.5 * (self.squares * (-log_c).exp() - self.count + gamma - prior)
    }
}

/// Everything the evidence depends on.
#[derive(Debug, Clone)]
pub(super) struct Evidence {
    pub groups: Vec<Group>,
    pub log_likelihood: f64,
    pub noise: Option<Noise>,
}

/// The root of a decreasing function, or the end of the bracket beyond which it lies.
fn root(mut f: impl FnMut(f64) -> f64, from: f64) -> f64 {
    let (mut low, mut high) = (-FARTHEST, FARTHEST);
    let mut at = from.clamp(low, high);
    let mut step = 1.0;
    // First out to both sides of the root, then halving.
    for _ in 0..200 {
        let value = f(at);
        if value > 0.0 {
            low = at;
        } else {
            high = at;
        }
        if high - low < 1e-13 * (1.0 + at.abs()) {
            break;
        }
        let outwards = if value > 0.0 { at + step } else { at - step };
        step *= 2.0;
        at = if outwards > low && outwards < high && high - low > step { outwards } else { 0.5 * (low + high) };
    }
    0.5 * (low + high)
}

/// Σ ln of factors of at least 1: a logarithm for every so many of them, as far as their product goes.
fn log_product(factors: impl Iterator<Item = f64>) -> f64 {
    const FAR: f64 = 1e150;
    let (mut total, mut product) = (0.0, 1.0);
    for factor in factors {
        product *= factor;
        if product > FAR {
            total += product.ln();
            product = 1.0;
        }
    }
    total + product.ln()
}

impl Evidence {
    /// log p(D | δ, c).
    pub fn value(&self, delta: &[f64], noise_factor: f64) -> f64 {
        let mut total = self.log_likelihood;
        if let Some(noise) = &self.noise {
            total -= 0.5 * (noise.squares * (1.0 / noise_factor - 1.0) + noise.count * noise_factor.ln());
        }
        for (group, delta) in self.groups.iter().zip(delta) {
            let inverse = 1.0 / (noise_factor * delta);
            total -= 0.5 * (delta * group.scatter + log_product(group.values.iter().map(|v| 1.0 + v * inverse)));
        }
        total
    }

    /// γ of a group: how many of its parameters the data determine.
    fn gamma(&self, group: usize, shift: f64) -> f64 {
        self.groups[group].values.iter().map(|v| v / (v + shift)).sum()
    }

    /// γ of all groups.
    pub fn determined(&self, delta: &[f64], noise_factor: f64) -> f64 {
        delta.iter().enumerate().map(|(g, delta)| self.gamma(g, noise_factor * delta)).sum()
    }

    /// The value, and its slopes in every ln δ and in ln c; the noise's prior is left out.
    pub fn slopes(&self, delta: &[f64], noise_factor: f64, slopes: &mut [f64]) -> f64 {
        let mut gammas = 0.0;
        for (g, delta) in delta.iter().enumerate() {
            let gamma = self.gamma(g, noise_factor * delta);
            slopes[g] = 0.5 * (gamma - delta * self.groups[g].scatter);
            gammas += gamma;
        }
        if let (Some(noise), Some(slope)) = (&self.noise, slopes.get_mut(delta.len())) {
            *slope = 0.5 * (noise.squares / noise_factor - noise.count + gammas);
        }
        self.value(delta, noise_factor)
    }

    /// Raises the evidence (times the prior of the noise) over δ, over c, or over both.
    pub fn maximise(&self, delta: &mut [f64], noise_factor: &mut f64, over_prior: bool, over_noise: bool) {
        for _ in 0..ROUNDS {
            let mut change = 0.0_f64;
            if over_prior {
                for (g, delta) in delta.iter_mut().enumerate() {
                    let (before, scatter) = (delta.ln(), self.groups[g].scatter);
                    let log = root(|t| self.gamma(g, *noise_factor * t.exp()) - t.exp() * scatter, before);
                    change = change.max((log - before).abs());
                    *delta = log.exp();
                }
            }
            if let Some(noise) = self.noise.as_ref().filter(|_| over_noise) {
                let before = noise_factor.ln();
                let log = root(|t| noise.slope(t, self.determined(delta, t.exp())), before);
                change = change.max((log - before).abs());
                *noise_factor = log.exp();
            }
            if change < SETTLED {
                break;
            }
        }
    }
}

/// One δ per layer and c where all layers are correlated: no eigenvectors serve all δ, so each round factors S^½GS^½/c + diag δ.
/// `matrix` is S^½GS^½, column after column, its lower triangle; γ of a layer is Σ (1 − δ Σᵢᵢ) over its parameters.
pub(super) fn by_layer(
    matrix: &[f64],
    layers: &[Range<usize>],
    scatters: &[f64],
    noise: Option<&Noise>,
) -> Result<(Vec<f64>, f64)> {
    let n = layers.last().map_or(0, |l| l.end);
    let (mut delta, mut c) = (vec![1.0_f64; layers.len()], 1.0_f64);
    let largest = (0..n).map(|i| matrix[i * n + i]).fold(f64::MIN_POSITIVE, f64::max);
    for _ in 0..DENSE_ROUNDS {
        // Cholesky reads the lower triangle row after row.
        let mut a: Vec<f64> = (0..n * n).map(|k| matrix[(k % n) * n + k / n] / c).collect();
        for (layer, delta) in layers.iter().zip(&delta) {
            layer.clone().for_each(|i| a[i * n + i] += delta);
        }
        let variances = Cholesky::new(&a, n)?.inverse_diagonal();
        let mut change = 0.0_f64;
        let mut gammas = 0.0;
        for ((layer, delta), scatter) in layers.iter().zip(&mut delta).zip(scatters) {
            let gamma: f64 = variances[layer.clone()].iter().map(|v| 1.0 - *delta * v).sum::<f64>().max(1e-12);
            // Below that, rounding could make the matrix indefinite.
            let least = (SINGULAR * largest / c).ln().clamp(-FARTHEST, FARTHEST);
            let next = (gamma / scatter.max(f64::MIN_POSITIVE)).ln().clamp(least, FARTHEST);
            change = change.max((next - delta.ln()).abs());
            *delta = next.exp();
            gammas += gamma;
        }
        if let Some(noise) = noise {
            let next = root(|t| noise.slope(t, gammas), c.ln());
            change = change.max((next - c.ln()).abs());
            c = next.exp();
        }
        if change < DENSE_SETTLED {
            break;
        }
    }
    Ok((delta, c))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::linalg::testing::{normals, positive};

    fn evidence() -> Evidence {
        let group = |seed, n| Group { values: normals(seed, n).iter().map(|v| v.exp() * 5.0).collect(), scatter: 3.0 };
        let noise = Noise { squares: 130.0, count: 100.0, scales: vec![(-1.0, -1.0, 1.0)] };
        Evidence { groups: vec![group(1, 20), group(2, 7)], log_likelihood: -80.0, noise: Some(noise) }
    }

    #[test]
    fn slopes_are_those_of_the_value() {
        let e = evidence();
        let (mut slopes, mut ignored) = ([0.0; 3], [0.0; 3]);
        let at = |t: &[f64; 3]| [t[0].exp(), t[1].exp(), t[2].exp()];
        let t = [0.3, -0.7, 0.2];
        let v = at(&t);
        e.slopes(&v[..2], v[2], &mut slopes);
        for i in 0..3 {
            let mut moved = |h: f64| {
                let mut t = t;
                t[i] += h;
                let v = at(&t);
                e.slopes(&v[..2], v[2], &mut ignored)
            };
            // Central differences: h² of a third derivative of about 10, and rounding of 1e-14/h.
            let numeric = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            assert!((numeric - slopes[i]).abs() < 1e-7, "{i}: {numeric} {}", slopes[i]);
        }
    }

    #[test]
    fn at_the_maximum_every_slope_is_0_and_all_around_is_lower() {
        let e = evidence();
        let (mut delta, mut c) = (vec![1.0; 2], 1.0);
        e.maximise(&mut delta, &mut c, true, true);
        let noise = e.noise.as_ref().unwrap();
        // With the prior of the noise, −½ (ln σ + ½ ln c − mean)²/std².
        let value = |d: &[f64], c: f64| e.value(d, c) - 0.5 * (0.5 * c.ln()).powi(2);
        let top = value(&delta, c);
        for g in 0..2 {
            assert!((e.gamma(g, c * delta[g]) - delta[g] * 3.0).abs() < 1e-8);
            for factor in [0.99, 1.01] {
                let mut moved = delta.clone();
                moved[g] *= factor;
                assert!(value(&moved, c) < top);
            }
        }
        assert!(noise.slope(c.ln(), e.determined(&delta, c)).abs() < 1e-8);
        assert!(value(&delta, 0.99 * c) < top && value(&delta, 1.01 * c) < top);
        // Only what is asked for moves.
        let (mut delta, mut c) = (vec![1.0; 2], 1.0);
        e.maximise(&mut delta, &mut c, false, false);
        assert_eq!((delta, c), (vec![1.0; 2], 1.0));
    }

    #[test]
    fn layers_of_a_block_diagonal_matrix_are_groups() {
        let blocks = [positive(1, 4), positive(2, 3)];
        let mut matrix = vec![0.0; 49];
        for i in 0..7 {
            for j in 0..7 {
                matrix[i * 7 + j] = match (i < 4, j < 4) {
                    (true, true) => blocks[0][i * 4 + j],
                    (false, false) => blocks[1][(i - 4) * 3 + j - 4],
                    _ => 0.0,
                };
            }
        }
        let values = |i: usize, n| crate::math::linalg::Eigen::new(&blocks[i], n).unwrap().values().to_vec();
        let groups = vec![Group { values: values(0, 4), scatter: 2.0 }, Group { values: values(1, 3), scatter: 0.5 }];
        let e = Evidence { groups, ..evidence() };
        let (mut delta, mut c) = (vec![1.0; 2], 1.0);
        e.maximise(&mut delta, &mut c, true, true);
        let (by_layer, by_c) = by_layer(&matrix, &[0..4, 4..7], &[2.0, 0.5], e.noise.as_ref()).unwrap();
        // It stops when a round moves a logarithm by less than 1e-6.
        let far = |a: f64, b: f64| (a.ln() - b.ln()).abs();
        assert!(far(by_layer[0], delta[0]) < 1e-4 && far(by_layer[1], delta[1]) < 1e-4 && far(by_c, c) < 1e-4);
    }

    #[test]
    fn logarithms_of_products_are_sums_of_logarithms() {
        let factors: Vec<f64> = normals(3, 2000).iter().map(|v| 1.0 + (20.0 * v).exp()).collect();
        let sum: f64 = factors.iter().map(|f| f.ln()).sum();
        // A rounding of 1e-16 for every factor, and of the sum, which is some 16 000.
        assert!((log_product(factors.into_iter()) - sum).abs() < 1e-10 * sum);
        assert_eq!(log_product(std::iter::empty()), 0.0);
        assert!((log_product([1e200, 1e200, 2.0].into_iter()) - (400.0 * 10f64.ln() + 2f64.ln())).abs() < 1e-11);
    }

    #[test]
    fn without_a_maximum_it_stays_in_bounds() {
        let group = Group { values: vec![1.0, 2.0], scatter: 0.0 };
        let e = Evidence { groups: vec![group], log_likelihood: 0.0, noise: None };
        let (mut delta, mut c) = (vec![1.0], 1.0);
        e.maximise(&mut delta, &mut c, true, true);
        assert!(delta[0].is_finite() && delta[0] > 1e9 && c == 1.0);
    }
}
