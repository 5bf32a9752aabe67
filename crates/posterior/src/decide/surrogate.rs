//! A Gaussian process over tried points, with gradients of its mean and standard deviation in the point.
//!
//! f ~ GP(0, s² k₅⸝₂(r)), r² = Σ (x_d − x'_d)²/ℓ_d², on standardised values; parameters by maximum a posteriori ([`log_marginal`], priors of the kernel: lengthscales
//! √2 + ½ ln D, √3, Hvarfner et al. 2024). Noise is learned from [`LEAST_NOISE`] of the variance on, below which values count as exact.
//! Cost: n³ for every step of the search, n² for a point with its gradient.

use super::space::{Point, Space};
use crate::error::{Error, Result};
use crate::gp::{Kernel, log_marginal};
use crate::math::linalg::{Cholesky, dot};
use crate::optim;

/// Variance of the noise that is always there, of standardised values.
const LEAST_NOISE: f64 = 1e-8;
/// Prior of ln σ²: with few values, noise must not explain what the function does.
const NOISE_PRIOR: (f64, f64) = (-12.0, 3.0);
/// How far logarithms may go from 0.
const FARTHEST: f64 = 25.0;

/// A Gaussian process under data.
#[derive(Debug, Clone)]
pub struct Surrogate {
    /// Logarithms of the kernel's parameters and of the noise beyond the least: what another fit may start from.
    pub log: Vec<f64>,
    variance: f64,
    noise: f64,
    /// 1/ℓ of every encoded number.
    inverse_scale: Vec<f64>,
    x: Vec<f64>,
    y: Vec<f64>,
    /// How many of the last values are believed: they are values of f, without noise, so that a second look at the same place gains nothing.
    believed: usize,
    centre: f64,
    std: f64,
    factor: Cholesky,
    alpha: Vec<f64>,
}

/// Mean and standard deviation of f at a point, and their gradients in what it is encoded by.
#[derive(Debug, Clone, Default)]
pub struct AtPoint {
    /// μ, in the units of the values.
    pub mean: f64,
    /// σ of f, without noise.
    pub std: f64,
    /// ∂μ
    pub mean_gradient: Vec<f64>,
    /// ∂σ
    pub std_gradient: Vec<f64>,
}

fn scaled(y: &[f64]) -> (f64, f64) {
    let n = y.len() as f64;
    let mean = y.iter().sum::<f64>() / n;
    let std = (y.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt();
    (mean, if std > 1e-12 * mean.abs().max(1e-300) { std } else { 1.0 })
}

impl Surrogate {
    /// Finds the parameters; from those of an earlier fit where there is one.
    pub fn fit(space: &Space, points: &[Point], values: &[f64], from: Option<&[f64]>) -> Result<Surrogate> {
        let kernel = Kernel::parse("matern52(ard)", &space.inputs())?;
        let mut x = Vec::with_capacity(points.len() * space.width());
        points.iter().for_each(|p| space.encode(p, &mut x));
        let (centre, std) = scaled(values);
        let y: Vec<f64> = values.iter().map(|v| (v - centre) / std).collect();
        let mut start = kernel.start();
        start.push(NOISE_PRIOR.0);
        let priors: Vec<(f64, f64)> = kernel.parameters().iter().map(|p| p.prior).chain([NOISE_PRIOR]).collect();
        let last = start.len() - 1;
        // The last number is t of σ² = eᵗ + the least there is, which has no wall to run into.
        let floored = |log: &[f64]| {
            let mut log = log.to_vec();
            log[last] = (log[last].exp() + LEAST_NOISE).ln();
            log
        };
        let objective = |log: &[f64], gradient: &mut [f64]| {
            let value = match log.iter().any(|v| v.abs() > FARTHEST) {
                true => None,
                false => log_marginal(&kernel, &x, &y, &floored(log), Some(gradient)).ok(),
            };
            let Some(mut sum) = value else {
                gradient.fill(f64::NAN);
                return f64::NEG_INFINITY;
            };
            gradient[last] *= log[last].exp() / (log[last].exp() + LEAST_NOISE);
            for ((v, g), (mean, std)) in log.iter().zip(gradient.iter_mut()).zip(&priors) {
                let z = (v - mean) / std;
                sum -= 0.5 * z * z;
                *g -= z / std;
            }
            sum
        };
        let mut wide = start.clone();
        kernel.parameters().iter().zip(&mut wide).for_each(|(p, v)| {
            if p.name.starts_with("lengthscale") {
                *v -= 1.5;
            }
        });
        // From a fit to a row or two fewer a few steps are enough; without one, short and long lengthscales.
        let starts = match from.filter(|f| f.len() == start.len()) {
            Some(from) => vec![(from.to_vec(), 15)],
            None => vec![(start, 40), (wide, 40)],
        };
        let mut found: Option<(f64, Vec<f64>)> = None;
        for (mut log, steps) in starts {
            let mut best = f64::NEG_INFINITY;
            optim::climb(&mut log, steps, |at, gradient| {
                let value = objective(at, gradient);
                best = best.max(value);
                value
            });
            if found.as_ref().is_none_or(|f| best > f.0) {
                found = Some((best, log));
            }
        }
        let free = found.map(|f| f.1).unwrap_or_default();
        let mut made = Surrogate::with_parameters(space, points, values, floored(&free))?;
        made.log = free;
        Ok(made)
    }

    /// At given parameters: logarithms as [`Kernel::start`] orders them, then that of the noise variance.
    pub fn with_parameters(space: &Space, points: &[Point], values: &[f64], log: Vec<f64>) -> Result<Surrogate> {
        let kernel = Kernel::parse("matern52(ard)", &space.inputs())?;
        let mut x = Vec::with_capacity(points.len() * space.width());
        points.iter().for_each(|p| space.encode(p, &mut x));
        let (centre, std) = scaled(values);
        let y: Vec<f64> = values.iter().map(|v| (v - centre) / std).collect();
        let named = |prefix: &str| {
            let of = kernel.parameters().iter().zip(&log).filter(|(p, _)| p.name.starts_with(prefix));
            of.map(|(_, v)| v.exp()).collect::<Vec<f64>>()
        };
        let (variance, lengths) = (named("variance"), named("lengthscale"));
        let mut inverse_scale = Vec::with_capacity(space.width());
        for (d, dimension) in space.dimensions().iter().enumerate() {
            let width = if let super::space::Dimension::Category(v) = dimension { v.len() } else { 1 };
            inverse_scale.extend(std::iter::repeat_n(1.0 / lengths[d.min(lengths.len() - 1)], width));
        }
        let noise = log.last().map_or(LEAST_NOISE, |v| v.exp());
        let mut made = Surrogate {
            variance: variance[0],
            noise,
            inverse_scale,
            x,
            y,
            believed: 0,
            centre,
            std,
            factor: Cholesky::new(&[1.0], 1)?,
            alpha: Vec::new(),
            log,
        };
        made.factorise()?;
        Ok(made)
    }

    fn noise_of(&self, i: usize) -> f64 {
        // What is believed keeps so much noise that points close together can be factorised.
        if i + self.believed < self.y.len() { self.noise } else { self.noise.min(1e-12 * self.variance) }
    }

    fn factorise(&mut self) -> Result<()> {
        let (n, w) = (self.y.len(), self.inverse_scale.len());
        let mut k = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..=i {
                let v = self.kernel(&self.x[i * w..(i + 1) * w], &self.x[j * w..(j + 1) * w]).0;
                (k[i * n + j], k[j * n + i]) = (v, v);
            }
        }
        for step in [0.0, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6] {
            let mut noisy = k.clone();
            (0..n).for_each(|i| noisy[i * n + i] += self.noise_of(i) + step * self.variance);
            if let Ok(factor) = Cholesky::new(&noisy, n) {
                self.factor = factor;
                self.alpha = self.y.clone();
                self.factor.solve(&mut self.alpha);
                return Ok(());
            }
        }
        Err(Error::numerical("the covariance of the tried points is singular", "leave out rows that are there twice"))
    }

    /// k, and the factor that (x − x')/ℓ² is multiplied by in its gradient.
    fn kernel(&self, a: &[f64], b: &[f64]) -> (f64, f64) {
        let square: f64 = a.iter().zip(b).zip(&self.inverse_scale).map(|((a, b), s)| ((a - b) * s).powi(2)).sum();
        let r = (5.0 * square).sqrt();
        let decay = self.variance * (-r).exp();
        (decay * (1.0 + r + r * r / 3.0), -5.0 / 3.0 * decay * (1.0 + r))
    }

    /// log p(y) of the standardised values.
    pub fn log_marginal(&self) -> f64 {
        -0.5 * dot(&self.y, &self.alpha)
            - 0.5 * self.factor.log_det()
            - crate::math::special::HALF_LN_TAU * self.y.len() as f64
    }

    /// Standard deviation of the noise, in the units of the values.
    pub fn noise_std(&self) -> f64 {
        self.noise.sqrt() * self.std
    }

    /// Whether values scatter so much that a point is worth trying twice: noise of more than a tenth of the spread.
    pub fn is_noisy(&self) -> bool {
        self.noise > 0.01
    }

    /// The standard deviation that values were divided by.
    pub fn value_std(&self) -> f64 {
        self.std
    }

    /// Mean and standard deviation of f where the point is encoded by `x`; gradients where they are wanted.
    pub fn at(&self, x: &[f64], with_gradient: bool) -> AtPoint {
        let w = self.inverse_scale.len();
        let rows = || self.x.chunks_exact(w);
        let (mut k, slopes): (Vec<f64>, Vec<f64>) = rows().map(|row| self.kernel(x, row)).unzip();
        let mean = dot(&k, &self.alpha);
        self.factor.solve_lower(&mut k);
        let std = (self.variance - dot(&k, &k)).max(1e-18 * self.variance).sqrt();
        let mut out = AtPoint {
            mean: self.centre + self.std * mean,
            std: self.std * std,
            mean_gradient: Vec::new(),
            std_gradient: Vec::new(),
        };
        if with_gradient {
            self.factor.solve_upper(&mut k);
            (out.mean_gradient, out.std_gradient) = (vec![0.0; w], vec![0.0; w]);
            for (i, row) in rows().enumerate() {
                for d in 0..w {
                    let dk = slopes[i] * (x[d] - row[d]) * self.inverse_scale[d].powi(2);
                    out.mean_gradient[d] += self.std * self.alpha[i] * dk;
                    out.std_gradient[d] -= self.std * k[i] * dk / std;
                }
            }
        }
        out
    }

    /// Mean and a root R of the covariance RRᵀ of f at several points, encoded one after the other; in the units of the values.
    pub fn joint(&self, x: &[f64]) -> Result<(Vec<f64>, Cholesky)> {
        let w = self.inverse_scale.len();
        let m = x.len() / w;
        let (mut mean, mut solved) = (Vec::with_capacity(m), Vec::with_capacity(m));
        for point in x.chunks_exact(w) {
            let mut k: Vec<f64> = self.x.chunks_exact(w).map(|row| self.kernel(point, row).0).collect();
            mean.push(self.centre + self.std * dot(&k, &self.alpha));
            self.factor.solve_lower(&mut k);
            solved.push(k);
        }
        let mut covariance = vec![0.0; m * m];
        for i in 0..m {
            for j in 0..=i {
                let prior = self.kernel(&x[i * w..(i + 1) * w], &x[j * w..(j + 1) * w]).0;
                let v = self.std * self.std * (prior - dot(&solved[i], &solved[j]));
                (covariance[i * m + j], covariance[j * m + i]) = (v, v);
            }
        }
        let unit = self.variance * self.std * self.std;
        let mut last = 0.0;
        for step in [1e-12, 1e-10, 1e-8, 1e-6] {
            (0..m).for_each(|i| covariance[i * m + i] += (step - last) * unit);
            last = step;
            if let Ok(root) = Cholesky::new(&covariance, m) {
                return Ok((mean, root));
            }
        }
        Err(Error::numerical("the covariance of the candidates is singular", "give other candidates"))
    }

    /// With one more point whose value is what is expected there, at the same parameters (the believer of Ginsbourger et al. 2010).
    pub fn believing(&self, x: &[f64]) -> Result<Surrogate> {
        let mut next = self.clone();
        let mean = (self.at(x, false).mean - self.centre) / self.std;
        next.x.extend_from_slice(x);
        next.y.push(mean);
        next.believed += 1;
        next.factorise()?;
        Ok(next)
    }

    /// The largest mean of f at the points it was told.
    pub fn best_mean(&self) -> f64 {
        // K α = y and the noise is on the diagonal: the means are y − σ²α.
        let mean = |(i, (y, a)): (usize, (&f64, &f64))| y - self.noise_of(i) * a;
        let best = self.y.iter().zip(&self.alpha).enumerate().map(mean).fold(f64::NEG_INFINITY, f64::max);
        self.centre + self.std * best
    }
}
