//! Outcomes drawn from a predictive distribution: a component of the mixture, its outputs, and noise from the likelihood.
//!
//! Where the posterior gives draws, sample s of every row comes from draw s, so that samples are functions with noise. Where outputs are Gaussian, rows are drawn one by one.

use posterior::model::Model;
use posterior::predict::{Gaussians, Outputs, Predictive};
use posterior::rng::{Key, Stream};

/// Rows × samples × targets in the user's units; row n has the stream (key, `rows[n]`).
pub fn outcomes(model: &Model, predictive: &Predictive, rows: &[u64], samples: usize, key: Key) -> Vec<f64> {
    let likelihood = &**model.likelihood();
    let (targets, outputs) = (likelihood.targets(), likelihood.outputs());
    let scale = Model::target_scale(&model.encoder);
    let mut y = vec![0.0; rows.len() * samples * targets];
    let mut f = vec![0.0; outputs];
    let shares = match predictive.outputs() {
        Outputs::Draws(drawn) => drawn.weights.as_deref().map(cumulative),
        _ => None,
    };
    for (n, own) in y.chunks_exact_mut((samples * targets).max(1)).enumerate() {
        let mut stream = Stream::new(key.step(rows[n]));
        for (s, y) in own.chunks_exact_mut(targets).enumerate() {
            let noise = match predictive.outputs() {
                Outputs::Draws(drawn) => {
                    let s = match &shares {
                        None => s % drawn.draws,
                        Some(shares) => pick(shares, stream.uniform()),
                    };
                    let at = (s * rows.len() + n) * outputs;
                    f.iter_mut().zip(&drawn.f[at..at + outputs]).for_each(|(f, v)| *f = f64::from(*v));
                    let noises = drawn.noise.len() / drawn.draws;
                    &drawn.noise[s * noises..(s + 1) * noises]
                }
                Outputs::Gaussian(gaussians) => gaussian(gaussians, rows.len(), n, &mut f, &mut stream),
                _ => &[],
            };
            likelihood.sample(&f, noise, &mut stream, y);
            for (t, y) in y.iter_mut().enumerate() {
                let (mean, std) = scale.of(t);
                *y = mean + std * *y;
            }
        }
    }
    y
}

fn cumulative(weights: &[f64]) -> Vec<f64> {
    weights
        .iter()
        .scan(0.0, |sum, w| {
            *sum += w;
            Some(*sum)
        })
        .collect()
}

fn pick(shares: &[f64], u: f64) -> usize {
    shares.partition_point(|s| *s <= u).min(shares.len() - 1)
}

/// Draws the outputs of site n from a member into `f`; returns the noise parameters of one of its nodes.
fn gaussian<'g>(g: &'g Gaussians, sites: usize, n: usize, f: &mut [f64], stream: &mut Stream) -> &'g [f64] {
    let (k, member) = (f.len(), stream.below(g.members() as u64) as usize);
    let at = member * sites + n;
    let root = root(&g.covariance[at * k * k..(at + 1) * k * k], k);
    let z: Vec<f64> = (0..k).map(|_| stream.normal()).collect();
    for i in 0..k {
        f[i] = g.mean[at * k + i] + (0..=i).map(|j| root[i * k + j] * z[j]).sum::<f64>();
    }
    let shares = cumulative(&g.noise[member].iter().map(|node| node.weight).collect::<Vec<f64>>());
    &g.noise[member][pick(&shares, stream.uniform())].values
}

/// L with L Lᵀ = C, for a C that may be singular.
fn root(c: &[f64], k: usize) -> Vec<f64> {
    let mut l: Vec<f64> = vec![0.0; k * k];
    for j in 0..k {
        let pivot = (c[j * k + j] - (0..j).map(|m| l[j * k + m].powi(2)).sum::<f64>()).max(0.0).sqrt();
        l[j * k + j] = pivot;
        for i in j + 1..k {
            let rest = c[i * k + j] - (0..j).map(|m| l[i * k + m] * l[j * k + m]).sum::<f64>();
            l[i * k + j] = if pivot > 0.0 { rest / pivot } else { 0.0 };
        }
    }
    l
}
