//! Small changes of the inputs that fool a model, found by the gradient of the posterior predictive's loss.
//!
//! L(x) = −log (1/S) Σₛ p(y | f_{wₛ}(x)), so ∂L/∂x = −Σₛ rₛ ∂ log p(y | f_{wₛ}(x))/∂x with rₛ the share of draw s in the sum: the
//! gradient is averaged over draws of the posterior, each by how much it believes in y. FGSM (Goodfellow et al. 2015) moves every
//! input by ε in the direction of its sign; PGD (Madry et al. 2018) starts at random and takes [`PGD_STEPS`] steps of 2.5 ε/steps, each brought
//! back to within ε. Cost: S passes per step, forward and, without the gradient in the weights, backward.
//!
//! ε is in standard deviations of a column for tables, where columns of text and of true or false stay as they are, and in brightness
//! for images, whose pixels stay within the range of the data.

use crate::Precision;
use crate::data::{Dataset, Encoder, FeatureKind, Inputs, Values};
use crate::error::{Error, Result};
use crate::fitted::{Fitted, Function};
use crate::likelihood::LikelihoodGradient;
use crate::rng::{Key, Purpose, Stream};
use rayon::prelude::*;

/// Steps of projected gradient descent.
pub const PGD_STEPS: usize = 10;
/// Rows of one task: enough for long products, few enough that tasks outnumber threads.
const ROWS: usize = 128;

/// How the inputs are changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Attack {
    /// One step by the sign of the gradient.
    Fgsm,
    /// Several steps from a random start, each brought back to within ε.
    Pgd,
}

impl Attack {
    /// The attack of this name.
    pub fn find(name: &str) -> Option<Attack> {
        [Attack::Fgsm, Attack::Pgd].into_iter().find(|attack| attack.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Attack::Fgsm => "fgsm",
            Attack::Pgd => "pgd",
        }
    }
}

/// How far each encoded input may be moved, and where it must stay.
#[derive(Debug, Clone, PartialEq)]
pub struct PerturbationBudget {
    /// Largest change per ε, one per input.
    pub unit: Vec<f64>,
    /// Lowest and highest encoded value of any input.
    pub range: (f64, f64),
}

impl PerturbationBudget {
    /// For inputs encoded this way; the pixels of images stay between 0 and 1, or as far beyond as those of the data go.
    pub fn new(encoder: &Encoder, data: &Dataset) -> PerturbationBudget {
        match &encoder.inputs {
            Inputs::Columns(features) => {
                let unit = |kind: &FeatureKind| if matches!(kind, FeatureKind::Standard(_)) { 1.0 } else { 0.0 };
                let unit = features.iter().flat_map(|f| vec![unit(&f.kind); f.kind.width()]).collect();
                PerturbationBudget { unit, range: (f64::NEG_INFINITY, f64::INFINITY) }
            }
            Inputs::Images { scale, .. } => {
                let pixels = data.x.to::<f32>();
                let ends = pixels.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |e, p| (e.0.min(*p), e.1.max(*p)));
                let range = (scale.apply(0.0).min(f64::from(ends.0)), scale.apply(1.0).max(f64::from(ends.1)));
                PerturbationBudget { unit: vec![1.0 / scale.std; data.shape.len()], range }
            }
        }
    }
}

/// Buffers of one task.
struct Team<'a> {
    function: Box<dyn Function + 'a>,
    dx: Vec<f64>,
    outputs: Vec<f64>,
    d_outputs: Vec<f64>,
    d_noise: Vec<f64>,
}

/// log p(yₙ | xₙ, D) of every row under S draws and its gradient in the encoded inputs; `y` as the model sees it. Functions are evaluated in double precision where
/// `wide`. An error where the model has no functions to draw.
///
/// The likelihood is in double precision, and the gradient of a row goes through the function at a size of 1: of a class that is all but
/// sure 1 − p would be lost, and with it the direction.
pub fn input_gradient(
    fitted: &dyn Fitted,
    draws: usize,
    key: Key,
    wide: bool,
    x: &[f64],
    y: &[f64],
) -> Result<(Vec<f64>, Vec<f64>)> {
    let of_row = &**fitted.likelihood();
    let likelihood = <f64 as Precision>::likelihood(of_row);
    let (site_outputs, site_targets) = (of_row.outputs(), of_row.targets());
    let (width, sites) = (fitted.input().len(), of_row.sites());
    let (outputs, targets) = (sites * site_outputs, sites * site_targets);
    let rows = x.len() / width;
    let team = || -> Option<Team<'_>> {
        // The draws of the predictive that is attacked: all members of an ensemble, each once.
        let function = fitted.functions(draws, key, wide)?;
        let n = ROWS.min(rows);
        let d_noise = vec![0.0; function.noise().len()];
        Some(Team {
            function,
            dx: vec![0.0; n * width],
            outputs: vec![0.0; n * outputs],
            d_outputs: vec![0.0; n * outputs],
            d_noise,
        })
    };
    if team().is_none() {
        let what =
            format!("a model of kind '{}' has no functions that could be drawn and differentiated", fitted.kind());
        return Err(Error::setting(what, "attack a network or another model that draws functions"));
    }
    let (mut values, mut gradient) = (vec![0.0; rows], vec![0.0; x.len()]);
    let work = |team: &mut Option<Team<'_>>, (block, (values, gradient)): (usize, (&mut [f64], &mut [f64]))| {
        let Some(team) = team else { return };
        let (first, n) = (block * ROWS, values.len());
        let x = &x[first * width..][..n * width];
        let y = &y[first * targets..][..n * targets];
        // Running maxima of log p(y | fₛ), and sums of p(y | fₛ) and of p(y | fₛ)·∂ log p/∂x relative to them.
        let (mut largest, mut sum) = (vec![f64::NEG_INFINITY; n], vec![0.0; n]);
        let mut sizes = vec![0.0; n];
        let draws = team.function.len();
        for s in 0..draws {
            team.function.select(s);
            let (f, d_f) = (&mut team.outputs[..n * outputs], &mut team.d_outputs[..n * outputs]);
            team.function.eval(x, f);
            let of_likelihood = LikelihoodGradient { d_f: &mut *d_f, d_noise: &mut team.d_noise };
            likelihood.log_prob(f, y, team.function.noise(), None, 1.0, Some(of_likelihood));
            if of_row.classes() == site_outputs {
                keep_the_rest(site_outputs, y, d_f);
            }
            for (d_f, size) in d_f.chunks_mut(outputs).zip(&mut sizes) {
                *size = d_f.iter().fold(0.0, |top: f64, d| top.max(d.abs()));
                let to_one = if *size > 0.0 { 1.0 / *size } else { 0.0 };
                d_f.iter_mut().for_each(|d| *d *= to_one);
            }
            let dx = &mut team.dx[..n * width];
            team.function.vjp(x, d_f, dx);
            for i in 0..n {
                let (f, y) = (&f[i * outputs..(i + 1) * outputs], &y[i * targets..(i + 1) * targets]);
                let by_site = f.chunks_exact(site_outputs).zip(y.chunks_exact(site_targets));
                let l: f64 = by_site.map(|(f, y)| of_row.log_prob_row(f, y, team.function.noise())).sum();
                let top = largest[i].max(l);
                let (old, new) = match top > f64::NEG_INFINITY {
                    true => ((largest[i] - top).exp(), (l - top).exp()),
                    false => (1.0, 1.0), // no draw believes in y so far: all count alike
                };
                (largest[i], sum[i]) = (top, sum[i] * old + new);
                let (row, new) = (i * width..(i + 1) * width, new * sizes[i]);
                for (g, d) in gradient[row.clone()].iter_mut().zip(&dx[row]) {
                    *g = *g * old + d * new;
                }
            }
        }
        for i in 0..n {
            values[i] = largest[i] + (sum[i] / draws as f64).ln();
            let factor = 1.0 / sum[i];
            gradient[i * width..(i + 1) * width].iter_mut().for_each(|g| *g *= factor);
        }
    };
    let blocks = values.par_chunks_mut(ROWS).zip(gradient.par_chunks_mut((ROWS * width).max(1)));
    blocks.enumerate().for_each_init(team, work);
    Ok((values, gradient))
}

/// With an output for every class the gradient's entries sum to 0, a shift of all outputs changing nothing: that of the class y is what the others
/// leave, and not 1 − p, of which nothing is left once p rounds to 1.
fn keep_the_rest(classes: usize, y: &[f64], d_f: &mut [f64]) {
    for (y, d) in y.iter().zip(d_f.chunks_mut(classes)) {
        if let Some(own) = d.get_mut(*y as usize) {
            *own = 0.0;
            d[*y as usize] = -d.iter().sum::<f64>();
        }
    }
}

/// The encoded inputs changed so that the outcomes in `data` become less believable, each by at most ε of its unit.
pub fn perturb(
    fitted: &dyn Fitted,
    data: &Dataset,
    budget: &PerturbationBudget,
    attack: Attack,
    epsilon: f64,
    draws: usize,
    key: Key,
) -> Result<Values> {
    let original = data.x.to::<f32>();
    let width = budget.unit.len();
    let bound = |i: usize| epsilon * budget.unit[i % width];
    let inside = |i: usize, v: f64| {
        let (x, b) = (f64::from(original[i]), bound(i));
        if b == 0.0 { original[i] } else { v.clamp(x - b, x + b).clamp(budget.range.0, budget.range.1) as f32 }
    };
    // Downhill in the log-likelihood; where the gradient is 0 there is nowhere to go.
    let step = |x: &[f32], size: f64| -> Result<Vec<f32>> {
        let wide: Vec<f64> = x.iter().map(|v| f64::from(*v)).collect();
        let (_, gradient) = input_gradient(fitted, draws, key, false, &wide, &data.y)?;
        let towards = |i: usize| match gradient[i] {
            g if g > 0.0 => -1.0,
            g if g < 0.0 => 1.0,
            _ => 0.0,
        };
        Ok((0..x.len()).map(|i| inside(i, f64::from(x[i]) + size * bound(i) * towards(i))).collect())
    };
    let changed = match attack {
        Attack::Fgsm => step(&original, 1.0)?,
        Attack::Pgd => {
            let mut stream = Stream::new(key.purpose(Purpose::Estimate));
            let start = (0..original.len()).map(|i| {
                let shift = 2.0 * stream.uniform() - 1.0;
                inside(i, f64::from(original[i]) + bound(i) * shift)
            });
            let start: Vec<f32> = start.collect();
            (0..PGD_STEPS).try_fold(start, |x, _| step(&x, 2.5 / PGD_STEPS as f64))?
        }
    };
    Ok(Values::F32(changed.into()))
}
