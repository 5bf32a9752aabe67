//! Runs the network under S draws over all rows, draws in parallel.
//!
//! Cost: S·N passes; memory: S·N·outputs numbers. Draw s depends on (key, s) alone, so neither the number of threads nor
//! the number of rows changes it: a draw is a function, evaluated wherever it is asked for.

use super::predictive::{Predictive, TargetScale};
use crate::data::Values;
use crate::error::Result;
use crate::likelihood::Likelihood;
use crate::math::{MatRef, Threads};
use crate::memory::{self, product};
use crate::nn::{AnyNetwork, Mode, Network, Pass};
use crate::posterior::{Draw, Posterior};
use crate::rng::{Key, Purpose};
use rayon::prelude::*;
use std::sync::Arc;

/// Anything that predicts.
pub trait Predictor {
    /// The predictive distribution at each row of x.
    fn predict(&self, x: &Values) -> Predictive;
}

/// A network under the draws of a posterior.
#[derive(Debug, Clone)]
pub struct NetworkPredictor {
    /// f_w.
    pub network: Arc<dyn AnyNetwork>,
    /// p(y | f).
    pub likelihood: Arc<dyn Likelihood>,
    /// q(w).
    pub posterior: Arc<dyn Posterior>,
    /// S; no more than there are different ones are taken, so that a point posterior needs one.
    pub draws: usize,
    /// Names the draws.
    pub key: Key,
    /// From standardised targets back to the user's units.
    pub scale: TargetScale,
}

/// Rows per pass: a small network's activations stay in the first-level cache, a large one's products are long enough.
fn rows_per_pass(network: &dyn AnyNetwork) -> usize {
    if network.activations() <= 256 { 256 } else { 512 }
}

/// Rows per task where there are too few draws to keep the threads busy.
const ROWS_PER_TASK: usize = 2048;
/// So many draws are enough to keep the threads busy.
const MANY_DRAWS: usize = 16;

/// Refuses predictions for which there is not enough memory (see [`memory`]): of so many rows under so many draws of `parameters` parameters.
pub fn check_memory(network: &dyn AnyNetwork, parameters: usize, rows: usize, draws: usize) -> Result<()> {
    let threads = rayon::current_num_threads().max(1) as u128;
    let space = network.space_numbers(rows_per_pass(network).min(rows.max(1)));
    let passes = space.saturating_add(parameters as u128).saturating_mul(threads);
    // The outputs, and as much again for what is worked out from them.
    let outputs = product(&[2, draws, rows, network.outputs()]);
    let bytes = passes.saturating_add(outputs).saturating_mul(size_of::<f32>() as u128);
    let s = if draws == 1 { "" } else { "s" };
    let what = format!("predicting {rows} rows with {draws} draw{s} of {parameters} parameters");
    memory::request(bytes, what, "use fewer draws, or fewer rows")
}

impl Predictor for NetworkPredictor {
    fn predict(&self, x: &Values) -> Predictive {
        let most = if self.posterior.is_point() { 1 } else { self.posterior.distinct().unwrap_or(usize::MAX) };
        let draws = self.draws.clamp(1, most);
        let x = x.to::<f32>();
        let width = self.network.input().len();
        let rows = x.len() / width;
        let outputs = self.network.outputs();
        let size = self.network.layout().len();
        let noises = self.posterior.dim() - size;
        let key = self.key.purpose(Purpose::Draw);
        let per_pass = rows_per_pass(&*self.network).min(rows.max(1));
        let per_task = if draws >= MANY_DRAWS { rows.max(1) } else { ROWS_PER_TASK };
        let network: &dyn Network<f32> = &*self.network;
        let mut f = vec![0.0f32; draws * rows * outputs];
        let mut noise = vec![0.0f32; draws * noises];
        let buffers = || {
            let draw = Draw { w: vec![0.0; self.posterior.dim()], mode: Mode::Plain };
            (draw, None, network.workspace(per_pass))
        };
        let tasks: Vec<(usize, usize, &mut [f32])> = f
            .chunks_mut((rows * outputs).max(1))
            .enumerate()
            .flat_map(|(s, f)| f.chunks_mut(per_task * outputs).enumerate().map(move |(t, f)| (s, t * per_task, f)))
            .collect();
        tasks.into_par_iter().for_each_init(buffers, |(draw, drawn, workspace), (s, first, f)| {
            if *drawn != Some(s) {
                self.posterior.draw_of_into(s, draws, key.step(s as u64), draw);
                *drawn = Some(s);
            }
            for (p, f) in f.chunks_mut(per_pass * outputs).enumerate() {
                let (from, n) = (first + p * per_pass, f.len() / outputs);
                let x = MatRef::new(&x[from * width..(from + n) * width], n, width);
                let pass = Pass { mode: draw.mode, layer: 0, first_row: from as u64, threads: Threads::One };
                f.copy_from_slice(network.forward(draw.w[..size].into(), x, &pass, workspace).data);
            }
        });
        if noises > 0 {
            let mut draw = Draw { w: vec![0.0; self.posterior.dim()], mode: Mode::Plain };
            for (s, noise) in noise.chunks_mut(noises).enumerate() {
                self.posterior.draw_of_into(s, draws, key.step(s as u64), &mut draw);
                noise.copy_from_slice(&draw.w[size..]);
            }
        }
        let sites = rows * self.likelihood.sites();
        Predictive::new(self.likelihood.clone(), f, noise, draws, sites, self.scale.clone())
    }
}
