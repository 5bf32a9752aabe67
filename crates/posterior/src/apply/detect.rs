//! Telling rows apart by how unsure the model is of them: data unlike those it was fitted to, or made to fool it.
//!
//! Every score grows with uncertainty. Classes: total `H[p̄]`, aleatoric (mean of `H[pₛ]`), epistemic (mutual information), disagreement (mean of
//! `KL(p̄ ‖ pₛ)`), and 1 − the largest probability. Real and count outcomes: the three standard deviations. References: Hendrycks & Gimpel
//! (2017), A baseline for detecting misclassified and out-of-distribution examples; Malinin & Gales (2021), Uncertainty estimation in
//! autoregressive structured prediction.

use crate::likelihood::Outcome;
use crate::predict::Predictive;
use crate::score::Roc;

/// An uncertainty score with its value at every row.
#[derive(Debug, Clone, PartialEq)]
pub struct UncertaintyScore {
    /// total, aleatoric, epistemic, disagreement or max_probability.
    pub measure: &'static str,
    /// One number per row; larger is more uncertain.
    pub values: Vec<f64>,
}

impl UncertaintyScore {
    /// The same about some of the rows.
    #[must_use]
    pub fn of_rows(&self, rows: &[usize]) -> UncertaintyScore {
        UncertaintyScore { measure: self.measure, values: rows.iter().map(|n| self.values[*n]).collect() }
    }
}

/// Rows whose class was told right before a change of their inputs, and is not any more: those that an attack has fooled the model with.
///
/// ```
/// use posterior::apply::detect::fooled;
/// assert_eq!(fooled(&[0.0, 1.0, 2.0, 1.0], &[0, 1, 1, 1], &[0, 2, 0, 0]), [1, 3]);
/// ```
pub fn fooled(y: &[f64], before: &[usize], after: &[usize]) -> Vec<usize> {
    let right = |predicted: &[usize], n: usize| predicted[n] as f64 == y[n];
    (0..y.len()).filter(|n| right(before, *n) && !right(after, *n)).collect()
}

/// Every uncertainty score that the kind of outcome has.
pub fn uncertainty_scores(predictive: &Predictive, outcome: Outcome) -> Vec<UncertaintyScore> {
    // A row of several outcomes has the mean of their entropies, or the root mean square of their standard deviations in those of the targets.
    let (each, targets) = (predictive.outcomes_per_row(), predictive.likelihood().targets().max(1));
    let rows = predictive.rows() * targets / each;
    let of = |measure, value: &dyn Fn(usize) -> f64| {
        let mean = |n: usize| (n * each..(n + 1) * each).map(value).sum::<f64>() / each as f64;
        UncertaintyScore { measure, values: (0..rows).map(|n| if each == 1 { value(n) } else { mean(n) }).collect() }
    };
    if outcome == Outcome::Class {
        let c = predictive.classes();
        return vec![
            of("total", &|n| c.total[n]),
            of("aleatoric", &|n| c.aleatoric[n]),
            of("epistemic", &|n| c.mutual_information(n)),
            of("disagreement", &|n| c.disagreement[n]),
            of("max_probability", &|n| 1.0 - c.row(n)[c.predicted(n)]),
        ];
    }
    let real = predictive.real();
    let of_std = |measure, std: &dyn Fn(usize) -> f64| {
        if each == 1 {
            return of(measure, std);
        }
        let square = |i: usize| (std(i) / predictive.target_scale(i % targets).1).powi(2);
        let UncertaintyScore { measure, values } = of(measure, &square);
        UncertaintyScore { measure, values: values.into_iter().map(f64::sqrt).collect() }
    };
    vec![
        of_std("total", &|n| real.std(n).0),
        of_std("aleatoric", &|n| real.std(n).2),
        of_std("epistemic", &|n| real.std(n).1),
    ]
}

/// How well an uncertainty score separates other rows from known ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Detection {
    /// Which measure.
    pub measure: &'static str,
    /// AUROC: P(another row scores above a known one), ties half.
    pub auroc: f64,
    /// Average precision with the other rows as positives.
    pub aupr_out: f64,
    /// Average precision with the known rows as positives, ranked by being sure.
    pub aupr_in: f64,
    /// Share of the other rows that pass as known at a threshold that at least 95 % of the known rows pass.
    pub fpr95: f64,
    /// Best share of the other rows found at a threshold that finds at most 5 % of the known rows.
    pub tpr_at_fpr5: f64,
    /// Whether all rows have the same score, so that nothing can be separated.
    pub constant: bool,
}

/// How well the measure tells the two sets apart; none where one of them has no rows.
pub fn detect(known: &UncertaintyScore, other: &UncertaintyScore) -> Option<Detection> {
    let by_score = Roc::new(&other.values, &known.values);
    let negated = |d: &UncertaintyScore| d.values.iter().map(|v| -v).collect::<Vec<_>>();
    let by_certainty = Roc::new(&negated(known), &negated(other));
    let mut all = known.values.iter().chain(&other.values);
    let first = all.next()?;
    Some(Detection {
        measure: known.measure,
        auroc: by_score.auroc()?,
        aupr_out: by_score.average_precision()?,
        aupr_in: by_certainty.average_precision()?,
        fpr95: by_certainty.false_positives_at(0.95)?,
        tpr_at_fpr5: by_score.true_positives_at(0.05)?,
        constant: all.all(|v| v == first),
    })
}
