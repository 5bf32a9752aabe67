//! The log joint and its gradient in one precision, by chunks of rows, with the same bits on any number of threads.
//!
//! A small network's pass over [`CHUNK`] rows stays in the cache, and chunks run in parallel: they are dealt to at most
//! [`TEAMS`] teams by a rule that knows only how many rows there are, each team adds up its own gradient, and the
//! teams' gradients are added in order. A large network takes all rows at once (up to [`LARGE_CHUNK`]) and its layers
//! use the threads. Cost per row: about 6 floating-point operations per weight.

use super::Problem;
use super::rows::{RowData, Rows, View};
use crate::Precision;
use crate::likelihood::LikelihoodGradient;
use crate::math::Threads;
use crate::math::elementwise::axpy;
use crate::memory::product;
use crate::nn::{Gradient, Mode, Pass, Weights, Workspace};
use rayon::prelude::*;

/// Rows of a small network's chunk.
const CHUNK: usize = 128;
/// Rows of a large network's chunk: bounds the memory of its activations.
const LARGE_CHUNK: usize = 1024;
/// At most so many gradients are kept side by side.
const TEAMS: usize = 16;
/// A network with at most so many parameters is small: adding up a team's gradient costs little beside a chunk's pass.
const SMALL: usize = 1 << 16;

/// What a team needs to work through its chunks.
struct Team<R> {
    workspace: Workspace<R>,
    gradient: Vec<R>,
    d_noise: Vec<f64>,
    value: f64,
}

/// What a team of a number does.
type TeamTask<'a, R> = &'a (dyn Fn((usize, &mut Team<R>)) + Sync);

/// The log joint of a [`Problem`] in precision `R`. Owns its buffers: an evaluation allocates nothing.
pub struct Density<'p, R: Precision> {
    problem: &'p Problem,
    rows: RowData<R>,
    teams: Vec<Team<R>>,
    chunk: usize,
    alone: bool,
    /// β: the power that the likelihood is raised to.
    beta: f64,
}

/// Rows per chunk, and how many teams, for a network with `size` parameters and evaluations over up to `max_rows` rows.
pub(super) fn deal(size: usize, max_rows: usize) -> (usize, usize) {
    if size <= SMALL && max_rows > CHUNK {
        (CHUNK, max_rows.div_ceil(CHUNK).min(TEAMS))
    } else {
        (max_rows.min(LARGE_CHUNK), 1)
    }
}

/// Bytes that a density of this problem takes, with `each` per number, for evaluations over up to `max_rows` rows at once.
pub(super) fn bytes(problem: &Problem, each: usize, max_rows: usize) -> u128 {
    let (data, size) = (problem.data(), problem.network().layout().len());
    let max_rows = max_rows.clamp(1, data.rows);
    let (chunk, teams) = deal(size, max_rows);
    let gradient = if teams > 1 { size as u128 } else { 0 };
    let team = problem.network().space_numbers(chunk).saturating_add(gradient);
    let rows = product(&[data.rows + max_rows, data.shape.len() + data.targets + 1]);
    team.saturating_mul(teams as u128).saturating_add(rows).saturating_mul(each as u128)
}

impl<'p, R: Precision> Density<'p, R> {
    pub(super) fn new(problem: &'p Problem, max_rows: usize) -> Self {
        let data = problem.data();
        let max_rows = max_rows.clamp(1, data.rows);
        let size = problem.network().layout().len();
        let (chunk, teams) = deal(size, max_rows);
        let noise = problem.dim() - size;
        let team = || Team {
            workspace: R::network(&**problem.network()).workspace(chunk),
            gradient: vec![R::ZERO; if teams > 1 { size } else { 0 }],
            d_noise: vec![0.0; noise],
            value: 0.0,
        };
        Density {
            problem,
            rows: RowData::new(data, max_rows),
            teams: (0..teams).map(|_| team()).collect(),
            chunk,
            alone: false,
            beta: 1.0,
        }
    }

    /// Whether to keep to the calling thread: for callers that are many themselves. The bits are the same.
    pub fn alone(mut self, alone: bool) -> Self {
        self.alone = alone;
        self
    }

    /// From now on the log-likelihood and its gradient are multiplied by β and the prior stays; false for a problem that has a start, from
    /// which a density without its data would lead away.
    pub(super) fn temper_unless_started(&mut self, beta: f64) -> bool {
        let free = self.problem.start().is_none();
        self.beta = if free { beta } else { 1.0 };
        free
    }

    /// The problem this is the density of.
    pub fn problem(&self) -> &'p Problem {
        self.problem
    }

    /// log p(D | w), or a mini-batch's unbiased estimate of it; with `grad`, its gradient, overwritten.
    pub fn log_likelihood(&mut self, w: &[R], rows: Rows<'_>, mode: Mode, grad: Option<&mut [R]>) -> f64 {
        self.log_likelihood_of(w.into(), rows, mode, grad.map(Gradient::from))
    }

    /// The same for parameters that may be drawn for every row, by the mode's key. The likelihood's own parameters, at
    /// the end of w, are always fixed: their gradient goes into `centre`, and 0 into `spread`.
    pub fn log_likelihood_of(
        &mut self,
        w: Weights<'_, R>,
        rows: Rows<'_>,
        mode: Mode,
        grad: Option<Gradient<'_, R>>,
    ) -> f64 {
        let problem = self.problem;
        let mut view = self.rows.view(rows);
        view.scale *= self.beta;
        let chunks = view.x.rows.div_ceil(self.chunk);
        let teams = self.teams.len().min(chunks);
        let size = problem.network().layout().len();
        let (chunk, alone) = (self.chunk, self.alone);
        let one = alone || teams > 1;
        let each = |members: &mut [Team<R>], run: TeamTask<'_, R>| {
            if alone || teams == 1 {
                members.iter_mut().enumerate().for_each(run);
            } else {
                members.par_iter_mut().enumerate().for_each(run);
            }
        };
        match grad {
            None => {
                each(&mut self.teams[..teams], &|(t, team)| {
                    let chunks = chunks * t / teams..chunks * (t + 1) / teams;
                    team.value = work(problem, w, &view, mode, chunk, chunks, one, team, None);
                });
            }
            Some(mut grad) => {
                if teams == 1 {
                    let team = &mut self.teams[0];
                    let network = grad.slice(0..size);
                    team.value = work(problem, w, &view, mode, chunk, 0..chunks, one, team, Some(network));
                } else {
                    let noisy = matches!(w, Weights::Noisy(_));
                    each(&mut self.teams[..teams], &|(t, team)| {
                        let chunks = chunks * t / teams..chunks * (t + 1) / teams;
                        let mut gradient = std::mem::take(&mut team.gradient);
                        // The first evaluation with row noise makes the room that others do not need.
                        gradient.resize(gradient.len().max(if noisy { 2 * size } else { size }), R::ZERO);
                        let (centre, spread) = gradient.split_at_mut(size);
                        let spread = if noisy { spread } else { &mut [] };
                        let network = Gradient { centre, spread };
                        team.value = work(problem, w, &view, mode, chunk, chunks, true, team, Some(network));
                        team.gradient = gradient;
                    });
                    let parts = grad.slice(0..size);
                    for (i, part) in [parts.centre, parts.spread].into_iter().enumerate() {
                        let from = i * size..i * size + part.len();
                        part.copy_from_slice(&self.teams[0].gradient[from.clone()]);
                        for team in &self.teams[1..teams] {
                            axpy(R::ONE, &team.gradient[from.clone()], part);
                        }
                    }
                }
                for (i, d) in grad.centre[size..].iter_mut().enumerate() {
                    *d = R::of(self.teams[..teams].iter().map(|t| t.d_noise[i]).sum());
                }
                if let Some(noise) = grad.spread.get_mut(size..) {
                    noise.fill(R::ZERO);
                }
            }
        }
        self.teams[..teams].iter().map(|t| t.value).sum()
    }

    /// log p(w, D), or a mini-batch's unbiased estimate of it; with `grad`, its gradient, overwritten.
    pub fn log_joint(&mut self, w: &[R], rows: Rows<'_>, mode: Mode, mut grad: Option<&mut [R]>) -> f64 {
        let log_likelihood = self.log_likelihood(w, rows, mode, grad.as_deref_mut());
        log_likelihood + self.problem.prior().log_density(w, 1.0, grad)
    }
}

/// One team's share: chunks of rows forward, likelihood, backward; returns the log-likelihood of its rows.
fn work<R: Precision>(
    problem: &Problem,
    w: Weights<'_, R>,
    view: &View<'_, R>,
    mode: Mode,
    chunk: usize,
    chunks: std::ops::Range<usize>,
    one_thread: bool,
    team: &mut Team<R>,
    mut grad: Option<Gradient<'_, R>>,
) -> f64 {
    let network = R::network(&**problem.network());
    let likelihood = R::likelihood(&**problem.likelihood());
    let sites = problem.likelihood().sites();
    let (outputs, targets) = (sites * problem.likelihood().outputs(), sites * problem.likelihood().targets());
    let size = problem.network().layout().len();
    let (w, noise) = (w.slice(0..size), &w.centre()[size..]);
    team.d_noise.fill(0.0);
    let mut value = 0.0;
    for (i, c) in chunks.enumerate() {
        let (from, to) = (c * chunk, ((c + 1) * chunk).min(view.x.rows));
        let x = view.x.slice(from, to);
        let threads = if one_thread { Threads::One } else { Threads::Pool };
        let pass = Pass { mode, layer: 0, first_row: from as u64, threads };
        network.forward(w, x, &pass, &mut team.workspace);
        let (f, delta) = team.workspace.output_and_delta();
        let n = x.rows * outputs;
        let y = &view.y[from * targets..to * targets];
        let weights = view.weights.map(|w| &w[from..to]);
        let gradient =
            grad.is_some().then_some(LikelihoodGradient { d_f: &mut delta[..n], d_noise: &mut team.d_noise });
        value += likelihood.log_prob(&f[..n], y, noise, weights, view.scale, gradient);
        if let Some(grad) = &mut grad {
            network.backward(w, x, &pass, &mut team.workspace, grad.slice(0..size), i > 0, None);
        }
    }
    value
}
