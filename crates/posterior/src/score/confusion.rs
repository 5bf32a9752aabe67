//! Classes as they are and as they are predicted: counts `C[true][predicted]`, and of every class precision `C[k][k]`/Σ_i `C[i][k]`, recall
//! `C[k][k]`/Σ_j `C[k][j]`, and F1, their harmonic mean.
//!
//! What would divide by 0 (a class that is never predicted, or never there) has no value. Cost: O(rows).

use super::scored::Scored;

/// The confusion matrix of classes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confusion {
    /// `counts[true][predicted]`
    pub counts: Vec<Vec<usize>>,
}

impl Confusion {
    /// Of so many classes; none where the outcomes are no classes.
    pub fn new(scored: &Scored, classes: usize) -> Option<Confusion> {
        let predicted = scored.classes.as_ref()?;
        let mut counts = vec![vec![0; classes]; classes];
        for (n, y) in scored.y.iter().enumerate() {
            *counts.get_mut(*y as usize)?.get_mut(predicted.predicted(n))? += 1;
        }
        Some(Confusion { counts })
    }

    /// Of the rows predicted as this class, the fraction that is.
    pub fn precision(&self, class: usize) -> Option<f64> {
        ratio(self.counts[class][class], self.counts.iter().map(|row| row[class]).sum())
    }

    /// Of the rows of this class, the fraction that is predicted as it.
    pub fn recall(&self, class: usize) -> Option<f64> {
        ratio(self.counts[class][class], self.counts[class].iter().sum())
    }

    /// 2 C\[k\]\[k\] / (rows of the class + rows predicted as it).
    pub fn f1(&self, class: usize) -> Option<f64> {
        let there: usize = self.counts[class].iter().sum();
        let predicted: usize = self.counts.iter().map(|row| row[class]).sum();
        ratio(2 * self.counts[class][class], there + predicted)
    }
}

fn ratio(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precision_recall_and_f1() {
        let c = Confusion { counts: vec![vec![3, 1, 0], vec![2, 4, 0], vec![0, 0, 0]] };
        assert_eq!((c.precision(0), c.recall(0), c.f1(0)), (Some(0.6), Some(0.75), Some(6.0 / 9.0)));
        assert_eq!((c.precision(2), c.recall(2), c.f1(2)), (None, None, None));
    }
}
