//! How much a label of a row would teach, from draws of the posterior.
//!
//! Classes: entropy H[p̄]; bald I[y; w] = H[p̄] − E H[pₛ] (Houlsby et al. 2011); epig E over targets x* of I[y; y*], with p̄(y, y*) = E pₛ(y) pₛ(y*)
//! (Bickford Smith et al. 2023), never above bald; variation 1 − max p̄; variance Σ Var pₛ. Numbers, as normals: entropy ½ ln 2πe v; bald ½ ln v − ½ E ln vₛ; epig
//! −½ E ln(1 − ρ²) with ρ the correlation of y and y*; variance that of the function. All in nats, the variance apart.
//! Cost: draws × classes a row; epig draws × classes² for every row and target.

use super::draws::{ClassDraws, Draws, RealDraws};
use crate::error::{Error, Result};
use rayon::prelude::*;

crate::word_enum! {
    /// What a row is ranked by.
    pub enum QueryScore {
        /// Expected predictive information gain: what its label would teach of the target rows.
        Epig = "epig",
        /// Mutual information of its label and the function.
        Bald = "bald",
        /// Entropy of the prediction, noise included.
        Entropy = "entropy",
        /// Epistemic variance.
        Variance = "variance",
        /// 1 minus the largest probability.
        Variation = "variation",
    }
}

/// −Σ p ln p.
pub(super) fn entropy(p: &[f64]) -> f64 {
    -p.iter().filter(|v| **v > 0.0).map(|v| v * v.ln()).sum::<f64>()
}

/// The score of every row; `targets` are draws under the same key at the rows to be predicted, which epig needs.
pub fn scores(score: QueryScore, pool: &Draws, targets: Option<&Draws>) -> Result<Vec<f64>> {
    let rows = 0..pool.rows();
    match (pool, score) {
        (Draws::Classes(pool), QueryScore::Epig) => {
            let Some(Draws::Classes(targets)) = targets else { return Err(no_targets()) };
            Ok(rows.into_par_iter().map(|n| class_epig(pool, n, targets)).collect())
        }
        (Draws::Classes(pool), _) => Ok(rows.into_par_iter().map(|n| class_score(score, pool, n)).collect()),
        (Draws::Real(_), QueryScore::Variation) => {
            Err(Error::setting("variation ranks classes, and the outcome is a number", "use epig, bald or variance"))
        }
        (Draws::Real(pool), QueryScore::Epig) => {
            let Some(Draws::Real(targets)) = targets else { return Err(no_targets()) };
            let others: Vec<(Vec<f64>, f64)> = (0..targets.rows()).map(|m| total(targets, m)).collect();
            Ok(rows.into_par_iter().map(|n| real_epig(&total(pool, n), &others)).collect())
        }
        (Draws::Real(pool), _) => Ok(rows.into_par_iter().map(|n| real_score(score, pool, n)).collect()),
    }
}

fn no_targets() -> Error {
    Error::setting("epig needs rows that are to be predicted, of the same kind", "give target rows, or use bald")
}

fn class_score(score: QueryScore, pool: &ClassDraws, n: usize) -> f64 {
    let mean = pool.mean(n);
    let by_draw = || pool.row(n).chunks_exact(pool.classes).zip(&pool.weights);
    match score {
        QueryScore::Entropy => entropy(&mean),
        QueryScore::Variation => 1.0 - mean.iter().copied().fold(0.0, f64::max),
        QueryScore::Variance => {
            let apart = |p: &[f64]| p.iter().zip(&mean).map(|(p, m)| (p - m) * (p - m)).sum::<f64>();
            by_draw().map(|(p, w)| w * apart(p)).sum()
        }
        _ => (entropy(&mean) - by_draw().map(|(p, w)| w * entropy(p)).sum::<f64>()).max(0.0),
    }
}

/// E over target rows of KL[p̄(y, y*) ‖ p̄(y) p̄(y*)].
fn class_epig(pool: &ClassDraws, n: usize, targets: &ClassDraws) -> f64 {
    let (k, own, row) = (pool.classes, pool.mean(n), pool.row(n));
    let mut sum = 0.0;
    let mut joint = vec![0.0; k * k];
    for m in 0..targets.rows() {
        joint.fill(0.0);
        for ((a, b), w) in row.chunks_exact(k).zip(targets.row(m).chunks_exact(k)).zip(&pool.weights) {
            for (i, a) in a.iter().enumerate() {
                joint[i * k..(i + 1) * k].iter_mut().zip(b).for_each(|(j, b)| *j += w * a * b);
            }
        }
        // H[y] + H[y*] − H[y, y*]
        sum += (entropy(&own) + entropy(&targets.mean(m)) - entropy(&joint)).max(0.0);
    }
    sum / targets.rows().max(1) as f64
}

/// Deviations of the function and the total variance of row n.
fn total(draws: &RealDraws, n: usize) -> (Vec<f64>, f64) {
    let (_, epistemic, aleatoric) = draws.moments(n);
    (draws.centred(n), epistemic + aleatoric)
}

fn real_epig((own, variance): &(Vec<f64>, f64), targets: &[(Vec<f64>, f64)]) -> f64 {
    let one = |(other, v): &(Vec<f64>, f64)| {
        let covariance: f64 = own.iter().zip(other).map(|(a, b)| a * b).sum();
        let squared = covariance * covariance / (variance * v).max(f64::MIN_POSITIVE);
        -0.5 * (-squared.min(1.0 - f64::EPSILON)).ln_1p()
    };
    targets.iter().map(one).sum::<f64>() / targets.len().max(1) as f64
}

fn real_score(score: QueryScore, pool: &RealDraws, n: usize) -> f64 {
    let (_, epistemic, aleatoric) = pool.moments(n);
    let all = (epistemic + aleatoric).max(f64::MIN_POSITIVE);
    match score {
        QueryScore::Entropy => 0.5 * ((std::f64::consts::TAU * std::f64::consts::E) * all).ln(),
        QueryScore::Variance => epistemic,
        _ => {
            let row = &pool.variance[n * pool.weights.len()..(n + 1) * pool.weights.len()];
            let inner: f64 = row.iter().zip(&pool.weights).map(|(v, w)| w * v.max(f64::MIN_POSITIVE).ln()).sum();
            (0.5 * (all.ln() - inner)).max(0.0)
        }
    }
}
