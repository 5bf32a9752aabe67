//! Several rows at once: the best scores would choose the same row over and over where rows resemble each other.
//!
//! Stochastic: the n largest of ln score + Gumbel noise, a draw in proportion to scores without replacement (Kirsch et al. 2023); of scores that can be negative, score +
//! Gumbel. Joint (BatchBALD, Kirsch et al. 2019): greedily the largest I[y₁ … y_b; w]; classes by all combinations of labels up to [`COMBINATIONS`], then by that many drawn
//! from their distribution; numbers by conditioning the normal of the draws. Cost: n × rows × draws × classes × combinations.

use super::draws::{ClassDraws, Draws, RealDraws};
use super::query::entropy;
use crate::math::linalg::dot;
use crate::rng::{Key, Purpose, Stream};
use rayon::prelude::*;

/// Combinations of labels that are gone through.
const COMBINATIONS: usize = 1024;

crate::word_enum! {
    /// How several rows are chosen.
    pub enum Batch {
        /// In proportion to their scores, by chance.
        Stochastic = "stochastic",
        /// The highest scores.
        Top = "top",
        /// Greedily by what their labels would teach together.
        Joint = "batchbald",
    }
}

/// The rows chosen, with what each was chosen by: its own score, or under [`Batch::Joint`] what it adds to those before it.
pub fn choose(how: Batch, n: usize, scores: &[f64], pool: &Draws, key: Key) -> Vec<(usize, f64)> {
    let n = n.min(scores.len());
    let ranked = |by: &[f64]| {
        let mut order: Vec<usize> = (0..by.len()).collect();
        order.sort_by(|a, b| by[*b].total_cmp(&by[*a]).then(a.cmp(b)));
        order.truncate(n);
        order.into_iter().map(|i| (i, scores[i])).collect::<Vec<_>>()
    };
    match how {
        Batch::Top => ranked(scores),
        // A single row needs no variety.
        Batch::Stochastic if n == 1 => ranked(scores),
        Batch::Stochastic => {
            let mut stream = Stream::new(key.purpose(Purpose::Estimate));
            let negative = scores.iter().any(|s| *s < 0.0);
            let noisy = |s: &f64| {
                let gumbel = -(-stream.uniform().max(f64::MIN_POSITIVE).ln()).ln();
                gumbel + if negative { *s } else { s.max(f64::MIN_POSITIVE).ln() }
            };
            let noisy: Vec<f64> = scores.iter().map(noisy).collect();
            let mut chosen = ranked(&noisy);
            chosen.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            chosen
        }
        Batch::Joint => match pool {
            Draws::Classes(pool) => joint_classes(pool, n, key),
            Draws::Real(pool) => joint_numbers(pool, n),
        },
    }
}

/// Combinations of labels of the rows chosen: pₛ of each, combinations × draws, and what it stands for.
struct Labels {
    p: Vec<f64>,
    /// Mean over draws; of combinations that were drawn, each stands for 1/count.
    drawn: bool,
}

impl Labels {
    fn count(&self, draws: usize) -> usize {
        self.p.len() / draws
    }

    /// H of the combinations joined with the label of a row, under the mixture.
    fn entropy_with(&self, row: &[f64], classes: usize, weights: &[f64]) -> f64 {
        let (draws, mut sum) = (weights.len(), 0.0);
        let mut joint = vec![0.0; classes];
        for own in self.p.chunks_exact(draws) {
            joint.fill(0.0);
            for ((p, own), w) in row.chunks_exact(classes).zip(own).zip(weights) {
                joint.iter_mut().zip(p).for_each(|(j, p)| *j += w * own * p);
            }
            if self.drawn {
                let all: f64 = joint.iter().sum();
                sum += entropy(&joint) / (all * self.count(draws) as f64).max(f64::MIN_POSITIVE);
            } else {
                sum += entropy(&joint);
            }
        }
        sum
    }

    fn join(self, row: &[f64], classes: usize, weights: &[f64], stream: &mut Stream) -> Labels {
        let draws = weights.len();
        let mut p = Vec::with_capacity(self.p.len() * classes);
        for own in self.p.chunks_exact(draws) {
            for c in 0..classes {
                p.extend(own.iter().enumerate().map(|(s, own)| own * row[s * classes + c]));
            }
        }
        let all = p.len() / draws;
        if all <= COMBINATIONS && !self.drawn {
            return Labels { p, drawn: false };
        }
        // Of combinations that stand for 1/count each, one label each is drawn given the others; of all combinations, as many as fit.
        let mean = |k: usize| p[k * draws..(k + 1) * draws].iter().zip(weights).map(|(p, w)| p * w).sum::<f64>();
        let means: Vec<f64> = (0..all).map(mean).collect();
        let pick = |from: usize, to: usize, stream: &mut Stream| {
            let mut left = stream.uniform() * means[from..to].iter().sum::<f64>();
            (from..to)
                .find(|k| {
                    left -= means[*k];
                    left <= 0.0
                })
                .unwrap_or(to - 1)
        };
        let kept: Vec<usize> = if self.drawn {
            (0..all / classes).map(|k| pick(k * classes, (k + 1) * classes, stream)).collect()
        } else {
            (0..COMBINATIONS).map(|_| pick(0, all, stream)).collect()
        };
        Labels { p: kept.iter().flat_map(|k| p[k * draws..(k + 1) * draws].to_vec()).collect(), drawn: true }
    }
}

fn mean_entropy(pool: &ClassDraws, n: usize) -> f64 {
    pool.row(n).chunks_exact(pool.classes).zip(&pool.weights).map(|(p, w)| w * entropy(p)).sum()
}

fn joint_classes(pool: &ClassDraws, n: usize, key: Key) -> Vec<(usize, f64)> {
    let mut stream = Stream::new(key.purpose(Purpose::Outcome));
    let mut labels = Labels { p: vec![1.0; pool.weights.len()], drawn: false };
    let (mut chosen, mut before): (Vec<(usize, f64)>, f64) = (Vec::new(), 0.0);
    let inner: Vec<f64> = (0..pool.rows()).map(|i| mean_entropy(pool, i)).collect();
    for _ in 0..n {
        let joint = |i: usize| labels.entropy_with(pool.row(i), pool.classes, &pool.weights);
        let taken = |i: usize| chosen.iter().any(|c| c.0 == i);
        let all: Vec<f64> = (0..pool.rows())
            .into_par_iter()
            .map(|i| if taken(i) { f64::NEG_INFINITY } else { joint(i) - inner[i] })
            .collect();
        let best = (1..all.len()).fold(0, |best, i| if all[i] > all[best] { i } else { best });
        // Joint entropy with the row, minus that without it and minus its noise.
        chosen.push((best, (all[best] - before).max(0.0)));
        before = all[best] + inner[best];
        labels = labels.join(pool.row(best), pool.classes, &pool.weights, &mut stream);
    }
    chosen
}

/// I[labels of these rows; w] of classes, by all combinations of labels.
pub fn joint_information(pool: &ClassDraws, rows: &[usize]) -> f64 {
    let mut p = vec![1.0; pool.weights.len()];
    let draws = pool.weights.len();
    for n in rows {
        let row = pool.row(*n);
        let mut next = Vec::with_capacity(p.len() * pool.classes);
        for own in p.chunks_exact(draws) {
            for c in 0..pool.classes {
                next.extend(own.iter().enumerate().map(|(s, own)| own * row[s * pool.classes + c]));
            }
        }
        p = next;
    }
    let means: Vec<f64> = p.chunks_exact(draws).map(|p| dot(p, &pool.weights)).collect();
    entropy(&means) - rows.iter().map(|n| mean_entropy(pool, *n)).sum::<f64>()
}

/// Greedily the largest ½ ln(1 + v/σ²), v of the function given the labels before.
fn joint_numbers(pool: &RealDraws, n: usize) -> Vec<(usize, f64)> {
    let centred: Vec<Vec<f64>> = (0..pool.rows()).map(|i| pool.centred(i)).collect();
    let noise: Vec<f64> = (0..pool.rows()).map(|i| pool.moments(i).2.max(f64::MIN_POSITIVE)).collect();
    let mut variance: Vec<f64> = centred.iter().map(|c| dot(c, c)).collect();
    let (mut columns, mut chosen): (Vec<Vec<f64>>, Vec<(usize, f64)>) = (Vec::new(), Vec::new());
    for _ in 0..n {
        let gain = |i: usize| {
            if chosen.iter().any(|c| c.0 == i) {
                f64::NEG_INFINITY
            } else {
                0.5 * (variance[i].max(0.0) / noise[i]).ln_1p()
            }
        };
        let all: Vec<f64> = (0..variance.len()).map(gain).collect();
        let best = (1..all.len()).fold(0, |best, i| if all[i] > all[best] { i } else { best });
        let root = (variance[best].max(0.0) + noise[best]).sqrt();
        let column = |i: usize| {
            let before: f64 = columns.iter().map(|c| c[i] * c[best]).sum();
            (dot(&centred[i], &centred[best]) - before) / root
        };
        let next: Vec<f64> = (0..variance.len()).map(column).collect();
        variance.iter_mut().zip(&next).for_each(|(v, c)| *v -= c * c);
        chosen.push((best, all[best]));
        columns.push(next);
    }
    chosen
}
