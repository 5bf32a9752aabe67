//! Learning rates over the course of a fit: constant, cosine, exponential, each after a linear warm-up.

use crate::settings::{Allowed, Default, Setting, Settings};

/// The highest learning rate.
pub const LEARNING_RATE: Setting = Setting {
    name: "learning_rate",
    help: "step size of Adam at its highest",
    default: Default::Float(0.005),
    allowed: Allowed::Above(0.0, 10.0),
};

/// How it falls.
pub const SCHEDULE: Setting = Setting {
    name: "schedule",
    help: "how the learning rate falls: to 1 % along a cosine, to 1 % exponentially, or not at all",
    default: Default::Text("cosine"),
    allowed: Allowed::OneOf(&["cosine", "exponential", "constant"]),
};

/// How long it rises before.
pub const WARMUP: Setting = Setting {
    name: "warmup",
    help: "part of the steps over which the learning rate first rises from 0",
    default: Default::Float(0.0),
    allowed: Allowed::Float(0.0, 0.9),
};

/// The last learning rate as a part of the highest.
const FLOOR: f64 = 0.01;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Shape {
    Cosine,
    Exponential,
    Constant,
}

/// A learning rate for every step.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    rate: f64,
    shape: Shape,
    warmup: f64,
    steps: u64,
}

impl Schedule {
    /// From checked settings, for a fit of so many steps.
    pub fn new(settings: &Settings, steps: u64) -> Schedule {
        let shape = match settings.text("schedule") {
            "constant" => Shape::Constant,
            "exponential" => Shape::Exponential,
            _ => Shape::Cosine,
        };
        Schedule { rate: settings.float("learning_rate"), shape, warmup: settings.float("warmup"), steps }
    }

    /// The learning rate of step `t`, from 0.
    pub fn rate(&self, t: u64) -> f64 {
        let done = t as f64 / self.steps.max(1) as f64;
        if done < self.warmup {
            return self.rate * (t + 1) as f64 / (self.warmup * self.steps as f64).max(1.0);
        }
        let done = ((done - self.warmup) / (1.0 - self.warmup)).min(1.0);
        self.rate
            * match self.shape {
                Shape::Constant => 1.0,
                Shape::Exponential => FLOOR.powf(done),
                Shape::Cosine => FLOOR + (1.0 - FLOOR) * 0.5 * (1.0 + (std::f64::consts::PI * done).cos()),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Value;

    #[test]
    fn shapes_start_high_and_end_low() {
        for (name, end) in [("cosine", 0.01), ("exponential", 0.01), ("constant", 1.0)] {
            let given =
                [("schedule".to_owned(), Value::Text(name.into())), ("learning_rate".to_owned(), Value::Float(1.0))];
            let s = Schedule::new(&Settings::resolve(&[LEARNING_RATE, SCHEDULE, WARMUP], &given, "").unwrap(), 1000);
            assert!((s.rate(0) - 1.0).abs() < 0.01 && (s.rate(1000) - end).abs() < 1e-9, "{name}");
        }
    }
}
