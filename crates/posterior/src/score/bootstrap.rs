//! Standard errors by resampling rows with replacement (Efron 1979): the spread of a score over [`RESAMPLES`] draws of N rows.
//!
//! A resample is a count per row, so that scores are computed from what each row contributes and nothing is predicted again. Cost:
//! 200·N per score. What varies is the rows; the fit and the posterior's draws are held.

use super::{Metric, Score, Scored, metrics};
use crate::rng::{Key, Purpose, Stream};
use rayon::prelude::*;

/// Resamples: the standard error itself is then known to 5 %.
pub const RESAMPLES: usize = 200;

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
    let n = scored.y.len();
    let all: Vec<(&'static Metric, Score<'_>)> =
        metrics().into_iter().filter_map(|m| Some((m, (m.functional)(scored)?))).collect();
    let of = |weights: &[f64]| -> Vec<f64> {
        let value = |score: &Score<'_>| match score {
            Score::Of(f) => f(weights),
            Score::Undefined(_) => f64::NAN,
        };
        all.iter().map(|(_, score)| value(score)).collect()
    };
    let values = of(&vec![1.0; n]);
    let key = key.purpose(Purpose::Estimate);
    let resampled: Vec<Vec<f64>> = (0..RESAMPLES as u64).into_par_iter().map(|b| of(&counts(n, key.step(b)))).collect();
    let rated = |(i, (metric, score)): (usize, &(&'static Metric, Score<'_>))| Rated {
        metric,
        value: match score {
            Score::Of(_) => Ok(values[i]),
            Score::Undefined(why) => Err(why.clone()),
        },
        standard_error: spread(resampled.iter().map(|r| r[i])).filter(|_| n > 1),
    };
    all.iter().enumerate().map(rated).collect()
}

/// How often each of N rows is among N drawn with replacement.
fn counts(n: usize, key: Key) -> Vec<f64> {
    let (mut stream, mut counts) = (Stream::new(key), vec![0.0; n]);
    for _ in 0..n {
        counts[stream.below(n as u64) as usize] += 1.0;
    }
    counts
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
