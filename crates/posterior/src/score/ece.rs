//! Expected calibration error, Σ_b (n_b/N)·|accuracy_b − confidence_b| over 15 bins of equal width (Guo et al. 2017).

use super::{Metric, Scored};

pub(super) const METRIC: Metric = Metric {
    name: "ece",
    summary: "expected calibration error: confidence against accuracy, 15 bins",
    larger_is_better: Some(false),
    score,
};

const BINS: usize = 15;

fn score(s: &Scored<'_>) -> Option<f64> {
    let classes = s.classes.as_ref()?;
    let mut gaps = [0.0; BINS];
    for (n, y) in s.y.iter().enumerate() {
        let predicted = classes.predicted(n);
        let confidence = classes.row(n)[predicted];
        let bin = ((confidence * BINS as f64).ceil() as usize).clamp(1, BINS) - 1;
        gaps[bin] += if predicted as f64 == *y { 1.0 } else { 0.0 } - confidence;
    }
    (!s.y.is_empty()).then(|| gaps.iter().map(|g| g.abs()).sum::<f64>() / s.y.len() as f64)
}
