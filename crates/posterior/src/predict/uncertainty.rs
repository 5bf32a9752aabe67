//! How sure a prediction is, split into what more data would cure and what they would not .
//!
//! Real outcomes: Var[y] = Var_s(E[y | wₛ]) (epistemic) + E_s(Var[y | wₛ]) (aleatoric), by the law of total variance.
//! Classes: H[p̄] (total) = (1/S) Σₛ H[pₛ] (aleatoric) + I[y; w] (epistemic, mutual information, ≥ 0), in nats
//! (Houlsby et al. 2011; Depeweg et al. 2018). Beside it stands the draws' disagreement, (1/S) Σₛ KL(p̄ ‖ pₛ), the reverse mutual information
//! (Malinin & Gales 2021): mutual information is at most ln S, and this has no bound where a draw all but excludes what the others believe.

use super::gaussians::Marginals;
use super::predictive::{Predictive, TargetScale};

/// Predictions of real and count outcomes, `rows × targets` each, in the user's units.
#[derive(Debug, Clone, Default)]
pub struct RealUncertainty {
    /// `E[y]`
    pub mean: Vec<f64>,
    /// Variance of the draws' means.
    pub epistemic: Vec<f64>,
    /// Mean of the draws' variances.
    pub aleatoric: Vec<f64>,
}

impl RealUncertainty {
    pub(super) fn of(p: &Predictive, scale: &TargetScale) -> RealUncertainty {
        let targets = p.likelihood().targets();
        if let Some(marginals) = p.marginals() {
            return RealUncertainty::closed(p, &marginals, scale);
        }
        let packed = p.by_blocks(3 * targets, |from, block| {
            let n = block.len() / 3;
            let mut buffer = vec![0.0; 3 * n];
            let (mean, rest) = buffer.split_at_mut(n);
            let (variance, first) = rest.split_at_mut(n);
            for s in 0..p.draws() {
                let outputs = p.outputs_of(s, from, n / targets);
                p.likelihood().moments_rows(outputs, p.noise_of(s), mean, variance);
                if s == 0 {
                    first.copy_from_slice(mean);
                }
                // Sums of deviations from the first draw: the square of the mean never swallows the variance.
                let weight = p.sum_weight(s);
                for (i, sums) in block.chunks_exact_mut(3).enumerate() {
                    let d = mean[i] - first[i];
                    sums[0] += weight * d;
                    sums[1] += weight * d * d;
                    sums[2] += weight * variance[i];
                }
            }
            for (i, sums) in block.chunks_exact_mut(3).enumerate() {
                let (centre, std) = scale.of(i % targets);
                let draws = p.weight_sum();
                let d = sums[0] / draws;
                sums[0] = centre + std * (first[i] + d);
                // Rounding is kept from making it negative; what has overflowed is not told as 0.
                let spread = sums[1] / draws - d * d;
                sums[1] = std * std * if spread < 0.0 { 0.0 } else { spread };
                sums[2] *= std * std / draws;
            }
        });
        RealUncertainty::unpacked(&packed)
    }

    fn closed(p: &Predictive, marginals: &Marginals<'_>, scale: &TargetScale) -> RealUncertainty {
        let targets = p.likelihood().targets();
        let packed = p.by_rows(3 * targets, |n, out| {
            for (t, out) in out.chunks_exact_mut(3).enumerate() {
                let ((centre, std), m) = (scale.of(t), marginals.moments(n, t));
                out.copy_from_slice(&[centre + std * m.mean, std * std * m.epistemic, std * std * m.aleatoric]);
            }
        });
        RealUncertainty::unpacked(&packed)
    }

    fn unpacked(packed: &[f64]) -> RealUncertainty {
        let column = |i: usize| packed.chunks(3).map(|c| c[i]).collect();
        RealUncertainty { mean: column(0), epistemic: column(1), aleatoric: column(2) }
    }

    /// The next rows after these.
    pub(crate) fn append(&mut self, mut next: RealUncertainty) {
        self.mean.append(&mut next.mean);
        self.epistemic.append(&mut next.epistemic);
        self.aleatoric.append(&mut next.aleatoric);
    }

    /// The numbered ones.
    pub(crate) fn select(&self, n: &[usize]) -> RealUncertainty {
        let of = |all: &[f64]| n.iter().map(|i| all[*i]).collect();
        RealUncertainty { mean: of(&self.mean), epistemic: of(&self.epistemic), aleatoric: of(&self.aleatoric) }
    }

    /// Standard deviations: total, epistemic, aleatoric.
    pub fn std(&self, i: usize) -> (f64, f64, f64) {
        ((self.epistemic[i] + self.aleatoric[i]).sqrt(), self.epistemic[i].sqrt(), self.aleatoric[i].sqrt())
    }
}

/// Predictions of classes.
#[derive(Debug, Clone, Default)]
pub struct ClassUncertainty {
    /// How many classes.
    pub classes: usize,
    /// p̄, `rows × classes`.
    pub probabilities: Vec<f64>,
    /// Variance of pₛ over draws, `rows × classes`.
    pub variance: Vec<f64>,
    /// `H[p̄]` per row, in nats.
    pub total: Vec<f64>,
    /// Mean of `H[pₛ]` per row.
    pub aleatoric: Vec<f64>,
    /// Mean of `KL(p̄ ‖ pₛ)` per row.
    pub disagreement: Vec<f64>,
}

/// ln p, finite where p is 0.
fn log_of(p: f64) -> f64 {
    if p < f64::MIN_POSITIVE { f64::MIN_POSITIVE.ln() } else { p.ln() }
}

/// −Σ p ln p.
fn entropy(p: &[f64]) -> f64 {
    -p.iter().filter(|v| **v > 0.0).map(|v| v * v.ln()).sum::<f64>()
}

impl ClassUncertainty {
    pub(super) fn of(p: &Predictive) -> ClassUncertainty {
        let (classes, outputs, draws) = (p.likelihood().classes(), p.likelihood().outputs(), p.weight_sum());
        let width = 2 * classes + 3;
        let packed = p.by_rows(width, |n, row| {
            let mut f = vec![0.0; outputs];
            let mut probabilities = vec![0.0; classes];
            let mut logs = vec![0.0; classes];
            for s in 0..p.draws() {
                p.output(s, n, &mut f);
                p.likelihood().probabilities(&f, &mut probabilities);
                let mut negative_entropy = 0.0;
                let weight = p.sum_weight(s);
                for (c, v) in probabilities.iter().enumerate() {
                    row[c] += weight * v;
                    row[classes + c] += weight * v * v;
                    let log = log_of(*v);
                    negative_entropy += if *v > 0.0 { v * log } else { 0.0 };
                    logs[c] += weight * log;
                }
                row[2 * classes + 1] -= weight * negative_entropy;
            }
            row.iter_mut().for_each(|v| *v /= draws);
            for c in 0..classes {
                row[classes + c] = (row[classes + c] - row[c] * row[c]).max(0.0);
            }
            row[2 * classes] = entropy(&row[..classes]);
            let apart = |(p, log): (&f64, &f64)| p * (log_of(*p) - log / draws);
            // Rounding is kept from making it negative; what is not a number stays so.
            let disagreement = row[..classes].iter().zip(&logs).map(apart).sum::<f64>();
            row[2 * classes + 2] = if disagreement < 0.0 { 0.0 } else { disagreement };
        });
        let part = |from: usize, n: usize| {
            packed.chunks(width).flat_map(|row| row[from..from + n].iter().copied()).collect::<Vec<f64>>()
        };
        ClassUncertainty {
            classes,
            probabilities: part(0, classes),
            variance: part(classes, classes),
            total: part(2 * classes, 1),
            aleatoric: part(2 * classes + 1, 1),
            disagreement: part(2 * classes + 2, 1),
        }
    }

    /// The next rows after these.
    pub(crate) fn append(&mut self, mut next: ClassUncertainty) {
        self.classes = next.classes;
        self.probabilities.append(&mut next.probabilities);
        self.variance.append(&mut next.variance);
        self.total.append(&mut next.total);
        self.aleatoric.append(&mut next.aleatoric);
        self.disagreement.append(&mut next.disagreement);
    }

    /// The numbered ones.
    pub(crate) fn select(&self, n: &[usize]) -> ClassUncertainty {
        let of = |all: &[f64]| n.iter().map(|i| all[*i]).collect();
        let by_class =
            |all: &[f64]| n.iter().flat_map(|i| &all[i * self.classes..(i + 1) * self.classes]).copied().collect();
        ClassUncertainty {
            classes: self.classes,
            probabilities: by_class(&self.probabilities),
            variance: by_class(&self.variance),
            total: of(&self.total),
            aleatoric: of(&self.aleatoric),
            disagreement: of(&self.disagreement),
        }
    }

    /// The probabilities of row n.
    pub fn row(&self, n: usize) -> &[f64] {
        &self.probabilities[n * self.classes..(n + 1) * self.classes]
    }

    /// The most probable class of row n; the first where two are equal.
    pub fn predicted(&self, n: usize) -> usize {
        let row = self.row(n);
        (1..row.len()).fold(0, |best, c| if row[c] > row[best] { c } else { best })
    }

    /// Mutual information of row n: what more data would cure. Rounding is kept from making it negative.
    pub fn mutual_information(&self, n: usize) -> f64 {
        (self.total[n] - self.aleatoric[n]).max(0.0)
    }
}
