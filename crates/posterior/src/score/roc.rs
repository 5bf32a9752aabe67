//! Telling two sets apart by a threshold on a number: what share of either lies above it, for every threshold.
//!
//! Numbers that are equal are never told apart: they cross the threshold together, and in the area under the curve they count half.
//! Davis & Goadrich (2006); average precision is Σ (Rₖ − Rₖ₋₁) Pₖ, without interpolation.

/// Shares of positives and negatives at or above each threshold, from the highest number down.
#[derive(Debug, Clone)]
pub struct Roc {
    /// (positives, negatives) that lie at or above the k-th highest different number; cumulative.
    steps: Vec<(f64, f64)>,
}

impl Roc {
    /// Positives should have the higher numbers.
    pub fn new(positives: &[f64], negatives: &[f64]) -> Roc {
        let of = |v: &[f64], positive: bool| v.iter().map(|v| (*v, positive, 1.0)).collect::<Vec<_>>();
        let mut all = of(positives, true);
        all.extend(of(negatives, false));
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        Roc::sorted(all.into_iter())
    }

    /// Of (number, whether positive, weight), highest number first.
    pub(super) fn sorted(rows: impl Iterator<Item = (f64, bool, f64)>) -> Roc {
        let (mut steps, mut last): (Vec<(f64, f64)>, _) = (Vec::new(), f64::NAN);
        let (mut positives, mut negatives) = (0.0, 0.0);
        for (number, positive, weight) in rows.filter(|r| r.2 > 0.0) {
            *(if positive { &mut positives } else { &mut negatives }) += weight;
            match steps.last_mut() {
                Some(step) if number == last => *step = (positives, negatives),
                _ => steps.push((positives, negatives)),
            }
            last = number;
        }
        Roc { steps }
    }

    /// How many of either there are, if there are any of both.
    fn totals(&self) -> Option<(f64, f64)> {
        self.steps.last().copied().filter(|t| t.0 > 0.0 && t.1 > 0.0)
    }

    /// P(positive > negative) + ½ P(equal); none where one of the sets is empty.
    pub fn auroc(&self) -> Option<f64> {
        let (positives, negatives) = self.totals()?;
        let (mut area, mut before) = (0.0, (0.0, 0.0));
        for step in &self.steps {
            area += 0.5 * (step.0 + before.0) * (step.1 - before.1);
            before = *step;
        }
        Some(area / positives / negatives)
    }

    /// Average precision: the area under precision against recall; none where there are no positives.
    pub fn average_precision(&self) -> Option<f64> {
        let positives = self.steps.last().map(|t| t.0).filter(|p| *p > 0.0)?;
        let (mut area, mut before) = (0.0, 0.0);
        for (p, n) in &self.steps {
            area += (p - before) * p / (p + n);
            before = *p;
        }
        Some(area / positives)
    }

    /// The smallest share of negatives above a threshold that has at least this share of positives above it.
    pub fn false_positives_at(&self, true_positives: f64) -> Option<f64> {
        let (positives, negatives) = self.totals()?;
        // A share is a ratio of counts: a rounding below the wanted share is not short of it.
        let step = self.steps.iter().find(|s| s.0 >= true_positives * positives - 1e-9)?;
        Some(step.1 / negatives)
    }

    /// The largest share of positives above a threshold that has at most this share of negatives above it.
    pub fn true_positives_at(&self, false_positives: f64) -> Option<f64> {
        let (positives, negatives) = self.totals()?;
        let allowed = self.steps.iter().take_while(|s| s.1 <= false_positives * negatives + 1e-9);
        Some(allowed.last().map_or(0.0, |s| s.0 / positives))
    }

    /// (share of negatives, share of positives) above each threshold, from (0, 0) to (1, 1).
    pub fn curve(&self) -> Vec<(f64, f64)> {
        let Some((positives, negatives)) = self.totals() else { return Vec::new() };
        [(0.0, 0.0)].into_iter().chain(self.steps.iter().map(|s| (s.1 / negatives, s.0 / positives))).collect()
    }
}
