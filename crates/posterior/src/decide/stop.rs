//! Whether to go on: what the next point is expected to gain, and how probably the best one tried is all but the optimum.
//!
//! P(max_x f(x) − f(x⁺) ≤ ε) by draws of f at the best one tried and at candidates, where f is most probably larger. Cost: m³/3 for m candidates, once.

use super::space::{Point, Space};
use super::surrogate::Surrogate;
use crate::error::Result;
use crate::rng::{Key, Purpose, Stream};

/// Draws of f.
const DRAWS: usize = 512;
/// A probability from which to stop.
const ENOUGH: f64 = 0.95;

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stop {
    /// Expected improvement of the next point over the best one, in the units of the values.
    pub expected_gain: f64,
    /// ε, in the units of the values.
    pub epsilon: f64,
    /// Probability that the best one tried is within ε of the optimum.
    pub probability: f64,
    /// Whether that is enough.
    pub stop: bool,
}

impl Stop {
    pub(super) fn judge(
        space: &Space,
        surrogate: &Surrogate,
        best: &Point,
        candidates: &[Point],
        expected_gain: f64,
        epsilon: f64,
        key: Key,
    ) -> Result<Stop> {
        let mut x = Vec::new();
        space.encode(best, &mut x);
        candidates.iter().for_each(|p| space.encode(p, &mut x));
        let (mean, root) = surrogate.joint(&x)?;
        let mut stream = Stream::new(key.purpose(Purpose::Estimate));
        let mut within = 0;
        for _ in 0..DRAWS {
            let mut z: Vec<f64> = mean.iter().map(|_| stream.normal()).collect();
            root.multiply_lower(&mut z);
            z.iter_mut().zip(&mean).for_each(|(z, m)| *z += m);
            let top = z[1..].iter().copied().fold(f64::NEG_INFINITY, f64::max);
            within += usize::from(top - z[0] <= epsilon);
        }
        let probability = within as f64 / DRAWS as f64;
        Ok(Stop { expected_gain, epsilon, probability, stop: probability >= ENOUGH })
    }

    /// In one sentence.
    pub fn sentence(&self) -> String {
        let Stop { expected_gain, epsilon, probability, stop } = self;
        let advice = if *stop { "you may stop" } else { "go on" };
        format!(
            "The next point is expected to gain {expected_gain:.3e}; the best so far is within {epsilon:.3e} of the optimum with probability {probability:.2}: {advice}."
        )
    }
}
