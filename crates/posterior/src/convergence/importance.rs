//! Importance weights p(w, D)/q(w) of draws from an approximation q. Cost: an evaluation of the log joint for each draw.

use crate::nn::Mode;
use crate::posterior::{Draw, Posterior};
use crate::problem::{Problem, Rows};
use crate::rng::Key;
use rayon::prelude::*;

/// ln p(w, D) − ln q(w) of draws from q; draw s is that of `key.step(s)`. Parameters that q keeps fixed are given: q is then weighed
/// against the posterior of the others under them. None where q has no density, or where the rows are not in memory.
pub fn importance_weights(problem: &Problem, q: &dyn Posterior, draws: usize, key: Key) -> Option<Vec<f64>> {
    problem.whole("a weight").ok()?;
    let buffers = || {
        let draw = Draw { w: vec![0.0; q.dim()], mode: Mode::Plain };
        (problem.density::<f64>(problem.data().rows).alone(true), draw, vec![0.0; q.dim()])
    };
    // A few long parts: each makes buffers of its own.
    let part = draws.div_ceil(4 * rayon::current_num_threads()).max(1);
    (0..draws)
        .into_par_iter()
        .with_min_len(part)
        .map_init(buffers, |(density, draw, w), s| {
            q.draw_into(key.step(s as u64), draw);
            let log_q = q.free_log_density(&draw.w)?;
            w.iter_mut().zip(&draw.w).for_each(|(wide, w)| *wide = f64::from(*w));
            Some(density.log_joint(w, Rows::All, Mode::Plain, None) - log_q)
        })
        .collect()
}
