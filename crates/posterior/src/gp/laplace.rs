//! Gaussian processes under any likelihood, by Laplace's method: p(f | y) ≈ N(f̂, (K⁻¹ + W)⁻¹) at the mode f̂, W = −∇² log p(y | f̂).
//!
//! log p(y) ≈ log p(y | f̂) − ½ f̂ᵀa − ½ ln|I + KW|, a = K⁻¹f̂ = ∇ log p(y | f̂); f* ~ N(k*ᵀa, k** − k*ᵀRk*), R = (K + W⁻¹)⁻¹. Classes by softmax have one f each, with the same kernel.
//! ∂/∂θ = ½ tr[(aaᵀ − R) K′] + qᵀK′a, q = (I + WK)⁻¹s, sᵢ = −½ tr[(K⁻¹ + W)⁻¹ ∂W/∂fᵢ]: the last term is how the mode moves.
//! W is the likelihood's own Hessian, which for Student's t is the expected one: the observed one is negative at outliers, where I + KW need not have a logarithm of its determinant; steps
//! that do not raise the joint density are halved, for it need not be concave.
//! Reference: Rasmussen & Williams (2006), algorithms 3.1, 3.3 and 5.1; Hartmann & Vanhatalo (2019) for the expected Hessian. Cost: outputs × n³ for a step to the mode.

use super::covariance::{Covariance, Points, Scratch};
use super::curve::{Curve, times};
use super::exact::matrix;
use super::kernel::Kernel;
use crate::Precision;
use crate::error::{Error, Result};
use crate::likelihood::{Likelihood, LikelihoodGradient};
use crate::math::linalg::dot;
use rayon::prelude::*;
use std::sync::Arc;

/// Steps to the mode at most.
const STEPS: usize = 200;
/// The mode is found when no f moves by more than this, relative to the largest.
const CLOSE: f64 = 1e-10;
/// A step is halved no more often than this.
const HALVINGS: usize = 40;
/// Of the five-point differences of curvature: h⁴ of fifth derivatives, and ε/h of rounding.
const DIFFERENCE: f64 = 1e-3;
/// Rows of the matrix that a thread takes gradients of at a time.
const ROWS: usize = 32;

/// Targets under a likelihood whose own parameters are fixed.
struct Observed<'a> {
    likelihood: &'a dyn Likelihood,
    y: &'a [f64],
    noise: Vec<f64>,
}

/// Log-likelihood with slopes and curvatures; of softmax the curvature is diag(D) − DDᵀ row by row, and D is kept. All output by output.
struct Local {
    value: f64,
    slope: Vec<f64>,
    curvature: Vec<f64>,
    d_noise: Vec<f64>,
}

impl Observed<'_> {
    fn outputs(&self) -> usize {
        self.likelihood.outputs()
    }

    /// From one output after another to rows.
    fn by_rows(&self, f: &[f64]) -> Vec<f64> {
        let (n, outputs) = (self.y.len(), self.outputs());
        (0..n * outputs).map(|e| f[e % outputs * n + e / outputs]).collect()
    }

    fn value(&self, f: &[f64]) -> f64 {
        f64::likelihood(self.likelihood).log_prob(&self.by_rows(f), self.y, &self.noise, None, 1.0, None)
    }

    fn at(&self, f: &[f64]) -> Local {
        let (n, outputs) = (self.y.len(), self.outputs());
        let f = self.by_rows(f);
        let (mut d_f, mut d_noise) = (vec![0.0; f.len()], vec![0.0; self.noise.len()]);
        let gradient = LikelihoodGradient { d_f: &mut d_f, d_noise: &mut d_noise };
        let likelihood = f64::likelihood(self.likelihood);
        let value = likelihood.log_prob(&f, self.y, &self.noise, None, 1.0, Some(gradient));
        let mut curvature = vec![0.0; f.len()];
        let (mut own, mut vector) = (vec![0.0; outputs], vec![0.0; outputs]);
        for (i, f) in f.chunks(outputs).enumerate() {
            if outputs == 1 {
                self.likelihood.hessian_row(f, &self.y[i..=i], &self.noise, &mut own);
            } else {
                self.likelihood.hessian_parts(f, &mut own, &mut vector);
            }
            own.iter().enumerate().for_each(|(c, d)| curvature[c * n + i] = d.max(0.0));
        }
        let slope = (0..n * outputs).map(|e| d_f[e % n * outputs + e / n]).collect();
        Local { value, slope, curvature, d_noise }
    }

    /// s = −½ tr(A ∂W/∂f), output by output, from the blocks of A.
    fn move_of_curvature(&self, f: &[f64], blocks: &[f64]) -> Vec<f64> {
        let (n, outputs) = (self.y.len(), self.outputs());
        let f = self.by_rows(f);
        let mut out = vec![0.0; n * outputs];
        let mut hessian = vec![0.0; outputs * outputs];
        for i in 0..n {
            let mut at = f[i * outputs..(i + 1) * outputs].to_vec();
            let block = &blocks[i * outputs * outputs..(i + 1) * outputs * outputs];
            for c in 0..outputs {
                let middle = at[c];
                out[c * n + i] = -0.5
                    * slope(|h| {
                        at[c] = middle + h;
                        self.likelihood.hessian_row(&at, &self.y[i..=i], &self.noise, &mut hessian);
                        dot(block, &hessian)
                    });
                at[c] = middle;
            }
        }
        out
    }
}

/// g′(0) by five points.
fn slope(mut g: impl FnMut(f64) -> f64) -> f64 {
    let h = DIFFERENCE;
    let (near, far) = (g(h) - g(-h), g(2.0 * h) - g(-2.0 * h));
    (8.0 * near - far) / (12.0 * h)
}

/// The mode, with what was found at it.
struct Mode {
    /// K⁻¹f̂, output by output.
    a: Vec<f64>,
    f: Vec<f64>,
    local: Local,
    curve: Curve,
}

impl Mode {
    fn log_evidence(&self) -> f64 {
        self.local.value - 0.5 * dot(&self.a, &self.f) - 0.5 * self.curve.log_det()
    }
}

/// Climbs from f = 0, so that the evidence is a function of the parameters alone.
fn mode(k: &[f64], observed: &Observed<'_>) -> Result<Mode> {
    let n = observed.y.len();
    let size = n * observed.outputs();
    let (mut a, mut f) = (vec![0.0; size], vec![0.0; size]);
    let mut local = observed.at(&f);
    let mut joint = local.value;
    let mut curve = Curve::new(k, n, &local.curvature)?;
    for _ in 0..STEPS {
        // b = Wf + ∇, a′ = b − RKb.
        let mut b = curve.curvature_times(&local.curvature, &f);
        b.iter_mut().zip(&local.slope).for_each(|(b, s)| *b += s);
        let back = curve.resolve(&times(k, n, &b));
        let step: Vec<f64> = (0..size).map(|i| b[i] - back[i] - a[i]).collect();
        let along = times(k, n, &step);
        let (mut length, mut found) = (1.0, None);
        for _ in 0..HALVINGS {
            let moved =
                |from: &[f64], by: &[f64]| -> Vec<f64> { from.iter().zip(by).map(|(f, b)| f + length * b).collect() };
            let (a, f) = (moved(&a, &step), moved(&f, &along));
            let value = observed.value(&f) - 0.5 * dot(&a, &f);
            // Near the mode the rise is below rounding.
            if value >= joint - 1e-13 * joint.abs().max(1.0) {
                found = Some((a, f, value));
                break;
            }
            length *= 0.5;
        }
        let Some(next) = found else { break };
        (a, f, joint) = next;
        let (largest, change) =
            f.iter().zip(&along).fold((1.0_f64, 0.0_f64), |(l, c), (f, d)| (l.max(f.abs()), c.max((length * d).abs())));
        let before = std::mem::replace(&mut local, observed.at(&f));
        // Of Student's t the curvature is the same everywhere.
        if before.curvature != local.curvature {
            curve = Curve::new(k, n, &local.curvature)?;
        }
        if change <= CLOSE * largest {
            break;
        }
    }
    if !joint.is_finite() || !f.iter().all(|v| v.is_finite()) {
        let what = "the mode of the Gaussian process cannot be found: its density is not finite";
        return Err(Error::numerical(what, "look for targets that are far from all others"));
    }
    // f = Ka exactly, and not as a sum of steps.
    let f = times(k, n, &a);
    Ok(Mode { a, f, local, curve })
}

/// ln σ where the likelihood learns it, of ln σ².
fn noise_at(likelihood: &dyn Likelihood, log: &[f64]) -> Vec<f64> {
    super::fitted::noise_values(likelihood, log)
}

/// log p(y | X, θ) by Laplace's method and, where wanted, its gradient in `log`: the logarithms of the kernel's parameters, and of the noise variance where the likelihood has one.
pub fn laplace_evidence(
    kernel: &Kernel,
    likelihood: &dyn Likelihood,
    x: &[f64],
    y: &[f64],
    log: &[f64],
    gradient: Option<&mut [f64]>,
) -> Result<f64> {
    let covariance = Covariance::new(kernel, log);
    let points = covariance.points(x);
    let n = points.n;
    let k = matrix(&covariance, &points, 0.0).dense();
    let observed = Observed { likelihood, y, noise: noise_at(likelihood, log) };
    let mode = mode(&k, &observed)?;
    let value = mode.log_evidence();
    let Some(gradient) = gradient else { return Ok(value) };
    gradient.fill(0.0);
    let diagonal: Vec<f64> = (0..n).map(|i| k[i * n + i]).collect();
    let blocks = mode.curve.blocks(&diagonal, n, |columns, out| {
        let cols = columns.len();
        for (i, out) in out.chunks_mut(cols).enumerate() {
            out.copy_from_slice(&k[i * n + columns.start..i * n + columns.end]);
        }
    });
    let s = observed.move_of_curvature(&mode.f, &blocks);
    let back = mode.curve.resolve(&times(&k, n, &s));
    let q: Vec<f64> = s.iter().zip(&back).map(|(s, b)| s - b).collect();
    let r = mode.curve.trace_weights();
    let starts: Vec<usize> = (0..n).step_by(ROWS).collect();
    let one = |from: usize| {
        let (mut part, mut scratch, mut weights) = (vec![0.0; log.len()], Scratch::default(), vec![0.0; n]);
        for i in from..n.min(from + ROWS) {
            let weights = &mut weights[..=i];
            weights.iter_mut().zip(&r[i * n..]).for_each(|(w, r)| *w = -r);
            for (a, q) in mode.a.chunks(n).zip(q.chunks(n)) {
                let (both, own) = (a[i] + q[i], a[i]);
                weights.iter_mut().zip(a.iter().zip(q)).for_each(|(w, (a, q))| *w += both * a + own * q);
            }
            weights[i] *= 0.5;
            covariance.gradient(&points, i, &points, 0, true, weights, &mut scratch, &mut part);
        }
        part
    };
    for part in starts.into_par_iter().map(one).collect::<Vec<_>>() {
        gradient.iter_mut().zip(part).for_each(|(g, p)| *g += p);
    }
    if let [noise] = observed.noise[..] {
        // By ln σ: what the likelihood says, how W changes, and how the mode moves.
        let moved = |h: f64| Observed { likelihood, y, noise: vec![noise + h] };
        let curvature = slope(|h| dot(&moved(h).at(&mode.f).curvature, &blocks));
        let mut along = vec![0.0; n];
        for (step, factor) in [(1.0, 8.0), (-1.0, -8.0), (2.0, -1.0), (-2.0, 1.0)] {
            let slopes = moved(step * DIFFERENCE).at(&mode.f).slope;
            along.iter_mut().zip(&slopes).for_each(|(a, s)| *a += factor * s / (12.0 * DIFFERENCE));
        }
        let pushed = times(&k, n, &along);
        let total = mode.local.d_noise[0] - 0.5 * curvature + dot(&q, &pushed);
        gradient[log.len() - 1] = 0.5 * total;
    }
    Ok(value)
}

/// Bytes that a value with its gradient takes at most.
pub(super) fn bytes(n: usize, outputs: usize) -> u128 {
    let square = (n as u128).pow(2) * 8;
    let own = if outputs == 1 { 2 } else { 3 * outputs as u128 + 2 };
    square.saturating_mul(own + 2)
}

/// A Gaussian process under data and any likelihood, at fixed parameters.
#[derive(Debug, Clone)]
pub(super) struct Laplace {
    pub kernel: Arc<Kernel>,
    /// Logarithms of the kernel's parameters and of the noise variance.
    pub log: Vec<f64>,
    pub x: Arc<[f64]>,
    pub y: Arc<[f64]>,
    /// K⁻¹f̂, output by output.
    pub a: Vec<f64>,
    curve: Curve,
    /// W, or of softmax D, output by output.
    curvature: Vec<f64>,
    /// k(X, X).
    k: Vec<f64>,
    points: Points,
}

impl Laplace {
    /// At the mode, with the evidence.
    pub(super) fn new(
        kernel: Arc<Kernel>,
        likelihood: &dyn Likelihood,
        log: Vec<f64>,
        x: Arc<[f64]>,
        y: Arc<[f64]>,
    ) -> Result<(Laplace, f64)> {
        let covariance = Covariance::new(&kernel, &log);
        let points = covariance.points(&x);
        let k = matrix(&covariance, &points, 0.0).dense();
        let observed = Observed { likelihood, y: &y, noise: noise_at(likelihood, &log) };
        let mode = mode(&k, &observed)?;
        let evidence = mode.log_evidence();
        let Mode { a, local, curve, .. } = mode;
        Ok((Laplace { kernel, log, x, y, a, curve, curvature: local.curvature, k, points }, evidence))
    }

    /// From a mode that is known.
    pub(super) fn at_mode(
        kernel: Arc<Kernel>,
        likelihood: &dyn Likelihood,
        log: Vec<f64>,
        x: Arc<[f64]>,
        y: Arc<[f64]>,
        a: Vec<f64>,
    ) -> Result<Laplace> {
        let covariance = Covariance::new(&kernel, &log);
        let points = covariance.points(&x);
        let k = matrix(&covariance, &points, 0.0).dense();
        let observed = Observed { likelihood, y: &y, noise: noise_at(likelihood, &log) };
        let local = observed.at(&times(&k, points.n, &a));
        let curve = Curve::new(&k, points.n, &local.curvature)?;
        Ok(Laplace { kernel, log, x, y, a, curve, curvature: local.curvature, k, points })
    }

    /// Outputs of the likelihood.
    pub(super) fn outputs(&self) -> usize {
        self.a.len() / self.points.n
    }

    /// Means (rows × outputs) and covariances (rows × outputs²) of f at rows of encoded inputs.
    pub(super) fn predict(&self, x: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let covariance = Covariance::new(&self.kernel, &self.log);
        let (points, n, outputs) = (covariance.points(x), self.points.n, self.outputs());
        let mut scratch = Scratch::default();
        let diagonal: Vec<f64> = (0..points.n).map(|i| covariance.diagonal(&points, i, &mut scratch)).collect();
        let fill = |columns: std::ops::Range<usize>, out: &mut [f64]| {
            let (cols, mut scratch) = (columns.len(), Scratch::default());
            for (i, out) in (0..n).zip(out.chunks_mut(cols)) {
                covariance.row(&self.points, i, &points, columns.start, false, &mut scratch, out);
            }
        };
        let one = |j: usize| -> Vec<f64> {
            let (mut row, mut scratch) = (vec![0.0; n], Scratch::default());
            covariance.row(&points, j, &self.points, 0, false, &mut scratch, &mut row);
            (0..outputs).map(|c| dot(&row, &self.a[c * n..(c + 1) * n])).collect()
        };
        let mean = (0..points.n).into_par_iter().map(one).collect::<Vec<_>>().concat();
        (mean, self.curve.blocks(&diagonal, points.n, fill))
    }

    /// Rows made ready.
    pub(super) fn points(&self) -> &Points {
        &self.points
    }

    /// What a function of the prior with these values at the rows is corrected by, output by output: a − (I + WK)⁻¹(W f₀ + η) with η ~ N(0, W) from standard normals.
    pub(super) fn correction(&self, normals: &[f64], before: &[f64]) -> Vec<f64> {
        let n = self.points.n;
        let mut pushed = self.curve.curvature_times(&self.curvature, before);
        let noise = self.curve.root_times(&self.curvature, normals);
        pushed.iter_mut().zip(&noise).for_each(|(p, e)| *p += e);
        let back = self.curve.resolve(&times(&self.k, n, &pushed));
        (0..pushed.len()).map(|i| self.a[i] - pushed[i] + back[i]).collect()
    }
}
