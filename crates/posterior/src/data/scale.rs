//! Mean and standard deviation: x ↦ (x − mean) / std, and back.

use serde::{Deserialize, Serialize};

/// The mean and the standard deviation (dividing by N) of the training rows; of images with a background, that and the root
/// mean square above it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    /// Mean.
    pub mean: f64,
    /// Standard deviation, above zero.
    pub std: f64,
}

/// One in so many pixels being as dark as any makes a background.
const BACKGROUND: usize = 4;

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

    /// Of some finite numbers with weights above 0; none if the numbers do not vary.
    pub fn weighted(values: impl Iterator<Item = (f64, f64)> + Clone) -> Option<Scale> {
        let unit = values.clone().fold(0.0_f64, |m, (v, _)| m.max(v.abs()));
        let first = values.clone().next()?.0;
        if values.clone().all(|(v, _)| v == first) {
            return None;
        }
        let total: f64 = values.clone().map(|(_, w)| w).sum();
        let mean = values.clone().map(|(v, w)| w * (v / unit)).sum::<f64>() / total;
        let variance = values.map(|(v, w)| w * (v / unit - mean).powi(2)).sum::<f64>() / total;
        let scale = Scale { mean: mean * unit, std: variance.sqrt() * unit };
        scale.is_valid().then_some(scale)
    }

    /// Of pixels: where a quarter of them or more are as dark as any, that is a background, and it becomes 0.
    ///
    /// A pixel that says nothing must not weigh: moved away from 0 it would carry the noise of every weight behind it, which costs a
    /// posterior over weights dearly (and a sparse one could never remove those weights). The scale is then the root mean square
    /// above the background.
    pub fn of_pixels(values: impl Iterator<Item = f64> + Clone) -> Option<Scale> {
        let darkest = values.clone().fold(f64::INFINITY, f64::min);
        let (count, dark) = values.clone().fold((0usize, 0usize), |(n, d), v| (n + 1, d + usize::from(v == darkest)));
        let scale = Scale::of(values)?;
        if BACKGROUND * dark < count {
            return Some(scale);
        }
        let above = Scale { mean: darkest, std: scale.std.hypot(scale.mean - darkest) };
        above.is_valid().then_some(above)
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
    fn a_weight_of_two_is_the_number_twice() {
        let weighted = Scale::weighted([(1.0, 2.0), (4.0, 1.0), (7.0, 1.0)].into_iter()).unwrap();
        assert_eq!(weighted, Scale::of([1.0, 1.0, 4.0, 7.0].into_iter()).unwrap());
        assert_eq!(Scale::weighted([(2.0, 1.0), (2.0, 5.0)].into_iter()), None);
    }

    #[test]
    fn a_background_stays_0_and_other_images_are_centred() {
        let s = Scale::of_pixels([0.5, 0.5, 2.5, 4.5].into_iter()).unwrap();
        // Root mean square above 0.5 of 0, 0, 2, 4.
        assert_eq!(s.mean, 0.5);
        assert!((s.std - 5f64.sqrt()).abs() < 1e-15);
        let natural = [0.0, 1.0, 2.0, 3.0, 4.0];
        assert_eq!(Scale::of_pixels(natural.into_iter()), Scale::of(natural.into_iter()));
        assert_eq!(Scale::of_pixels([1.0; 3].into_iter()), None);
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
