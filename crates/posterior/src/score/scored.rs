//! Predictions of rows with known outcomes, reduced to what scores need of each row, block by block.
//!
//! A row has as many outcomes as it has targets, at every one of its sites; they stand side by side in `y` and in everything that is kept of each outcome.
//! Rows stay together where they are drawn anew. With several targets, errors and widths are in standard deviations of each target, so that they can be averaged;
//! [`Scored::of_target`] has those of one target in its own units.
//!
//! A block of predictions is asked once for everything that the wanted metrics need of it and can then be dropped: what is kept is some 90 bytes a row,
//! whatever the number of draws.

use super::{LEVELS, Metric, metrics};
use crate::likelihood::Outcome;
use crate::predict::{ClassUncertainty, Predictive, RealUncertainty};

/// What a metric needs beside moments and probabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs {
    /// Log-likelihoods.
    pub log_likelihood: bool,
    /// Central intervals.
    pub intervals: bool,
    /// Continuous ranked probability scores.
    pub crps: bool,
    /// Places of outcomes in their distributions.
    pub pit: bool,
}

impl Needs {
    /// Nothing.
    pub const NONE: Needs = Needs { log_likelihood: false, intervals: false, crps: false, pit: false };

    /// What any metric needs, those of other crates included.
    pub fn all() -> Needs {
        Needs::of(metrics())
    }

    /// What any of some metrics needs.
    pub fn of<'m>(metrics: impl IntoIterator<Item = &'m Metric>) -> Needs {
        metrics.into_iter().fold(Needs::NONE, |all, m| Needs {
            log_likelihood: all.log_likelihood || m.needs.log_likelihood,
            intervals: all.intervals || m.needs.intervals,
            crps: all.crps || m.needs.crps,
            pit: all.pit || m.needs.pit,
        })
    }
}

/// What scores need of every row.
#[derive(Debug)]
pub struct Scored {
    /// The observed outcomes, in the user's units, row by row; a class is its number.
    pub y: Vec<f64>,
    /// For real and count outcomes.
    pub real: Option<RealUncertainty>,
    /// For class outcomes.
    pub classes: Option<ClassUncertainty>,
    /// log p of all targets of a site, where it was asked for.
    pub(super) log_likelihood: Vec<f64>,
    /// log p of every target on its own, where there are several and the likelihood tells it.
    target_log_likelihood: Option<Vec<f64>>,
    pub(super) crps: Vec<f64>,
    /// Whether each of the central intervals holds the outcome, a bit each.
    pub(super) inside: Vec<u8>,
    /// Their ends, from the mean: single precision then holds however far from 0 that is.
    ends: Vec<[(f32, f32); LEVELS.len()]>,
    pit: Vec<(f32, f32)>,
    needs: Needs,
    /// Outcomes of a row, and targets of a site.
    each: usize,
    targets: usize,
    /// What errors of each target are divided by.
    units: Vec<f64>,
}

/// Adds up blocks of predictions.
#[derive(Debug)]
pub struct ScoreBuilder {
    scored: Scored,
}

impl ScoreBuilder {
    /// For outcomes of a kind, and the metrics of these needs.
    pub fn new(outcome: Outcome, needs: Needs) -> ScoreBuilder {
        let class = outcome == Outcome::Class;
        ScoreBuilder {
            scored: Scored {
                y: Vec::new(),
                real: (!class).then(RealUncertainty::default),
                classes: class.then(ClassUncertainty::default),
                log_likelihood: Vec::new(),
                target_log_likelihood: None,
                crps: Vec::new(),
                inside: Vec::new(),
                ends: Vec::new(),
                pit: Vec::new(),
                needs,
                each: 1,
                targets: 1,
                units: vec![1.0],
            },
        }
    }

    /// With room for so many real outcomes or counts in all: vectors that grow are copied, and hold twice as much while they are.
    pub fn with_room(mut self, outcomes: usize) -> ScoreBuilder {
        let s = &mut self.scored;
        let Some(real) = &mut s.real else { return self };
        s.y.reserve_exact(outcomes);
        [&mut real.mean, &mut real.epistemic, &mut real.aleatoric].into_iter().for_each(|v| v.reserve_exact(outcomes));
        let room = |wanted: bool| if wanted { outcomes } else { 0 };
        s.log_likelihood.reserve_exact(room(s.needs.log_likelihood));
        s.crps.reserve_exact(room(s.needs.crps));
        s.inside.reserve_exact(room(s.needs.intervals));
        s.ends.reserve_exact(room(s.needs.intervals));
        s.pit.reserve_exact(room(s.needs.pit));
        self
    }

    /// The next rows, with their outcomes in the user's units.
    pub fn push(&mut self, predictive: &Predictive, y: &[f64]) {
        let s = &mut self.scored;
        let first = s.y.is_empty();
        s.each = predictive.outcomes_per_row();
        s.targets = predictive.likelihood().targets().max(1);
        if s.targets > 1 {
            s.units = (0..s.targets).map(|t| predictive.target_scale(t).1).collect();
        }
        s.y.extend_from_slice(y);
        if s.needs.log_likelihood {
            s.log_likelihood.extend(predictive.log_likelihood(y));
            if s.targets > 1 {
                let before = if first { Some(Vec::new()) } else { s.target_log_likelihood.take() };
                let next = predictive.target_log_likelihood(y);
                s.target_log_likelihood = before.zip(next).map(|(mut all, next)| {
                    all.extend(next);
                    all
                });
            }
        }
        if let Some(classes) = &mut s.classes {
            classes.append(predictive.classes());
            return;
        }
        if let Some(real) = &mut s.real {
            real.append(predictive.real());
        }
        if s.needs.crps {
            s.crps.extend(predictive.crps(y));
        }
        if s.needs.pit {
            s.pit.extend(predictive.pit(y).into_iter().map(|(low, high)| (low as f32, high as f32)));
        }
        if s.needs.intervals {
            let levels: Vec<f64> = LEVELS.iter().flat_map(|p| [0.5 - 0.5 * p, 0.5 + 0.5 * p]).collect();
            let bounds = predictive.quantiles(&levels);
            let means = s.real.as_ref().map_or(&[][..], |real| &real.mean[real.mean.len() - y.len()..]);
            for ((row, y), mean) in bounds.chunks_exact(2 * LEVELS.len()).zip(y).zip(means) {
                let holds = |l: usize| row[2 * l] <= *y && *y <= row[2 * l + 1];
                s.inside.push((0..LEVELS.len()).map(|l| u8::from(holds(l)) << l).sum());
                s.ends.push(std::array::from_fn(|l| ((row[2 * l] - mean) as f32, (row[2 * l + 1] - mean) as f32)));
            }
        }
    }

    /// All rows.
    pub fn finish(self) -> Scored {
        self.scored
    }
}

impl Scored {
    /// Everything that any metric needs, of rows with known outcomes of the given kind.
    pub fn new(predictive: &Predictive, y: &[f64], outcome: Outcome) -> Scored {
        Scored::with(predictive, y, outcome, Needs::all())
    }

    /// What some metrics need.
    pub fn with(predictive: &Predictive, y: &[f64], outcome: Outcome, needs: Needs) -> Scored {
        let mut builder = ScoreBuilder::new(outcome, needs);
        builder.push(predictive, y);
        builder.finish()
    }

    /// Rows: what is drawn anew for standard errors.
    pub fn rows(&self) -> usize {
        self.y.len() / self.each
    }

    /// Targets of a site.
    pub fn targets(&self) -> usize {
        self.targets
    }

    /// What errors and widths of outcome n are divided by: 1, or with several targets the standard deviation of its target.
    pub fn unit(&self, n: usize) -> f64 {
        self.units[n % self.targets]
    }

    /// Some of the rows, by their numbers.
    pub fn select(&self, rows: &[usize]) -> Scored {
        let outcomes: Vec<usize> = rows.iter().flat_map(|r| r * self.each..(r + 1) * self.each).collect();
        let sites = self.each / self.targets;
        let at_sites: Vec<usize> = rows.iter().flat_map(|r| r * sites..(r + 1) * sites).collect();
        let log_likelihood = take(&self.log_likelihood, &at_sites);
        let target_log_likelihood = self.target_log_likelihood.as_ref().map(|all| take(all, &outcomes));
        Scored { log_likelihood, target_log_likelihood, units: self.units.clone(), ..self.outcomes(&outcomes) }
    }

    /// What concerns one of several targets, in its own units; its log-likelihood is that of its own distribution, whatever the other targets are.
    pub fn of_target(&self, target: usize) -> Scored {
        let outcomes: Vec<usize> = (target..self.y.len()).step_by(self.targets).collect();
        let log_likelihood = match &self.target_log_likelihood {
            Some(all) => take(all, &outcomes),
            None if self.targets == 1 => self.log_likelihood.clone(),
            None => Vec::new(),
        };
        let (each, units) = (self.each / self.targets, vec![1.0]);
        Scored { log_likelihood, each, targets: 1, units, ..self.outcomes(&outcomes) }
    }

    /// What is kept of some outcomes; the rest is as it was.
    fn outcomes(&self, n: &[usize]) -> Scored {
        Scored {
            y: take(&self.y, n),
            real: self.real.as_ref().map(|r| r.select(n)),
            classes: self.classes.as_ref().map(|c| c.select(n)),
            log_likelihood: Vec::new(),
            target_log_likelihood: None,
            crps: take(&self.crps, n),
            inside: take(&self.inside, n),
            ends: take(&self.ends, n),
            pit: take(&self.pit, n),
            needs: self.needs,
            each: self.each,
            targets: self.targets,
            units: Vec::new(),
        }
    }

    /// Whether the central interval with probability `LEVELS[level]` holds the outcome of row n.
    pub fn is_inside(&self, n: usize, level: usize) -> bool {
        self.inside[n] >> level & 1 == 1
    }

    /// Width of the central interval of row n with probability `LEVELS[level]`, to single precision.
    pub fn width(&self, n: usize, level: usize) -> f64 {
        let (low, high) = self.ends[n][level];
        f64::from(high) - f64::from(low)
    }

    /// Ends of the central interval of row n with probability `LEVELS[level]`, to single precision of its width; for real and count outcomes.
    pub fn interval(&self, n: usize, level: usize) -> (f64, f64) {
        let mean = self.real.as_ref().map_or(f64::NAN, |real| real.mean[n]);
        let (low, high) = self.ends[n][level];
        (mean + f64::from(low), mean + f64::from(high))
    }

    /// Where the outcome of row n lies in its predictive distribution; for real and count outcomes. See [`Predictive::pit`].
    pub fn pit(&self, n: usize) -> (f64, f64) {
        let (low, high) = self.pit[n];
        (f64::from(low), f64::from(high))
    }

    /// Mean minus outcome, in its unit.
    pub(super) fn error(&self, n: usize, real: &RealUncertainty) -> f64 {
        (real.mean[n] - self.y[n]) / self.unit(n)
    }

    /// How unsure each row is, and how wrong: 1 − the largest probability and 0 or 1, or the standard deviation and the absolute
    /// error; with several targets in standard deviations of each.
    pub fn uncertainty_and_loss(&self) -> Option<Vec<(f64, f64)>> {
        let rows = 0..self.y.len();
        if let Some(real) = &self.real {
            return Some(rows.map(|n| (real.std(n).0 / self.unit(n), self.error(n, real).abs())).collect());
        }
        let classes = self.classes.as_ref()?;
        let one = |n: usize| {
            let predicted = classes.predicted(n);
            (1.0 - classes.row(n)[predicted], if predicted as f64 == self.y[n] { 0.0 } else { 1.0 })
        };
        Some(rows.map(one).collect())
    }
}

/// The numbered ones; nothing where nothing was kept.
fn take<T: Copy>(all: &[T], numbers: &[usize]) -> Vec<T> {
    if all.is_empty() { Vec::new() } else { numbers.iter().map(|n| all[*n]).collect() }
}
