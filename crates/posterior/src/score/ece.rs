//! Expected calibration error, Σ_b (n_b/N)·|accuracy_b − confidence_b| over 15 bins of equal width (Guo et al. 2017).

use super::{BINS, Metric, Needs, Score, Scored, bin_of, binned_gap};

pub(super) const METRIC: Metric = Metric {
    name: "ece",
    summary: "expected calibration error: confidence against accuracy, 15 bins",
    larger_is_better: Some(false),
    short: true,
    functional,
    needs: Needs::NONE,
};

fn functional(s: &Scored) -> Option<Score<'_>> {
    s.classes.as_ref()?;
    let rows = s.uncertainty_and_loss()?;
    let bin: Vec<usize> = rows.iter().map(|(uncertainty, _)| bin_of(1.0 - uncertainty)).collect();
    let gap: Vec<f64> = rows.iter().map(|(uncertainty, loss)| uncertainty - loss).collect(); // accuracy − confidence
    Some(Score::Of(Box::new(move |weights| binned_gap(BINS, &bin, &gap, weights))))
}
