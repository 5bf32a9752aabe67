//! A fitted Gaussian process: predicts in closed form (of f), draws functions, keeps its rows in the model file.

use super::covariance::{Covariance, Points, Scratch};
use super::exact::Exact;
use super::features::PriorFunction;
use super::kernel::Kernel;
use super::laplace::Laplace;
use super::nearest::Nearest;
use super::sparse::Sparse;
use crate::data::Values;
use crate::error::{Error, Result};
use crate::fitted::LeaveOneOut;
use crate::fitted::{Fitted, Function, How, NetworkFit, Route, Saved, WideTensor};
use crate::likelihood::Likelihood;
use crate::math::linalg::dot;
use crate::nn::Shape;
use crate::predict::{NoiseNode, Predictive};
use crate::prior::Prior;
use crate::rng::{Key, Purpose, Stream};
use std::sync::Arc;

/// A process at fixed parameters, and how it is conditioned on the rows.
#[derive(Debug, Clone)]
pub(super) enum Member {
    /// On all rows.
    Exact(Exact),
    /// Through inducing rows.
    Sparse(Sparse),
    /// On the neighbours of every row that is asked for.
    Nearest(Nearest),
    /// On all rows, by the curvature at the mode.
    Laplace(Laplace),
}

impl Member {
    fn kernel(&self) -> &Arc<Kernel> {
        match self {
            Member::Exact(m) => &m.kernel,
            Member::Sparse(m) => &m.kernel,
            Member::Nearest(m) => &m.kernel,
            Member::Laplace(m) => &m.kernel,
        }
    }

    /// Logarithms of the kernel's parameters and of the noise variance.
    fn log(&self) -> &[f64] {
        match self {
            Member::Exact(m) => &m.log,
            Member::Sparse(m) => &m.log,
            Member::Nearest(m) => &m.log,
            Member::Laplace(m) => &m.log,
        }
    }

    fn predict(&self, x: &[f64]) -> (Vec<f64>, Vec<f64>) {
        match self {
            Member::Exact(m) => m.predict(x),
            Member::Sparse(m) => m.predict(x),
            Member::Nearest(m) => m.predict(x),
            Member::Laplace(m) => m.predict(x),
        }
    }

    /// Rows that functions are corrected at; none where there are no functions.
    fn centres(&self) -> Option<&Points> {
        match self {
            Member::Exact(m) => Some(m.points()),
            Member::Sparse(m) => Some(m.points()),
            Member::Nearest(_) => None,
            Member::Laplace(m) => Some(m.points()),
        }
    }
}

/// A Gaussian process under data; several of equal weight where its parameters were integrated out.
#[derive(Debug, Clone)]
pub struct GpFit {
    /// Of the method that fitted it.
    pub(super) name: &'static str,
    pub(super) likelihood: Arc<dyn Likelihood>,
    pub(super) input: Shape,
    pub(super) members: Vec<Member>,
    pub(super) leave_one_out: LeaveOneOut,
    pub(super) log_evidence: f64,
}

impl GpFit {
    /// The likelihood's own parameters of a member.
    fn noise(&self, member: &Member) -> Vec<f64> {
        noise_values(&*self.likelihood, member.log())
    }

    /// The kernel with its parameters, member by member.
    pub fn kernels(&self) -> Vec<String> {
        self.members.iter().map(|m| m.kernel().at(m.log(), 0).to_string()).collect()
    }
}

/// ln σ where the likelihood learns it.
pub(super) fn noise_values(likelihood: &dyn Likelihood, log: &[f64]) -> Vec<f64> {
    if likelihood.blocks().is_empty() { Vec::new() } else { log[log.len() - 1..].iter().map(|v| 0.5 * v).collect() }
}

impl Fitted for GpFit {
    fn kind(&self) -> &str {
        self.name
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
            return self.by_draws(&x, how);
        }
        let part = |member: &Member| {
            let (mean, variance) = member.predict(&x);
            // A polynomial far outside, or numbers of a damaged file.
            if !mean.iter().chain(&variance).all(|v| v.is_finite()) {
                let what = "the prediction is not finite at a row that is far outside those of the fit";
                return Err(Error::numerical(what, "leave such rows out, or use a kernel without polynomials"));
            }
            let noise = vec![NoiseNode { weight: 1.0, values: self.noise(member) }];
            let (likelihood, scale) = (self.likelihood.clone(), how.scale.clone());
            Ok(Predictive::gaussian(likelihood, mean, variance, noise, how.draws, scale))
        };
        Ok(Predictive::joined(self.members.iter().map(part).collect::<Result<_>>()?))
    }

    fn functions(&self, draws: usize, key: Key, _wide: bool) -> Option<Box<dyn Function + '_>> {
        Some(Box::new(GpFunction::new(self, draws.max(1), key)?))
    }

    fn log_evidence(&self) -> Option<f64> {
        Some(self.log_evidence)
    }

    fn to_prior(&self) -> Option<Prior> {
        None
    }

    fn describe(&self) -> String {
        let Some(first) = self.members.first() else { return String::new() };
        let kernel = first.kernel().at(first.log(), 3);
        let noise = (0.5 * first.log()[first.log().len() - 1]).exp();
        let scale =
            if self.likelihood.blocks().is_empty() { String::new() } else { format!(", noise scale {noise:.3}") };
        match (self.members.len(), first) {
            (1, Member::Exact(_)) => format!("Gaussian process, {kernel}, noise std {noise:.3}"),
            (1, Member::Sparse(m)) => {
                format!("sparse Gaussian process of {} inducing rows, {kernel}, noise std {noise:.3}", m.weights.len())
            }
            (1, Member::Nearest(m)) => {
                format!("Gaussian process by {} neighbours, {kernel}, noise std {noise:.3}", m.count)
            }
            (1, Member::Laplace(_)) => {
                format!("Gaussian process under '{}' by Laplace's method, {kernel}{scale}", self.likelihood.name())
            }
            (n, _) => format!("{n} Gaussian processes, the first with {kernel}, noise std {noise:.3}"),
        }
    }

    fn parameters(&self) -> usize {
        let kept = match self.members.first() {
            Some(Member::Exact(m)) => m.y.len(),
            Some(Member::Sparse(m)) => m.weights.len(),
            Some(Member::Nearest(m)) => m.y.len(),
            Some(Member::Laplace(m)) => m.a.len(),
            None => 0,
        };
        self.members.iter().map(|m| m.log().len()).sum::<usize>() + kept
    }

    fn save(&self) -> Result<Saved> {
        let wide = |name: &str, data: Vec<f64>| WideTensor { name: name.to_owned(), shape: vec![data.len()], data };
        let Some(first) = self.members.first() else { return Ok(Saved::default()) };
        let logs: Vec<f64> = self.members.iter().flat_map(|m| m.log().iter().copied()).collect();
        let mut tensors = vec![wide("log_parameters", logs)];
        if self.name != super::NAME {
            tensors.push(wide("depth", vec![first.kernel().depth() as f64]));
        }
        match first {
            Member::Exact(m) => {
                tensors.push(wide("x", m.x.to_vec()));
                tensors.push(wide("y", m.y.to_vec()));
                tensors.push(wide("loo_residual", self.leave_one_out.residual.clone()));
                tensors.push(wide("loo_std", self.leave_one_out.std.clone()));
                // Several are small, and factored again when the file is read.
                if self.members.len() == 1 {
                    tensors.push(wide("jitter", vec![m.jitter]));
                    tensors.push(wide("factor", m.lower.flat()));
                }
            }
            Member::Sparse(m) => {
                tensors.push(wide("inducing", m.z.to_vec()));
                tensors.push(wide("weights", m.weights.clone()));
                tensors.push(wide("root", m.root.flat()));
                tensors.push(wide("inner", m.inner.flat()));
            }
            Member::Nearest(m) => {
                tensors.push(wide("x", m.x.to_vec()));
                tensors.push(wide("y", m.y.to_vec()));
                tensors.push(wide("neighbours", vec![m.count as f64]));
            }
            Member::Laplace(m) => {
                tensors.push(wide("x", m.x.to_vec()));
                tensors.push(wide("y", m.y.to_vec()));
                tensors.push(wide("mode", m.a.clone()));
            }
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
    fn by_draws(&self, x: &[f64], how: &How) -> Result<Predictive> {
        let rows = x.len() / self.input.len().max(1);
        let outputs = self.likelihood.outputs();
        let mut function = GpFunction::new(self, how.draws, how.key).ok_or_else(|| {
            let what = "a Gaussian process by neighbours, or of a wide network, has no functions that could be drawn";
            Error::setting(what, "leave the route out, or fit another kernel with inference=sparse")
        })?;
        let (mut f, mut noise, mut own) =
            (Vec::with_capacity(rows * outputs * how.draws), Vec::new(), vec![0.0; rows * outputs]);
        for s in 0..how.draws {
            function.select(s);
            function.eval(x, &mut own);
            f.extend(own.iter().map(|v| *v as f32));
            noise.extend(function.noise().iter().map(|v| *v as f32));
        }
        Ok(Predictive::new(self.likelihood.clone(), f, noise, how.draws, rows, how.scale.clone()))
    }
}

/// A function of the posterior: f(x) = f₀(x) + k(x, X) K⁻¹(y − f₀(X) − ε), with f₀ drawn from the prior and ε from the noise (Matheron).
struct GpFunction<'a> {
    of: &'a GpFit,
    draws: usize,
    key: Key,
    member: usize,
    /// Of every output.
    prior: Vec<PriorFunction>,
    /// Output by output.
    correction: Vec<f64>,
    noise: Vec<f64>,
    scratch: Scratch,
}

impl<'a> GpFunction<'a> {
    fn new(of: &'a GpFit, draws: usize, key: Key) -> Option<GpFunction<'a>> {
        let first = of.members.first()?;
        first.centres()?;
        if !first.kernel().has_functions() {
            return None;
        }
        let mut function = GpFunction {
            of,
            draws,
            key: key.purpose(Purpose::Draw),
            member: 0,
            prior: Vec::new(),
            correction: Vec::new(),
            noise: Vec::new(),
            scratch: Scratch::default(),
        };
        function.select(0);
        Some(function)
    }
}

impl Function for GpFunction<'_> {
    fn len(&self) -> usize {
        self.draws
    }

    fn select(&mut self, s: usize) {
        self.member = s % self.of.members.len();
        let member = &self.of.members[self.member];
        let Some(centres) = member.centres() else { return };
        let covariance = Covariance::new(member.kernel(), member.log());
        let key = self.key.step(s as u64);
        let outputs = self.of.likelihood.outputs();
        let features = key.purpose(Purpose::Features);
        // The first output has the key itself, so that one output is drawn as it always was.
        let own = |c: usize| if c == 0 { features } else { features.block(c as u64) };
        self.prior = (0..outputs).map(|c| PriorFunction::draw(&covariance, own(c))).collect();
        let mut stream = Stream::new(key.purpose(Purpose::Outcome));
        let values = |prior: &PriorFunction| -> Vec<f64> {
            (0..centres.n).map(|i| prior.value(&covariance, centres, i, None)).collect()
        };
        let before: Vec<f64> = self.prior.iter().flat_map(values).collect();
        let mut normals: Vec<f64> = (0..before.len()).map(|_| stream.normal()).collect();
        self.correction = match member {
            Member::Exact(m) => {
                let std = (super::exact::noise_of(&m.kernel, &m.log) + m.jitter).sqrt();
                let mut left: Vec<f64> = (0..centres.n).map(|i| m.y[i] - before[i] - std * normals[i]).collect();
                m.solve(&mut left);
                left
            }
            Member::Sparse(m) => m.correction(&mut normals, &before),
            Member::Laplace(m) => m.correction(&normals, &before),
            Member::Nearest(_) => Vec::new(),
        };
        self.noise = self.of.noise(member);
    }

    fn noise(&self) -> &[f64] {
        &self.noise
    }

    fn eval(&mut self, x: &[f64], f: &mut [f64]) {
        let member = &self.of.members[self.member];
        let Some(centres) = member.centres() else { return };
        let covariance = Covariance::new(member.kernel(), member.log());
        let points = covariance.points(x);
        let mut row = vec![0.0; centres.n];
        for (i, f) in f.chunks_mut(self.prior.len()).enumerate() {
            covariance.row(&points, i, centres, 0, false, &mut self.scratch, &mut row);
            for ((f, prior), correction) in f.iter_mut().zip(&self.prior).zip(self.correction.chunks(centres.n)) {
                *f = prior.value(&covariance, &points, i, None) + dot(&row, correction);
            }
        }
    }

    fn vjp(&mut self, x: &[f64], v: &[f64], dx: &mut [f64]) {
        let member = &self.of.members[self.member];
        let Some(centres) = member.centres() else { return };
        let covariance = Covariance::new(member.kernel(), member.log());
        let points = covariance.points(x);
        dx.fill(0.0);
        let width = self.of.input.len();
        let mut weights = vec![0.0; centres.n];
        for (i, (v, dx)) in v.chunks(self.prior.len()).zip(dx.chunks_mut(width)).enumerate() {
            weights.fill(0.0);
            for (v, correction) in v.iter().zip(self.correction.chunks(centres.n)) {
                weights.iter_mut().zip(correction).for_each(|(w, c)| *w += v * c);
            }
            covariance.input_gradient(&points, i, centres, &weights, &mut self.scratch, dx);
            for (v, prior) in v.iter().zip(&self.prior) {
                prior.value(&covariance, &points, i, Some((*v, &mut *dx)));
            }
        }
    }
}
