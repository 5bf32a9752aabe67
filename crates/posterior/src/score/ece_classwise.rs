//! Calibration error of every class's probability, (1/C) Σ_c Σ_b (n_bc/N)·|frequency_bc − p̄_bc| over 15 bins of equal width
//! (Kull et al. 2019; Nixon et al. 2019).

use super::{BINS, Metric, Needs, Score, Scored, bin_of, binned_gap};

pub(super) const METRIC: Metric = Metric {
    name: "ece_classwise",
    summary: "calibration error of every class's probability, mean over classes, 15 bins",
    larger_is_better: Some(false),
    short: false,
    functional,
    needs: Needs::NONE,
};

fn functional(s: &Scored) -> Option<Score<'_>> {
    let classes = s.classes.as_ref()?;
    let of_class = |c: usize| {
        let p = |n: usize| classes.row(n)[c];
        let bin: Vec<usize> = (0..s.y.len()).map(|n| bin_of(p(n))).collect();
        let gap: Vec<f64> =
            s.y.iter().enumerate().map(|(n, y)| if *y == c as f64 { 1.0 } else { 0.0 } - p(n)).collect();
        (bin, gap)
    };
    let all: Vec<(Vec<usize>, Vec<f64>)> = (0..classes.classes).map(of_class).collect();
    Some(Score::Of(Box::new(move |weights| {
        all.iter().map(|(bin, gap)| binned_gap(BINS, bin, gap, weights)).sum::<f64>() / all.len() as f64
    })))
}
