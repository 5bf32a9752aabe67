//! Learning rates over the course of a fit: constant, cosine, exponential, each after a linear warm-up.

crate::word_enum! {
    /// How a learning rate falls.
    pub enum Decay {
        /// To 1 % along a cosine.
        Cosine = "cosine",
        /// To 1 %, by the same factor every step.
        Exponential = "exponential",
        /// Not at all.
        Constant = "constant",
    }
}

/// The last learning rate as a part of the highest.
const FLOOR: f64 = 0.01;

/// A learning rate for every step.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    rate: f64,
    decay: Decay,
    warmup: f64,
    steps: u64,
}

impl Schedule {
    /// For a fit of so many steps: the highest rate, how it falls, and the fraction of the steps over which it first rises from 0.
    pub fn new(rate: f64, decay: Decay, warmup: f64, steps: u64) -> Schedule {
        Schedule { rate, decay, warmup, steps }
    }

    /// The learning rate of step `t`, from 0.
    pub fn rate(&self, t: u64) -> f64 {
        let done = t as f64 / self.steps.max(1) as f64;
        if done < self.warmup {
            return self.rate * (t + 1) as f64 / (self.warmup * self.steps as f64).max(1.0);
        }
        let done = ((done - self.warmup) / (1.0 - self.warmup)).min(1.0);
        self.rate
            * match self.decay {
                Decay::Constant => 1.0,
                Decay::Exponential => FLOOR.powf(done),
                Decay::Cosine => FLOOR + (1.0 - FLOOR) * 0.5 * (1.0 + (std::f64::consts::PI * done).cos()),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_start_high_and_end_low() {
        for (decay, end) in [(Decay::Cosine, 0.01), (Decay::Exponential, 0.01), (Decay::Constant, 1.0)] {
            let s = Schedule::new(1.0, decay, 0.0, 1000);
            assert!((s.rate(0) - 1.0).abs() < 0.01 && (s.rate(1000) - end).abs() < 1e-9, "{decay}");
        }
    }
}
