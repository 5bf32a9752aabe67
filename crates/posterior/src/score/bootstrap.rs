//! Standard errors by resampling rows with replacement (Efron 1979): the spread of a score over [`RESAMPLES`] draws of N rows.
//!
//! A resample is a count per row, so that scores are computed from what each row contributes and nothing is predicted again; the outcomes of a row stay together. Of
//! more than M = [`MOST`] outcomes, M are drawn at random once and resampled, and the spread is multiplied by √(M/N): the standard error of a score falls as 1/√N
//! (Bickel, Götze & van Zwet 1997), and M rows tell its factor to √((κ − 1)/4M) with κ the kurtosis of what a row contributes: 1 % at κ = 7, where 200 resamples tell it to 5 %. Cost: 200·min(N, M) per score. What varies is the rows;
//! the fit and the posterior's draws are held.

use super::{Metric, Score, Scored, metrics};
use crate::rng::{Key, Purpose, Stream};
use rayon::prelude::*;
use std::collections::HashMap;

/// Resamples: the standard error itself is then known to 5 %.
pub const RESAMPLES: usize = 200;
/// Outcomes that are resampled at most, unless these are fewer than [`FEWEST`] rows.
const MOST: usize = 1 << 14;
const FEWEST: usize = 1 << 10;

/// A metric's value on scored rows, with its standard error.
#[derive(Debug, Clone)]
pub struct Rated {
    /// Which metric.
    pub metric: &'static Metric,
    /// Its value, or why there is none.
    pub value: std::result::Result<f64, String>,
    /// Its bootstrap standard error; none for a single row.
    pub standard_error: Option<f64>,
}

/// Every metric that the kind of outcome has, with standard errors.
pub fn rate(scored: &Scored, key: Key) -> Vec<Rated> {
    let key = key.purpose(Purpose::Estimate);
    let (rows, ones) = (scored.rows(), vec![1.0; scored.y.len()]);
    let most = (MOST * rows / ones.len().max(1)).max(FEWEST);
    let errors = match rows > most {
        false => standard_errors(scored, key),
        true => {
            let part = standard_errors(&scored.select(&some_of(rows, most, key.step(RESAMPLES as u64))), key);
            let factor = (most as f64 / rows as f64).sqrt();
            part.into_iter().map(|(name, error)| (name, error * factor)).collect()
        }
    };
    let rated = |metric: &'static Metric| {
        let value = match (metric.functional)(scored)? {
            Score::Of(f) => Ok(f(&ones)),
            Score::Undefined(why) => Err(why),
        };
        let standard_error = errors.get(metric.name).copied().filter(|_| rows > 1);
        Some(Rated { metric, value, standard_error })
    };
    metrics().into_iter().filter_map(rated).collect()
}

/// The spread of every metric over resamples, by name.
fn standard_errors(scored: &Scored, key: Key) -> HashMap<&'static str, f64> {
    let all: Vec<(&'static Metric, Score<'_>)> =
        metrics().into_iter().filter_map(|m| Some((m, (m.functional)(scored)?))).collect();
    let of = |weights: &[f64]| -> Vec<f64> {
        let value = |score: &Score<'_>| match score {
            Score::Of(f) => f(weights),
            Score::Undefined(_) => f64::NAN,
        };
        all.iter().map(|(_, score)| value(score)).collect()
    };
    let (rows, each) = (scored.rows(), scored.y.len() / scored.rows().max(1));
    let resampled: Vec<Vec<f64>> =
        (0..RESAMPLES as u64).into_par_iter().map(|b| of(&counts(rows, each, key.step(b)))).collect();
    let error = |(i, (metric, _)): (usize, &(&'static Metric, Score<'_>))| {
        Some((metric.name, spread(resampled.iter().map(|r| r[i]))?))
    };
    all.iter().enumerate().filter_map(error).collect()
}

/// How often each outcome is among those of N rows drawn with replacement, with `each` outcomes a row.
fn counts(rows: usize, each: usize, key: Key) -> Vec<f64> {
    let (mut stream, mut counts) = (Stream::new(key), vec![0.0; rows]);
    for _ in 0..rows {
        counts[stream.below(rows as u64) as usize] += 1.0;
    }
    if each == 1 { counts } else { counts.iter().flat_map(|c| std::iter::repeat_n(*c, each)).collect() }
}

/// `most` of so many rows, none twice, in order (Floyd; Bentley 1987).
fn some_of(rows: usize, most: usize, key: Key) -> Vec<usize> {
    let (mut stream, mut chosen) = (Stream::new(key), std::collections::BTreeSet::new());
    for last in rows - most..rows {
        let row = stream.below(last as u64 + 1) as usize;
        if !chosen.insert(row) {
            chosen.insert(last);
        }
    }
    chosen.into_iter().collect()
}

/// Standard deviation of the finite ones, if most of them are finite.
fn spread(values: impl Iterator<Item = f64>) -> Option<f64> {
    let finite: Vec<f64> = values.filter(|v| v.is_finite()).collect();
    if 2 * finite.len() < RESAMPLES {
        return None;
    }
    let mean = finite.iter().sum::<f64>() / finite.len() as f64;
    Some((finite.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (finite.len() - 1) as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_rows_are_chosen_once_each_and_evenly() {
        let (rows, most) = (40, 10);
        let mut hits = vec![0.0; rows];
        for b in 0..4000 {
            let chosen = some_of(rows, most, Key::new(1).step(b));
            assert!(chosen.len() == most && chosen.is_sorted_by(|a, b| a < b));
            chosen.into_iter().for_each(|r| hits[r] += 1.0);
        }
        // Binomial(4000, 1/4): standard deviation 27; five of them.
        assert!(hits.iter().all(|h: &f64| (h - 1000.0).abs() < 140.0), "{hits:?}");
        assert_eq!(some_of(5, 5, Key::new(0)), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn the_outcomes_of_a_row_stay_together() {
        let (alone, three) = (counts(50, 1, Key::new(2)), counts(50, 3, Key::new(2)));
        assert!(three.chunks(3).zip(&alone).all(|(c, a)| c.iter().all(|c| c == a)));
        assert_eq!(alone.iter().sum::<f64>(), 50.0);
    }
}
