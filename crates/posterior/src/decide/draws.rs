//! What every draw of a posterior says of every row: pₛ(y | x) of classes, mean and variance of numbers.
//!
//! Memory: draws × rows × classes. The same draw is the same function at all rows, so that draws of two tables under one key may be compared.

use crate::error::{Error, Result};
use crate::likelihood::Outcome;
use crate::predict::{Outputs, Predictive};

/// Probabilities of classes under every draw.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassDraws {
    /// Rows × draws × classes: what one row needs lies together.
    pub p: Vec<f64>,
    /// Share of every draw; their sum is 1.
    pub weights: Vec<f64>,
    /// How many classes.
    pub classes: usize,
}

/// Means and variances under every draw, in the user's units.
#[derive(Debug, Clone, PartialEq)]
pub struct RealDraws {
    /// E[y | wₛ], rows × draws.
    pub mean: Vec<f64>,
    /// Var[y | wₛ], rows × draws.
    pub variance: Vec<f64>,
    /// Share of every draw; their sum is 1.
    pub weights: Vec<f64>,
}

/// What draws say, by kind of outcome.
#[derive(Debug, Clone, PartialEq)]
pub enum Draws {
    /// Of classes.
    Classes(ClassDraws),
    /// Of numbers.
    Real(RealDraws),
}

fn weights_of(p: &Predictive) -> Result<Vec<f64>> {
    let Outputs::Draws(drawn) = p.outputs() else {
        return Err(Error::setting("a prediction in closed form has no draws", "predict by draws"));
    };
    let weights = drawn.weights.clone().unwrap_or_else(|| vec![1.0; drawn.draws]);
    let sum: f64 = weights.iter().sum();
    Ok(weights.iter().map(|w| w / sum).collect())
}

impl Draws {
    /// Of a predictive distribution made by draws, with one outcome a row.
    pub fn of(p: &Predictive) -> Result<Draws> {
        if p.outcomes_per_row() != 1 {
            let what = format!("a decision is about one outcome a row, and a row has {}", p.outcomes_per_row());
            return Err(Error::setting(what, "fit a model of one target"));
        }
        match p.likelihood().outcome() {
            Outcome::Class => Ok(Draws::Classes(ClassDraws::of(p)?)),
            _ => Ok(Draws::Real(RealDraws::of(p)?)),
        }
    }

    /// How many rows.
    pub fn rows(&self) -> usize {
        match self {
            Draws::Classes(d) => d.rows(),
            Draws::Real(d) => d.rows(),
        }
    }

    /// The rows of another set after these.
    ///
    /// # Panics
    /// If they are of another kind.
    pub fn append(&mut self, next: Draws) {
        match (self, next) {
            (Draws::Classes(all), Draws::Classes(next)) => all.p.extend(next.p),
            (Draws::Real(all), Draws::Real(next)) => {
                all.mean.extend(next.mean);
                all.variance.extend(next.variance);
            }
            _ => panic!("draws of one kind"),
        }
    }
}

impl ClassDraws {
    fn of(p: &Predictive) -> Result<ClassDraws> {
        let weights = weights_of(p)?;
        let (classes, outputs, draws) = (p.likelihood().classes(), p.likelihood().outputs(), weights.len());
        let mut all = vec![0.0; p.rows() * draws * classes];
        let mut f = vec![0.0; outputs];
        for s in 0..draws {
            let drawn = p.draw(s).unwrap_or_default();
            for (n, row) in drawn.chunks_exact(outputs).enumerate() {
                f.iter_mut().zip(row).for_each(|(f, v)| *f = f64::from(*v));
                p.likelihood().probabilities(&f, &mut all[(n * draws + s) * classes..][..classes]);
            }
        }
        Ok(ClassDraws { p: all, weights, classes })
    }

    /// How many rows.
    pub fn rows(&self) -> usize {
        self.p.len() / (self.weights.len() * self.classes).max(1)
    }

    /// Draws × classes of row n.
    pub fn row(&self, n: usize) -> &[f64] {
        let width = self.weights.len() * self.classes;
        &self.p[n * width..(n + 1) * width]
    }

    /// p̄ of row n.
    pub fn mean(&self, n: usize) -> Vec<f64> {
        let mut mean = vec![0.0; self.classes];
        for (p, w) in self.row(n).chunks_exact(self.classes).zip(&self.weights) {
            mean.iter_mut().zip(p).for_each(|(m, p)| *m += w * p);
        }
        mean
    }
}

impl RealDraws {
    fn of(p: &Predictive) -> Result<RealDraws> {
        let weights = weights_of(p)?;
        let (draws, rows) = (weights.len(), p.rows());
        let scaled = p.likelihood().outcome() == Outcome::Real;
        let (centre, std) = if scaled { p.target_scale(0) } else { (0.0, 1.0) };
        let Outputs::Draws(drawn) = p.outputs() else { unreachable!("weights were read from draws") };
        let own = drawn.noise.len() / draws.max(1);
        let (mut mean, mut variance) = (vec![0.0; rows * draws], vec![0.0; rows * draws]);
        let (mut m, mut v) = (vec![0.0; rows], vec![0.0; rows]);
        for s in 0..draws {
            let noise = &drawn.noise[s * own..(s + 1) * own];
            p.likelihood().moments_rows(p.draw(s).unwrap_or_default(), noise, &mut m, &mut v);
            for n in 0..rows {
                mean[n * draws + s] = centre + std * m[n];
                variance[n * draws + s] = std * std * v[n];
            }
        }
        Ok(RealDraws { mean, variance, weights })
    }

    /// How many rows.
    pub fn rows(&self) -> usize {
        self.mean.len() / self.weights.len().max(1)
    }

    /// Mean, epistemic and aleatoric variance of row n.
    pub fn moments(&self, n: usize) -> (f64, f64, f64) {
        let of = |all: &[f64]| {
            let row = &all[n * self.weights.len()..(n + 1) * self.weights.len()];
            row.iter().zip(&self.weights).map(|(v, w)| v * w).sum::<f64>()
        };
        let mean = of(&self.mean);
        let epistemic = self.centred(n).iter().map(|v| v * v).sum();
        (mean, epistemic, of(&self.variance))
    }

    /// √wₛ (mₛ − m) of row n: inner products of two rows are covariances of the function.
    pub fn centred(&self, n: usize) -> Vec<f64> {
        let row = &self.mean[n * self.weights.len()..(n + 1) * self.weights.len()];
        let mean: f64 = row.iter().zip(&self.weights).map(|(v, w)| v * w).sum();
        row.iter().zip(&self.weights).map(|(v, w)| w.sqrt() * (v - mean)).collect()
    }
}
