//! Several methods on the same splits: means, paired differences and ranks (Demšar 2006). A split a method has no score on is left out.

/// Mean of some numbers and its standard error, std/√n; none for fewer than two.
pub fn mean_and_error(values: &[f64]) -> Option<(f64, Option<f64>)> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    match values.len() {
        0 => None,
        1 => Some((mean, None)),
        _ => Some((mean, Some((squares / (n - 1.0) / n).sqrt()))),
    }
}

/// Mean of a − b over the splits that have both, and its standard error: what splits have in common, such as hard rows, cancels.
pub fn paired(a: &[Option<f64>], b: &[Option<f64>]) -> Option<(f64, Option<f64>)> {
    let both: Vec<f64> = a.iter().zip(b).filter_map(|(a, b)| Some((*a)? - (*b)?)).collect();
    mean_and_error(&both)
}

/// Mean rank of every method over the splits it has a score on, among those that have one there; 1 is best, equal scores share.
pub fn mean_ranks(scores: &[Vec<Option<f64>>], larger_is_better: bool) -> Vec<Option<f64>> {
    let splits = scores.iter().map(Vec::len).max().unwrap_or(0);
    let at = |method: usize, split: usize| scores[method].get(split).copied().flatten();
    let rank = |method: usize, split: usize| {
        let own = at(method, split)?;
        let others = (0..scores.len()).filter(|m| *m != method).filter_map(|m| at(m, split));
        let better = |v: f64| if larger_is_better { v > own } else { v < own };
        Some(
            1.0 + others
                .map(|v| {
                    if better(v) {
                        1.0
                    } else if v == own {
                        0.5
                    } else {
                        0.0
                    }
                })
                .sum::<f64>(),
        )
    };
    (0..scores.len())
        .map(|m| mean_and_error(&(0..splits).filter_map(|s| rank(m, s)).collect::<Vec<_>>()).map(|r| r.0))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_share_ties_and_skip_what_is_missing() {
        let scores =
            [vec![Some(3.0), Some(1.0), None], vec![Some(2.0), Some(1.0), Some(0.0)], vec![Some(1.0), None, Some(5.0)]];
        assert_eq!(mean_ranks(&scores, true), [Some((1.0 + 1.5) / 2.0), Some((2.0 + 1.5 + 2.0) / 3.0), Some(2.0)]);
        assert_eq!(mean_ranks(&scores, false)[2], Some(1.5));
        assert_eq!(mean_ranks(&[vec![None]], true), [None]);
    }

    /// Scores that rise and fall together: each is uncertain, their difference is not.
    #[test]
    fn pairs_cancel_what_they_share() {
        let a: Vec<Option<f64>> = [1.0, 5.0, 9.0].map(Some).to_vec();
        let b: Vec<Option<f64>> = [0.5, 4.5, 8.5].map(Some).to_vec();
        assert_eq!(paired(&a, &b), Some((0.5, Some(0.0))));
        let (mean, error) = mean_and_error(&[1.0, 5.0, 9.0]).unwrap();
        assert_eq!((mean, error), (5.0, Some((16.0f64 / 3.0).sqrt())));
        assert_eq!((paired(&a, &[None, Some(1.0)]), paired(&a, &[])), (Some((4.0, None)), None));
    }
}
