//! A fitted Gaussian process: predicts in closed form, draws functions, keeps its rows in the model file.

use super::covariance::{Covariance, Scratch};
use super::exact::{Exact, LeaveOneOut};
use super::factor::Lower;
use super::features::PriorFunction;
use super::kernel::Kernel;
use crate::data::Values;
use crate::error::{Error, Result};
use crate::fitted::{Fitted, Function, How, NetworkFit, Restoring, Route, Saved, WideTensor};
use crate::likelihood::Likelihood;
use crate::nn::Shape;
use crate::predict::{NoiseNode, Predictive};
use crate::prior::Prior;
use crate::rng::{Key, Purpose, Stream};
use std::sync::Arc;

/// A Gaussian process under data; several of equal weight where its parameters were integrated out.
#[derive(Debug, Clone)]
pub struct GpFit {
    pub(super) likelihood: Arc<dyn Likelihood>,
    pub(super) input: Shape,
    pub(super) members: Vec<Exact>,
    pub(super) leave_one_out: LeaveOneOut,
    pub(super) log_evidence: f64,
}

/// Logarithms of parameters beyond this are damage.
const LARGEST: f64 = 60.0;

impl GpFit {
    /// The likelihood's own parameters of a member.
    fn noise(&self, member: &Exact) -> Vec<f64> {
        noise_values(&*self.likelihood, &member.log)
    }

    /// The kernel with its parameters, member by member.
    pub fn kernels(&self) -> Vec<String> {
        self.members.iter().map(|m| m.kernel.at(&m.log, 0).to_string()).collect()
    }
}

/// ln σ where the likelihood learns it.
fn noise_values(likelihood: &dyn Likelihood, log: &[f64]) -> Vec<f64> {
    if likelihood.blocks().is_empty() { Vec::new() } else { log[log.len() - 1..].iter().map(|v| 0.5 * v).collect() }
}

impl Fitted for GpFit {
    fn kind(&self) -> &str {
        super::NAME
    }

    fn input(&self) -> Shape {
        self.input
    }

    fn likelihood(&self) -> &Arc<dyn Likelihood> {
        &self.likelihood
    }

    fn predict(&self, x: &Values, how: &How) -> Result<Predictive> {
        if !matches!(how.route, Route::Own | Route::Draws) {
            let what = "a Gaussian process has no weights that moments or a linearisation could be taken of";
            return Err(Error::setting(what, "leave the route out: its predictions are exact"));
        }
        let x = x.to::<f64>();
        if how.route == Route::Draws {
            return Ok(self.by_draws(&x, how));
        }
        let part = |member: &Exact| {
            let (mean, variance) = member.predict(&x);
            let noise = vec![NoiseNode { weight: 1.0, values: self.noise(member) }];
            Predictive::gaussian(self.likelihood.clone(), mean, variance, noise, how.draws, how.scale.clone())
        };
        Ok(Predictive::joined(self.members.iter().map(part).collect()))
    }

    fn functions(&self, draws: usize, key: Key, _wide: bool) -> Option<Box<dyn Function + '_>> {
        Some(Box::new(GpFunction::new(self, draws.max(1), key)))
    }

    fn log_evidence(&self) -> Option<f64> {
        Some(self.log_evidence)
    }

    fn to_prior(&self) -> Option<Prior> {
        None
    }

    fn describe(&self) -> String {
        let Some(first) = self.members.first() else { return String::new() };
        let kernel = first.kernel.at(&first.log, 3);
        let noise = (0.5 * first.log[first.log.len() - 1]).exp();
        match self.members.len() {
            1 => format!("Gaussian process, {kernel}, noise std {noise:.3}"),
            n => format!("{n} Gaussian processes, the first with {kernel}, noise std {noise:.3}"),
        }
    }

    fn parameters(&self) -> usize {
        self.members.iter().map(|m| m.log.len()).sum::<usize>() + self.members.first().map_or(0, |m| m.y.len())
    }

    fn save(&self) -> Result<Saved> {
        let wide = |name: &str, shape: Vec<usize>, data: Vec<f64>| WideTensor { name: name.to_owned(), shape, data };
        let Some(first) = self.members.first() else { return Ok(Saved::default()) };
        let (n, count) = (first.y.len(), first.log.len());
        let logs: Vec<f64> = self.members.iter().flat_map(|m| m.log.iter().copied()).collect();
        let mut tensors = vec![
            wide("x", vec![n, self.input.len()], first.x.to_vec()),
            wide("y", vec![n], first.y.to_vec()),
            wide("log_parameters", vec![self.members.len(), count], logs),
            wide("jitter", vec![self.members.len()], self.members.iter().map(|m| m.jitter).collect()),
            wide("loo_residual", vec![n], self.leave_one_out.residual.clone()),
            wide("loo_std", vec![n], self.leave_one_out.std.clone()),
        ];
        // Several are small, and factored again when the file is read.
        if self.members.len() == 1 {
            let factor = first.lower.flat();
            tensors.push(wide("factor", vec![factor.len()], factor));
        }
        Ok(Saved { wide: tensors, ..Saved::default() })
    }

    fn as_network(&self) -> Option<&NetworkFit> {
        None
    }

    fn leave_one_out(&self) -> Option<&LeaveOneOut> {
        (!self.leave_one_out.residual.is_empty()).then_some(&self.leave_one_out)
    }
}

impl GpFit {
    /// Outputs of functions that are drawn, at rows.
    fn by_draws(&self, x: &[f64], how: &How) -> Predictive {
        let rows = x.len() / self.input.len().max(1);
        let mut function = GpFunction::new(self, how.draws, how.key);
        let (mut f, mut noise, mut own) = (Vec::with_capacity(rows * how.draws), Vec::new(), vec![0.0; rows]);
        for s in 0..how.draws {
            function.select(s);
            function.eval(x, &mut own);
            f.extend(own.iter().map(|v| *v as f32));
            noise.extend(function.noise().iter().map(|v| *v as f32));
        }
        Predictive::new(self.likelihood.clone(), f, noise, how.draws, rows, how.scale.clone())
    }

    /// From a model file, whose numbers are checked.
    pub(super) fn restore(r: &Restoring<'_>, kernel: Arc<Kernel>) -> Result<Arc<dyn Fitted>> {
        let damaged = |what: String| Error::setting(what, "the file is damaged: fit the model again");
        let missing = |name: &str| damaged(format!("the tensor '{name}' is missing"));
        let y = (r.tensors)("y").ok_or_else(|| missing("y"))?;
        let (n, width) = (y.len(), r.input.len());
        if n == 0 || width != kernel.width() {
            return Err(damaged(format!("{n} rows of {width} inputs do not suit the kernel")));
        }
        let x: Arc<[f64]> = r.tensor("x", n.saturating_mul(width))?.into();
        let jitter = (r.tensors)("jitter").ok_or_else(|| missing("jitter"))?;
        let count = kernel.parameters().len() + 1;
        let logs = r.tensor("log_parameters", jitter.len().saturating_mul(count))?;
        let leave_one_out = LeaveOneOut { residual: r.tensor("loo_residual", n)?, std: r.tensor("loo_std", n)? };
        if leave_one_out.std.iter().any(|s| *s <= 0.0)
            || jitter.is_empty()
            || jitter.iter().any(|j| *j < 0.0)
            || logs.iter().any(|v| v.abs() > LARGEST)
        {
            return Err(damaged("a parameter is outside of its range".to_owned()));
        }
        let y: Arc<[f64]> = y.into();
        let mut members = Vec::with_capacity(jitter.len());
        for (log, jitter) in logs.chunks(count).zip(&jitter) {
            let (kernel, log, x, y) = (kernel.clone(), log.to_vec(), x.clone(), y.clone());
            members.push(match (r.tensors)("factor").filter(|_| logs.len() == count) {
                Some(factor) => {
                    let lower = Lower::from_flat(n, &factor)
                        .filter(|l| (0..n).all(|i| l.diagonal(i) > 0.0))
                        .ok_or_else(|| damaged("the factor of the covariance is not one".to_owned()))?;
                    Exact::with_factor(kernel, log, x, y, lower, *jitter)
                }
                None => {
                    let bytes = super::exact::bytes(n).saturating_mul(logs.len() as u128 / count as u128);
                    crate::memory::request(bytes, format!("the covariances of {n} rows"), "fit fewer rows")?;
                    Exact::new(kernel, log, x, y)?
                }
            });
        }
        if !members.iter().all(|m| m.alpha.iter().all(|a| a.is_finite())) {
            return Err(damaged("the covariance cannot be solved for".to_owned()));
        }
        let log_evidence = r.log_evidence.filter(|e| e.is_finite()).ok_or_else(|| missing("log_evidence"))?;
        Ok(Arc::new(GpFit { likelihood: r.likelihood.clone(), input: r.input, members, leave_one_out, log_evidence }))
    }
}

/// A function of the posterior: f(x) = f₀(x) + k(x, X) K⁻¹(y − f₀(X) − ε), with f₀ drawn from the prior and ε from the noise (Matheron).
struct GpFunction<'a> {
    of: &'a GpFit,
    draws: usize,
    key: Key,
    member: usize,
    prior: PriorFunction,
    correction: Vec<f64>,
    noise: Vec<f64>,
    scratch: Scratch,
}

impl<'a> GpFunction<'a> {
    fn new(of: &'a GpFit, draws: usize, key: Key) -> GpFunction<'a> {
        let mut function = GpFunction {
            of,
            draws,
            key: key.purpose(Purpose::Draw),
            member: 0,
            prior: PriorFunction::default(),
            correction: Vec::new(),
            noise: Vec::new(),
            scratch: Scratch::default(),
        };
        function.select(0);
        function
    }
}

impl Function for GpFunction<'_> {
    fn len(&self) -> usize {
        self.draws
    }

    fn select(&mut self, s: usize) {
        self.member = s % self.of.members.len();
        let member = &self.of.members[self.member];
        let covariance = Covariance::new(&member.kernel, &member.log);
        let key = self.key.step(s as u64);
        self.prior = PriorFunction::draw(&covariance, key.purpose(Purpose::Features));
        let mut stream = Stream::new(key.purpose(Purpose::Outcome));
        let std = (super::exact::noise_of(&member.kernel, &member.log) + member.jitter).sqrt();
        let left =
            |(i, y): (usize, &f64)| y - self.prior.value(&covariance, member.points(), i, None) - std * stream.normal();
        self.correction = member.y.iter().enumerate().map(left).collect();
        member.solve(&mut self.correction);
        self.noise = self.of.noise(member);
    }

    fn noise(&self) -> &[f64] {
        &self.noise
    }

    fn eval(&mut self, x: &[f64], f: &mut [f64]) {
        let member = &self.of.members[self.member];
        let covariance = Covariance::new(&member.kernel, &member.log);
        let points = covariance.points(x);
        let mut row = vec![0.0; member.y.len()];
        for (i, f) in f.iter_mut().enumerate() {
            covariance.row(&points, i, member.points(), 0, false, &mut self.scratch, &mut row);
            *f = self.prior.value(&covariance, &points, i, None) + crate::math::linalg::dot(&row, &self.correction);
        }
    }

    fn vjp(&mut self, x: &[f64], v: &[f64], dx: &mut [f64]) {
        let member = &self.of.members[self.member];
        let covariance = Covariance::new(&member.kernel, &member.log);
        let points = covariance.points(x);
        dx.fill(0.0);
        let width = self.of.input.len();
        let mut weights = vec![0.0; member.y.len()];
        for (i, (v, dx)) in v.iter().zip(dx.chunks_mut(width)).enumerate() {
            weights.iter_mut().zip(&self.correction).for_each(|(w, c)| *w = v * c);
            covariance.input_gradient(&points, i, member.points(), &weights, &mut self.scratch, dx);
            self.prior.value(&covariance, &points, i, Some((*v, dx)));
        }
    }
}
