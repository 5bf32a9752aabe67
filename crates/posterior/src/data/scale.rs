//! Mean and standard deviation: x ↦ (x − mean) / std, and back.

use serde::{Deserialize, Serialize};

/// The mean and the standard deviation (dividing by N) of the training rows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    /// Mean.
    pub mean: f64,
    /// Standard deviation, above zero.
    pub std: f64,
}

impl Scale {
    /// Of some finite numbers; none if they do not vary (or there are none).
    pub fn of(values: impl Iterator<Item = f64> + Clone) -> Option<Scale> {
        // Everything is divided by the largest magnitude, so that squares neither overflow nor vanish.
        let unit = values.clone().fold(0.0_f64, |m, v| m.max(v.abs()));
        let first = values.clone().next()?;
        if values.clone().all(|v| v == first) {
            return None;
        }
        let count = values.clone().count() as f64;
        let mean = values.clone().map(|v| v / unit).sum::<f64>() / count;
        let variance = values.map(|v| (v / unit - mean).powi(2)).sum::<f64>() / count;
        let scale = Scale { mean: mean * unit, std: variance.sqrt() * unit };
        scale.is_valid().then_some(scale)
    }

    /// Whether one can divide by it.
    pub fn is_valid(&self) -> bool {
        self.mean.is_finite() && self.std.is_finite() && self.std > 0.0
    }

    /// (x − mean) / std
    pub fn apply(&self, x: f64) -> f64 {
        (x - self.mean) / self.std
    }

    /// mean + std · z
    pub fn invert(&self, z: f64) -> f64 {
        self.mean + self.std * z
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_deviation_divides_by_n() {
        let s = Scale::of([1.0, 3.0].into_iter()).unwrap();
        assert_eq!((s.mean, s.std), (2.0, 1.0));
        assert_eq!((s.apply(4.0), s.invert(2.0)), (2.0, 4.0));
    }

    #[test]
    fn extreme_numbers_have_a_scale_and_constants_have_none() {
        for unit in [1e-300, 1e300] {
            let s = Scale::of([unit, 3.0 * unit].into_iter()).unwrap();
            assert!((s.std / unit - 1.0).abs() < 1e-12);
        }
        assert_eq!(Scale::of([2.0, 2.0].into_iter()), None);
        assert_eq!(Scale::of(std::iter::empty()), None);
    }
}
