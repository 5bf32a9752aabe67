//! What is adapted in warm-up: the step size by dual averaging, the scale of every parameter from windows of draws.
//!
//! Dual averaging (Nesterov 2009; Hoffman & Gelman 2014, JMLR 15, §3.2): with x = ln ε and the error H̄ of the acceptance averaged,
//! x ← μ − √t/γ · H̄, x̄ ← t^{−κ}x + (1 − t^{−κ})x̄. Scale of a parameter: variance ← √(Var w / Var ∇), which is σ² on a normal density, lies between
//! the marginal and the conditional variance of a correlated one, and does not grow with how far a chain that is not yet there
//! has drifted (Seyboldt, Carlson & Carpenter 2026).

use crate::error::Result;
use crate::snapshot::{State, Stateful};

/// ln ε by dual averaging.
#[derive(Debug, Clone, Copy)]
pub struct DualAveraging {
    target: f64,
    centre: f64,
    error: f64,
    log_step: f64,
    averaged: f64,
    count: f64,
}

const GAMMA: f64 = 0.05;
const T0: f64 = 10.0;
const KAPPA: f64 = 0.75;

impl DualAveraging {
    /// From a first step size, towards an acceptance.
    pub fn new(step_size: f64, target: f64) -> Self {
        let centre = (10.0 * step_size).ln();
        DualAveraging { target, centre, error: 0.0, log_step: step_size.ln(), averaged: step_size.ln(), count: 0.0 }
    }

    /// After a transition with this acceptance.
    pub fn update(&mut self, acceptance: f64) {
        self.count += 1.0;
        let weight = 1.0 / (self.count + T0);
        self.error += weight * (self.target - acceptance - self.error);
        self.log_step = self.centre - self.count.sqrt() / GAMMA * self.error;
        let weight = self.count.powf(-KAPPA);
        self.averaged += weight * (self.log_step - self.averaged);
    }

    /// ε of the next transition in warm-up.
    pub fn step_size(&self) -> f64 {
        self.log_step.exp()
    }

    /// ε after warm-up.
    pub fn averaged(&self) -> f64 {
        self.averaged.exp()
    }
}

impl Stateful for DualAveraging {
    fn state(&mut self, state: &mut State<'_>) -> Result<()> {
        state.number("target", &mut self.target)?;
        state.number("centre", &mut self.centre)?;
        state.number("error", &mut self.error)?;
        state.number("log_step", &mut self.log_step)?;
        state.number("averaged", &mut self.averaged)?;
        state.number("count", &mut self.count)
    }
}

/// Mean and sum of squared deviations of every entry of a vector (Welford 1962).
#[derive(Debug, Clone)]
pub struct RunningMoments {
    count: f64,
    mean: Vec<f64>,
    squares: Vec<f64>,
}

impl RunningMoments {
    /// Of vectors with `dim` entries.
    pub fn new(dim: usize) -> Self {
        RunningMoments { count: 0.0, mean: vec![0.0; dim], squares: vec![0.0; dim] }
    }

    /// One more vector.
    pub fn add(&mut self, x: &[f64]) {
        self.count += 1.0;
        for ((mean, squares), x) in self.mean.iter_mut().zip(&mut self.squares).zip(x) {
            let before = x - *mean;
            *mean += before / self.count;
            *squares += before * (x - *mean);
        }
    }

    /// How many vectors.
    pub fn count(&self) -> f64 {
        self.count
    }

    /// The variance of entry i.
    pub fn variance(&self, i: usize) -> f64 {
        self.squares[i] / (self.count - 1.0).max(1.0)
    }

    /// None again.
    pub fn clear(&mut self) {
        self.count = 0.0;
        self.mean.fill(0.0);
        self.squares.fill(0.0);
    }
}

impl Stateful for RunningMoments {
    fn state(&mut self, state: &mut State<'_>) -> Result<()> {
        state.number("count", &mut self.count)?;
        state.array("mean", &mut self.mean)?;
        state.array("squares", &mut self.squares)
    }
}

/// The scale of every parameter, from the draws and forces of a window.
#[derive(Debug, Clone)]
pub struct Scales {
    draws: RunningMoments,
    forces: RunningMoments,
}

/// A variance no parameter of a sane model has; beyond it lies overflow.
const EXTREME: f64 = 1e20;

impl Scales {
    /// For `dim` parameters.
    pub fn new(dim: usize) -> Self {
        Scales { draws: RunningMoments::new(dim), forces: RunningMoments::new(dim) }
    }

    /// One more draw of the window.
    pub fn add(&mut self, w: &[f64], force: &[f64]) {
        self.draws.add(w);
        self.forces.add(force);
    }

    /// Ends the window: writes the variances, and begins anew. A parameter whose moments do not exist keeps its own.
    pub fn close(&mut self, variance: &mut [f64]) {
        for (i, v) in variance.iter_mut().enumerate() {
            let new = (self.draws.variance(i) / self.forces.variance(i)).sqrt();
            if new > 1.0 / EXTREME && new < EXTREME {
                *v = new;
            }
        }
        self.draws.clear();
        self.forces.clear();
    }
}

impl Stateful for Scales {
    fn state(&mut self, state: &mut State<'_>) -> Result<()> {
        state.part("draws", &mut self.draws)?;
        state.part("forces", &mut self.forces)
    }
}

/// When windows end: the first transitions find the place, then windows double in length, the last transitions set the step size.
///
/// As Stan's: 15 %, windows from 25 on that double; the end takes 10 %, but 50 transitions where there are as many, which dual averaging needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Windows {
    first: usize,
    ends: Vec<usize>,
}

impl Windows {
    /// Of a warm-up of so many transitions.
    pub fn new(warmup: usize) -> Self {
        let (first, last) = (warmup * 15 / 100, warmup - (warmup / 10).max(50.min(warmup / 4)));
        let (mut ends, mut end, mut size) = (Vec::new(), first, (warmup / 20).clamp(5, 25));
        while end < last {
            end += size;
            size *= 2;
            // A window that would leave less than the next behind it takes the rest.
            if end + size > last {
                end = last;
            }
            ends.push(end);
        }
        Windows { first, ends }
    }

    /// Whether the draw of transition t (from 0) counts, and whether a window ends with it.
    pub fn at(&self, t: usize) -> (bool, bool) {
        let counts = t >= self.first && self.ends.last().is_some_and(|last| t < *last);
        (counts, self.ends.contains(&(t + 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cover_the_middle_of_the_warm_up() {
        let w = Windows::new(1000);
        assert_eq!(w, Windows { first: 150, ends: vec![175, 225, 325, 900] });
        assert_eq!((w.at(149), w.at(150), w.at(174), w.at(899), w.at(900)), {
            ((false, false), (true, false), (true, true), (true, true), (false, false))
        });
        for warmup in 0..200 {
            let w = Windows::new(warmup);
            assert!(w.ends.is_sorted() && w.ends.iter().all(|e| *e <= warmup), "{warmup}: {w:?}");
        }
    }

    /// Acceptance 1/(1 + ε²): 0.8 at ε = ½.
    #[test]
    fn dual_averaging_finds_the_step_size() {
        for start in [1e-3, 0.5, 100.0] {
            let mut d = DualAveraging::new(start, 0.8);
            for _ in 0..2000 {
                d.update(1.0 / (1.0 + d.step_size().powi(2)));
            }
            // Without noise the average is off by what the first steps left in it, t^{-κ}: under a percent.
            assert!((d.averaged() / 0.5 - 1.0).abs() < 0.02, "{} from {start}", d.averaged());
        }
    }

    /// On N(0, σ²) the force is −w/σ²: any draws give σ² exactly.
    #[test]
    fn scales_of_a_normal_do_not_depend_on_the_draws() {
        let (mut scales, mut variance) = (Scales::new(2), vec![1.0; 2]);
        for w in [0.1, 0.3, 7.0] {
            scales.add(&[w, 5.0], &[-w / 9.0, 0.0]);
        }
        scales.close(&mut variance);
        assert!((variance[0] - 9.0).abs() < 1e-12);
        assert_eq!(variance[1], 1.0, "a parameter that did not move keeps its scale");
    }
}
