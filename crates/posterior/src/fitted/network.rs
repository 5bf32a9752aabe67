//! A network with a posterior over its weights.

use super::{Fitted, Function, How, Route, Saved};
use crate::Precision;
use crate::data::Values;
use crate::error::Result;
use crate::likelihood::Likelihood;
use crate::math::{MatRef, Threads};
use crate::nn::{AnyNetwork, Mode, Pass, Shape, Workspace};
use crate::posterior::{Draw, Posterior};
use crate::predict::{
    LinearisedMixture, Link, MomentsPredictor, NetworkPredictor, Predictive, Predictor, check_memory,
};
use crate::prior::Prior;
use crate::problem::full_layout;
use crate::rng::{Key, Purpose};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// f_w, p(y | f) and q(w).
#[derive(Clone)]
pub struct NetworkFit {
    /// f_w.
    pub network: Arc<dyn AnyNetwork>,
    /// p(y | f).
    pub likelihood: Arc<dyn Likelihood>,
    /// q(w).
    pub posterior: Arc<dyn Posterior>,
    /// How a Gaussian over weights becomes a prediction where the model is its own linearisation or is to be linearised.
    pub link: Option<Link>,
    /// The linearised network, made when it is first asked for; its buffers are used again from block to block.
    linearised: Arc<OnceLock<LinearisedMixture>>,
}

impl fmt::Debug for NetworkFit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.posterior.kind();
        f.debug_struct("NetworkFit").field("network", &self.network).field("posterior", &kind).finish_non_exhaustive()
    }
}

impl NetworkFit {
    /// A network under a posterior, linearised to predict where a link says so.
    pub fn new(
        network: Arc<dyn AnyNetwork>,
        likelihood: Arc<dyn Likelihood>,
        posterior: Arc<dyn Posterior>,
        link: Option<Link>,
    ) -> NetworkFit {
        let link = link.filter(|_| !posterior.gaussians().is_empty());
        NetworkFit { network, likelihood, posterior, link, linearised: Arc::default() }
    }

    /// A predictor by draws.
    pub fn by_draws(&self, how: &How) -> NetworkPredictor {
        NetworkPredictor {
            network: self.network.clone(),
            likelihood: self.likelihood.clone(),
            posterior: self.posterior.clone(),
            draws: how.draws,
            key: how.key,
            scale: how.scale.clone(),
        }
    }

    fn linearised(&self, how: &How, link: Link) -> Result<LinearisedMixture> {
        let (network, likelihood) = (self.network.clone(), self.likelihood.clone());
        LinearisedMixture::new(network, likelihood, &*self.posterior, how.draws, link, how.scale.clone())
    }

    /// How many of so many draws differ.
    pub fn distinct(&self, draws: usize) -> usize {
        let most = if self.posterior.is_point() { 1 } else { self.posterior.distinct().unwrap_or(usize::MAX) };
        draws.clamp(1, most)
    }
}

impl Fitted for NetworkFit {
    fn kind(&self) -> &str {
        "network"
    }

    fn input(&self) -> Shape {
        self.network.input()
    }

    fn likelihood(&self) -> &Arc<dyn Likelihood> {
        &self.likelihood
    }

    fn predict(&self, x: &Values, how: &How) -> Result<Predictive> {
        let rows = x.len() / self.network.input().len().max(1);
        check_memory(&*self.network, self.posterior.dim(), rows, self.distinct(how.draws))?;
        match how.route {
            Route::Draws => Ok(self.by_draws(how).predict(x)),
            Route::Moments => {
                let (network, likelihood) = (&*self.network, self.likelihood.clone());
                let scale = how.scale.clone();
                Ok(MomentsPredictor::new(network, likelihood, &*self.posterior, how.draws, scale)?.predict(x))
            }
            Route::Linearised(link) => Ok(self.linearised(how, link)?.predict(x)),
            Route::Own => {
                let Some(link) = self.link else { return Ok(self.by_draws(how).predict(x)) };
                // What was made for the first block serves the others too: scale and components are those of one caller.
                if let Some(made) = self.linearised.get().filter(|m| m.is_for(how.draws, &how.scale)) {
                    return Ok(made.predict(x));
                }
                let made = self.linearised(how, link)?;
                let predictive = made.predict(x);
                let _ = self.linearised.set(made);
                Ok(predictive)
            }
        }
    }

    fn functions(&self, draws: usize, key: Key, wide: bool) -> Option<Box<dyn Function + '_>> {
        let draws = self.distinct(draws);
        Some(if wide {
            Box::new(NetworkFunction::<f64>::new(self, draws, key))
        } else {
            Box::new(NetworkFunction::<f32>::new(self, draws, key))
        })
    }

    fn log_evidence(&self) -> Option<f64> {
        self.posterior.log_evidence()
    }

    fn to_prior(&self) -> Option<Prior> {
        let (mean, std) = self.posterior.diagonal()?;
        Prior::centred(&full_layout(&*self.network, &*self.likelihood), mean, std).ok()
    }

    fn describe(&self) -> String {
        self.network.describe().join(", ")
    }

    fn parameters(&self) -> usize {
        self.posterior.dim()
    }

    fn save(&self) -> Result<Saved> {
        let packed =
            self.posterior.packed().into_iter().map(|(name, bytes)| (name.to_owned(), bytes.clone())).collect();
        Ok(Saved { tensors: self.posterior.tensors(), wide: Vec::new(), packed })
    }

    fn as_network(&self) -> Option<&NetworkFit> {
        Some(self)
    }
}

/// The network under one draw of its weights.
struct NetworkFunction<'a, R: Precision> {
    of: &'a NetworkFit,
    draws: usize,
    key: Key,
    drawn: Draw,
    w: Vec<R>,
    noise: Vec<f64>,
    workspace: Workspace<R>,
    x: Vec<R>,
    dx: Vec<R>,
}

impl<'a, R: Precision> NetworkFunction<'a, R> {
    fn new(of: &'a NetworkFit, draws: usize, key: Key) -> Self {
        let (dim, size) = (of.posterior.dim(), of.network.layout().len());
        let mut function = NetworkFunction {
            of,
            draws,
            key: key.purpose(Purpose::Draw),
            drawn: Draw { w: vec![0.0; dim], mode: Mode::Plain },
            w: vec![R::ZERO; size],
            noise: vec![0.0; dim - size],
            workspace: R::network(&*of.network).workspace(1),
            x: Vec::new(),
            dx: Vec::new(),
        };
        function.select(0);
        function
    }

    fn pass(&self) -> Pass {
        Pass { mode: self.drawn.mode, layer: 0, first_row: 0, threads: Threads::One }
    }
}

impl<R: Precision> Function for NetworkFunction<'_, R> {
    fn len(&self) -> usize {
        self.draws
    }

    fn select(&mut self, s: usize) {
        self.of.posterior.draw_of_into(s, self.draws, self.key.step(s as u64), &mut self.drawn);
        let (w, noise) = self.drawn.w.split_at(self.w.len());
        self.w.iter_mut().zip(w).for_each(|(to, w)| *to = R::of(f64::from(*w)));
        self.noise.iter_mut().zip(noise).for_each(|(to, v)| *to = f64::from(*v));
    }

    fn noise(&self) -> &[f64] {
        &self.noise
    }

    fn eval(&mut self, x: &[f64], f: &mut [f64]) {
        let (network, width) = (R::network(&*self.of.network), self.of.network.input().len());
        let rows = x.len() / width;
        if self.workspace.rows() < rows {
            self.workspace = network.workspace(rows);
        }
        self.x.clear();
        self.x.extend(x.iter().map(|v| R::of(*v)));
        let pass = self.pass();
        let out = network.forward((&*self.w).into(), MatRef::new(&self.x, rows, width), &pass, &mut self.workspace);
        f.iter_mut().zip(out.data).for_each(|(f, out)| *f = out.f64());
    }

    fn vjp(&mut self, x: &[f64], v: &[f64], dx: &mut [f64]) {
        let (network, width) = (R::network(&*self.of.network), self.of.network.input().len());
        let (_, delta) = self.workspace.output_and_delta();
        delta.iter_mut().zip(v).for_each(|(delta, v)| *delta = R::of(*v));
        self.dx.resize(x.len(), R::ZERO);
        let pass = self.pass();
        let x = MatRef::new(&self.x, x.len() / width, width);
        network.vjp(&self.w, x, &pass, &mut self.workspace, 0, Some(&mut self.dx));
        dx.iter_mut().zip(&self.dx).for_each(|(to, d)| *to = d.f64());
    }
}
