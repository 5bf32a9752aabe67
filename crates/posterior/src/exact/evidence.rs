//! Prior scale and noise of a linear model by its evidence (type-II maximum likelihood).
//!
//! y_t = Φw_t + ε, ε ~ N(0, σ_t²), w_ti ~ N(m_ti, s²S_i) for weights and N(m_ti, S_i) for what s does not scale; Ω are row weights. With G = ΦᵀΩΦ, r = y − Φm,
//! c = ΦᵀΩr, q = rᵀΩr, P the prior precisions, A = G/σ² + P and δ = A⁻¹c/σ²,
//!   log p(y) = −½ (Σω ln 2πσ² − Σ ln P + log det A + (q − δᵀc)/σ²),
//!   d/d ln s = Σ_scaled (P_i(A⁻¹)_ii + P_i δ_i² − 1),   d/d ln σ = (q − δᵀc)/σ² − δᵀPδ + k − tr A⁻¹P − Σω.
//! G, c and q are all that is kept of the rows. σ has a floor, and so has s: rows without noise, or without signal, would take them to 0.
//!
//! Reference: Bishop (2006), 3.5; MacKay (1992). Cost: N k² once, then k³ per target and step of BFGS.

use crate::error::{Error, Result};
use crate::math::linalg::{Cholesky, dot};
use crate::math::{Mat, MatRef, Threads, gemm};
use crate::optim::maximise;
use std::f64::consts::TAU;

/// The smallest σ and the smallest s that are looked at.
const FLOOR: f64 = 1e-5;
/// First s and first σ beside the given ones; the evidence may have several maxima, "all is noise" being one.
const STARTS: [(f64, f64); 3] = [(1.0, 1.0), (0.1, 1.0), (1.0, 0.05)];

/// What is known of the rows of a linear model: sums over them.
#[derive(Debug, Clone)]
pub struct LinearStatistics {
    gram: Vec<f64>,
    targets: Vec<Target>,
    /// Σω
    rows: f64,
}

/// One outcome: c and q, and its prior.
#[derive(Debug, Clone)]
struct Target {
    moments: Vec<f64>,
    squares: f64,
    precision: Vec<f64>,
}

/// A linear model's prior scale and noise.
#[derive(Debug, Clone, PartialEq)]
pub struct Scales {
    /// s: what the prior's standard deviations are multiplied by.
    pub prior: f64,
    /// σ of every target.
    pub noise: Vec<f64>,
}

/// log p(y) and its slopes.
struct Evidence {
    value: f64,
    d_log_prior: f64,
    d_log_noise: Vec<f64>,
}

impl LinearStatistics {
    /// From features (a row each), outcomes `rows × targets`, row weights (none means 1 each), and for every target the prior's means and
    /// standard deviations.
    ///
    /// # Panics
    /// If the lengths do not agree.
    pub fn new(
        features: MatRef<'_, f64>,
        y: &[f64],
        weights: Option<&[f64]>,
        priors: &[Vec<(f64, f64)>],
    ) -> LinearStatistics {
        let (n, k, targets) = (features.rows, features.cols, priors.len());
        assert!(y.len() == n * targets && priors.iter().all(|p| p.len() == k), "lengths of a linear model");
        assert!(weights.is_none_or(|w| w.len() == n), "a weight for every row");
        let weight = |row: usize| weights.map_or(1.0, |w| w[row]);
        let mut weighted = features.data.to_vec();
        for (row, values) in weighted.chunks_mut(k.max(1)).enumerate() {
            values.iter_mut().for_each(|v| *v *= weight(row));
        }
        let mut gram = vec![0.0; k * k];
        gemm((k, k, n), &mut gram, false, Mat::transposed(features.data, k), Mat::rows_of(&weighted, k), Threads::Pool);
        let target = |t: usize| {
            let mean: Vec<f64> = priors[t].iter().map(|p| p.0).collect();
            let (mut moments, mut squares) = (vec![0.0; k], 0.0);
            for row in 0..n {
                let r = y[row * targets + t] - dot(features.row(row), &mean);
                squares += weight(row) * r * r;
                moments.iter_mut().zip(&weighted[row * k..(row + 1) * k]).for_each(|(c, v)| *c += r * v);
            }
            Target { moments, squares, precision: priors[t].iter().map(|p| 1.0 / (p.1 * p.1)).collect() }
        };
        LinearStatistics { gram, targets: (0..targets).map(target).collect(), rows: (0..n).map(weight).sum() }
    }

    /// The evidence where the first `scaled` features have a prior that s scales.
    fn evidence(&self, scales: &Scales, scaled: usize) -> Result<Evidence> {
        let k = self.targets.first().map_or(0, |t| t.moments.len());
        let mut all = Evidence { value: 0.0, d_log_prior: 0.0, d_log_noise: Vec::with_capacity(self.targets.len()) };
        for (target, noise) in self.targets.iter().zip(&scales.noise) {
            let variance = noise * noise;
            let shrink = |i: usize| if i < scaled { scales.prior.powi(-2) } else { 1.0 };
            let p: Vec<f64> = target.precision.iter().enumerate().map(|(i, p)| p * shrink(i)).collect();
            let mut a: Vec<f64> = self.gram.iter().map(|g| g / variance).collect();
            (0..k).for_each(|i| a[i * k + i] += p[i]);
            let factor = Cholesky::new(&a, k)?;
            let mut delta: Vec<f64> = target.moments.iter().map(|c| c / variance).collect();
            factor.solve(&mut delta);
            let inverse = factor.inverse_diagonal();
            let misfit = (target.squares - dot(&delta, &target.moments)) / variance;
            let log_p: f64 = p.iter().map(|p| p.ln()).sum();
            all.value -= 0.5 * (self.rows * (TAU * variance).ln() - log_p + factor.log_det() + misfit);
            let share = |i: usize| p[i] * inverse[i];
            let pull = |i: usize| p[i] * delta[i] * delta[i];
            all.d_log_prior += (0..scaled).map(|i| share(i) + pull(i) - 1.0).sum::<f64>();
            let (shares, pulls) = (0..k).fold((0.0, 0.0), |(s, q), i| (s + share(i), q + pull(i)));
            all.d_log_noise.push(misfit - pulls + k as f64 - shares - self.rows);
        }
        Ok(all)
    }

    /// log p(y) where s scales the prior of the first `scaled` features.
    pub fn log_evidence(&self, scales: &Scales, scaled: usize) -> Result<f64> {
        Ok(self.evidence(scales, scaled)?.value)
    }

    /// The scales of the highest evidence, from `start` and a few other points on: of the prior of the first `scaled` features if that is to be learned, and
    /// of the noise if that is.
    pub fn maximise(&self, start: &Scales, scaled: usize, learn_prior: bool, learn_noise: bool) -> Result<Scales> {
        let targets = self.targets.len();
        // s² = FLOOR² + e^2θ, and so for σ: what is below the floor is flat, and the climb ends there.
        let square = |theta: f64| FLOOR * FLOOR + (2.0 * theta).exp();
        let scales = |theta: &[f64]| Scales {
            prior: if learn_prior { square(theta[0]).sqrt() } else { start.prior },
            noise: if learn_noise {
                theta[1..].iter().map(|t| square(*t).sqrt()).collect()
            } else {
                start.noise.clone()
            },
        };
        let (mut best, mut best_value) = (None, f64::NEG_INFINITY);
        let given = std::iter::once((start.prior, start.noise.clone()));
        let others = STARTS.iter().map(|(s, noise)| (*s, vec![*noise; targets]));
        for (s, noise) in given.chain(others) {
            let theta: Vec<f64> = std::iter::once(s).chain(noise).map(f64::ln).collect();
            let climb = |theta: &[f64], slope: &mut [f64]| {
                slope.fill(0.0);
                let at = scales(theta);
                let Ok(found) = self.evidence(&at, scaled) else { return f64::NEG_INFINITY };
                let part = |theta: f64| (2.0 * theta).exp() / square(theta);
                if learn_prior {
                    slope[0] = found.d_log_prior * part(theta[0]);
                }
                if learn_noise {
                    slope[1..]
                        .iter_mut()
                        .zip(&found.d_log_noise)
                        .zip(&theta[1..])
                        .for_each(|((s, d), t)| *s = d * part(*t));
                }
                if found.value > best_value {
                    (best, best_value) = (Some(at), found.value);
                }
                found.value
            };
            // A climb that ends at a wall has been told of its best point all the same.
            let _ = maximise(theta, climb);
        }
        best.ok_or_else(|| {
            let what = "the evidence of the linear model is not finite at any scale of prior and noise";
            Error::numerical(what, "look for extreme values in the data")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::LinearRegression;
    use super::*;
    use crate::math::linalg::testing::normals;

    const N: usize = 30;
    const K: usize = 4;

    /// Mean and standard deviation of every weight of every target.
    type Priors = Vec<Vec<(f64, f64)>>;

    fn statistics(weights: Option<&[f64]>) -> (LinearStatistics, Vec<f64>, Vec<f64>, Priors) {
        let (features, noise) = (normals(1, N * K), normals(2, 2 * N));
        let y: Vec<f64> =
            (0..2 * N).map(|i| 0.8 * features[i / 2 * K] - 0.5 * features[i / 2 * K + 3] + 0.4 * noise[i]).collect();
        let (means, stds) = (normals(3, 2 * K), normals(4, 2 * K));
        let priors: Vec<Vec<(f64, f64)>> =
            (0..2).map(|t| (0..K).map(|i| (0.3 * means[t * K + i], stds[t * K + i].exp())).collect()).collect();
        let found = LinearStatistics::new(MatRef::new(&features, N, K), &y, weights, &priors);
        (found, features, y, priors)
    }

    #[test]
    fn the_evidence_is_that_of_the_regression() {
        let weights: Vec<f64> = normals(5, N).iter().map(|v| v.exp()).collect();
        for weights in [None, Some(&weights[..])] {
            let (statistics, features, y, priors) = statistics(weights);
            let scales = Scales { prior: 1.7, noise: vec![0.4, 0.9] };
            let mut expected = 0.0;
            for t in 0..2 {
                let y: Vec<f64> = y.iter().skip(t).step_by(2).copied().collect();
                let mean: Vec<f64> = priors[t].iter().map(|p| p.0).collect();
                // The last feature's prior is not scaled.
                let precision = |i: usize| (priors[t][i].1 * if i < K - 1 { 1.7 } else { 1.0 }).powi(-2);
                let precision: Vec<f64> = (0..K).map(precision).collect();
                let features = MatRef::new(&features, N, K);
                let variance = scales.noise[t].powi(2);
                expected +=
                    LinearRegression::fit(features, &y, weights, variance, &mean, &precision).unwrap().log_evidence();
            }
            // q − δᵀc loses about as many digits as q is larger than it: two of sixteen.
            assert!((statistics.log_evidence(&scales, K - 1).unwrap() - expected).abs() < 1e-11 * expected.abs());
        }
    }

    #[test]
    fn slopes_agree_with_differences_and_vanish_at_the_maximum() {
        let (statistics, ..) = statistics(None);
        let at = |theta: &[f64]| {
            let scales = Scales { prior: theta[0].exp(), noise: theta[1..].iter().map(|t| t.exp()).collect() };
            statistics.evidence(&scales, K - 1).unwrap()
        };
        let theta = [0.2, -0.7, 0.1];
        let found = at(&theta);
        let slopes = [&[found.d_log_prior], &found.d_log_noise[..]].concat();
        for (i, slope) in slopes.iter().enumerate() {
            let value = |h: f64| at(&std::array::from_fn::<_, 3, _>(|j| theta[j] + if j == i { h } else { 0.0 })).value;
            let difference = (value(1e-4) - value(-1e-4)) / 2e-4;
            assert!((slope - difference).abs() < 1e-6 * (1.0 + slope.abs()), "{i}: {slope} {difference}"); // h² and ε/h
        }
        let start = Scales { prior: 1.0, noise: vec![0.3; 2] };
        let best = statistics.maximise(&start, K - 1, true, true).unwrap();
        let end = statistics.evidence(&best, K - 1).unwrap();
        assert!(end.d_log_prior.abs() < 1e-4 && end.d_log_noise.iter().all(|d| d.abs() < 1e-4), "{best:?}");
        assert!(end.value > found.value);
        // What is not to be learned stays.
        let held = statistics.maximise(&start, K - 1, false, true).unwrap();
        assert!(held.prior == 1.0 && held.noise != start.noise);
        let held = statistics.maximise(&start, K - 1, true, false).unwrap();
        assert!(held.prior != 1.0 && held.noise == start.noise);
    }

    #[test]
    fn rows_without_noise_or_signal_end_at_the_floor() {
        let features = normals(1, N * K);
        let fit = |y: &[f64]| {
            let prior = vec![vec![(0.0, 1.0); K]];
            let statistics = LinearStatistics::new(MatRef::new(&features, N, K), y, None, &prior);
            statistics.maximise(&Scales { prior: 1.0, noise: vec![0.3] }, K, true, true).unwrap()
        };
        let exact: Vec<f64> = features.chunks(K).map(|f| f[0] - 2.0 * f[1]).collect();
        let scales = fit(&exact);
        assert!(scales.noise[0] < 1e-4 && (0.3..3.0).contains(&scales.prior), "{scales:?}");
        let scales = fit(&vec![0.0; N]);
        assert!(scales.noise[0] < 1e-4, "{scales:?}");
    }
}
